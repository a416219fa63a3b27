//! Numbers as bytes: seven bits each, the lowest first, the eighth set where more follow (LEB128). Most numbers of a trial
//! are small.

/// Why bytes are not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the samples of a trial: {0}")]
pub struct Malformed(pub(super) &'static str);

/// Appends `number` in 7-bit groups, the lowest first (LEB128).
pub(super) fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends how far `number` is from `former`, by modular arithmetic: small either way.
pub(super) fn put_change(to: &mut Vec<u8>, former: u64, number: u64) {
    let change = number.wrapping_sub(former).cast_signed();
    put(to, ((change << 1) ^ (change >> 63)).cast_unsigned());
}

/// Reads numbers one after the other.
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(Malformed("they end early"))?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed("a number beyond 2^64"))
    }

    /// What [`put_change`] wrote after `former`.
    pub(super) fn changed(&mut self, former: u64) -> Result<u64, Malformed> {
        let number = self.number()?;
        Ok(former.wrapping_add((number >> 1) ^ 0u64.wrapping_sub(number & 1)))
    }

    /// A number of things of which each takes at least `least` bytes: no more than there can be.
    pub(super) fn length(&mut self, least: usize) -> Result<usize, Malformed> {
        let length = self.number()?;
        let possible = (self.0.len() / least) as u64;
        if length > possible { Err(Malformed("they end early")) } else { Ok(length as usize) }
    }
}

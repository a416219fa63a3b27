//! One unit of data that knows what it is.
//!
//! ```text
//! byte 0      8      16       24           32       36      40
//!      magic  run    offset   generation   length   crc32c  random bytes, different in every unit ...
//! ```
//! Numbers are little-endian; the checksum (CRC-32C, RFC 3720) covers the whole unit with its own field zero.

use crate::units::ArrayOffset;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const MAGIC: [u8; 8] = *b"EBBVRFY1";
const CHECKSUM: std::ops::Range<usize> = 36..40;
const HEADER: usize = 40;

/// What a unit says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The run that wrote it.
    pub run: u64,
    /// Offset that the unit was written to.
    pub offset: ArrayOffset,
    /// Number of the write, from 1.
    pub generation: u64,
}

/// Why a unit says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It does not begin as a unit does: it was never written, or overwritten by something else.
    #[error("no stamp: never written, or overwritten by something else")]
    NoStamp,
    /// It begins as one and its checksum is wrong: half of it was written, or bits changed.
    #[error("wrong checksum: torn, or bits have changed")]
    Damaged,
}

fn number(unit: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&unit[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn checksum(unit: &[u8]) -> u32 {
    let head = crc32c::crc32c(&unit[..CHECKSUM.start]);
    let zero = crc32c::crc32c_append(head, &[0; 4]);
    crc32c::crc32c_append(zero, &unit[CHECKSUM.end..])
}

/// Makes `unit` (at least 512 bytes) carry `stamp`.
pub fn stamp(unit: &mut [u8], stamp: Stamp) {
    let Stamp { run, offset, generation } = stamp;
    let mixed =
        run ^ offset.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ generation.wrapping_mul(0xd1b5_4a32_d192_ed03);
    Xoshiro256PlusPlus::seed_from_u64(mixed).fill_bytes(&mut unit[HEADER..]);
    unit[0..8].copy_from_slice(&MAGIC);
    unit[8..16].copy_from_slice(&run.to_le_bytes());
    unit[16..24].copy_from_slice(&offset.0.to_le_bytes());
    unit[24..32].copy_from_slice(&generation.to_le_bytes());
    let length = unit.len() as u32;
    unit[32..36].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(unit);
    unit[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
}

/// What `unit` says of itself.
///
/// # Errors
/// When it is no unit, or not a whole one.
pub fn read(unit: &[u8]) -> Result<Stamp, Unreadable> {
    if unit.len() < HEADER || unit[0..8] != MAGIC {
        return Err(Unreadable::NoStamp);
    }
    if unit[CHECKSUM] != checksum(unit).to_le_bytes() || unit[32..36] != (unit.len() as u32).to_le_bytes() {
        return Err(Unreadable::Damaged);
    }
    Ok(Stamp { run: number(unit, 8), offset: ArrayOffset(number(unit, 16)), generation: number(unit, 24) })
}

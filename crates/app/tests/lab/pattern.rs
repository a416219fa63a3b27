//! What is written through an array: every word tells its place, so that a sector shows where it belongs.

/// Bytes that are checked at a time.
pub const SECTOR: u64 = 512;
const WORDS: u64 = SECTOR / 8;

/// The content of the array's sector at byte `offset`: its offset, then words that differ from sector to sector
/// in every bit, so that a parity of wrong sectors cannot look right.
pub fn sector(offset: u64) -> [u8; SECTOR as usize] {
    let mut content = [0; SECTOR as usize];
    for (index, word) in content.chunks_exact_mut(8).enumerate() {
        let value = if index == 0 { offset | MARK } else { mix(offset / SECTOR * WORDS + index as u64) };
        word.copy_from_slice(&value.to_le_bytes());
    }
    content
}

/// So that no sector is all zero. Arrays here are smaller.
const MARK: u64 = 0xEBB0_0000_0000_0000;

/// The array offset that a sector tells; nothing when it holds something else.
pub fn told(content: &[u8]) -> Option<u64> {
    let first = u64::from_le_bytes(content.get(..8)?.try_into().ok()?);
    let offset = first & !(0xFFFF << 48);
    (first & (0xFFFF << 48) == MARK && content == sector(offset)).then_some(offset)
}

/// Output step of SplitMix64.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The sectors of an array, made once: a test compares each of them several times.
pub struct Content(Vec<u8>);

impl Content {
    /// For arrays of at most `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        Content((0..bytes).step_by(SECTOR as usize).flat_map(sector).collect())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The array's bytes from `offset` on.
    pub fn at(&self, offset: u64, length: u64) -> &[u8] {
        &self.0[offset as usize..(offset + length) as usize]
    }

    fn words(&self, offset: u64) -> impl Iterator<Item = u64> {
        self.at(offset, SECTOR).chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()))
    }

    /// P of RAID5 and RAID6 over the sectors at these offsets: their exclusive or.
    pub fn parity_p(&self, data: &[u64]) -> Vec<u8> {
        let mut p = [0_u64; WORDS as usize];
        for offset in data {
            p.iter_mut().zip(self.words(*offset)).for_each(|(p, d)| *p ^= d);
        }
        p.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Q of RAID6: the sum of g^k times the k-th sector in GF(2^8) with the polynomial 0x11d and g = 2, by Horner
    /// from the last one (H. P. Anvin, "The mathematics of RAID-6"), eight bytes at a time.
    pub fn parity_q(&self, data: &[u64]) -> Vec<u8> {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        let mut q = [0_u64; WORDS as usize];
        for offset in data.iter().rev() {
            for (q, d) in q.iter_mut().zip(self.words(*offset)) {
                let carries = (*q & !LOW) >> 7;
                *q = ((*q & LOW) << 1) ^ (carries * 0x1d) ^ d;
            }
        }
        q.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

#[test]
fn a_sector_tells_its_place_and_nothing_else_does() {
    assert_eq!(told(&sector(0)), Some(0));
    assert_eq!(told(&sector(77 * SECTOR)), Some(77 * SECTOR));
    assert_eq!(told(&[0; 512]), None);
    let mut torn = sector(512);
    torn[300] ^= 1;
    assert_eq!(told(&torn), None);
}

#[test]
fn parity_is_that_of_known_answers() {
    let content = Content::new(3 * SECTOR);
    let data = [0, SECTOR, 2 * SECTOR];
    let byte = |k: usize, i: usize| content.bytes()[k * SECTOR as usize + i];
    // Slowly: multiply by shifting, reduce by 0x11d.
    let times = |value: u8, g: u16| {
        (0..8).rev().fold(0_u16, |sum, bit| {
            let doubled = sum << 1;
            let reduced = if doubled & 0x100 == 0 { doubled } else { doubled ^ 0x11d };
            reduced ^ if u16::from(value) >> bit & 1 == 1 { g } else { 0 }
        })
    };
    let (p, q) = (content.parity_p(&data), content.parity_q(&data));
    for i in 0..SECTOR as usize {
        assert_eq!(p[i], byte(0, i) ^ byte(1, i) ^ byte(2, i));
        let sum = times(byte(0, i), 1) ^ times(byte(1, i), 2) ^ times(byte(2, i), 4);
        assert_eq!(u16::from(q[i]), sum, "byte {i}");
    }
}

//! Which devices are blank: where a device is looked at, and data that is known again as the tool's own, so that a device
//! that only a benchmark has filled does not pass for somebody's.
//!
//! What is written where nobody says what to write is random, but:
//!
//! ```text
//! byte 0      8          16                                  512
//!      free   mark       random
//! ```
//! Each sector carries a mark that follows from the random bytes after it. The first eight bytes are free for numbers
//! that make blocks differ.

use crate::verify;
use std::ops::Range;

/// What carries a mark: the smallest sector of any device.
pub const SECTOR: usize = 512;
const MARK: Range<usize> = 8..16;
/// Begins the second half of the mark: "ebbtide" cannot come from a checksum of the same bytes by chance.
const SECOND: u32 = 0x6562_6274;

const MIB: u64 = 1 << 20;
/// Bytes looked at in each place that is not an end.
const PLACE: u64 = 64 << 10;
/// Groups of ext4 that carry a copy of the superblock: 1 and the powers of 3, 5 and 7 (`sparse_super`, the kernel's
/// Documentation/filesystems/ext4/super.rst).
const EXT_GROUPS: [u64; 12] = [1, 3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343];
/// A group has as many blocks as a block has bits; with blocks of 1 KiB the first group begins at block 1.
const EXT_BLOCKS: [(u64, u64); 3] = [(1024, 1024), (2048, 0), (4096, 0)];
/// Copies of btrfs' superblock (its on-disk format), and VMFS' volume header.
const OTHERS: [u64; 3] = [64 * MIB, 256 << 30, 2 * MIB];
/// XFS makes four allocation groups by default, each with a superblock, where it knows no better.
const XFS_GROUPS: u64 = 4;

/// Offsets on a device of `size` bytes where file systems keep a second copy of what they begin with.
pub fn known_places(size: u64) -> Vec<u64> {
    let ext = EXT_BLOCKS
        .iter()
        .flat_map(|(block, first)| EXT_GROUPS.iter().map(move |group| group * block * block * 8 + first));
    let xfs = (1..XFS_GROUPS).map(|group| size / XFS_GROUPS / 4096 * group * 4096);
    let mut places: Vec<u64> = ext.chain(OTHERS).chain(xfs).map(|place| place / 4096 * 4096).collect();
    places.retain(|place| *place >= MIB && place.saturating_add(MIB) < size);
    places.sort_unstable();
    places.dedup();
    places
}

/// The stretches of a device of `size` bytes that show whether there is anything on it: its ends and known places.
pub fn windows(size: u64) -> Vec<(u64, u64)> {
    let last = size.saturating_sub(MIB) / 4096 * 4096;
    let places = known_places(size).into_iter().map(|place| (place, PLACE.min(size - place)));
    std::iter::once((0, MIB.min(size))).chain(places).chain([(last, size - last)]).collect()
}

fn mark_of(sector: &[u8]) -> [u8; 8] {
    let random = &sector[MARK.end..];
    let (first, second) = (crc32c::crc32c(random), crc32c::crc32c_append(SECOND, random));
    (u64::from(first) << 32 | u64::from(second)).to_le_bytes()
}

/// Marks every whole sector of `bytes`, which are random.
pub fn mark(bytes: &mut [u8]) {
    for sector in bytes.chunks_exact_mut(SECTOR) {
        let mark = mark_of(sector);
        sector[MARK].copy_from_slice(&mark);
    }
}

fn is_marked(sector: &[u8]) -> bool {
    sector.len() == SECTOR && sector[MARK] == mark_of(sector)
}

/// The first byte of `bytes`, which begin at a multiple of 4096 on their device, that is neither zero nor the tool's own
/// filling or stamped block ([`verify`]); nothing when all are.
pub fn first_foreign(bytes: &[u8]) -> Option<usize> {
    bytes.chunks(4096).enumerate().find_map(|(number, block)| {
        if is_nothing(block) || verify::read(block).is_ok() {
            return None;
        }
        // A unit of 512, 1024 or 2048 bytes that holds the sector at `at`.
        let stamped = |at: usize| {
            [512, 1024, 2048].into_iter().any(|unit| {
                let begin = at / unit * unit;
                block.get(begin..begin + unit).is_some_and(|unit| verify::read(unit).is_ok())
            })
        };
        block.chunks(SECTOR).zip((0..).step_by(SECTOR)).find_map(|(sector, at)| {
            let ours = is_nothing(sector) || is_marked(sector) || stamped(at);
            let first = || sector.iter().position(|byte| *byte != 0).unwrap_or(0);
            (!ours).then(|| number * 4096 + at + first())
        })
    })
}

fn is_nothing(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ArrayOffset;
    use rand_core::{RngCore, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn random(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Xoshiro256PlusPlus::seed_from_u64(7).fill_bytes(&mut bytes);
        bytes
    }

    #[test]
    fn filling_is_known_again_whatever_its_numbers_are() {
        let mut bytes = random(16384);
        assert_eq!(first_foreign(&bytes), Some(0));
        mark(&mut bytes);
        assert_eq!(first_foreign(&bytes), None);
        for block in bytes.chunks_exact_mut(4096) {
            block[..8].copy_from_slice(&[0xA5; 8]);
        }
        assert_eq!(first_foreign(&bytes), None);
        bytes[8192..8704].fill(0);
        assert_eq!(first_foreign(&bytes), None, "trimmed");
        bytes[9000] ^= 1;
        assert_eq!(first_foreign(&bytes), Some(8704));
    }

    #[test]
    fn stamped_units_of_every_size_are_known_and_others_are_not() {
        for unit in [512, 1024, 2048, 4096] {
            let mut bytes = vec![0; 8192];
            for (index, unit) in bytes.chunks_exact_mut(unit).enumerate() {
                verify::stamp(
                    unit,
                    verify::Stamp { run: 1, offset: ArrayOffset(index as u64), generation: 2 },
                );
            }
            assert_eq!(first_foreign(&bytes), None, "{unit}");
            bytes[5000] ^= 1;
            assert!(first_foreign(&bytes).is_some(), "{unit}");
        }
        let mut text = vec![0; 4096];
        text[1080] = 0x53;
        assert_eq!(first_foreign(&text), Some(1080));
        assert_eq!(first_foreign(&[]), None);
    }

    #[test]
    fn the_places_of_copies_are_within_the_device_and_its_ends_are_always_looked_at() {
        assert!(known_places(1 << 20).is_empty());
        let ext4 = 32768 * 4096;
        let places = known_places(10 << 30);
        assert!(places.contains(&ext4) && places.contains(&(3 * ext4)) && places.contains(&(64 << 20)));
        assert!(known_places(1 << 40).contains(&(256 << 30)));
        for size in [4096, 1 << 20, (1 << 20) + 4096, 3 << 20, 64 << 20, (10 << 30) + 512, 1 << 40] {
            let windows = windows(size);
            assert_eq!(windows.first().map(|w| w.0), Some(0));
            assert!(windows.iter().all(|(offset, length)| offset + length <= size), "{size}: {windows:?}");
            assert!(windows.iter().any(|(offset, length)| offset + length == size), "{size}: {windows:?}");
        }
    }
}

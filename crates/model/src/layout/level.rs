//! One level of a layout: the arithmetic of a single array over members of known sizes.

use super::linear::Linear;
use super::mirror::Mirror;
use super::parity::{Parity, ParityPiece};
use super::raid10::Raid10;
use super::stripe::Stripe;
use super::{ArrayKind, LayoutError, Role};
use crate::units::Bytes;

/// A run of bytes of the array that one copy keeps in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Position of the member in the array, from 0.
    pub slot: usize,
    /// First byte on the member.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u64,
    /// First byte in the array.
    pub array_offset: u64,
}

/// The geometry of one array.
#[derive(Debug, Clone)]
pub(super) enum Level {
    Linear(Linear),
    Stripe(Stripe),
    Mirror(Mirror),
    Raid10(Raid10),
    Parity(Parity),
}

impl Level {
    pub fn new(kind: ArrayKind, sizes: &[u64]) -> Result<Self, LayoutError> {
        check_chunk(kind)?;
        let level = match kind {
            ArrayKind::Linear => Level::Linear(Linear::new(sizes)?),
            ArrayKind::Stripe { chunk } => Level::Stripe(Stripe::new(sizes, chunk.0)?),
            ArrayKind::Mirror => Level::Mirror(Mirror::new(sizes)?),
            ArrayKind::Raid10 { chunk, copies, arrangement } => {
                Level::Raid10(Raid10::new(sizes, chunk.0, copies, arrangement)?)
            }
            ArrayKind::Raid5 { chunk } | ArrayKind::Raid6 { chunk } => {
                Level::Parity(Parity::new(sizes, chunk.0, kind.facts().parity)?)
            }
        };
        if level.capacity() > i64::MAX as u64 {
            return Err(LayoutError::TooLarge { layout: kind.name() });
        }
        Ok(level)
    }

    pub fn capacity(&self) -> u64 {
        match self {
            Level::Linear(l) => l.capacity(),
            Level::Stripe(l) => l.capacity(),
            Level::Mirror(l) => l.capacity(),
            Level::Raid10(l) => l.capacity(),
            Level::Parity(l) => l.capacity(),
        }
    }

    /// Copies of every byte.
    pub fn copies(&self) -> u32 {
        match self {
            Level::Linear(_) | Level::Stripe(_) | Level::Parity(_) => 1,
            Level::Mirror(l) => l.copies(),
            Level::Raid10(l) => l.copies(),
        }
    }

    /// Bytes of a chunk and of all data chunks of a stripe that shares parity; (1, 0) on levels without.
    pub fn stripe(&self) -> (u64, u64) {
        match self {
            Level::Parity(l) => (l.chunk(), l.stripe()),
            _ => (1, 0),
        }
    }

    pub fn has_parity(&self) -> bool {
        matches!(self, Level::Parity(_))
    }

    /// The pieces of copy number `copy`, in array order. The extent lies within the capacity.
    #[inline(always)]
    pub fn split(&self, copy: u32, offset: u64, length: u64, sink: &mut impl FnMut(Piece)) {
        match self {
            Level::Stripe(l) => l.split(offset, length, sink),
            Level::Mirror(l) => l.split(copy, offset, length, sink),
            Level::Linear(l) => l.split(offset, length, sink),
            Level::Raid10(l) => l.split(copy, offset, length, sink),
            Level::Parity(l) => l.split(offset, length, sink),
        }
    }

    /// The parity that depends on this extent; nothing on levels without.
    pub fn parity(&self, offset: u64, length: u64, sink: &mut impl FnMut(ParityPiece)) {
        if let Level::Parity(l) = self {
            l.parity(offset, length, sink);
        }
    }

    /// What a member's byte is to the array: for data its array offset, for parity that of the
    /// stripe; `None` where the array does not use the member.
    pub fn reverse(&self, slot: usize, offset: u64) -> Option<(u64, Role)> {
        match self {
            Level::Linear(l) => l.reverse(slot, offset),
            Level::Stripe(l) => l.reverse(slot, offset),
            Level::Mirror(l) => l.reverse(slot, offset),
            Level::Raid10(l) => l.reverse(slot, offset),
            Level::Parity(l) => l.reverse(slot, offset),
        }
    }
}

/// Sizes are counted in sectors of 512 bytes, as the block layer does; a rest is not used.
pub(super) fn whole_sectors(bytes: u64) -> u64 {
    bytes - bytes % 512
}

/// Position and size of the smallest member (the first of equals).
pub(super) fn smallest(sizes: &[u64]) -> (usize, u64) {
    sizes.iter().copied().enumerate().min_by_key(|(_, size)| *size).unwrap_or((0, 0))
}

/// The chunks that md accepts: mdadm takes 4 KiB and more in whole KiB; RAID0 any such number
/// (`raid0.c` divides when it is not a power of two), the others powers of two of at least one page
/// (`raid10.c` setup_conf, `raid5.c` setup_conf). md keeps it as a 32-bit number of sectors.
fn check_chunk(kind: ArrayKind) -> Result<(), LayoutError> {
    let Some(chunk) = kind.chunk() else { return Ok(()) };
    let in_range = (4 * Bytes::KIB..=Bytes::GIB).contains(&chunk.0);
    let (fits, wanted) = match kind {
        ArrayKind::Stripe { .. } => {
            (in_range && chunk.0 % Bytes::KIB == 0, "a whole number of KiB from 4KiB to 1GiB")
        }
        _ => (in_range && chunk.0.is_power_of_two(), "a power of two from 4KiB to 1GiB"),
    };
    if fits { Ok(()) } else { Err(LayoutError::Chunk { layout: kind.name(), chunk, wanted }) }
}

//! One level of a layout: the arithmetic of a single array over members of known sizes.

use super::linear::Linear;
use super::mirror::Mirror;
use super::parity::{Parity, ParityPiece};
use super::piece::Piece;
use super::raid10::Raid10;
use super::stripe::Stripe;
use super::{Arrangement, ArrayKind, LayoutError, Role};
use crate::units::{ArrayOffset, Bytes, MemberOffset};

/// The geometry of one array.
#[derive(Debug, Clone)]
pub(super) enum Level {
    Linear(Linear),
    Stripe(Stripe),
    Mirror(Mirror),
    Raid10(Raid10),
    Parity(Parity),
}

/// The same of any geometry.
macro_rules! each {
    ($level:expr, $l:ident => $of:expr) => {
        match $level {
            Level::Linear($l) => $of,
            Level::Stripe($l) => $of,
            Level::Mirror($l) => $of,
            Level::Raid10($l) => $of,
            Level::Parity($l) => $of,
        }
    };
}

impl Level {
    pub fn new(kind: ArrayKind, sizes: &[Bytes]) -> Result<Self, LayoutError> {
        let wanted = kind.chunk().and_then(|chunk| Some((chunk, kind.facts().chunks.refuse(chunk)?)));
        if let Some((chunk, wanted)) = wanted {
            return Err(LayoutError::Chunk { layout: kind.name(), chunk, wanted });
        }
        let level = match kind {
            ArrayKind::Linear => Level::Linear(Linear::new(sizes)?),
            ArrayKind::Stripe { chunk } => Level::Stripe(Stripe::new(sizes, chunk)?),
            ArrayKind::Mirror => Level::Mirror(Mirror::new(sizes)?),
            ArrayKind::Raid10 { chunk, copies, arrangement } => {
                Level::Raid10(Raid10::new(sizes, chunk, copies, arrangement)?)
            }
            ArrayKind::Raid5 { chunk } | ArrayKind::Raid6 { chunk } => {
                Level::Parity(Parity::new(sizes, chunk, kind.layout())?)
            }
        };
        if level.capacity().0 > i64::MAX as u64 {
            return Err(LayoutError::TooLarge { layout: kind.name() });
        }
        Ok(level)
    }

    pub fn capacity(&self) -> Bytes {
        each!(self, l => l.capacity())
    }

    /// Copies of every byte.
    pub fn copies(&self) -> u32 {
        match self {
            Level::Linear(_) | Level::Stripe(_) | Level::Parity(_) => 1,
            Level::Mirror(l) => l.copies(),
            Level::Raid10(l) => l.copies(),
        }
    }

    /// How the copies of chunks are placed, on levels that place them.
    pub fn arrangement(&self) -> Option<Arrangement> {
        match self {
            Level::Raid10(l) => Some(l.arrangement()),
            Level::Linear(_) | Level::Stripe(_) | Level::Mirror(_) | Level::Parity(_) => None,
        }
    }

    /// The row of chunks that a member's byte is in, on levels that choose a copy for each.
    pub fn row(&self, offset: MemberOffset) -> u64 {
        match self {
            Level::Raid10(l) => l.row(offset),
            Level::Linear(_) | Level::Stripe(_) | Level::Mirror(_) | Level::Parity(_) => 0,
        }
    }

    /// A chunk, and all data chunks of a stripe that shares parity; `None` on levels without.
    pub fn stripe(&self) -> Option<(Bytes, Bytes)> {
        match self {
            Level::Parity(l) => Some((l.chunk(), l.stripe())),
            Level::Linear(_) | Level::Stripe(_) | Level::Mirror(_) | Level::Raid10(_) => None,
        }
    }

    /// The pieces of copy number `copy`, in array order. The extent lies within the capacity.
    #[inline(always)]
    pub fn split(&self, copy: u32, offset: ArrayOffset, length: Bytes, sink: &mut impl FnMut(Piece)) {
        match self {
            Level::Stripe(l) => l.split(offset, length, sink),
            Level::Mirror(l) => l.split(copy, offset, length, sink),
            Level::Linear(l) => l.split(offset, length, sink),
            Level::Raid10(l) => l.split(copy, offset, length, sink),
            Level::Parity(l) => l.split(offset, length, sink),
        }
    }

    /// Copy number `copy` of a piece of the first, which lies in one chunk where there are chunks.
    pub fn copy_of(&self, first: Piece, copy: u32) -> Piece {
        let mut found = first;
        self.split(copy, first.array_offset, first.length, &mut |piece| found = piece);
        found
    }

    /// The members with the parity of what is at `at` of the others.
    pub fn parity_slots(&self, at: MemberOffset) -> impl Iterator<Item = usize> + use<> {
        let (first, count, members) = match self {
            Level::Parity(l) => l.parity_slots(at),
            Level::Linear(_) | Level::Stripe(_) | Level::Mirror(_) | Level::Raid10(_) => (0, 0, 1),
        };
        (first..first + count).map(move |slot| slot % members)
    }

    /// The parity that depends on this extent; nothing on levels without.
    pub fn parity(&self, offset: ArrayOffset, length: Bytes, sink: &mut impl FnMut(ParityPiece)) {
        match self {
            Level::Parity(l) => l.parity(offset, length, sink),
            Level::Linear(_) | Level::Stripe(_) | Level::Mirror(_) | Level::Raid10(_) => {}
        }
    }

    /// What a member's byte is to the array: for data its array offset, for parity that of the
    /// stripe; `None` where the array does not use the member.
    pub fn reverse(&self, slot: usize, offset: MemberOffset) -> Option<(ArrayOffset, Role)> {
        each!(self, l => l.reverse(slot, offset))
    }
}

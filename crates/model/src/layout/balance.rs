//! Which copy a read comes from, as md's `raid1.c` and `raid10.c` (`read_balance`) choose it.
//!
//! ```text
//! of              disks without arms                     spindles only
//! mirror          the one that reads on where a read     the same; else an idle one; else the one whose
//!                 ended; else fewest requests pending    arm is nearest
//! RAID10 near     fewest requests pending                an idle one; else the one whose arm is nearest
//! RAID10 far,     fewest requests pending                the copy nearest the beginning of its member
//!   offset
//! ```
//!
//! Of equals the first counts, so one reader at a time reads the first copies only. A mirror chooses once for a whole
//! request, RAID10 for each chunk: a deep sequential stream stays on one member of a mirror, and works all members of RAID10.

use super::level::Level;
use super::map::Place;
use super::piece::Piece;
use super::{Arrangement, Extent};
use crate::units::{Bytes, MemberOffset};

/// A request that any of several members could answer.
#[derive(Debug)]
pub struct Choice<'a> {
    pub(super) level: &'a Level,
    pub(super) members: &'a [Place],
    /// The first copy.
    pub(super) piece: Piece,
    /// Copies of the array that this one is a part of.
    pub(super) above: u32,
}

impl Choice<'_> {
    /// Who has a copy, by its number, and where.
    pub fn copies(&self) -> impl Iterator<Item = (u32, Place, MemberOffset)> {
        (0..self.level.copies()).map(|copy| {
            let piece = self.level.copy_of(self.piece, copy);
            (copy, self.members[piece.slot], piece.offset)
        })
    }

    fn length(&self) -> Bytes {
        self.piece.length
    }
}

/// Who reads through [`Map::read_chosen`](super::Map::read_chosen).
pub trait Reads {
    /// The number of the copy to read.
    fn choose(&mut self, choice: &Choice<'_>) -> u32;
    /// Reads this: all that was chosen before has begun.
    fn read(&mut self, extent: Extent);
}

/// A reader that takes the copies in turn, knowing nothing of the members: those of RAID10 row by row.
pub(super) struct InTurn<'a> {
    pub turn: u64,
    pub sink: &'a mut dyn FnMut(Extent),
}

impl Reads for InTurn<'_> {
    #[inline]
    fn choose(&mut self, choice: &Choice<'_>) -> u32 {
        let turn = self.turn / u64::from(choice.above);
        let row = choice.level.row(choice.piece.offset);
        (turn.wrapping_add(row) % u64::from(choice.level.copies())) as u32
    }

    #[inline]
    fn read(&mut self, extent: Extent) {
        (self.sink)(extent);
    }
}

/// How a member stands when a read could come from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Requests that it has not answered.
    pub pending: usize,
    /// Where the last one ended that it has answered.
    pub head: MemberOffset,
    /// Whether it has an arm.
    pub rotates: bool,
}

/// The choice, and what it remembers: where the next read would continue the last one.
#[derive(Debug, Clone, Default)]
pub struct Balance {
    volumes: Vec<MemberOffset>,
    arrays: Vec<MemberOffset>,
}

impl Balance {
    /// The copy to read. `standing` says how a member stands, and nothing of one that cannot be read; where none can, it is
    /// the first.
    pub fn choose(
        &mut self,
        choice: &Choice<'_>,
        mut standing: impl FnMut(Place) -> Option<Standing>,
    ) -> u32 {
        let arrangement = choice.level.arrangement();
        let mut fewest: Option<(usize, u32)> = None;
        let mut nearest: Option<(u64, u32)> = None;
        let mut armless = false;
        for (copy, place, offset) in choice.copies() {
            let Some(Standing { pending, head, rotates }) = standing(place) else { continue };
            let continues = arrangement.is_none() && (*self.next(place) == offset || head == offset);
            if continues {
                fewest = Some((pending, copy));
                armless = true;
                break;
            }
            let counts = arrangement.is_none() || !rotates;
            if counts && fewest.is_none_or(|(least, _)| pending < least) {
                fewest = Some((pending, copy));
            }
            let distance = match arrangement {
                Some(Arrangement::Near) | None if pending == 0 => 0,
                Some(Arrangement::Near) | None => offset.0.abs_diff(head.0),
                Some(Arrangement::Far | Arrangement::Offset) => offset.0,
            };
            if nearest.is_none_or(|(least, _)| distance < least) {
                nearest = Some((distance, copy));
            }
            armless |= !rotates;
        }
        let found = if armless { fewest.map(|(_, copy)| copy) } else { nearest.map(|(_, copy)| copy) };
        let copy = found.unwrap_or(0);
        if let Some((_, place, offset)) = choice.copies().nth(copy as usize) {
            *self.next(place) = offset + choice.length();
        }
        copy
    }

    /// Where a read would continue the last one that this member was chosen for.
    fn next(&mut self, place: Place) -> &mut MemberOffset {
        let (all, index) = match place {
            Place::Volume(index) => (&mut self.volumes, index),
            Place::Array(index) => (&mut self.arrays, index),
        };
        if all.len() <= index {
            all.resize(index + 1, MemberOffset::START);
        }
        &mut all[index]
    }
}

//! fsync and fdatasync between the operations: each takes a slot, and a piece for each member.

use super::RingLoop;
use crate::shared::Piece;
use crate::source::Sync;

impl RingLoop<'_> {
    /// Has slot `slot` call `sync` on every member.
    #[cold]
    pub(super) fn begin_sync(&mut self, slot: u32, sync: Sync, now: u64) {
        let mut begun = self.job.begin_sync(now);
        for member in 0..self.job.shared.target.members.len() as u32 {
            // On a plain target a piece has its slot's number.
            let id = if self.plain { Some(slot) } else { self.free_pieces.pop() };
            let id = id.unwrap_or_else(|| {
                self.pieces.push(None);
                self.pieces.len() as u32 - 1
            });
            self.pieces[id as usize] = Some(Piece::of_sync(slot, member, sync, now));
            self.waiting.push_back(id);
            begun.pending += 1;
        }
        self.slots[slot as usize] = Some(begun);
    }

    /// Puts the call that `piece` is into the submission queue, or back among the waiting when that is full.
    #[cold]
    pub(super) fn submit_sync(&mut self, id: u32, piece: &Piece) {
        if !self.io.ring.sync(piece.member, piece.sync == Some(Sync::Data), id) {
            self.waiting.push_back(id);
        }
    }

    /// Piece `id`, a call, is done; with the last member's the slot is free again.
    pub(super) fn synced(&mut self, id: u32, now: u64) {
        let Some(piece) = self.pieces[id as usize].take() else { return };
        if !self.plain {
            self.free_pieces.push(id);
        }
        let Some(slot) = &mut self.slots[piece.slot as usize] else { return };
        slot.pending -= 1;
        if slot.pending == 0 {
            self.job.sync_done(slot, now);
            self.free.push(piece.slot);
        }
    }
}

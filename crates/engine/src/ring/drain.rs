//! The end of a job: what the kernel still has is waited for, cancelled, and at last given up.

use super::RingLoop;
use crate::error::EngineError;
use crate::job::TICK;
use crate::patience::Step;
use ebbtide_model::units::{Instant, Nanos};
use ebbtide_sys::ring::CANCEL;
use std::cmp::Reverse;
use std::collections::HashSet;

impl RingLoop<'_> {
    /// Waits a little for what the kernel still has.
    #[cold]
    pub(super) fn drain_some(&mut self, now: Instant) -> Result<(), EngineError> {
        match self.drain.judge(now, self.ring.in_flight()) {
            Step::Wait => {}
            Step::Cancel => {
                // A full queue is no harm: the bound holds without it.
                self.ring.cancel_all();
            }
            Step::GiveUp(waited) => return Err(self.hung(waited)),
        }
        // A ring that polls for completions waits without a bound: the kernel has no timeout for it.
        self.enter(1, Some(now + TICK), now)?;
        self.reap(self.job.shared.clock.now());
        Ok(())
    }

    /// Piece `id` came back, or the cancelling request: all that counts is what the kernel still has.
    #[cold]
    pub(super) fn ignore(&mut self, id: u64) {
        if id != CANCEL {
            self.pieces[id as usize] = None;
        }
    }

    /// The error that names the member with the oldest operation that the kernel has, which `waited` so long for it.
    fn hung(&self, waited: Nanos) -> EngineError {
        let held = self.held.iter().map(|Reverse((_, id))| *id);
        let elsewhere: HashSet<u32> = held.chain(self.waiting.iter().copied()).collect();
        let pieces = (0..).zip(&self.pieces).filter(|(id, _)| !elsewhere.contains(id));
        let oldest = pieces.filter_map(|(_, piece)| piece.as_ref()).min_by_key(|piece| piece.started);
        let member = oldest.map_or(0, |piece| piece.member as usize);
        EngineError::Hung {
            member: self.job.shared.target.members[member].name.clone(),
            operations: self.ring.in_flight(),
            seconds: waited.0 / Nanos::PER_SECOND,
        }
    }
}

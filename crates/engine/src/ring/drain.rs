//! The end of a job: what the kernel still has is waited for, cancelled, and at last given up.

use super::RingLoop;
use crate::error::EngineError;
use crate::job::TICK;
use ebbtide_model::units::Nanos;
use ebbtide_sys::ring::CANCEL;
use std::cmp::Reverse;
use std::collections::HashSet;

/// How long operations that do not come back are waited for, nanoseconds since the last one that did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Then they are cancelled. A slow volume that still answers is never cancelled.
    pub(crate) cancel_after: u64,
    /// Then they are given up.
    pub(crate) give_up_after: u64,
}

impl Default for Patience {
    /// 2 s and 20 s: longer than what a path fail-over or a throttled volume takes between two answers, shorter than the
    /// 30 s after which the kernel resets an NVMe controller.
    fn default() -> Self {
        Patience { cancel_after: 2 * Nanos::PER_SECOND, give_up_after: 20 * Nanos::PER_SECOND }
    }
}

/// Where the end has got to.
#[derive(Debug)]
pub(super) struct Drain {
    patience: Patience,
    /// When something came back last, and what was in flight then.
    progress: Option<(u64, u32)>,
    /// Operations that were cancelled.
    cancelled: Option<u32>,
}

/// What to do about operations that do not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Wait,
    Cancel,
    GiveUp,
}

impl Drain {
    pub(super) fn new(patience: Patience) -> Self {
        Drain { patience, progress: None, cancelled: None }
    }

    pub(super) fn begun(&self) -> bool {
        self.progress.is_some()
    }

    /// Whether the completion of `id` says nothing: that of a cancelled operation, or of the cancelling one.
    #[inline]
    pub(super) fn ignores(&self, id: u64) -> bool {
        self.cancelled.is_some() || id == CANCEL
    }

    pub(super) fn note(&self) -> Option<String> {
        let cancelled = self.cancelled?;
        Some(format!(
            "{cancelled} operations had not come back {} s after the last one that did, and were cancelled",
            self.patience.cancel_after / Nanos::PER_SECOND
        ))
    }

    /// What to do at `now` with `in_flight` operations in flight.
    fn judge(&mut self, now: u64, in_flight: u32) -> Step {
        let since = match self.progress {
            Some((since, before)) if in_flight == before => since,
            _ => {
                self.progress = Some((now, in_flight));
                now
            }
        };
        let waited = now.saturating_sub(since);
        if waited >= self.patience.give_up_after {
            Step::GiveUp
        } else if waited >= self.patience.cancel_after && self.cancelled.is_none() {
            self.cancelled = Some(in_flight);
            Step::Cancel
        } else {
            Step::Wait
        }
    }
}

impl RingLoop<'_> {
    /// Waits a little for what the kernel still has.
    #[cold]
    pub(super) fn drain_some(&mut self, now: u64) -> Result<(), EngineError> {
        match self.drain.judge(now, self.io.ring.in_flight()) {
            Step::Wait => {}
            Step::Cancel => {
                // A full queue is no harm: the bound holds without it.
                self.io.ring.cancel_all();
            }
            Step::GiveUp => return Err(self.hung()),
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

    /// The error that names the member with the oldest operation that the kernel has.
    fn hung(&self) -> EngineError {
        let held = self.held.iter().map(|Reverse((_, id))| *id);
        let elsewhere: HashSet<u32> = held.chain(self.waiting.iter().copied()).collect();
        let pieces = (0..).zip(&self.pieces).filter(|(id, _)| !elsewhere.contains(id));
        let oldest = pieces.filter_map(|(_, piece)| piece.as_ref()).min_by_key(|piece| piece.started);
        let member = oldest.map_or(0, |piece| piece.member as usize);
        EngineError::Hung {
            member: self.job.shared.target.members[member].name.clone(),
            operations: self.io.ring.in_flight(),
            seconds: self.drain.patience.give_up_after / Nanos::PER_SECOND,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_begins_anew_with_everything_that_comes_back() {
        let patience = Patience::default();
        let mut drain = Drain::new(patience);
        assert_eq!(drain.judge(5, 4), Step::Wait);
        assert!(drain.begun() && drain.note().is_none());
        assert_eq!(drain.judge(patience.cancel_after, 3), Step::Wait);
        assert_eq!(drain.judge(2 * patience.cancel_after - 1, 3), Step::Wait);
        assert_eq!(drain.judge(2 * patience.cancel_after, 3), Step::Cancel);
        assert_eq!(drain.judge(2 * patience.cancel_after + 1, 3), Step::Wait, "cancelled once");
        assert!(drain.ignores(0) && drain.note().is_some_and(|note| note.starts_with("3 operations")));
        assert_eq!(drain.judge(patience.cancel_after + patience.give_up_after, 3), Step::GiveUp);
    }
}

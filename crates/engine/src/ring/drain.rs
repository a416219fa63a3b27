//! The end of a job: what the kernel still has is waited for, cancelled, and at last given up.

use super::RingLoop;
use crate::error::EngineError;
use crate::job::TICK;
use io_uring::{opcode, types};

/// `user_data` of the request that cancels all others.
pub(super) const CANCEL_ID: u64 = u64::MAX - 1;
/// Nothing has come back for so long: cancel, nanoseconds. A slow volume that still answers is never cancelled.
const CANCEL_AFTER: u64 = 2_000_000_000;
/// Nothing has come back for so long: give up. Longer than what a path fail-over or a throttled volume takes between two
/// answers, shorter than the 30 s after which the kernel resets an NVMe controller.
const GIVE_UP_AFTER: u64 = 20_000_000_000;

/// Where the end has got to.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// When something came back last, and what was in flight then.
    progress: Option<(u64, u32)>,
    /// Operations that were cancelled.
    cancelled: Option<u32>,
}

/// What to do about operations that do not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Wait,
    Cancel,
    GiveUp,
}

impl Drain {
    pub(super) fn begun(&self) -> bool {
        self.progress.is_some()
    }

    /// Whether the completion of `id` says nothing: that of a cancelled operation, or of the cancelling one.
    #[inline]
    pub(super) fn ignores(&self, id: u64) -> bool {
        self.cancelled.is_some() || id == CANCEL_ID
    }

    pub(super) fn note(&self) -> Option<String> {
        let cancelled = self.cancelled?;
        Some(format!(
            "{cancelled} operations had not come back {} s after the last one that did, and were cancelled",
            CANCEL_AFTER / 1_000_000_000
        ))
    }

    /// What to do at `now` with `in_flight` operations in flight.
    fn judge(&mut self, now: u64, in_flight: u32) -> Patience {
        let since = match self.progress {
            Some((since, before)) if in_flight == before => since,
            _ => {
                self.progress = Some((now, in_flight));
                now
            }
        };
        match now.saturating_sub(since) {
            GIVE_UP_AFTER.. => Patience::GiveUp,
            CANCEL_AFTER.. if self.cancelled.is_none() => {
                self.cancelled = Some(in_flight);
                Patience::Cancel
            }
            _ => Patience::Wait,
        }
    }
}

impl RingLoop<'_> {
    /// Waits a little for what the kernel still has.
    #[cold]
    pub(super) fn drain_some(&mut self, now: u64) -> Result<(), EngineError> {
        match self.drain.judge(now, self.in_kernel) {
            Patience::Wait => {}
            Patience::Cancel => {
                let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::any());
                // SAFETY: the request names no memory and no file. A full queue is no harm: the bound holds without it.
                let _ = unsafe { self.io.ring.submission().push(&cancel.build().user_data(CANCEL_ID)) };
            }
            Patience::GiveUp => return Err(self.hung()),
        }
        // A ring that polls for completions waits without a bound: the kernel has no timeout for it.
        self.enter(1, Some(now + TICK), now)?;
        self.reap(self.job.shared.clock.now());
        Ok(())
    }

    /// The error that names the member with the oldest operation.
    fn hung(&self) -> EngineError {
        let oldest = self.pieces.iter().flatten().min_by_key(|piece| piece.started);
        let member = oldest.map_or(0, |piece| piece.member as usize);
        EngineError::Hung {
            member: self.job.shared.target.members[member].name.clone(),
            operations: self.in_kernel,
            seconds: GIVE_UP_AFTER / 1_000_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_begins_anew_with_everything_that_comes_back() {
        let mut drain = Drain::default();
        assert_eq!(drain.judge(5, 4), Patience::Wait);
        assert!(drain.begun() && drain.note().is_none());
        assert_eq!(drain.judge(CANCEL_AFTER, 3), Patience::Wait);
        assert_eq!(drain.judge(2 * CANCEL_AFTER - 1, 3), Patience::Wait);
        assert_eq!(drain.judge(2 * CANCEL_AFTER, 3), Patience::Cancel);
        assert_eq!(drain.judge(2 * CANCEL_AFTER + 1, 3), Patience::Wait, "cancelled once");
        assert!(drain.ignores(0) && drain.note().is_some_and(|note| note.starts_with("3 operations")));
        assert_eq!(drain.judge(CANCEL_AFTER + GIVE_UP_AFTER, 3), Patience::GiveUp);
    }
}

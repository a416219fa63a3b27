//! What becomes of operations that do not come back at the end of a trial: waited for, cancelled, and at last given up.

use ebbtide_model::units::{Instant, Nanos};
use ebbtide_sys::ring::CANCEL;

/// How long operations that do not come back are waited for, since the last one that did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Then they are cancelled. A slow volume that still answers is never cancelled.
    pub(crate) cancel_after: Nanos,
    /// Then they are given up.
    pub(crate) give_up_after: Nanos,
}

impl Default for Patience {
    /// 2 s and 20 s: longer than what a path fail-over or a throttled volume takes between two answers, shorter than the
    /// 30 s after which the kernel resets an NVMe controller.
    fn default() -> Self {
        Patience { cancel_after: Nanos::from_secs(2), give_up_after: Nanos::from_secs(20) }
    }
}

/// Where the end has got to.
#[derive(Debug)]
pub(crate) struct Drain {
    patience: Patience,
    /// When something came back last, and what was in flight then.
    progress: Option<(Instant, u32)>,
    /// Operations that were cancelled.
    cancelled: Option<u32>,
}

/// What to do about operations that do not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Wait,
    Cancel,
    /// They were waited for as long as this.
    GiveUp(Nanos),
}

impl Drain {
    pub(crate) fn new(patience: Patience) -> Self {
        Drain { patience, progress: None, cancelled: None }
    }

    pub(crate) fn begun(&self) -> bool {
        self.progress.is_some()
    }

    /// Whether the completion of `id` says nothing: that of a cancelled operation, or of the cancelling one.
    #[inline]
    pub(crate) fn ignores(&self, id: u64) -> bool {
        self.cancelled.is_some() || id == CANCEL
    }

    pub(crate) fn note(&self) -> Option<String> {
        let cancelled = self.cancelled?;
        Some(format!(
            "{cancelled} operations had not come back {} s after the last one that did, and were cancelled",
            self.patience.cancel_after.0 / Nanos::PER_SECOND
        ))
    }

    /// What to do at `now` with `in_flight` operations in flight.
    pub(crate) fn judge(&mut self, now: Instant, in_flight: u32) -> Step {
        let since = match self.progress {
            Some((since, before)) if in_flight == before => since,
            _ => {
                self.progress = Some((now, in_flight));
                now
            }
        };
        if now - since >= self.patience.give_up_after {
            Step::GiveUp(self.patience.give_up_after)
        } else if now - since >= self.patience.cancel_after && self.cancelled.is_none() {
            self.cancelled = Some(in_flight);
            Step::Cancel
        } else {
            Step::Wait
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
        let mut at = |time: Nanos, in_flight| drain.judge(Instant::START + time, in_flight);
        assert_eq!(at(Nanos(5), 4), Step::Wait);
        assert_eq!(at(patience.cancel_after, 3), Step::Wait);
        assert_eq!(at(patience.cancel_after.times(2).since(Nanos(1)), 3), Step::Wait);
        assert_eq!(at(patience.cancel_after.times(2), 3), Step::Cancel);
        assert_eq!(at(patience.cancel_after.times(2).plus(Nanos(1)), 3), Step::Wait, "cancelled once");
        let end = patience.cancel_after.plus(patience.give_up_after);
        assert_eq!(at(end, 3), Step::GiveUp(patience.give_up_after));
        assert!(drain.begun() && drain.ignores(0));
        assert!(drain.note().is_some_and(|note| note.starts_with("3 operations")));
    }

    #[test]
    fn nothing_is_said_before_something_was_cancelled() {
        let mut drain = Drain::new(Patience::default());
        assert!(!drain.begun());
        drain.judge(Instant::START, 4);
        assert!(drain.begun() && drain.note().is_none() && !drain.ignores(0) && drain.ignores(CANCEL));
    }
}

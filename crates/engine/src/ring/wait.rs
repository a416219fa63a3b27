//! For how many completions the job sleeps.

/// One in this many of the operations in flight is waited for.
const PART: u32 = 16;
/// The wait for more than one completion ends after this part of the mean latency.
const LATENCY_PART: u64 = 10;
/// Completions after which the mean latency is computed anew.
const WINDOW: u32 = 256;
/// No wait is longer, whatever the latency is, microseconds.
const LONGEST_US: u64 = 1000;

/// Decides for how many completions the job sleeps when it has nothing to submit.
///
/// A job that wakes for every completion pays a wake-up for each. One that sleeps until k are there sees the first of them
/// late. With n operations in flight that take L each, completions come L/n apart (Little's law), so k of them take
/// (k-1)L/n: with k = 1 + n/16 no operation is seen later than L/16 after its completion, and the mean one is late by half
/// of that, whatever the device. For completions that come unevenly the kernel itself ends the wait after L/10
/// (`min_wait_usec`, Linux 6.12); without that, and below 16 in flight, the job sleeps for one.
#[derive(Debug)]
pub(super) struct Wait {
    /// Whether the kernel bounds a wait for several.
    bounded: bool,
    /// Start of the window and completions in it.
    since: u64,
    completed: u32,
    /// Mean latency of the last window, nanoseconds; 0 before the first is over.
    latency: u64,
}

/// A wait for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sleep {
    /// For how many.
    pub(super) want: u32,
    /// After this many microseconds for one only.
    pub(super) bound_us: u32,
}

impl Sleep {
    /// For the first.
    pub(super) const ONE: Sleep = Sleep { want: 1, bound_us: 0 };
}

impl Wait {
    pub(super) fn new(bounded: bool) -> Self {
        Wait { bounded, since: 0, completed: 0, latency: 0 }
    }

    /// Learns that `completed` operations came back by `now`, of `in_flight`.
    #[inline]
    pub(super) fn learn(&mut self, now: u64, completed: u32, in_flight: u32) {
        self.completed += completed;
        if self.completed >= WINDOW {
            if self.since > 0 {
                let each = now.saturating_sub(self.since) / u64::from(self.completed);
                self.latency = each.saturating_mul(u64::from(in_flight));
            }
            self.since = now;
            self.completed = 0;
        }
    }

    /// For how many to sleep with `in_flight` operations in flight.
    #[inline]
    pub(super) fn sleep(&self, in_flight: u32) -> Sleep {
        let bound_us = (self.latency / (1000 * LATENCY_PART)).min(LONGEST_US) as u32;
        let want = 1 + in_flight / PART;
        if self.bounded && want > 1 && bound_us > 0 { Sleep { want, bound_us } } else { Sleep::ONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait that has seen `latency_us` with 128 in flight.
    fn seen(latency_us: u64) -> Wait {
        let mut wait = Wait::new(true);
        let each = latency_us * 1000 / 128;
        (0..=2 * u64::from(WINDOW)).for_each(|i| wait.learn(1_000_000 + i * each, 1, 128));
        wait
    }

    #[test]
    fn one_in_sixteen_for_at_most_a_tenth_of_the_latency() {
        let Sleep { want, bound_us } = seen(400).sleep(128);
        assert_eq!((want, bound_us), (9, 40));
        assert_eq!(seen(400).sleep(32).want, 3);
        // A slow device: the bound has a bound.
        assert_eq!(seen(50_000).sleep(128).bound_us, 1000);
    }

    #[test]
    fn for_one_where_it_would_not_pay_or_could_not_be_bounded() {
        assert_eq!(Wait::new(true).sleep(128), Sleep::ONE, "nothing known yet");
        assert_eq!(Wait { bounded: false, ..seen(400) }.sleep(128), Sleep::ONE, "before Linux 6.12");
        assert_eq!(seen(400).sleep(15), Sleep::ONE);
        assert_eq!(seen(400).sleep(1), Sleep::ONE);
        assert_eq!(seen(5).sleep(128), Sleep::ONE, "a tenth is below the kernel's microsecond");
    }

    #[test]
    fn the_added_delay_follows_from_littles_law() {
        for in_flight in 16..=4096_u64 {
            let latency = 1e6;
            let gap = latency / in_flight as f64;
            let wait = Wait { bounded: true, since: 1, completed: 0, latency: latency as u64 };
            let late = f64::from(wait.sleep(in_flight as u32).want - 1) * gap;
            assert!(late <= latency / 16.0 + 1e-6, "{in_flight}: {late}");
        }
    }
}

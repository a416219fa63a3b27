//! Pacing of a closed loop (`rate`).

use crate::units::{Bytes, Instant};

/// How long a loop that fell behind may run faster than its rate to catch up.
const CATCH_UP_NS: f64 = 100e6;

/// Upper limit of one job's throughput: says when an operation may start at the earliest.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    ns_per_byte: f64,
    /// End of the last operation's share; none before the first.
    next: Option<f64>,
}

impl Pace {
    /// `bytes_per_second` (at least 1) for this job alone.
    pub fn new(bytes_per_second: f64) -> Self {
        Pace { ns_per_byte: 1e9 / bytes_per_second.max(1.0), next: None }
    }

    /// The earliest start of an operation of this `length` that is ready at `now`; each call is one operation.
    pub fn admit(&mut self, now: Instant, length: Bytes) -> Instant {
        let now_ns = now.0 as f64;
        let start = self.next.map_or(now_ns, |next| next.max(now_ns - CATCH_UP_NS));
        self.next = Some(start + length.0 as f64 * self.ns_per_byte);
        Instant((start as u64).max(now.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_the_rate_and_forgets_a_long_pause() {
        let mut pace = Pace::new(1e6);
        let mut now = Instant(5_000_000_000);
        for _ in 0..1000 {
            now = pace.admit(now, Bytes(1000));
        }
        assert_eq!(now, Instant(5_999_000_000));
        // After ten idle seconds only 100 ms worth of operations may start at once.
        let later = Instant(16_000_000_000);
        let at_once = (0..1000).filter(|_| pace.admit(later, Bytes(1000)) == later).count();
        assert_eq!(at_once, 101);
    }
}

//! How long a trial takes. Estimates, progress, backends, `--verify` and texts ask here, so that an option which changes
//! it is told in one place.

use super::{Conditions, Stop, Workload};
use crate::units::Nanos;

impl Workload {
    /// From the start of a trial to the first instant that is measured.
    pub const fn before(&self) -> Nanos {
        self.warm_up
    }

    /// The longest that is measured; nothing where only bytes end the trial.
    pub const fn measured_at_most(&self) -> Option<Nanos> {
        match self.stop {
            Stop::Runtime(runtime) => Some(runtime),
            Stop::Size(_) => self.details.time_limit,
        }
    }

    /// The whole trial, with the time after which it begins; nothing where it ends by size.
    pub fn time(&self) -> Option<Nanos> {
        Some(self.details.start_delay.plus(self.busy_time()?))
    }

    /// The part of a trial in which there are operations; nothing where it ends by size.
    pub fn busy_time(&self) -> Option<Nanos> {
        match self.stop {
            Stop::Runtime(runtime) => Some(self.before().plus(runtime)),
            Stop::Size(_) => None,
        }
    }

    /// The whole trial, with the time after which it begins and what is read back after it; where it ends by size, at so many
    /// nanoseconds for each byte.
    pub fn time_at(&self, per_byte: u64) -> Nanos {
        let measured = match self.stop {
            Stop::Runtime(runtime) => runtime,
            Stop::Size(size) => Nanos(size.0.saturating_mul(per_byte)),
        };
        // To read what was written takes about as long.
        let times = if self.details.verify { 2 } else { 1 };
        self.details.start_delay.plus(self.before()).plus(measured.times(times))
    }

    /// Makes it last `time` in all, of which `before` is not measured, whatever was asked of it beside its operations.
    pub fn last(&mut self, time: Nanos, before: Nanos) {
        self.warm_up = before;
        self.stop = Stop::Runtime(Nanos(time.0.saturating_sub(before.0)));
        self.end_fsync = false;
        self.details.time_limit = None;
        self.details.start_delay = Nanos(0);
        self.details.verify = false;
        self.conditions = Conditions::default();
    }

    /// What comes before the measurement, where anything does.
    pub fn before_in_words(&self) -> Option<String> {
        (self.warm_up.0 > 0).then(|| format!("after a warm-up of {}", self.warm_up))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Mix};
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn a_trial_ends_by_time_or_by_size() {
        let second = Nanos::from_secs(1);
        let mut w = Workload::new("w", Access::Random, Mix::Read, Stop::Runtime(second));
        assert_eq!((w.time(), w.measured_at_most(), w.before_in_words()), (Some(second), Some(second), None));
        w.warm_up = Nanos::from_millis(500);
        assert_eq!((w.time(), w.time_at(10)), (Some(Nanos::from_millis(1500)), Nanos::from_millis(1500)));
        assert_eq!(w.before_in_words().as_deref(), Some("after a warm-up of 500ms"));
        w.details.start_delay = Nanos::from_secs(3600);
        assert_eq!(w.time(), Some(Nanos::from_millis(3_601_500)), "nobody is told that it takes less");
        assert_eq!((w.busy_time(), w.before()), (Some(Nanos::from_millis(1500)), Nanos::from_millis(500)));
        assert_eq!(w.time_at(10), Nanos::from_millis(3_601_500));
        w.details.start_delay = Nanos(0);
        w.stop = Stop::Size(Bytes(100));
        assert_eq!((w.time(), w.measured_at_most()), (None, None));
        assert_eq!(w.time_at(10), Nanos(500_001_000));
        w.details.time_limit = Some(second);
        assert_eq!(w.measured_at_most(), Some(second));
        w.last(second, Nanos::from_millis(200));
        assert_eq!((w.time(), w.before()), (Some(second), Nanos::from_millis(200)));
        assert_eq!(w.details.time_limit, None);
    }
}

//! How long before an instant a job stops sleeping.
//!
//! Who sleeps wakes up late: by the timer's and the scheduler's delay, and by what a core takes to leave its idle state, tens
//! of microseconds on a virtual machine. In a load at a given rate all of that would be measured as latency, so such a job
//! sleeps only until shortly before an instant and watches the clock from there. It does so only where a core is left for
//! others ([`Shared::watches`](crate::shared::Shared::watches)).

use ebbtide_model::units::Nanos;

/// How long before an instant a job stops sleeping: half more than its slowest wake-up of late took, which differs by a
/// hundred times between a core of one's own and a virtual machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead(Nanos);

impl Ahead {
    /// What it begins with: twice what most virtual machines take.
    const FIRST: Nanos = Nanos(100_000);
    /// How much it forgets with every wake-up: the slowest of a thousand is remembered until the next.
    const FORGOTTEN: Nanos = Nanos(50);
    /// Bounds. Above the upper one it costs more than it gives: a quarter of a core at 1,000 operations a second, and the
    /// threads that serve a device wake up later the longer this one is awake (docs/explanation/performance.md).
    const LEAST: Nanos = Nanos(20_000);
    const MOST: Nanos = Nanos(250_000);

    /// That of a job that watches, or none.
    pub(crate) fn of(watches: bool) -> Ahead {
        Ahead(if watches { Ahead::FIRST } else { Nanos(0) })
    }

    /// Whether it is that of a job that watches.
    pub(crate) fn watches(self) -> bool {
        self.0 > Nanos(0)
    }

    pub(crate) fn get(self) -> Nanos {
        self.0
    }

    /// Learns from a wake-up that came so `late` after the instant that was asked for.
    pub(crate) fn woke(&mut self, late: Nanos) {
        let slow = late.plus(Nanos(late.0 / 2));
        self.0 = self.0.since(Ahead::FORGOTTEN).max(slow).clamp(Ahead::LEAST, Ahead::MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn almost_all_wake_ups_are_over_in_time() {
        // Wake-ups of 60 us, and of 180 us every thousandth time: only the first slow one is late.
        let took = |turn: u32| Nanos(if turn % 1000 == 999 { 180_000 } else { 60_000 });
        let mut ahead = Ahead::of(true);
        let mut late = Vec::new();
        for turn in 0..20_000 {
            if took(turn) > ahead.get() {
                late.push(turn);
            }
            ahead.woke(took(turn));
        }
        assert_eq!(late, [999]);
        // It forgets, and has bounds.
        (0..20_000).for_each(|_| ahead.woke(Nanos(1_000)));
        assert_eq!(ahead.get(), Ahead::LEAST);
        ahead.woke(Nanos(u64::MAX));
        assert_eq!(ahead.get(), Ahead::MOST);
        assert!(!Ahead::of(false).watches());
    }
}

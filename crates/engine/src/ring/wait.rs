//! Waiting for completions and for the instant at which the next operation is due.
//!
//! Who sleeps wakes up late: by the timer's and the scheduler's delay, and by what a core takes to leave its idle state, tens
//! of microseconds on a virtual machine. In a load at a given rate all of that would be measured as latency, so such a job
//! sleeps only until shortly before an instant and watches the clock from there, and watches for completions for a while
//! before it sleeps. It does so only where a core is left for others ([`Shared::watches`](crate::shared::Shared::watches)).

use super::RingLoop;
use crate::error::EngineError;
use ebbtide_model::units::Nanos;
use ebbtide_sys::ring::Timespec;

/// How long before an instant a job stops sleeping: half more than its slowest wake-up of late took, which differs by a
/// hundred times between a core of one's own and a virtual machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead(u64);

impl Ahead {
    /// What it begins with, nanoseconds: twice what most virtual machines take.
    const FIRST: Ahead = Ahead(100_000);
    /// Nanoseconds by which it forgets with every wake-up: the slowest of a thousand is remembered until the next.
    const FORGOTTEN: u64 = 50;
    /// Bounds, nanoseconds. Above the upper one it costs more than it gives: a quarter of a core at 1,000 operations a second,
    /// and the threads that serve a device wake up later the longer this one is awake (docs/performance.md).
    const LEAST: u64 = 20_000;
    const MOST: u64 = 250_000;

    /// That of a job that watches, or none.
    pub(crate) fn of(watches: bool) -> Ahead {
        if watches { Ahead::FIRST } else { Ahead(0) }
    }

    /// Whether it is that of a job that watches.
    pub(crate) fn watches(self) -> bool {
        self.0 > 0
    }

    /// Nanoseconds.
    pub(crate) fn get(self) -> u64 {
        self.0
    }

    /// Learns from a wake-up that came `took` nanoseconds after the instant that was asked for.
    pub(crate) fn woke(&mut self, took: u64) {
        let slow = took.saturating_add(took / 2);
        self.0 = self.0.saturating_sub(Ahead::FORGOTTEN).max(slow).clamp(Ahead::LEAST, Ahead::MOST);
    }
}

/// How long it watches for completions before it sleeps, nanoseconds: longer than what a device in memory or on NVMe takes,
/// and a small part of what is longer.
const WATCH: u64 = 200_000;

impl RingLoop<'_> {
    /// Gives the kernel what is in the queue and waits for a completion, at most until `until`, without sleeping where that
    /// would be late.
    pub(super) fn watch(&mut self, until: u64, now: u64) -> Result<(), EngineError> {
        let submitted = self.io.ring.submit();
        self.told(submitted)?;
        let clock = self.job.shared.clock;
        let patience = now.saturating_add(WATCH);
        loop {
            if self.io.ring.has_completions() {
                return Ok(());
            }
            let now = clock.now();
            if now >= until {
                return Ok(());
            }
            if self.io.ring.must_look() {
                self.told(self.io.ring.look())?;
            } else if until - now > self.ahead.get() && (self.io.ring.in_flight() == 0 || now >= patience) {
                return self.sleep_shortly_before(until, now);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Sleeps until a completion, at most until the wake-up that follows is over by `instant`.
    fn sleep_shortly_before(&mut self, instant: u64, now: u64) -> Result<(), EngineError> {
        let until = instant - self.ahead.get();
        self.sleep(until, now)?;
        let woke = self.job.shared.clock.now();
        if woke >= until {
            self.ahead.woke(woke - until);
        }
        Ok(())
    }

    /// Gives the kernel what is in the queue and sleeps until a completion, at most until `until`.
    pub(super) fn sleep(&mut self, until: u64, now: u64) -> Result<(), EngineError> {
        let wait = Nanos(until).since(Nanos(now)).0;
        let time = Timespec::new().sec(wait / Nanos::PER_SECOND).nsec((wait % Nanos::PER_SECOND) as u32);
        self.told(self.io.ring.submit_and_sleep(time))
    }

    /// What io_uring_enter(2) said.
    pub(super) fn told(&self, result: std::io::Result<usize>) -> Result<(), EngineError> {
        match result {
            Ok(_) => Ok(()),
            // ETIME: the wait is over. EINTR: a signal. EAGAIN, EBUSY: the kernel wants its completions reaped first.
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) =>
            {
                Ok(())
            }
            Err(source) => Err(EngineError::System { what: "submit to the io_uring", source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn almost_all_wake_ups_are_over_in_time() {
        // Wake-ups of 60 us, and of 180 us every thousandth time: only the first slow one is late.
        let took = |turn: u32| if turn % 1000 == 999 { 180_000 } else { 60_000 };
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
        (0..20_000).for_each(|_| ahead.woke(1_000));
        assert_eq!(ahead.get(), Ahead::LEAST);
        ahead.woke(u64::MAX);
        assert_eq!(ahead.get(), Ahead::MOST);
        assert_eq!(Ahead::of(false).get(), 0);
    }
}

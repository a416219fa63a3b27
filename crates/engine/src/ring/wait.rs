//! Waiting for completions and for the instant at which the next operation is due.
//!
//! A job that sleeps only until shortly before an instant ([`Ahead`](crate::ahead::Ahead)) watches for completions for a while
//! before it sleeps.

use super::RingLoop;
use crate::error::EngineError;
use ebbtide_model::units::{Instant, Nanos};
use ebbtide_sys::ring::Timespec;

/// How long it watches for completions before it sleeps: longer than what a device in memory or on NVMe takes, and a small
/// part of what is longer.
const WATCH: Nanos = Nanos(200_000);

impl RingLoop<'_> {
    /// Gives the kernel what is in the queue and waits for a completion, at most until `until`, without sleeping where that
    /// would be late.
    pub(super) fn watch(&mut self, until: Instant, now: Instant) -> Result<(), EngineError> {
        let submitted = self.ring.submit();
        self.told(submitted)?;
        let clock = self.job.shared.clock;
        let patience = now + WATCH;
        loop {
            if self.ring.has_completions() {
                return Ok(());
            }
            let now = clock.now();
            if now >= until {
                return Ok(());
            }
            if self.ring.must_look() {
                self.told(self.ring.look())?;
            } else if until - now > self.ahead.get() && (self.ring.in_flight() == 0 || now >= patience) {
                return self.sleep_shortly_before(until, now);
            } else {
                self.let_workers_run();
            }
        }
    }

    /// Once around while it watches. What a worker of the kernel completes, such as an operation on a loop device, may wait for this very
    /// core: without a chance to run there it would until the scheduler's tick, 1 to 4 ms (docs/explanation/performance.md).
    fn let_workers_run(&self) {
        match self.ring.in_flight() {
            0 => std::hint::spin_loop(),
            _ => std::thread::yield_now(),
        }
    }

    /// Sleeps until a completion, at most until the wake-up that follows is over by `instant`.
    fn sleep_shortly_before(&mut self, instant: Instant, now: Instant) -> Result<(), EngineError> {
        let until = instant - self.ahead.get();
        self.sleep(until, now)?;
        let woke = self.job.shared.clock.now();
        if woke >= until {
            self.ahead.woke(woke - until);
        }
        Ok(())
    }

    /// Gives the kernel what is in the queue and sleeps until a completion, at most until `until`.
    pub(super) fn sleep(&mut self, until: Instant, now: Instant) -> Result<(), EngineError> {
        let wait = (until - now).0;
        let time = Timespec::new().sec(wait / Nanos::PER_SECOND).nsec((wait % Nanos::PER_SECOND) as u32);
        self.told(self.ring.submit_and_sleep(time))
    }

    /// Takes the result of io_uring_enter(2): errors that only end a wait are none.
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

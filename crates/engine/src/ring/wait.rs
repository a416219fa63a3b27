//! Waiting for completions and for the instant at which the next operation is due.
//!
//! Who sleeps wakes up late: by the timer's and the scheduler's delay, and by what a core takes to leave its idle state, tens
//! of microseconds on a virtual machine. In a load at a given rate all of that would be measured as latency, so such a job
//! sleeps only until shortly before an instant and watches the clock from there, and watches for completions for a while
//! before it sleeps. It does so only where a core is left for others ([`Shared::watches`](crate::shared::Shared::watches)).

use super::RingLoop;
use crate::error::EngineError;
use ebbtide_core::units::Nanos;
use io_uring::types;

/// How long before an instant a job stops sleeping, nanoseconds: more than almost all wake-ups take.
pub(crate) const AHEAD: u64 = 100_000;
/// How long it watches for completions before it sleeps, nanoseconds: longer than what a device in memory or on NVMe takes,
/// and a small part of what is longer.
const WATCH: u64 = 200_000;
/// io_uring_enter(2): look for completions.
const GETEVENTS: u32 = 1;

impl RingLoop<'_> {
    /// Gives the kernel what is in the queue and waits for a completion, at most until `until`, without sleeping where that
    /// would be late.
    pub(super) fn watch(&mut self, until: u64, now: u64) -> Result<(), EngineError> {
        if !self.io.ring.submission().is_empty() {
            self.told(self.io.ring.submitter().submit())?;
        }
        let clock = self.job.shared.clock;
        let patience = now.saturating_add(WATCH);
        loop {
            if !self.io.ring.completion().is_empty() {
                return Ok(());
            }
            let now = clock.now();
            if now >= until {
                return Ok(());
            }
            if self.io.ring.submission().taskrun() {
                // SAFETY: no pointer goes to the kernel.
                let looked =
                    unsafe { self.io.ring.submitter().enter::<libc::sigset_t>(0, 0, GETEVENTS, None) };
                self.told(looked)?;
            } else if until - now > AHEAD && (self.in_kernel == 0 || now >= patience) {
                return self.sleep(until - AHEAD, now);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Gives the kernel what is in the queue and sleeps until a completion, at most until `until`.
    pub(super) fn sleep(&mut self, until: u64, now: u64) -> Result<(), EngineError> {
        let wait = Nanos(until).since(Nanos(now)).0;
        let time =
            types::Timespec::new().sec(wait / Nanos::PER_SECOND).nsec((wait % Nanos::PER_SECOND) as u32);
        let arguments = types::SubmitArgs::new().timespec(&time);
        self.told(self.io.ring.submitter().submit_with_args(1, &arguments))
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

//! A cheap monotonic clock: the CPU's time stamp counter where it can be trusted, else the vDSO.

use ebbtide_model::units::{Instant, Nanos};
use ebbtide_sys::tsc;
use std::sync::OnceLock;
use std::time::{self, Duration};

/// Bits behind the point of `ns_per_tick`.
const SHIFT: u32 = 32;
/// How long the counter is compared with the kernel's clock: two readings of about 20 ns uncertainty each over this
/// time leave a rate error of about 2 in a million.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Reads the time since the process first asked for a clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: Source,
    /// Its start, on the kernel's monotonic clock.
    epoch: time::Instant,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    /// Time = `base_ns` + (counter - `base`) * `ns_per_tick` / 2^32.
    Tsc {
        base: u64,
        base_ns: u64,
        ns_per_tick: u64,
    },
    Vdso,
}

/// Nanoseconds since `epoch` by the kernel's clock.
#[inline]
fn kernel_ns(epoch: time::Instant) -> u64 {
    epoch.elapsed().as_nanos() as u64
}

impl Clock {
    /// The process's clock; the first call calibrates it, which takes 20 ms.
    pub fn get() -> Clock {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(|| {
            let epoch = time::Instant::now();
            Clock { source: calibrate(epoch).unwrap_or(Source::Vdso), epoch }
        })
    }

    /// Now; readings on one thread never go back by more than the cores' counters differ.
    #[inline]
    pub fn now(&self) -> Instant {
        Instant(match self.source {
            Source::Tsc { base, base_ns, ns_per_tick } => {
                let ticks = tsc::read().wrapping_sub(base);
                base_ns.wrapping_add(((u128::from(ticks) * u128::from(ns_per_tick)) >> SHIFT) as u64)
            }
            Source::Vdso => kernel_ns(self.epoch),
        })
    }

    /// What it reads: `tsc` or `vdso`.
    pub fn source(&self) -> &'static str {
        match self.source {
            Source::Tsc { .. } => "tsc",
            Source::Vdso => "vdso",
        }
    }

    /// How far it has drifted from the kernel's clock. Large after a virtual machine has moved.
    pub(crate) fn drift(&self) -> Nanos {
        Nanos(self.now().0.abs_diff(kernel_ns(self.epoch)))
    }
}

/// A reading of both clocks: the closest of several tries, since an interrupt may come between.
fn both(epoch: time::Instant) -> Option<(u64, u64)> {
    let tries = (0..32).map(|_| {
        let before = tsc::read();
        let ns = kernel_ns(epoch);
        let after = tsc::read();
        (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), ns)
    });
    tries.min().map(|(_, ticks, ns)| (ticks, ns))
}

/// The counter with its rate, where the CPU promises that it never stops or changes its rate.
fn calibrate(epoch: time::Instant) -> Option<Source> {
    if !tsc::is_invariant() {
        return None;
    }
    let (first, first_ns) = both(epoch)?;
    std::thread::sleep(CALIBRATION);
    let (base, base_ns) = both(epoch)?;
    let (ticks, ns) = (base.checked_sub(first)?, base_ns.checked_sub(first_ns)?);
    if ticks == 0 || ns == 0 {
        return None;
    }
    let ns_per_tick = u64::try_from((u128::from(ns) << SHIFT) / u128::from(ticks)).ok()?;
    Some(Source::Tsc { base, base_ns, ns_per_tick })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_kernels_clock() {
        let clock = Clock::get();
        let mut last = Instant::START;
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        // A broken rate or base is off by far more than any pause of this thread.
        assert!(clock.drift() < Nanos::from_millis(50), "{}", clock.drift());
    }
}

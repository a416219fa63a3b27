//! What the process has used so far.

use std::mem::MaybeUninit;

/// Counters of the process since its start (getrusage(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Context switches, voluntary and not.
    pub context_switches: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
}

impl Usage {
    /// Up to now, all threads.
    pub fn of_process() -> Usage {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is room for one rusage, and all its bytes are initialised whatever the call does.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
        Usage {
            context_switches: count(usage.ru_nvcsw) + count(usage.ru_nivcsw),
            major_faults: count(usage.ru_majflt),
            minor_faults: count(usage.ru_minflt),
        }
    }

    /// From `earlier` to `self`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
        }
    }
}

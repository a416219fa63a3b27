//! What a thread or the process has used so far (getrusage(2)).

use std::mem::MaybeUninit;

/// Counters since the beginning of what they are of.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Nanoseconds of processor time in the program.
    pub user_ns: u64,
    /// Nanoseconds of processor time in the kernel.
    pub system_ns: u64,
    /// Context switches, voluntary and not.
    pub context_switches: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
}

impl Usage {
    /// From `earlier` to `self`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
        }
    }
}

/// Of the calling thread.
pub fn of_thread() -> Usage {
    read(libc::RUSAGE_THREAD)
}

/// Of the process: all its threads, the kernel's io_uring worker and polling threads among them.
pub fn of_process() -> Usage {
    read(libc::RUSAGE_SELF)
}

fn read(who: libc::c_int) -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is room for one rusage, and all its bytes are initialised whatever the call does.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
    Usage {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        context_switches: count(usage.ru_nvcsw) + count(usage.ru_nivcsw),
        major_faults: count(usage.ru_majflt),
        minor_faults: count(usage.ru_minflt),
    }
}

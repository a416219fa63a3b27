//! CPU time, affinity and priority of threads.

use crate::clock::Clock;
use crate::error::EngineError;
use ebbtide_model::units::{Instant, Nanos};
use ebbtide_sys::usage::{self, Usage};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::num::NonZeroU64;
use std::path::Path;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuTime {
    pub(crate) user: Nanos,
    pub(crate) system: Nanos,
}

impl From<Usage> for CpuTime {
    fn from(usage: Usage) -> Self {
        CpuTime { user: Nanos(usage.user_ns), system: Nanos(usage.system_ns) }
    }
}

impl CpuTime {
    /// Of the calling thread.
    pub(crate) fn of_thread() -> Self {
        CpuTime::from(usage::of_thread())
    }

    /// Of the process, with the kernel's io_uring worker and polling threads, which are threads of ours.
    pub(crate) fn of_process() -> Self {
        CpuTime::from(usage::of_process())
    }

    /// From `earlier` to `self`.
    pub(crate) fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime { user: self.user.since(earlier.user), system: self.system.since(earlier.system) }
    }

    pub(crate) fn plus(self, other: CpuTime) -> CpuTime {
        CpuTime { user: self.user.plus(other.user), system: self.system.plus(other.system) }
    }

    /// User and system time together.
    pub(crate) fn all(self) -> Nanos {
        self.user.plus(self.system)
    }
}

/// What the kernel counts of a thread up to an instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadCounters {
    at: Instant,
    cpu: CpuTime,
    waited: Option<Nanos>,
}

/// What a thread did with its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadTime {
    /// How long it was.
    pub(crate) wall: Nanos,
    pub(crate) cpu: CpuTime,
    /// It was ready to run and another had the processor; absent where the kernel does not count it.
    pub(crate) waited: Option<Nanos>,
}

impl ThreadCounters {
    /// Of the calling thread.
    pub(crate) fn of_thread() -> Self {
        // Three numbers (Documentation/scheduler/sched-stats.rst).
        let schedstat = ebbtide_door::read::text(Path::new("/proc/thread-self/schedstat"), 256).ok();
        ThreadCounters {
            at: Clock::get().now(),
            cpu: CpuTime::of_thread(),
            waited: schedstat.as_deref().and_then(run_delay),
        }
    }

    /// From `earlier` to `self`.
    pub(crate) fn since(self, earlier: ThreadCounters) -> ThreadTime {
        let waited = self.waited.zip(earlier.waited).map(|(now, then)| now.since(then));
        ThreadTime { wall: self.at - earlier.at, cpu: self.cpu.since(earlier.cpu), waited }
    }
}

/// Time on the run queue: the second field, nanoseconds (Documentation/scheduler/sched-stats.rst).
fn run_delay(schedstat: &str) -> Option<Nanos> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok().map(Nanos)
}

/// Applies affinity and priority to the calling thread, which is job number `job`.
pub(crate) fn settle(job: u32, cpus: &[u32], nice: Option<i32>) -> Result<(), EngineError> {
    let failed = |what| move |source: rustix::io::Errno| EngineError::System { what, source: source.into() };
    if !cpus.is_empty() {
        let cpu = cpus[job as usize % cpus.len()] as usize;
        let mut set = CpuSet::new();
        if cpu >= CpuSet::MAX_CPU {
            return Err(failed("pin a job to a CPU of `cpus_allowed`")(rustix::io::Errno::INVAL));
        }
        set.set(cpu);
        sched_setaffinity(None, &set).map_err(failed("pin a job to a CPU of `cpus_allowed`"))?;
    }
    if let Some(nice) = nice {
        // On Linux the priority belongs to the thread, and no pid means the calling one.
        setpriority_process(None, nice).map_err(failed("set the nice value of a job"))?;
    }
    Ok(())
}

/// Lets timers of the calling thread fire when they are due instead of up to 50 us later (the kernel's default slack).
pub(crate) fn precise_timers() {
    // A refusal costs precision only.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_read_where_it_is_counted() {
        assert_eq!(run_delay("957801 83000 1\n"), Some(Nanos(83_000)));
        assert_eq!(run_delay("957801"), None);
        let of = |waited| ThreadCounters { at: Instant::START, cpu: CpuTime::default(), waited };
        let (begin, end) = (of(Some(Nanos(100))), of(Some(Nanos(350))));
        assert_eq!(end.since(begin).waited, Some(Nanos(250)));
        assert_eq!(end.since(of(None)).waited, None);
    }
}

//! How the I/O is done on this host and target.

use crate::clock::Clock;
use crate::collect::Collected;
use crate::probe::hand_over;
use crate::target::Target;
use ebbtide_model::units::format_latency;
use ebbtide_model::workload::{IoEngine, Workload};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};

/// Most threads that stand in for the depth of rings.
const THREADS_MAX: u32 = 256;

/// How the I/O is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IoMethod {
    pub(crate) ioengine: IoEngine,
    /// Threads of each job.
    pub(crate) threads: u32,
    /// Operations in flight of each thread.
    pub(crate) depth: u32,
}

impl IoMethod {
    pub(crate) fn ring(depth: u32) -> Self {
        IoMethod { ioengine: IoEngine::IoUring, threads: 1, depth }
    }

    pub(crate) fn psync(threads: u32) -> Self {
        IoMethod { ioengine: IoEngine::Psync, threads, depth: 1 }
    }
}

/// Decides how to do the I/O; notes what differs from what was asked for. `unavailable` says why there is no io_uring.
pub(crate) fn choose(
    target: &Target,
    workload: &Workload,
    clock: Clock,
    unavailable: impl Fn() -> Option<String>,
    collected: &mut Collected,
) -> IoMethod {
    let iodepth = workload.depth();
    let psync = workload.ioengine == IoEngine::Psync;
    if iodepth < workload.iodepth {
        let why = if psync {
            "psync keeps one operation in flight per job"
        } else {
            "thinktime: a job waits for each operation before it pauses, so that it has one in flight"
        };
        collected.note(format!("{why}: iodepth {} was not used", workload.iodepth));
    }
    if psync {
        return IoMethod::psync(1);
    }
    if let Some(reason) = unavailable() {
        let threads = threads(iodepth, workload.numjobs);
        let mut note = format!("{reason}: pread and pwrite were used instead of io_uring");
        if iodepth > 1 {
            note += &format!(", on {threads} threads per job");
        }
        if threads < iodepth {
            note += &format!(" (iodepth {iodepth} was not reached: at most {THREADS_MAX} threads in all)");
        }
        collected.note(note);
        return IoMethod::psync(threads);
    }
    if workload.engine.hipri || workload.engine.sqthread_poll {
        return IoMethod::ring(iodepth);
    }
    if let Some(times) = hand_over(target, clock) {
        let (ring, pread) = (format_latency(times.ring.0 as f64), format_latency(times.pread.0 as f64));
        let seen = format!(
            "io_uring hands this target's I/O to worker threads (a single read takes {ring} through a ring, {pread} \
             with pread)"
        );
        if iodepth == 1 {
            collected.note(format!("{seen}: pread and pwrite were used instead"));
            return IoMethod::psync(1);
        }
        collected.note(format!("{seen}: the latencies contain that hand-over"));
    }
    IoMethod::ring(iodepth)
}

/// Threads of each job that keep `iodepth` operations in flight, as far as that is possible.
fn threads(iodepth: u32, numjobs: u32) -> u32 {
    iodepth.min(THREADS_MAX / numjobs.max(1)).max(1)
}

/// Notes members that go through the page cache although that was not asked for.
pub(crate) fn note_missing_direct(target: &Target, workload: &Workload, collected: &mut Collected) {
    if !workload.direct {
        return;
    }
    let stores =
        |file| matches!(fstat(file), Ok(stat) if !FileType::from_raw_mode(stat.st_mode).is_char_device());
    let cached =
        |file| stores(file) && matches!(fcntl_getfl(file), Ok(flags) if !flags.contains(OFlags::DIRECT));
    let names: Vec<_> = target.members.iter().filter(|m| cached(&m.file)).map(|m| m.name.as_str()).collect();
    if !names.is_empty() {
        collected.note(format!(
            "O_DIRECT was requested but is not set for {}: its I/O went through the page cache",
            names.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_stand_in_for_the_depth_up_to_a_bound() {
        assert_eq!(threads(1, 1), 1);
        assert_eq!(threads(32, 4), 32);
        assert_eq!(threads(128, 4), 64);
        assert_eq!(threads(1024, 1), THREADS_MAX);
        assert_eq!(threads(8, 1000), 1);
    }
}

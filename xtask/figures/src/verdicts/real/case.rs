//! What a case is.

use super::load::Load;
use ebbtide_analysis::VerdictKind;
use std::fmt;

/// A set-up with its truth.
#[derive(Debug, Clone)]
pub struct Case {
    /// The kind of set-up, as the table's rows are called.
    pub class: &'static str,
    pub seed: u64,
    pub base: Base,
    /// How many of them side by side in a stripe; 1 is the base itself.
    pub members: usize,
    pub load: Load,
    /// What is made to limit it; each can be taken away.
    pub causes: Vec<Cause>,
    /// Where nothing is made: what makes sure of the truth.
    pub truth: Truth,
    /// What else is the case, so that naming it beside the truth is no error.
    pub also: &'static [VerdictKind],
}

/// What a load runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// A file on the real disk.
    File,
    /// A loop device over a file on the real disk, past the page cache of it.
    LoopOnDisk,
    /// The same through the page cache.
    LoopCached,
    /// A loop device over a file in memory.
    LoopInMemory,
}

/// How the truth is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// The causes that are made: whichever makes the load faster when it is taken away.
    Made,
    /// By how the case is built.
    Built(VerdictKind),
    /// The file is in memory, and the disk's counters say that it was not read.
    Cached,
    /// Nothing: as much as arrives is served, as the rate says.
    Served,
    /// Whatever fio shows at the same depth and four times that, and the kernel's counters of processor time.
    Saturated,
}

/// What is made to limit a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cause {
    /// A cgroup's limit for the load.
    Throttle(Throttle),
    /// So many busy loops on the load's processor.
    Hogs(u32),
    /// Another program on the same disk.
    Neighbour(Neighbour),
    /// One operation at a time, or few; taken away with so many times as many.
    Shallow(u32),
    /// Each write durable before the next.
    Durable,
    /// A window of so many KiB.
    Readahead(u64),
    /// Requests of so many KiB at most at the device.
    Split(u64),
    /// A throttle on one member of several, this one.
    SlowMember(usize, Throttle),
}

impl Cause {
    /// The verdict that names it.
    pub fn kind(&self) -> VerdictKind {
        match self {
            Cause::Throttle(throttle) if throttle.first.is_some() => VerdictKind::Burst,
            Cause::Throttle(_) => VerdictKind::RateLimit,
            Cause::Hogs(_) => VerdictKind::Cpu,
            Cause::Neighbour(_) => VerdictKind::Background,
            Cause::Shallow(_) => VerdictKind::Concurrency,
            Cause::Durable => VerdictKind::SyncWrites,
            Cause::Readahead(_) => VerdictKind::Readahead,
            Cause::Split(_) => VerdictKind::RequestSize,
            Cause::SlowMember(..) => VerdictKind::Member,
        }
    }
}

/// A rate that is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttle {
    /// On the disk below the load's device instead of on the device itself.
    pub below: bool,
    pub write: bool,
    /// Bytes are counted, not operations.
    pub bytes: bool,
    /// Rate per second, in the unit of what it limits.
    pub rate: u64,
    /// So many times the rate for so many seconds from the start of the program.
    pub first: Option<(f64, f64)>,
}

/// I/O that another program does beside a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// fio's `rw`.
    pub rw: &'static str,
    pub bs_kib: u64,
    pub iodepth: u32,
    /// Most MiB per second.
    pub rate_mib: Option<u64>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on ", self.load)?;
        if self.members > 1 {
            write!(f, "a stripe of {} ", self.members)?;
        }
        f.write_str(match (self.base, self.members > 1) {
            (Base::File, false) => "a file",
            (Base::File, true) => "files",
            (Base::LoopOnDisk, false) => "a loop on disk",
            (Base::LoopOnDisk, true) => "loops on one disk",
            (Base::LoopCached, _) => "a cached loop",
            (Base::LoopInMemory, false) => "a loop in memory",
            (Base::LoopInMemory, true) => "loops in memory",
        })?;
        for cause in &self.causes {
            write!(f, ", {cause}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Throttle(throttle) => write!(f, "{throttle}"),
            Cause::Hogs(number) => write!(f, "{number} hogs on its core"),
            Cause::Neighbour(n) => {
                write!(f, "neighbour {} {}k x{}", n.rw, n.bs_kib, n.iodepth)?;
                n.rate_mib.map_or(Ok(()), |rate| write!(f, " at {rate} MiB/s"))
            }
            Cause::Shallow(_) => f.write_str("few in flight"),
            Cause::Durable => f.write_str("each durable"),
            Cause::Readahead(kib) => write!(f, "readahead {kib}k"),
            Cause::Split(kib) => write!(f, "requests of {kib}k at most"),
            Cause::SlowMember(index, throttle) => write!(f, "member {index} {throttle}"),
        }
    }
}

impl fmt::Display for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.bytes { "bytes/s" } else { "ops/s" };
        write!(f, "held to {} {unit}", self.rate)?;
        if self.below {
            f.write_str(" below")?;
        }
        self.first.map_or(Ok(()), |(times, seconds)| write!(f, ", {times:.1} times that for {seconds:.1} s"))
    }
}

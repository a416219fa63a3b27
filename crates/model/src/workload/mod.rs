//! Workloads: what is asked of an array, and the seeded stream of operations that asks it.

mod conditions;
mod distribution;
mod generator;
pub mod options;
mod pace;
mod program;
mod split;
mod steady;
mod text;
mod time;
mod words;

pub use conditions::{Conditions, ContinueOnError, Floor, LatencyTarget};
pub use distribution::{Distribution, Zone};
pub use generator::{Generator, Op, WorkloadError};
pub use pace::Pace;
pub use program::{
    Argv, Known, NoPlaceholder, Output, Placeholder, Program, Reading, ReadingError, Reset, Source, filled,
    pgbench_latencies, placeholders,
};
pub use split::{Size, Split};
pub use steady::{Criterion, Moment, SteadyMetric, SteadyResult, SteadyState};
pub use text::{Sizes, TextError};

use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The kind of one I/O operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpKind {
    /// From the volume into memory.
    Read,
    /// From memory to the volume.
    Write,
}

/// The order of offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Ascending; with several jobs each has its own region.
    Sequential,
    /// Anywhere in the region, block-aligned, as often as the workload's [`Distribution`] has it.
    Random,
}

/// What is done at each offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mix {
    /// No writes.
    Read,
    /// No reads.
    Write,
    /// Reads each block, then writes it back in place (bonnie++'s rewrite).
    Rewrite,
    /// Reads and writes drawn per operation.
    Mixed {
        /// Share of reads in percent, 0 to 100 (fio's `rwmixread`).
        read_percent: u8,
    },
}

/// How operations arrive: in a closed loop or at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Closed loop: each slot of the queue submits again when its operation completes.
    Closed,
    /// Open loop at a fixed distance; latency counts from the intended start.
    Fixed {
        /// Operations per second, over all jobs.
        iops: f64,
    },
    /// Open loop with exponential distances; latency counts from the intended start.
    Poisson {
        /// Mean operations per second, over all jobs.
        iops: f64,
    },
}

/// When a trial ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// After this time of measurement.
    Runtime(Nanos),
    /// After this many bytes over all jobs.
    Size(Bytes),
}

/// How the engine asks the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IoEngine {
    /// io_uring, one ring per job thread.
    #[default]
    IoUring,
    /// pread and pwrite on the job threads (fio's psync).
    Psync,
}

/// One workload: every field is a value, so that one loop runs them all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name, unique in its experiment.
    pub name: String,
    /// Workloads that follow one another with one of these run at the same time ([`Experiment::groups`](crate::experiment::Experiment)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Order in which offsets are visited.
    pub access: Access,
    /// What is done at each offset.
    pub mix: Mix,
    /// Bytes of one operation; of the largest, where there are several sizes.
    pub bs: Bytes,
    /// Sizes of operations, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// How often random offsets come to each block.
    #[serde(default, skip_serializing_if = "Distribution::is_uniform")]
    pub distribution: Distribution,
    /// Operations in flight per job, at least 1.
    pub iodepth: u32,
    /// Jobs (threads), at least 1.
    pub numjobs: u32,
    /// End of the trial.
    pub stop: Stop,
    /// Time before the measurement that is run but not counted (fio's `ramp_time`).
    pub warm_up: Nanos,
    /// Bytes of the target that are used, from offset 0; all of it when absent.
    pub span: Option<Bytes>,
    /// When operations begin.
    pub arrival: Arrival,
    /// Upper limit of throughput in bytes per second over all jobs (fio's `rate`).
    pub rate: Option<Bytes>,
    /// Pause of a job after each operation has completed and before the next (fio's `thinktime`): it has one in flight
    /// then, whatever `iodepth` says; see [`Workload::depth`].
    pub think_time: Nanos,
    /// O_DIRECT; when false, I/O goes through the page cache.
    pub direct: bool,
    /// O_SYNC on every write.
    pub sync: bool,
    /// One fsync at the end, counted in the elapsed time.
    pub end_fsync: bool,
    /// How the engine asks the kernel.
    pub ioengine: IoEngine,
    /// How the engine runs on the host; the simulator has no use for it.
    #[serde(default)]
    pub engine: EngineOptions,
    /// Finer points, which most workloads leave as they are.
    // What a stored session calls it.
    #[serde(rename = "fine", default, skip_serializing_if = "Details::is_default")]
    pub details: Details,
    /// What is asked of the run beside its operations.
    #[serde(default, skip_serializing_if = "Conditions::is_default")]
    pub conditions: Conditions,
    /// The program that is the load, where the engine is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<Program>>,
}

/// Finer points of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// Where the used part of the target begins (fio's `offset`).
    pub offset: Bytes,
    /// Each job's part begins so many bytes behind that of the job before it (fio's `offset_increment`).
    #[serde(skip_serializing_if = "is_none")]
    pub offset_increment: Bytes,
    /// How that part is shared out among the jobs.
    pub regions: Regions,
    /// A trial that ends by size ends after this time all the same (fio's `runtime` without `time_based`).
    pub time_limit: Option<Nanos>,
    /// A job calls fsync after every so many writes (fio's `fsync`); the call is one of its operations in flight.
    pub fsync_every: Option<u32>,
    /// The same with fdatasync (fio's `fdatasync`).
    pub fdatasync_every: Option<u32>,
    /// What follows what, where that is not one block after the other or each at random (fio's `rw=read:-8k`).
    pub sequence: Sequence,
    /// Buffered trials begin with what is left in the page cache (fio's `invalidate=0`).
    pub keep_cache: bool,
    /// Time before it begins, warm-up included (fio's `startdelay`).
    pub start_delay: Nanos,
    /// Share of what is written that compresses to nothing, in percent (fio's `buffer_compress_percentage`).
    pub compress_percent: u8,
    /// Share of the writes whose content was written before, in percent (fio's `dedupe_percentage`).
    pub dedupe_percent: u8,
    /// Each write has content of its own, and not that of its buffer (fio's `refill_buffers`).
    pub refill: bool,
    /// After a trial what it wrote is read back and compared (fio's `verify`).
    pub verify: bool,
}

fn is_none(bytes: &Bytes) -> bool {
    *bytes == Bytes(0)
}

/// How offsets follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sequence {
    /// As the order says.
    #[default]
    Plain,
    /// In a sequential order, so many bytes from the end of one operation to the start of the next: holes, or backwards
    /// where it is negative.
    Holes(i64),
    /// In a random order, a new offset for every so many operations.
    Runs {
        /// Operations from one draw to the next, at least 1.
        length: u32,
        /// Whether the others are at the same offset; else each begins where the one before it ends.
        identical: bool,
    },
}

impl Details {
    /// Where the last of `jobs` begins.
    pub fn last_offset(&self, jobs: u32) -> Bytes {
        let steps = self.offset_increment.0.saturating_mul(jobs.saturating_sub(1).into());
        Bytes(self.offset.0.saturating_add(steps))
    }

    fn is_default(&self) -> bool {
        *self == Details::default()
    }
}

/// How the used part of a target is shared out among the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Regions {
    /// Sequential jobs have a part each, random ones the whole.
    #[default]
    Usual,
    /// Every job has the whole (fio's jobs on one file: sequential ones all begin at its start).
    Shared,
    /// Every job has a part (fio's jobs with a file each).
    Own,
}

/// How the engine runs on the host. None of it changes what is asked of the array.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineOptions {
    /// CPUs for the job threads, taken in turn (job n runs on the n-th, wrapping); any CPU when empty
    /// (fio's `cpus_allowed` with `cpus_allowed_policy=split`).
    pub cpus_allowed: Vec<u32>,
    /// Nice value of the job threads, -20 to 19 (fio's `nice`); unchanged when absent.
    pub nice: Option<i32>,
    /// I/O buffers in huge pages where the host has them to give (fio's `iomem=mmaphuge`).
    pub huge_pages: bool,
    /// Polled completions (fio's `hipri`): needs a driver with polling queues and O_DIRECT.
    pub hipri: bool,
    /// A kernel thread submits (fio's `sqthread_poll`).
    pub sqthread_poll: bool,
}

/// Fewest intervals that a trial's series is cut into when its length is known.
const FEWEST_INTERVALS: u64 = 20;
/// Lengths that an interval of the series may have, in milliseconds.
const INTERVALS_MS: [u64; 7] = [1000, 500, 200, 100, 50, 20, 10];

impl Workload {
    /// A workload of `access` and `mix` that ends at `stop`, everything else as most have it: 4 KiB blocks, one job with
    /// one operation in flight, a closed loop over all of the target, O_DIRECT, io_uring.
    pub fn new(name: impl Into<String>, access: Access, mix: Mix, stop: Stop) -> Workload {
        Workload {
            name: name.into(),
            group: None,
            access,
            mix,
            bs: Bytes(4096),
            split: None,
            distribution: Distribution::Uniform,
            iodepth: 1,
            numjobs: 1,
            stop,
            warm_up: Nanos(0),
            span: None,
            arrival: Arrival::Closed,
            rate: None,
            think_time: Nanos(0),
            direct: true,
            sync: false,
            end_fsync: false,
            ioengine: IoEngine::IoUring,
            engine: EngineOptions::default(),
            details: Details::default(),
            conditions: Conditions::default(),
            program: None,
        }
    }

    /// A workload whose load is `program`: through the page cache, reading and writing as it likes.
    pub fn of_program(name: impl Into<String>, program: Program) -> Workload {
        let mixed = Mix::Mixed { read_percent: 50 };
        // How long it takes nobody knows before it has run.
        let stop = Stop::Size(Bytes(0));
        let usual = Workload::new(name, Access::Random, mixed, stop);
        Workload { direct: false, program: Some(Box::new(program)), ..usual }
    }

    /// Nominal length of one interval of the series: the longest round length that gives at least 20 of them, 10 ms
    /// to 1 s; 100 ms when the trial ends by size. Shorter where what is looked at while it runs would not be whole intervals.
    pub fn series_interval(&self) -> Nanos {
        let longest = match self.stop {
            Stop::Size(_) => 100,
            Stop::Runtime(runtime) => {
                let longest = INTERVALS_MS.iter().find(|ms| runtime.0 >= FEWEST_INTERVALS * **ms * 1_000_000);
                *longest.unwrap_or(&10)
            }
        };
        let divides = |interval: Nanos| self.conditions.steps().all(|step| step.0.is_multiple_of(interval.0));
        let lengths = INTERVALS_MS.iter().filter(|ms| **ms <= longest).map(|ms| Nanos::from_millis(*ms));
        lengths.into_iter().find(|length| divides(*length)).unwrap_or(Nanos::from_millis(10))
    }

    /// Whether operations arrive by a clock of their own, so that latency counts from the intended start.
    pub fn is_open_loop(&self) -> bool {
        self.arrival != Arrival::Closed
    }

    /// Whether nothing but the completion of operations holds back the next one: no clock, no rate, no pause.
    pub fn is_free(&self) -> bool {
        !self.is_open_loop() && self.rate.is_none() && self.think_time == Nanos(0)
    }

    /// Operations that a job has in flight at most: `iodepth`; one on psync, whose calls return when they are done, and
    /// where it pauses, since it waits for what it has begun before it does (fio 3.33, backend.c, `handle_thinktime`).
    pub fn depth(&self) -> u32 {
        let one = self.ioengine == IoEngine::Psync || self.think_time > Nanos(0);
        if one { 1 } else { self.iodepth }
    }

    /// Bytes of an operation, on average.
    pub fn mean_bs(&self) -> f64 {
        self.split.as_ref().map_or(self.bs.0 as f64, |split| split.mean(self.mix))
    }

    /// Whether all its operations are of multiples of `bytes`.
    pub fn is_multiple_of(&self, bytes: u64) -> bool {
        let one = || self.bs.0.is_multiple_of(bytes);
        self.split.as_ref().map_or_else(one, |split| split.is_multiple_of(bytes))
    }

    /// Whether it reads at all.
    pub fn reads(&self) -> bool {
        !matches!(self.mix, Mix::Write | Mix::Mixed { read_percent: 0 })
    }

    /// Whether it writes at all.
    pub fn writes(&self) -> bool {
        !matches!(self.mix, Mix::Read | Mix::Mixed { read_percent: 100.. })
    }
}

/// Highest CPU number that Linux can be built for.
const CPU_MAX: u32 = 8191;

/// `0-3,6` as numbers, in ascending order, each once; nothing when it is not such a list.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last <= CPU_MAX).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    let mut cpus: Vec<u32> = ranges?.into_iter().flatten().collect();
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

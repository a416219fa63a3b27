//! Samples: what was seen. Raw and mergeable; every figure in a report is recomputed from them.

mod below;
mod bulk;
mod bytes;
mod group_limit;
mod histogram;
mod hosts;
mod observation;
pub use crate::graph::{Below, Join};
pub use below::{Array, Cost, LeastMost, Moves};
pub use bulk::{INTERVAL_BITS, MEMBER_BITS, Parted};
pub use bytes::Malformed;
pub use group_limit::GroupLimit;
pub use histogram::{Bucket, Histogram, rank};
pub use hosts::{HostSamples, Skew};
pub use observation::{
    AsBuilt, CallUse, ConnectionUse, CoreUse, DeviceObservation, DiskUse, Encryption, ExceededInterval,
    GroupMemory, GroupQuota, InterruptUse, JobsBeside, LimitsExceeded, MemberObservation, MemoryUse,
    NetworkUse, Observation, ObservedInterval, OtherActivity, OtherKind, ProcessorUser, RemoteUse, TcpUse,
};

use crate::metric::Figure;
use crate::per_op::PerOp;
use crate::units::{Nanos, UnixTime};
use crate::workload::{IoEngine, SteadyResult};
use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, SubAssign};

/// Operations and bytes completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Operations that completed.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
}

impl Count {
    /// This and `more` of them.
    #[must_use]
    pub fn plus(self, more: Count) -> Count {
        Count { ops: self.ops.saturating_add(more.ops), bytes: self.bytes.saturating_add(more.bytes) }
    }
}

impl PerOp<Count> {
    /// This and `more` of them.
    #[must_use]
    pub fn plus(self, more: PerOp<Count>) -> PerOp<Count> {
        PerOp { read: self.read.plus(more.read), write: self.write.plus(more.write) }
    }

    /// Reads and writes together.
    pub fn total(self) -> Count {
        self.read.plus(self.write)
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Count) {
        self.ops += more.ops;
        self.bytes += more.bytes;
    }
}

impl SubAssign for Count {
    fn sub_assign(&mut self, less: Count) {
        self.ops -= less.ops;
        self.bytes -= less.bytes;
    }
}

/// Counts and latencies of one operation kind over a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OpSamples {
    /// Completed operations and bytes.
    pub count: Count,
    /// Latency in nanoseconds: from submission (closed loop) or intended start (open loop) to completion.
    pub latency: Histogram,
    /// Open loop only: latency from the actual submission.
    pub service: Option<Histogram>,
}

/// One member of the array over a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MemberSamples {
    /// Name of the member's volume.
    pub name: String,
    /// What it completed, and when.
    pub ops: PerOp<OpSamples>,
    /// Errors it returned, by errno name, for example `EIO`.
    pub errors: Vec<ErrorCount>,
    /// What its volume model knows (shaped and simulated volumes only): the truth, for evidence and tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<crate::volume::ModelReport>,
}

/// How often one error was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// Name, for example `EIO`, `EAGAIN`, `short`.
    pub name: String,
    /// How often it came.
    pub count: u64,
}

/// One interval of the series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// End of the interval, from the start of the measurement.
    pub end: Nanos,
    /// The array as a whole.
    pub array: PerOp<Count>,
    /// Latency of all operations that completed in it.
    pub latency: Histogram,
    /// Each member, in the order of [`TrialSamples::members`].
    pub members: Vec<PerOp<Count>>,
}

/// What the process has used since its start, or while something ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessUse {
    /// Context switches, voluntary and not.
    pub context_switches: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
}

impl ProcessUse {
    /// From `earlier` to `self`.
    pub fn since(self, earlier: ProcessUse) -> ProcessUse {
        ProcessUse {
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
        }
    }
}

/// CPU used during the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuUse {
    /// User time of the load's threads, including kernel helper threads it caused where visible.
    pub load_user: Nanos,
    /// System time of the same.
    pub load_system: Nanos,
    /// Busy time of the whole host, summed over cores.
    pub host_busy: Option<Nanos>,
    /// Time stolen by the hypervisor, summed over cores.
    pub host_steal: Option<Nanos>,
    /// Cores of the host.
    pub cores: u32,
    /// Largest busy share of a single load thread, 0 to 1000 per mille.
    pub busiest_thread_permille: Option<u32>,
    /// Largest share of the time that a single load thread was ready to run and had no processor, 0 to 1000 per mille.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_waiting_permille: Option<u32>,
    /// Largest share of the time that a single load thread ran or waited to run, 0 to 1000 per mille: the rest it slept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_idle_permille: Option<u32>,
}

/// How the engine carried a trial out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Execution {
    /// How the kernel was asked, which may differ from what the workload says; absent where nobody asked a kernel.
    pub ioengine: Option<IoEngine>,
    /// Threads of each job; 0 where unknown.
    pub threads: u32,
    /// Operations that had begun when the measurement ended; no other figure contains them.
    pub unfinished: u64,
    /// Latency in nanoseconds of each fsync and fdatasync between the operations, which are no operations themselves.
    pub syncs: Histogram,
    /// How much later than it could the engine submitted an operation that had its instant, in nanoseconds: the instant, or
    /// when there was a place in the queue if that came later. The engine's own fault, and part of each latency.
    #[serde(skip_serializing_if = "Histogram::is_empty")]
    pub lateness: Histogram,
    /// How long an operation that had its instant waited for a place in the queue (`iodepth`), in nanoseconds: with the lateness and
    /// the service time it makes up the latency.
    #[serde(skip_serializing_if = "Histogram::is_empty")]
    pub slot_waits: Histogram,
    /// Operations that failed and did not end it; no other figure contains them.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// The error number of the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<i32>,
    /// Whether it became steady, where that was to end it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyResult>,
    /// What the search for the most load that keeps a latency has come to, where the trial was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<DepthFound>,
    /// The measured time of all its steps together, where the trial was such a search; its samples are those of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searched: Option<Nanos>,
    /// What the program that was the load printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<(Figure, f64)>,
}

/// What a search for the most load that keeps a latency has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "conclusion", content = "iodepth")]
pub enum DepthFound {
    /// This is the largest depth that keeps the latency, of those up to the workload's.
    Found(u32),
    /// Not even one operation in flight keeps it.
    None,
    /// It is not over; this depth has kept it so far, 0 for none.
    Open(u32),
}

/// The engine's own lateness is told when it is more than this part of a latency.
const LATE: f64 = 0.1;

impl PerOp<OpSamples> {
    /// Operations and bytes that completed, of reads and of writes.
    pub fn counts(&self) -> PerOp<Count> {
        PerOp { read: self.read.count, write: self.write.count }
    }

    /// Latency of both together.
    pub fn latency(&self) -> Histogram {
        let mut all = self.read.latency.clone();
        all.merge(&self.write.latency);
        all
    }
}

impl TrialSamples {
    /// Latency of all operations, reads and writes together, as the application saw it.
    pub fn latency(&self) -> Histogram {
        let mut all = self.array.read.latency.clone();
        all.merge(&self.array.write.latency);
        all
    }

    /// That the engine was late to submit, where that matters: the median or the 99th percentile of its lateness is more
    /// than a tenth of what is reported.
    pub fn own_lateness(&self) -> Option<String> {
        let late = &self.execution.lateness;
        let latency = self.latency();
        let percentile =
            [50.0, 99.0].into_iter().find(|p| match (late.percentile(*p), latency.percentile(*p)) {
                (Some(late), Some(all)) => late as f64 > LATE * all as f64,
                _ => false,
            })?;
        Some(format!(
            "operations were submitted late by more than a tenth of the latency (p{percentile}), of which that is a part: \
             the service time has none of it; leave each job a core, and one beside"
        ))
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Execution {
    fn is_default(&self) -> bool {
        *self == Execution::default()
    }
}

/// Everything that one trial recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialSamples {
    /// Start of the measurement.
    pub started_unix: UnixTime,
    /// Length of the measured window.
    pub elapsed: Nanos,
    /// Nominal length of one interval of `series`.
    pub interval: Nanos,
    /// The array as a whole: what the application sees.
    pub array: PerOp<OpSamples>,
    /// Each leaf volume that the design uses.
    pub members: Vec<MemberSamples>,
    /// The trial in intervals.
    pub series: Vec<Interval>,
    /// CPU time used during the measurement.
    pub cpu: CpuUse,
    /// Mean number of operations in flight that the application kept (Little's law input), when measured.
    pub mean_in_flight: Option<f64>,
    /// How it was carried out.
    #[serde(default, skip_serializing_if = "Execution::is_default")]
    pub execution: Execution,
    /// What was seen around it: devices, host, others; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Box<Observation>>,
    /// What each host did, where several were at work at once; those of a session that knows hosts, one too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostSamples>,
    /// Things the reader must know, for example that O_DIRECT was refused.
    pub notes: Vec<String>,
}

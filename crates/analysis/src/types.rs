//! What the analysis says, as data. Reports render it; nothing here computes.

use ebbtide_model::metric::Metric;
use ebbtide_model::samples::Join;
use serde::{Deserialize, Serialize};

/// A median with its exact order-statistic interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Trials it rests on.
    pub trials: u32,
    /// In the metric's unit.
    pub median: f64,
    /// Interval; absent below the least number of trials for `ci_level`.
    pub interval: Option<(f64, f64)>,
    /// Level asked for, for example 0.95.
    pub ci_level: f64,
}

impl Estimate {
    /// Half the interval's width relative to the median; `None` without an interval or at median 0.
    pub fn relative_half_width(&self) -> Option<f64> {
        let (low, high) = self.interval?;
        (self.median > 0.0).then(|| (high - low) / 2.0 / self.median)
    }
}

/// A member's part in a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberShare {
    /// The name of the member's volume.
    pub name: String,
    /// Its share of the bytes that all members moved, 0 to 1, over all trials; absent when nothing moved.
    pub share: Option<f64>,
    /// Bytes per second, median over trials.
    pub throughput: f64,
    /// Operations per second, median over trials.
    pub iops: f64,
    /// Median latency in nanoseconds, over all trials together.
    pub lat_p50: Option<f64>,
    /// 99th percentile of latency in nanoseconds, over all trials together.
    pub lat_p99: Option<f64>,
    /// Mean operations in flight on it (its rate times its mean latency), median over trials.
    pub in_flight: Option<f64>,
    /// Errors it returned, over all trials.
    pub errors: u64,
}

/// An array that was there before the trial, below members of a design: what its devices did, as the kernel counted it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArrayBelow {
    /// Its name, for example `md0`.
    pub name: String,
    /// Members of the design that rest on it.
    pub members: Vec<String>,
    /// How it is put together.
    pub join: Join,
    /// Devices that it lacks.
    pub missing: u32,
    /// What it is made of.
    pub devices: Vec<DeviceShare>,
}

/// A device's part in an array below.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceShare {
    /// Its kernel name.
    pub name: String,
    /// Its share of the bytes that all devices of the array moved, 0 to 1, over all trials; absent when nothing moved.
    pub share: Option<f64>,
    /// Bytes per second, median over trials.
    pub throughput: f64,
    /// Requests per second, median over trials.
    pub iops: f64,
    /// Mean time of a request in nanoseconds (`await`), median over trials; absent when there was none.
    pub wait: Option<f64>,
    /// Mean requests in flight (`aqu-sz`), median over trials.
    pub in_flight: Option<f64>,
    /// Share of the time with a request in flight (`%util`), 0 to 1, median over trials.
    pub busy: Option<f64>,
}

/// One design under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesignResult {
    /// Name of the design.
    pub design: String,
    /// Name of the workload.
    pub workload: String,
    /// Metrics that the trials carried, in the order of [`Metric::ALL`].
    pub metrics: Vec<(Metric, Estimate)>,
    /// The metric that decided when to stop.
    pub primary: Metric,
    /// Whether the primary metric's interval is as narrow as asked; `None` without an interval.
    pub precise: Option<bool>,
    /// Whether the trials ran in a steady state: most of those that could be judged; `None` when none could.
    pub steady: Option<bool>,
    /// Members, in the order of the experiment's volumes.
    pub members: Vec<MemberShare>,
    /// Arrays that were there before the trials, below the members; upper ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<ArrayBelow>,
    /// What limits it, the best supported cause first; never empty when trials ran.
    pub verdicts: Vec<Verdict>,
    /// The other causes that were looked for, each with the reason for which it is not asserted.
    #[serde(default)]
    pub ruled_out: Vec<RuledOut>,
    /// Trials that gave samples (as a candidate; the control's second runs are not in it).
    pub trials: u32,
    /// Trials that failed, with the reason.
    pub failed: Vec<String>,
}

impl DesignResult {
    /// The estimate of `metric`.
    pub fn metric(&self, metric: Metric) -> Option<&Estimate> {
        self.metrics.iter().find(|(m, _)| *m == metric).map(|(_, estimate)| estimate)
    }
}

/// What a comparison allows to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Better than the control: the interval excludes 1 on the good side.
    Faster,
    /// Worse than the control: the interval excludes 1 on the bad side.
    Slower,
    /// The interval contains 1 and is as narrow as asked: a difference larger than that would have shown.
    NoDifference,
    /// The interval contains 1 and is wide, or there is none: more rounds are needed.
    Inconclusive,
}

/// A design against the control, paired by round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the design, whose figures are the numerator.
    pub design: String,
    /// Name of the control, whose figures are the denominator.
    pub control: String,
    /// Name of the workload that both ran.
    pub workload: String,
    /// What is compared.
    pub metric: Metric,
    /// Median over rounds of design / control.
    pub ratio: f64,
    /// Exact interval of that median; absent below the least number of rounds.
    pub interval: Option<(f64, f64)>,
    /// Level of the interval.
    pub ci_level: f64,
    /// Rounds in which both ran.
    pub rounds: u32,
    /// What may be said.
    pub conclusion: Conclusion,
}

/// The control against itself, paired by round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AaPair {
    /// Name of the control.
    pub design: String,
    /// Name of the workload.
    pub workload: String,
    /// What is compared.
    pub metric: Metric,
    /// Median over rounds of second run / first run.
    pub ratio: f64,
    /// Exact interval of that median; absent below the least number of rounds.
    pub interval: Option<(f64, f64)>,
    /// Level of the interval.
    pub ci_level: f64,
    /// Rounds in which both ran.
    pub rounds: u32,
    /// Whether the interval contains 1, as it must; `None` without an interval.
    pub same: Option<bool>,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// The A/A interval excludes 1.
    AaDiffers,
    /// An interval is wider than asked for.
    NotReached,
    /// Too few trials for any interval.
    TooFewTrials,
    /// Trials did not run in a steady state.
    NotSteady,
    /// Trials failed.
    TrialsFailed,
    /// A cache may have answered.
    Cache,
    /// Rounds depend on one another (autocorrelation).
    Dependent,
    /// Raised while running.
    Session,
}

/// Something that a reader must know before trusting the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// What it concerns, for example `stripe-8 under randread`; absent for the whole session.
    pub subject: Option<String>,
    /// What is the matter.
    pub message: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// Everything that the analysis says of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Analysis {
    /// Each design under each workload, in the experiment's order, designs first.
    pub results: Vec<DesignResult>,
    /// Each design but the control against the control, per workload and metric.
    pub comparisons: Vec<Comparison>,
    /// The control against itself, per workload and metric.
    pub aa: Vec<AaPair>,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
}

/// What limits a design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// One slow member drags the array.
    Member,
    /// A volume's own limit (shape or catalogue) is reached.
    VolumeLimit,
    /// A rate that somebody set is reached.
    RateLimit,
    /// The link that the volumes share is full.
    InstanceLimit,
    /// The host's CPU, or the tool itself.
    Cpu,
    /// The load waits for memory to be freed.
    Memory,
    /// Requests to a file server wait at the client before they are sent.
    RemoteQueue,
    /// One write at a time, each made durable before the next.
    SyncWrites,
    /// The queue of a disk holds fewer requests than are asked for.
    QueueLimit,
    /// Too few operations in flight.
    Concurrency,
    /// Requests are split or too small.
    RequestSize,
    /// An array of parity updates stripes in part, for which it reads.
    PartialStripe,
    /// Readahead is too small.
    Readahead,
    /// A cache answered, not the volume.
    Cache,
    /// Burst credits ran out.
    Burst,
    /// A cache that takes writes was full.
    WriteCache,
    /// A device swings between two speeds by itself.
    DeviceWaves,
    /// Blocks were touched for the first time.
    FirstTouch,
    /// Something else used the devices.
    Background,
    /// Members share one disk.
    SharedDevice,
    /// Nothing that the rules know.
    Unknown,
}

impl VerdictKind {
    /// Name as in JSON and as the file name below docs/verdicts.
    pub const fn name(self) -> &'static str {
        match self {
            VerdictKind::Member => "member",
            VerdictKind::VolumeLimit => "volume-limit",
            VerdictKind::RateLimit => "rate-limit",
            VerdictKind::InstanceLimit => "instance-limit",
            VerdictKind::Cpu => "cpu",
            VerdictKind::Memory => "memory",
            VerdictKind::RemoteQueue => "remote-queue",
            VerdictKind::SyncWrites => "sync-writes",
            VerdictKind::QueueLimit => "queue-limit",
            VerdictKind::Concurrency => "concurrency",
            VerdictKind::RequestSize => "request-size",
            VerdictKind::PartialStripe => "partial-stripe",
            VerdictKind::Readahead => "readahead",
            VerdictKind::Cache => "cache",
            VerdictKind::Burst => "burst",
            VerdictKind::WriteCache => "write-cache",
            VerdictKind::DeviceWaves => "device-waves",
            VerdictKind::FirstTouch => "first-touch",
            VerdictKind::Background => "background",
            VerdictKind::SharedDevice => "shared-device",
            VerdictKind::Unknown => "unknown",
        }
    }
}

/// A figure that supports a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What the figure is, for example "iops of vol3 against its limit".
    pub what: String,
    /// In `unit`.
    pub value: f64,
    /// Its unit, for example `bytes/s`, `ns`, `share`.
    pub unit: String,
    /// What it is compared with, in the same unit.
    pub reference: Option<f64>,
}

/// How the limit that a verdict asserts is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The experiment or the catalogue says it.
    Declared,
    /// The device reports it.
    Reported,
    /// From what was measured: nobody said it.
    Inferred,
}

/// What limits a design under a workload, and why we say so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What is asserted.
    pub kind: VerdictKind,
    /// Of a limit: how it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// Confidence, 0 to 1.
    pub confidence: f64,
    /// How much of the gap between what is and what the next limit allows this cause explains, 0 to 1;
    /// verdicts are ranked by it.
    #[serde(default)]
    pub explains: f64,
    /// The sentence a user reads.
    pub sentence: String,
    /// The figures that show it, each beside what it is to be compared with.
    pub evidence: Vec<Evidence>,
}

/// A cause that was looked for in vain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuledOut {
    /// What is not asserted.
    pub kind: VerdictKind,
    /// Why it is not asserted: a clause that a user reads.
    pub why: String,
    /// What was seen; the reference is what it would have had to reach.
    pub evidence: Vec<Evidence>,
}

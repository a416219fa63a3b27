//! What the analysis says, as data. Reports render it; nothing here computes.

use crate::best::Standing;
use crate::conditions::Conditioned;
use crate::factors::Factors;
use crate::judged::{RuledOut, Verdict};
use crate::race::Raced;
use crate::resources::{Lasting, Row};
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
    /// Kernel name of the device, such as `nvme1n1`.
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
    /// Metrics that the trials carried, in the order of [`Metric::of`].
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
    /// How busy each resource was, what waited for it, and what the short runs gained when it was changed.
    #[serde(default)]
    pub resources: Vec<Row>,
    /// What is above the rate that lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<Lasting>,
    /// Trials that gave samples (as a candidate; the control's second runs are not in it).
    pub trials: u32,
    /// Trials that failed, with the reason.
    pub failed: Vec<String>,
    /// What came of what the workload asks for beside its operations.
    #[serde(default, skip_serializing_if = "Conditioned::is_nothing")]
    pub conditioned: Conditioned,
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
    /// Better than the control by more than the indifference margin: the whole interval is.
    Faster,
    /// Worse than the control by more than the indifference margin: the whole interval is.
    Slower,
    /// Neither, and the interval is as near to 1 as asked: a larger difference would have shown.
    NoDifference,
    /// Neither, and the interval is wide, or there is none: more rounds are needed.
    Inconclusive,
    /// Of a metric by which the workload is not judged: a figure, of which nothing is said.
    NotJudged,
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
    /// The figure that is compared.
    pub metric: Metric,
    /// Design / control: the centre over rounds.
    pub ratio: f64,
    /// Interval of that; absent below the least number of rounds.
    pub interval: Option<(f64, f64)>,
    /// Level at which the intervals of the whole family hold together.
    pub ci_level: f64,
    /// Comparisons in the family; 1 for a metric that is not judged.
    #[serde(default = "alone")]
    pub family: usize,
    /// Correlation of each round's ratio with the one before, where it has widened the interval.
    #[serde(default)]
    pub correlation: Option<f64>,
    /// Rounds in which both ran.
    pub rounds: u32,
    /// What may be said.
    pub conclusion: Conclusion,
}

impl Comparison {
    /// How many times as good the design is as the other: latencies count the other way round.
    pub fn speedup(&self) -> f64 {
        if self.metric.lower_is_better() { 1.0 / self.ratio } else { self.ratio }
    }
}

fn alone() -> usize {
    1
}

/// The control against itself, paired by round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AaPair {
    /// Name of the control.
    pub design: String,
    /// Name of the workload.
    pub workload: String,
    /// The figure of the two.
    pub metric: Metric,
    /// Second run / first run: the centre over rounds.
    pub ratio: f64,
    /// Interval of that; absent below the least number of rounds.
    pub interval: Option<(f64, f64)>,
    /// Level at which the intervals of all workloads hold together, by the metric that decides; of the others each alone.
    pub ci_level: f64,
    /// Rounds in which both ran.
    pub rounds: u32,
    /// Whether it is 1 as far as anybody minds; `None` where the interval is absent or too wide to tell.
    pub same: Option<bool>,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// The A/A interval lies beyond the indifference margin.
    AaDiffers,
    /// An interval is wider than asked for.
    NotReached,
    /// The largest load that was asked for keeps the latency.
    Capped,
    /// Too few trials for any interval.
    TooFewTrials,
    /// Trials did not run in a steady state.
    NotSteady,
    /// A design has trials that failed.
    TrialsFailed,
    /// A cache may have answered.
    Cache,
    /// A figure is above what lasts: credits are being spent.
    AboveLasting,
    /// Rounds depend on one another (autocorrelation).
    Dependent,
    /// A note of the session's own, raised while it ran.
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

impl Warning {
    /// Of a design under a workload.
    pub(crate) fn of(
        kind: WarningKind,
        design: &str,
        workload: &str,
        message: String,
        advice: &str,
    ) -> Warning {
        let subject = Some(format!("{design} under {workload}"));
        Warning { kind, subject, message, advice: Some(advice.to_owned()) }
    }
}

/// Everything that the analysis says of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Analysis {
    /// Each design under each workload, in the experiment's order, designs first.
    pub results: Vec<DesignResult>,
    /// Each design but the control against the control, per workload and metric.
    pub comparisons: Vec<Comparison>,
    /// The design that is ahead under each workload, against the others; none in a sweep.
    #[serde(default)]
    pub standings: Vec<Standing>,
    /// The control against itself, per workload and metric.
    pub aa: Vec<AaPair>,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
    /// What came of the race, where designs raced.
    #[serde(skip)]
    pub race: Option<Raced>,
    /// What mattered among them.
    #[serde(skip)]
    pub factors: Option<Factors>,
}

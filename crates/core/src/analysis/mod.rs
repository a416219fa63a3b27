//! Analysis: estimates with intervals, comparisons, steady state, verdicts. Pure.

use serde::{Deserialize, Serialize};

/// What is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Bytes per second of the array.
    Throughput,
    /// Operations per second of the array.
    Iops,
    /// Median latency in nanoseconds.
    LatP50,
    /// 99th percentile of latency in nanoseconds.
    LatP99,
}

/// A median with its exact order-statistic interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Trials it rests on.
    pub trials: u32,
    /// Median.
    pub median: f64,
    /// Interval; absent below the least number of trials for `ci_level`.
    pub interval: Option<(f64, f64)>,
    /// Level asked for, for example 0.95.
    pub ci_level: f64,
}

/// What limits a design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// One slow member drags the array.
    Member,
    /// A volume's own limit (shape or catalogue) is reached.
    VolumeLimit,
    /// The link that the volumes share is full.
    InstanceLimit,
    /// The host's CPU, or the tool itself.
    Cpu,
    /// Too few operations in flight.
    Concurrency,
    /// Requests are split or too small.
    RequestSize,
    /// Readahead is too small.
    Readahead,
    /// A cache answered, not the volume.
    Cache,
    /// Burst credits ran out.
    Burst,
    /// Blocks were touched for the first time.
    FirstTouch,
    /// Something else used the devices.
    Background,
    /// Members share one disk.
    SharedDevice,
    /// Nothing that the rules know.
    Unknown,
}

/// A figure that supports a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What the figure is, for example "iops of vol3 against its limit".
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit, for example `bytes/s`, `ns`, `share`.
    pub unit: String,
    /// What it is compared with, in the same unit.
    pub reference: Option<f64>,
}

/// What limits a design under a workload, and why we say so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The kind.
    pub kind: VerdictKind,
    /// Confidence, 0 to 1.
    pub confidence: f64,
    /// The sentence a user reads.
    pub sentence: String,
    /// Figures.
    pub evidence: Vec<Evidence>,
}

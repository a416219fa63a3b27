//! The volume model: a state machine from (operation, instant) to completion instant.
//! The simulator drives it with a virtual clock, the engine with the real one.

use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// A rate limit with burst credits: a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Sustained rate per second (operations or bytes).
    pub rate: f64,
    /// Rate per second while credits last; absent: no burst above `rate`.
    pub burst_rate: Option<f64>,
    /// Credits (operations or bytes) that can be saved up and that a fresh volume starts with.
    pub burst_credits: f64,
}

/// Distribution of the service latency of one operation, without queueing for a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Latency {
    /// Always the same.
    Constant(Nanos),
    /// Lognormal, given by its median and its 99th percentile.
    Lognormal {
        /// Median.
        median: Nanos,
        /// 99th percentile, at least the median.
        p99: Nanos,
    },
}

/// The speed that a volume is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Limit of operations per second.
    pub iops: Option<Limit>,
    /// Limit of bytes per second.
    pub throughput: Option<Limit>,
    /// An operation of more bytes than this counts as several against `iops` (EBS: 256 KiB on SSD).
    pub io_unit: Option<Bytes>,
    /// Service latency of reads.
    pub read_latency: Latency,
    /// Service latency of writes.
    pub write_latency: Latency,
    /// Index of the shared link among the experiment's links.
    pub link: Option<usize>,
}

/// A link that several volumes share (an instance's network to its volumes).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkShape {
    /// Name, unique in its experiment.
    pub name: String,
    /// Limit of operations per second over all its volumes.
    pub iops: Option<Limit>,
    /// Limit of bytes per second over all its volumes.
    pub throughput: Option<Limit>,
}

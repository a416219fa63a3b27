//! What of a trial is estimated and compared.

use crate::workload::{Access, Arrival, Workload};
use serde::{Deserialize, Serialize};

/// A figure of a trial that is estimated and compared.
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

impl Metric {
    /// All of them, in the order in which reports show them.
    pub const ALL: [Metric; 4] = [Metric::Throughput, Metric::Iops, Metric::LatP50, Metric::LatP99];

    /// The metric that suits `workload`.
    ///
    /// In a closed loop the rate is the answer: bytes for sequential access, operations for random access. When
    /// arrivals are given (open loop, or a closed loop held back by a rate) the rate is the question and the 99th
    /// percentile of latency is the answer.
    pub fn natural(workload: &Workload) -> Metric {
        match (workload.arrival, workload.rate, workload.access) {
            (Arrival::Fixed { .. } | Arrival::Poisson { .. }, _, _) | (_, Some(_), _) => Metric::LatP99,
            (Arrival::Closed, None, Access::Sequential) => Metric::Throughput,
            (Arrival::Closed, None, Access::Random) => Metric::Iops,
        }
    }

    /// Name as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput",
            Metric::Iops => "iops",
            Metric::LatP50 => "lat_p50",
            Metric::LatP99 => "lat_p99",
        }
    }

    /// Name of a column: `p99`.
    pub fn short(self) -> &'static str {
        self.name().trim_start_matches("lat_")
    }

    /// Name in text.
    pub const fn in_words(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput",
            Metric::Iops => "operations per second",
            Metric::LatP50 => "median latency",
            Metric::LatP99 => "p99 latency",
        }
    }

    /// Unit of its values.
    pub const fn unit(self) -> &'static str {
        match self {
            Metric::Throughput => "bytes/s",
            Metric::Iops => "ops/s",
            Metric::LatP50 | Metric::LatP99 => "ns",
        }
    }

    /// Whether a smaller value is the better one.
    pub const fn lower_is_better(self) -> bool {
        matches!(self, Metric::LatP50 | Metric::LatP99)
    }
}

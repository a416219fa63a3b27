//! What is asked of a run beside its operations: a latency that it looks for the load of, a steady state that ends it, a rate
//! below which it fails.

use super::{OpKind, SteadyState};
use crate::units::{Bytes, Nanos, format_iops, format_throughput};
use serde::{Deserialize, Serialize};

/// What is asked of a run beside its operations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// The most load is looked for that keeps a latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyTarget>,
    /// It ends when it is steady.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyState>,
    /// It fails when it is slower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// What fails without ending it.
    #[serde(skip_serializing_if = "ContinueOnError::is_default")]
    pub go_on: ContinueOnError,
}

/// Operations that may fail without ending a run (fio's `continue_on_error`), where a device says so of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ContinueOnError {
    /// Whether a read may fail.
    pub read: bool,
    /// Whether a write may fail.
    pub write: bool,
}

impl ContinueOnError {
    fn is_default(&self) -> bool {
        *self == ContinueOnError::default()
    }

    /// Whether it goes on after an operation of this kind has failed.
    pub fn after(self, kind: OpKind) -> bool {
        match kind {
            OpKind::Read => self.read,
            OpKind::Write => self.write,
        }
    }

    /// fio's word for it; nothing for none.
    pub fn name(self) -> Option<&'static str> {
        match (self.read, self.write) {
            (false, false) => None,
            (true, false) => Some("read"),
            (false, true) => Some("write"),
            (true, true) => Some("io"),
        }
    }
}

impl Conditions {
    pub(super) fn is_default(&self) -> bool {
        *self == Conditions::default()
    }

    /// Lengths of time over which rates are looked at while it runs: the intervals of its series have to divide them.
    pub(super) fn steps(&self) -> impl Iterator<Item = Nanos> {
        let steady = self.steady.map(|steady| steady.interval);
        steady.into_iter().chain(self.floor.map(|floor| floor.cycle))
    }
}

/// Rates below which a run fails, of reads and writes together and over all jobs (fio's `rate_min` and `rate_iops_min`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Bytes>,
    /// Operations per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// Over how long a rate is taken (fio's `rate_cycle`).
    pub cycle: Nanos,
}

impl Floor {
    /// Which of its limits so many operations and bytes in one cycle fall short of: what was seen, and the option.
    pub fn missed(&self, ops: u64, bytes: u64) -> Option<(String, &'static str)> {
        let seconds = self.cycle.as_secs_f64();
        let (iops, throughput) = (ops as f64 / seconds, bytes as f64 / seconds);
        let slow = self.throughput.filter(|least| throughput < least.0 as f64).map(|least| {
            let least = format_throughput(least.0 as f64);
            (format!("{}, less than {least}", format_throughput(throughput)), "rate_min")
        });
        slow.or_else(|| {
            let least = self.iops.filter(|least| iops < *least)?;
            Some((
                format!("{} IOPS, less than {} IOPS", format_iops(iops), format_iops(least)),
                "rate_iops_min",
            ))
        })
    }

    /// `at least 1.00 k IOPS in every 1s`.
    pub fn in_words(&self) -> String {
        let rates = [
            self.throughput.map(|least| format_throughput(least.0 as f64)),
            self.iops.map(|least| format!("{} IOPS", format_iops(least))),
        ];
        let rates: Vec<String> = rates.into_iter().flatten().collect();
        format!("at least {} in every {}", rates.join(" and "), self.cycle)
    }
}

/// A latency that most operations are to keep (fio's `latency_target`). The largest `iodepth` up to the workload's is looked
/// for that keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyTarget {
    /// The latency; 0 for none.
    pub target: Nanos,
    /// How long each depth is tried, longer than `target`.
    pub window: Nanos,
    /// Percentage of the operations that have to keep it, above 0 and up to 100.
    pub percentile: f64,
    /// Whether the rest of the runtime is run at the depth that was found.
    pub run: bool,
}

impl Default for LatencyTarget {
    /// None; where there is one, all operations of a second are to keep it.
    fn default() -> Self {
        LatencyTarget { target: Nanos(0), window: Nanos::from_secs(1), percentile: 100.0, run: false }
    }
}

/// A search that falls back more often than this, for every time that its depth can be halved, does not end by itself.
const FALLS_BACK: u64 = 2;

impl LatencyTarget {
    /// Time for a search up to the depth `most`: to double from 1, to halve what is between, to confirm what was found, and as
    /// much again and more for what is not confirmed.
    pub fn longest(&self, most: u32) -> Nanos {
        let halvings = u64::from(most.max(1).ilog2()) + 1;
        self.window.times((2 * halvings + 2) * FALLS_BACK)
    }

    /// `99.9% of the operations within 500us`.
    pub fn in_words(&self) -> String {
        match self.percentile >= 100.0 {
            true => format!("all operations within {}", self.target),
            false => format!("{}% of the operations within {}", self.percentile, self.target),
        }
    }
}

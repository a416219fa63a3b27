//! What of a trial is estimated and compared.

use crate::workload::{Access, Arrival, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A figure that a program prints. Figures with the same definition are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "FigureDefinition", from = "FigureDefinition")]
pub struct Figure(&'static FigureDefinition);

/// What a figure of a program is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FigureDefinition {
    /// Its name, unique among those of its workload.
    pub name: String,
    /// Its unit, as it stands behind a number; empty where it has none.
    pub unit: String,
    /// Whether a smaller value is the better one.
    pub lower_is_better: bool,
}

/// Definitions that are known: each is kept once, for as long as the process runs.
static KNOWN: Mutex<BTreeSet<&'static FigureDefinition>> = Mutex::new(BTreeSet::new());

impl From<FigureDefinition> for Figure {
    fn from(definition: FigureDefinition) -> Figure {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&definition) {
            return Figure(known);
        }
        let kept: &'static FigureDefinition = Box::leak(Box::new(definition));
        known.insert(kept);
        Figure(kept)
    }
}

impl From<Figure> for FigureDefinition {
    fn from(Figure(definition): Figure) -> FigureDefinition {
        definition.clone()
    }
}

impl Figure {
    /// What it is.
    pub const fn definition(self) -> &'static FigureDefinition {
        self.0
    }
}

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
    /// Wall time of a program in nanoseconds.
    Time,
    /// A figure that a program prints.
    Own(Figure),
}

impl Metric {
    /// Those of operations, in the order in which reports show them.
    pub const ALL: [Metric; 4] = [Metric::Throughput, Metric::Iops, Metric::LatP50, Metric::LatP99];

    /// Those that trials of `workload` have, in the order in which reports show them.
    pub fn of(workload: &Workload) -> Vec<Metric> {
        workload.program.as_ref().map_or_else(|| Metric::ALL.to_vec(), |program| program.metrics())
    }

    /// The metric of `workload` that is called `name`; of latencies also without what JSON has before their percentile.
    pub fn called(name: &str, workload: &Workload) -> Option<Metric> {
        Metric::of(workload).into_iter().find(|metric| metric.is_called(name))
    }

    /// Whether `name` is its own, or that of its column.
    pub fn is_called(self, name: &str) -> bool {
        self.name() == name || self.short() == name
    }

    /// The metric that suits `workload`.
    ///
    /// In a closed loop the rate is the answer: bytes for sequential access, operations for random access. When
    /// arrivals are given (open loop, or a closed loop held back by a rate) the rate is the question and the 99th
    /// percentile of latency is the answer.
    ///
    /// A program's is the first of its figures.
    pub fn natural(workload: &Workload) -> Metric {
        if workload.program.is_some() {
            return Metric::of(workload).first().copied().unwrap_or(Metric::Time);
        }
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
            Metric::Time => "time",
            Metric::Own(figure) => figure.definition().name.as_str(),
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
            Metric::Time => "wall time",
            Metric::Own(figure) => figure.definition().name.as_str(),
        }
    }

    /// Unit of its values.
    pub const fn unit(self) -> &'static str {
        match self {
            Metric::Throughput => "bytes/s",
            Metric::Iops => "ops/s",
            Metric::LatP50 | Metric::LatP99 | Metric::Time => "ns",
            Metric::Own(figure) => figure.definition().unit.as_str(),
        }
    }

    /// Whether a smaller value is the better one.
    pub const fn lower_is_better(self) -> bool {
        match self {
            Metric::Throughput | Metric::Iops => false,
            Metric::LatP50 | Metric::LatP99 | Metric::Time => true,
            Metric::Own(figure) => figure.definition().lower_is_better,
        }
    }
}

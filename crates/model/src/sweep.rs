//! Sweeps: what may vary among the designs of an experiment, what counts, and how sure the best of them must be. How they are written
//! is `ebbtide-experiment`'s, how they race `ebbtide-analysis`'.

use crate::metric::Metric;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use strum::{AsRefStr, EnumString, VariantNames};

/// What may vary, and what counts. The designs that it makes are among those of its experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Name of the design that it varies.
    pub template: String,
    /// Index of the workload that decides.
    pub workload: usize,
    /// What varies, in the order of the file.
    pub factors: Vec<Factor>,
    /// The designs that it made.
    pub arms: Vec<SweptDesign>,
    /// What makes one design better than another.
    pub objective: Objective,
    /// Ratio, less 1, within which two designs are as good as each other, for example 0.02.
    pub indifference: f64,
    /// Probability with which the best design may be dropped, in (0, 1), for example 0.05.
    pub error: f64,
    /// The most it may cost, as a share of the I/O of the full grid (every design in the most rounds), in (0, 1]; nothing: no
    /// such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
    /// What is built anew for which trials, where designs are built at all.
    #[serde(default)]
    pub builds: Builds,
}

/// What is built anew for which trials of a sweep. It is the order of trials too: those that share a build follow one another.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, AsRefStr, EnumString, VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Builds {
    /// Each trial has a build of its own, or none has any: the order of trials is free.
    #[default]
    PerTrial,
    /// In each round designs that differ only in what can be set on a standing array take turns on one build
    /// ([`Design::shares_build`](crate::experiment::Design::shares_build)).
    Shared,
}

/// One thing that varies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// The field of the design, or `workload.FIELD`.
    pub name: String,
    /// What it may be, as it is written in the names of designs.
    pub levels: Vec<String>,
}

/// A design that a sweep made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweptDesign {
    /// Index of the design in its experiment.
    pub design: usize,
    /// Its level of each factor; nothing where the factor does not apply to it.
    pub levels: Vec<Option<usize>>,
    /// What is asked of it in place of the sweep's workload, where fields of that vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Box<Workload>>,
    /// US dollars a month for its volumes, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

/// What makes a design good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The best of one figure.
    Best(Goal),
    /// The best of one figure among the designs that keep within limits.
    Within {
        /// What decides among those that do.
        best: Goal,
        /// What each must keep.
        limits: Vec<Limit>,
    },
    /// The greatest product of figures, each to the power of its weight.
    Weighted(Vec<(Goal, f64)>),
    /// All designs to which none is preferable in every figure.
    Pareto(Vec<Goal>),
}

impl Objective {
    /// The one figure that decides, of a front its first; nothing where several together do.
    pub fn goal(&self) -> Option<Goal> {
        match self {
            Objective::Best(goal) | Objective::Within { best: goal, .. } => Some(*goal),
            Objective::Pareto(goals) => goals.first().copied(),
            Objective::Weighted(_) => None,
        }
    }
}

/// A figure that can be good or bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// A metric of the trials.
    Measured(Metric),
    /// US dollars a month by the catalogue; less is better.
    Price,
}

impl Goal {
    /// Whether a smaller value is the better one.
    pub const fn lower_is_better(self) -> bool {
        match self {
            Goal::Measured(metric) => metric.lower_is_better(),
            Goal::Price => true,
        }
    }

    /// Name as in files and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Goal::Measured(metric) => metric.name(),
            Goal::Price => "price",
        }
    }
}

/// A limit that a design must keep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The figure that is limited.
    pub of: Goal,
    /// In the unit of the figure: the most where less is better, otherwise the least.
    pub bound: f64,
}

impl Limit {
    /// Whether `value` keeps it.
    pub fn keeps(&self, value: f64) -> bool {
        if self.of.lower_is_better() { value <= self.bound } else { value >= self.bound }
    }
}

impl Sweep {
    /// The arm that `design` is, where the sweep made it.
    pub fn arm(&self, design: usize) -> Option<&SweptDesign> {
        self.arms.iter().find(|arm| arm.design == design)
    }
}

/// What a level of a design is said to do to it in a simulation, where there is no model of it. Planted by the author of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Planted {
    /// Operations and bytes in the same time, as a multiple of what the array does without it; above 0.
    pub rate: f64,
    /// Latency of an operation, as a multiple likewise.
    pub latency: f64,
}

impl Default for Planted {
    fn default() -> Self {
        Planted { rate: 1.0, latency: 1.0 }
    }
}

impl Planted {
    /// Both of them at once.
    pub fn and(self, other: Planted) -> Planted {
        Planted { rate: self.rate * other.rate, latency: self.latency * other.latency }
    }
}

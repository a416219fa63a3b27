//! Experiments: which volumes, which arrays of them, which loads, and how sure the answer must be. How they are written is
//! `ebbtide-experiment`'s.

mod environment;
mod feasible;

pub use environment::{Environment, Host, Resync};

use crate::layout::LayoutNode;
use crate::metric::Metric;
use crate::stack::Stack;
use crate::units::{Bytes, Nanos};
use crate::volume::{LinkShape, Shape};
use crate::workload::{Stop, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A validated experiment: every name is resolved, every geometry possible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Name of the experiment.
    pub name: String,
    /// What it is for, in the author's words.
    pub description: Option<String>,
    /// Volumes; layouts refer to them by index.
    pub volumes: Vec<Volume>,
    /// Shared links; shapes refer to them by index.
    pub links: Vec<LinkShape>,
    /// Candidate arrays.
    pub designs: Vec<Design>,
    /// Index of the design that the others are compared with.
    pub control: usize,
    /// What is measured on each design.
    pub workloads: Vec<Workload>,
    /// How sure the answer must be.
    pub answer: Answer,
    /// What a simulated array is surrounded by.
    #[serde(default)]
    pub environment: Environment,
}

/// A name that designs use, and the bytes that are behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Name, unique in its experiment.
    pub name: String,
    /// Where its bytes are.
    pub source: VolumeSource,
    /// Usable size; absent for existing files and devices whose own size counts.
    pub size: Option<Bytes>,
    /// Speed that it is given; absent: as fast as it is.
    pub shape: Option<Shape>,
}

/// Where a volume's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeSource {
    /// A file that the run creates and removes; in the run's own directory when `directory` is absent.
    NewFile {
        /// Directory to create it in.
        directory: Option<PathBuf>,
    },
    /// An existing file; its content is overwritten only with `--destroy`.
    ExistingFile {
        /// Where the file is.
        path: PathBuf,
    },
    /// A block device; its content is overwritten only with `--destroy` and its stable id.
    Device {
        /// Its path, best a stable one below /dev/disk/by-id.
        path: PathBuf,
        /// Stable id that must match before anything is written.
        id: Option<String>,
    },
}

/// One candidate array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Name, unique in its experiment.
    pub name: String,
    /// The array over volumes.
    pub layout: LayoutNode,
    /// What the kernel builds beside the layout.
    #[serde(default)]
    pub stack: Stack,
}

impl Design {
    /// Indices of the volumes that it takes: the members of its layout, then its swap spaces.
    pub fn volumes(&self) -> Vec<usize> {
        let swap = self.stack.swap.iter().flat_map(|swap| &swap.members);
        std::iter::once(&self.layout).chain(swap).flat_map(LayoutNode::volumes).collect()
    }

    /// The same design over other volumes: `of` says which takes the place of each.
    pub fn with_volumes(&self, of: &impl Fn(usize) -> usize) -> Design {
        let mut design = self.clone();
        design.layout = design.layout.with_volumes(of);
        for member in design.stack.swap.iter_mut().flat_map(|swap| &mut swap.members) {
            *member = member.with_volumes(of);
        }
        for volume in design.stack.arrays.iter_mut().flat_map(|array| &mut array.write_mostly) {
            *volume = of(*volume);
        }
        design
    }
}

impl Experiment {
    /// Runs that nobody compares: a design without a stack for each of `designs`, names and layouts, over `volumes`;
    /// the workloads come later.
    pub fn once(name: &str, volumes: Vec<Volume>, designs: Vec<(String, LayoutNode)>) -> Experiment {
        let design = |(name, layout)| Design { name, layout, stack: Stack::default() };
        Experiment {
            name: name.to_owned(),
            description: None,
            volumes,
            links: Vec::new(),
            designs: designs.into_iter().map(design).collect(),
            control: 0,
            workloads: Vec::new(),
            answer: Answer::once(),
            environment: Environment::default(),
        }
    }

    /// Indices of the volumes that any design takes.
    pub fn used_volumes(&self) -> BTreeSet<usize> {
        self.designs.iter().flat_map(Design::volumes).collect()
    }

    /// Time of one round: warm-up, measurement and rest of every workload on every design, and on the control once
    /// more, without preparation; nothing when a workload ends by size.
    pub fn round_time(&self) -> Option<Nanos> {
        let per_design = self.workloads.iter().try_fold(Nanos(0), |sum, workload| match workload.stop {
            Stop::Runtime(runtime) => Some(sum.plus(workload.warm_up).plus(runtime).plus(self.answer.rest)),
            Stop::Size(_) => None,
        })?;
        Some(Nanos(per_design.0.saturating_mul(self.designs.len() as u64 + 1)))
    }
}

/// How sure the answer must be, and what it may cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Confidence level of the intervals, for example 0.95.
    pub level: f64,
    /// Half-width of the median's interval relative to the median that is narrow enough.
    pub precision: f64,
    /// Least rounds, at least 6 at level 0.95 (below that no interval exists).
    pub trials_min: u32,
    /// Most rounds.
    pub trials_max: u32,
    /// Time after which no new round starts.
    pub budget: Nanos,
    /// Pause between trials, so that credits and caches of one do not colour the next.
    pub rest: Nanos,
    /// What decides, instead of what suits each workload.
    #[serde(default)]
    pub metric: Option<Metric>,
}

impl Answer {
    /// One round, for what runs once and is not compared.
    pub fn once() -> Answer {
        Answer {
            level: 0.95,
            precision: 0.05,
            trials_min: 1,
            trials_max: 1,
            budget: Nanos(0),
            rest: Nanos(0),
            metric: None,
        }
    }
}

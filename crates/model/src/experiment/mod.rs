//! Experiments: which volumes, which arrays of them, which loads, and how sure the answer must be. How they are written is
//! `ebbtide-experiment`'s.

mod environment;
mod feasible;
mod groups;
mod members;
mod most;

pub use environment::{Environment, Host, Resync};
pub use feasible::{least_rounds, least_trials};
pub use groups::unfair;

use crate::catalog::Ordered;
use crate::layout::LayoutNode;
use crate::metric::Metric;
use crate::shown::Shown;
use crate::stack::{ArrayBacking, Filesystem, Stack};
use crate::sweep::{Builds, Sweep};
use crate::units::{Bytes, Nanos};
use crate::volume::{LinkShape, Shape};
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
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
    /// The candidate arrays that are compared.
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
    /// What varies among the designs, where they race.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
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
    /// The order that the speed comes from, where it is that of a type in the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<Ordered>,
    /// The host that its storage is on: what is lost together. [`LOCAL_HOST`] is the machine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The host of volumes that are this machine's own.
pub const LOCAL_HOST: &str = "localhost";

impl Volume {
    /// A volume as fast as it is.
    pub fn new(name: impl Into<String>, source: VolumeSource, size: Option<Bytes>) -> Volume {
        Volume { name: name.into(), source, size, shape: None, ordered: None, host: None }
    }
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
        /// Its path, best a stable one below /dev/disk/by-id; or the name of an image of Ceph ([`crate::rbd`]).
        path: PathBuf,
        /// Stable id that must match before anything is written.
        id: Option<String>,
    },
}

/// An array that is a candidate, with what it is built on.
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
    /// Indices of the volumes that it takes: the members of its layout, those of its cache, then its swap spaces.
    pub fn volumes(&self) -> Vec<usize> {
        let swap = self.stack.swap.iter().flat_map(|swap| &swap.members);
        self.members().into_iter().chain(swap.flat_map(LayoutNode::volumes)).collect()
    }

    /// Its layout in words, or the directory that it is.
    pub fn what(&self) -> String {
        let directory = self.stack.directory.as_ref();
        directory.map_or_else(|| self.layout.to_string(), |path| format!("directory {}", path.shown()))
    }

    /// US dollars a month for those of `volumes` that it takes.
    ///
    /// # Errors
    /// The first one that has no price.
    pub fn price<'v>(&self, volumes: &'v [Volume]) -> Result<f64, &'v Volume> {
        let used = self.volumes().into_iter().filter_map(|index| volumes.get(index));
        let sum: f64 = used
            .map(|volume| volume.ordered.as_ref().and_then(|ordered| ordered.price).ok_or(volume))
            .sum::<Result<_, _>>()?;
        // The order of the volumes must not make one of two equal prices the lower one.
        Ok((sum * 1e6).round() / 1e6)
    }

    /// Those that data go to: the members of its layout, then those of its cache.
    pub fn members(&self) -> Vec<usize> {
        let cache = self.stack.cache.iter().flat_map(|cache| cache.members.iter().copied());
        self.layout.volumes().into_iter().chain(cache).collect()
    }

    /// Whether this design and `other` can stand on one build, one after the other: the same array, encryption and file system, and no
    /// difference but in what is set on an array that stands (scheduler, depth of the queues, readahead) or said at a mount.
    ///
    /// Not with swap, which is the host's while it is on; and mount options of btrfs change what later mounts find (`space_cache=v2`).
    pub fn shares_build(&self, other: &Design) -> bool {
        let fixed = |design: &Design| {
            let stack = &design.stack;
            let is_btrfs = stack.filesystem == Some(Filesystem::Btrfs);
            let arrays = stack.arrays.iter().cloned();
            Stack {
                arrays: arrays
                    .map(|array| ArrayBacking { stripe_cache_size: None, group_thread_cnt: None, ..array })
                    .collect(),
                mount_options: stack.mount_options.clone().filter(|_| is_btrfs),
                scheduler: None,
                queue_depth: None,
                readahead: None,
                ..stack.clone()
            }
        };
        self.stack.swap.is_empty() && self.layout == other.layout && fixed(self) == fixed(other)
    }

    /// The same design over other volumes: `of` says which takes the place of each.
    pub fn with_volumes(&self, of: &impl Fn(usize) -> usize) -> Design {
        let mut design = self.clone();
        design.layout = design.layout.with_volumes(of);
        for member in design.stack.swap.iter_mut().flat_map(|swap| &mut swap.members) {
            *member = member.with_volumes(of);
        }
        for array in &mut design.stack.arrays {
            for volume in array.write_mostly.iter_mut().chain(&mut array.elsewhere) {
                *volume = of(*volume);
            }
        }
        for volume in design.stack.cache.iter_mut().flat_map(|cache| &mut cache.members) {
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
            sweep: None,
        }
    }

    /// What is asked of `design` by `workload`, both by index: the workload, or what a sweep has made of it for that design.
    pub fn load(&self, design: usize, workload: usize) -> Option<&Workload> {
        let varied = self.sweep.as_ref().filter(|sweep| sweep.workload == workload);
        let load = varied.and_then(|sweep| sweep.arm(design)).and_then(|arm| arm.load.as_deref());
        load.or_else(|| self.workloads.get(workload))
    }

    /// The number of each design's build: designs have the same where they can stand on one ([`Design::shares_build`]).
    pub fn builds(&self) -> Vec<usize> {
        let mut firsts: Vec<&Design> = Vec::new();
        let mut builds = Vec::new();
        for design in &self.designs {
            let known = firsts.iter().position(|first| design.shares_build(first));
            builds.push(known.unwrap_or(firsts.len()));
            if known.is_none() {
                firsts.push(design);
            }
        }
        builds
    }

    /// [`builds`](Self::builds) of a sweep whose trials share them.
    pub fn shared_builds(&self) -> Option<Vec<usize>> {
        self.sweep.as_ref().filter(|sweep| sweep.builds == Builds::Shared).map(|_| self.builds())
    }

    /// The order of trials is free: nothing is built, or what is built stays beside all else.
    pub fn builds_nothing_in_turn(&mut self) {
        if let Some(sweep) = &mut self.sweep {
            sweep.builds = Builds::PerTrial;
        }
    }

    /// Time is virtual, and costs nobody anything: it has no budget, unless somebody asked for one.
    pub fn in_virtual_time(&mut self) {
        if !self.answer.budget_asked {
            self.answer.budget = NO_BUDGET;
        }
    }

    /// The same without designs that are directories, which nothing is built for.
    #[must_use]
    pub fn without_directories(&self) -> Experiment {
        let mut built = self.clone();
        built.designs.retain(|design| design.stack.directory.is_none());
        built
    }

    /// Indices of the volumes that any design takes.
    pub fn used_volumes(&self) -> BTreeSet<usize> {
        self.designs.iter().flat_map(Design::volumes).collect()
    }

    /// Time of one round: warm-up, measurement and rest of every workload on every design, and on the control once
    /// more, without preparation; nothing when a workload ends by size.
    pub fn round_time(&self) -> Option<Nanos> {
        let again = self.designs.get(self.control).map(|_| self.control);
        (0..self.designs.len())
            .chain(again)
            .try_fold(Nanos(0), |sum, design| Some(sum.plus(self.time_on(design)?)))
    }

    /// Time of one trial of every workload on `design`, by index: warm-up, measurement and rest, once for those that run at the same
    /// time; nothing when a workload ends by size.
    pub fn time_on(&self, design: usize) -> Option<Nanos> {
        let longest = |group: Range<usize>| {
            let mut loads = group.filter_map(|workload| self.load(design, workload));
            loads.try_fold(Nanos(0), |most, load| Some(most.max(load.time()?)))
        };
        let mut groups = self.groups().into_iter();
        groups.try_fold(Nanos(0), |sum, group| Some(sum.plus(longest(group)?).plus(self.answer.rest)))
    }

    /// What is estimated and compared: of each workload what suits it, where nothing is asked for.
    pub fn metrics(&self) -> Vec<Metric> {
        let decides = |suits: Metric| self.answer.metric.unwrap_or(suits);
        let metrics: BTreeSet<Metric> =
            self.workloads.iter().map(|workload| decides(Metric::natural(workload))).collect();
        metrics.into_iter().collect()
    }

    /// Everything that is asked of any design: the workloads, and what a sweep makes of them.
    pub fn loads(&self) -> impl Iterator<Item = &Workload> {
        let varied = self.sweep.iter().flat_map(|sweep| &sweep.arms).filter_map(|arm| arm.load.as_deref());
        self.workloads.iter().chain(varied)
    }

    /// The same, to be changed.
    pub fn loads_mut(&mut self) -> impl Iterator<Item = &mut Workload> {
        let arms = self.sweep.iter_mut().flat_map(|sweep| &mut sweep.arms);
        self.workloads.iter_mut().chain(arms.filter_map(|arm| arm.load.as_deref_mut()))
    }
}

/// How sure the answer must be, and what it may cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Confidence level of the intervals, for example 0.95.
    pub level: f64,
    /// Half-width of the median's interval relative to the median that is narrow enough.
    pub precision: f64,
    /// Ratio, less 1, up to which two designs are as good as each other: only beyond it one is called faster.
    #[serde(default = "indifference")]
    pub indifference: f64,
    /// Least rounds, at least 6 at level 0.95 (below that no interval exists).
    pub trials_min: u32,
    /// Most rounds that are run.
    pub trials_max: u32,
    /// Time after which no new round starts; [`NO_BUDGET`] where none ends it.
    pub budget: Nanos,
    /// Whether somebody asked for that time.
    #[serde(default)]
    pub budget_asked: bool,
    /// Pause between trials, so that credits and caches of one do not colour the next.
    pub rest: Nanos,
    /// What decides, instead of what suits each workload.
    #[serde(default)]
    pub metric: Option<Metric>,
}

/// The budget of what nothing but its rounds end.
pub const NO_BUDGET: Nanos = Nanos(u64::MAX);

/// The indifference margin where none is given.
pub const INDIFFERENCE: f64 = 0.02;

fn indifference() -> f64 {
    INDIFFERENCE
}

impl Answer {
    /// One round, for what runs once and is not compared.
    pub fn once() -> Answer {
        Answer {
            level: 0.95,
            precision: 0.05,
            indifference: INDIFFERENCE,
            trials_min: 1,
            trials_max: 1,
            budget: Nanos(0),
            budget_asked: true,
            rest: Nanos(0),
            metric: None,
        }
    }
}

//! `ebb bench`: jobs on volumes, each run once, without rounds and without a store.

pub mod describe;
pub mod fio;
pub mod profile;
pub mod runner;
pub mod target;
pub mod verify;

use crate::session::surroundings;
use ebbtide_analysis::{RuledOut, Verdict};
use ebbtide_engine::files::{Fill, Options};
use ebbtide_formats::fio as core_fio;
use ebbtide_model::experiment::{Experiment, Volume};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::session::Rung;
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::Workload;
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct Job {
    pub name: String,
    /// Jobs of one group run at the same time, groups one after the other.
    pub group: u32,
    /// Index of its design in the experiment.
    pub design: usize,
    pub workload: Workload,
    /// The options that it was given, with fio's names, for the results.
    pub options: Vec<(String, String)>,
    /// What the reader must know about it.
    pub notes: Vec<String>,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Volumes and the designs over them; its workloads are those of the jobs.
    pub experiment: Experiment,
    /// The jobs, groups in their order.
    pub jobs: Vec<Job>,
    /// Existing volumes may be overwritten.
    pub destroy: bool,
    /// Existing volumes, by their index, that jobs write; where it is absent, all are when any job writes.
    pub written: Option<Vec<usize>>,
    /// Volumes, by their index, whose files are made under a name of the user's, and stay.
    pub named: Vec<(usize, PathBuf)>,
    /// After a job that runs alone and of which nothing else is known, its target is looked at for a moment under more and
    /// less load; not where later jobs would see what that leaves behind.
    pub ladder: bool,
    /// What is filled before.
    pub fill: Fill,
    /// Seed of everything random.
    pub seed: u64,
}

impl Spec {
    /// What the backend is told of it for the run `name`.
    pub fn options(&self, name: &str) -> Options {
        Options {
            name: name.to_owned(),
            seed: self.seed,
            destroy: self.destroy,
            places: surroundings::places_for_volumes(),
            fill: self.fill.clone(),
            built: false,
            written: self.written.clone(),
            named: self.named.clone(),
        }
    }
}

/// A job that has run.
#[derive(Debug, Clone)]
pub struct Done {
    pub job: Job,
    /// What it ran on, in words.
    pub target: String,
    pub samples: TrialSamples,
    /// What limits it.
    pub verdicts: Vec<Verdict>,
    /// What else was looked for, and why it is not asserted.
    pub ruled_out: Vec<RuledOut>,
    /// What more and less load did for a moment each, where that was tried.
    pub rungs: Vec<Rung>,
    /// What the process used meanwhile.
    pub usage: core_fio::Usage,
    /// When it ended.
    pub ended: Nanos,
    /// Why it failed before its end, and the error number behind that where there is one.
    pub failed: Option<(String, Option<i32>)>,
}

impl Done {
    /// Whether no operation completed.
    pub fn is_empty(&self) -> bool {
        self.samples.array.read.count.ops + self.samples.array.write.count.ops == 0
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Results {
    /// Jobs with samples, in their order.
    pub done: Vec<Done>,
    /// What the reader must know about the volumes.
    pub notes: Vec<String>,
    /// Why it ended before its end; `None` when all jobs ran.
    pub ended_early: Option<Early>,
}

/// Why a benchmark ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Early {
    /// Ctrl-C.
    Interrupted,
    /// A job failed.
    Failed(String),
}

/// An experiment that only says on what to run: a design for each layout.
pub fn experiment(volumes: Vec<Volume>, designs: Vec<(String, LayoutNode)>) -> Experiment {
    Experiment::once("bench", volumes, designs)
}

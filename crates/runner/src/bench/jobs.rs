//! What a benchmark is to do, and what came of it.

use crate::{RunnerError, places, surroundings};
use ebbtide_analysis::latency_target::DepthSearch;
use ebbtide_analysis::{RuledOut, Verdict};
use ebbtide_engine::files::{FilesBackend, Options};
use ebbtide_model::experiment::{Experiment, Volume, VolumeSource};
use ebbtide_model::samples::{ProcessUse, TrialSamples};
use ebbtide_model::session::{Rung, Session};
use ebbtide_model::units::UnixTime;
use ebbtide_model::workload::Workload;

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
    /// After a job that runs alone and of which nothing else is known, its target is looked at for a moment under more and
    /// less load; not where later jobs would see what that leaves behind.
    pub ladder: bool,
    /// What the backend is told of the volumes; the run's name and places for new files are filled in when it begins.
    pub options: Options,
}

impl Spec {
    /// Its backend for the run `id`, which has touched nothing yet.
    pub(crate) fn backend(&self, id: &str) -> Result<FilesBackend, RunnerError> {
        let options = Options { name: id.to_owned(), places: places::for_volumes(), ..self.options.clone() };
        // Who only reads what is there, as a monitor with few rights does, needs no place for a journal.
        let around = surroundings::of_host(id).or_else(|error| match self.makes_files() {
            true => Err(error),
            false => Ok(surroundings::without_journal()),
        })?;
        Ok(FilesBackend::new(options, around))
    }

    fn makes_files(&self) -> bool {
        let is_new = |volume: &Volume| matches!(volume.source, VolumeSource::NewFile { .. });
        !self.options.named.is_empty() || self.experiment.volumes.iter().any(is_new)
    }
}

/// A job that has run.
#[derive(Debug, Clone)]
pub struct Done {
    pub job: Job,
    /// What it ran on, in words.
    pub target: String,
    pub samples: TrialSamples,
    /// What limits it, the best supported cause first.
    pub verdicts: Vec<Verdict>,
    /// What else was looked for, and why it is not asserted.
    pub ruled_out: Vec<RuledOut>,
    /// What more and less load did for a moment each, where that was tried.
    pub rungs: Vec<Rung>,
    /// What the process used meanwhile.
    pub used: ProcessUse,
    pub ended: UnixTime,
    /// Why it failed before its end, and the error number behind that where there is one.
    pub failed: Option<(String, Option<i32>)>,
    /// The search for the most load that keeps a latency, where that was asked for: what was measured is at the depth that it
    /// has come to, and its workload has that depth.
    pub search: Option<DepthSearch>,
}

impl Done {
    /// Operations that completed.
    pub fn operations(&self) -> u64 {
        self.samples.array.read.count.ops + self.samples.array.write.count.ops
    }

    /// Whether no operation completed.
    pub fn is_empty(&self) -> bool {
        self.operations() == 0
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
    /// The same as a session, as a store keeps it; none while it runs.
    pub session: Option<Session>,
}

/// Why a benchmark ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Early {
    /// Ctrl-C.
    Interrupted,
    /// A job failed, and why.
    Failed(String),
}

//! Runs the jobs of a benchmark on the `files` backend.

use super::{Done, Early, Job, Results, Spec, describe};
use crate::progress::Progress;
use crate::session::witness::HostWitness;
use crate::session::{Witness, clock, surroundings};
use ebbtide_core::analysis::{Verdict, analyse};
use ebbtide_core::backend::{Backend, BackendError, Control, Inventory};
use ebbtide_core::fio;
use ebbtide_core::layout::LayoutNode;
use ebbtide_core::plan::{Role, Trial};
use ebbtide_core::samples::TrialSamples;
use ebbtide_core::session::{Ending, Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_core::units::Nanos;
use ebbtide_engine::Usage;
use ebbtide_engine::files::{self, FilesBackend};
use ebbtide_host::hostinfo;
use ebbtide_host::sys::Sys;
use std::sync::Arc;

/// Shorter runs are not judged: the disks' counters are read four times a second, and what was cached or queued before
/// weighs too much.
const JUDGED_FROM: Nanos = Nanos::from_secs(1);

/// Prepares the volumes of `spec`, runs its jobs, and puts everything back.
///
/// # Errors
/// When the volumes cannot be prepared, or what was made cannot be removed; the text says which and why. A job that
/// fails is told in the results, with those before it.
pub fn run(spec: Spec, control: &Arc<Control>, progress: &mut Progress) -> Result<Results, BackendError> {
    let id = clock::session_id();
    let surroundings = surroundings::of_host(&id).map_err(BackendError::Other)?;
    let options = files::Options {
        name: id.clone(),
        seed: spec.seed,
        destroy: spec.destroy,
        places: surroundings::places_for_volumes(),
        fill: spec.fill,
    };
    let mut backend = FilesBackend::new(options, surroundings);
    let mut bench = Bench { session: session(&spec, id), witness: HostWitness::default(), progress, control };
    let results = bench.run(&spec.jobs, &mut backend);
    bench.progress.idle();
    let put_back = backend.finish(false);
    match (results, put_back) {
        (Ok(mut results), Err(error)) => {
            results.notes.push(format!("not everything was put back: {error}; `ebb cleanup` tries again"));
            Ok(results)
        }
        (results, _) => results,
    }
}

/// The jobs as a session that nobody stores: what analysis reads.
fn session(spec: &Spec, id: String) -> Session {
    let mut experiment = spec.experiment.clone();
    experiment.workloads = spec.jobs.iter().map(|job| job.workload.clone()).collect();
    Session {
        meta: SessionMeta {
            id,
            backend: ebbtide_core::backend::BackendKind::Files,
            seed: spec.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix: clock::now(),
            ended_unix: None,
            ending: Ending::Unfinished,
            host: hostinfo::host_info(&Sys::host()),
            engine_ceiling_iops: None,
            inventory: Inventory::default(),
            warnings: Vec::new(),
        },
        experiment,
        experiment_text: String::new(),
        trials: Vec::new(),
    }
}

struct Bench<'a> {
    session: Session,
    witness: HostWitness,
    progress: &'a mut Progress,
    control: &'a Arc<Control>,
}

impl Bench<'_> {
    fn run(&mut self, jobs: &[Job], backend: &mut FilesBackend) -> Result<Results, BackendError> {
        self.progress.filling(self.session.experiment.volumes.len(), self.control);
        let inventory = match backend.prepare(&self.session.experiment, self.control) {
            Ok(inventory) => inventory,
            Err(BackendError::Stopped) => {
                let ended_early = Some(Early::Interrupted);
                return Ok(Results { done: Vec::new(), notes: Vec::new(), ended_early });
            }
            Err(error) => return Err(error),
        };
        self.witness.ready(&inventory);
        let mut results = Results { done: Vec::new(), notes: inventory.notes.clone(), ended_early: None };
        self.session.meta.inventory = inventory;
        for (index, job) in jobs.iter().enumerate() {
            let (samples, usage, early) = self.job(index, job, backend);
            if let Some(samples) = samples {
                let verdicts = self.verdicts(index, job, &samples);
                results.done.push(Done {
                    target: self.target(job),
                    job: job.clone(),
                    verdicts,
                    samples,
                    usage,
                    ended: clock::now(),
                });
            }
            if early.is_some() {
                results.ended_early = early;
                break;
            }
        }
        Ok(results)
    }

    /// Runs one job; what it saw, also when it was stopped.
    fn job(
        &mut self,
        index: usize,
        job: &Job,
        backend: &mut FilesBackend,
    ) -> (Option<TrialSamples>, fio::Usage, Option<Early>) {
        let trial = Trial {
            index: index as u32,
            round: 0,
            design: job.design,
            workload: index,
            role: Role::Candidate,
            seed: self.session.meta.seed.wrapping_add(index as u64),
        };
        self.progress.job(&job.name, &job.workload, self.control);
        self.witness.begin(&self.session, &trial);
        let before = Usage::of_process();
        let outcome = backend.run_trial(
            &self.session.experiment.designs[job.design],
            &job.workload,
            &trial,
            self.control,
        );
        let used = Usage::of_process().since(before);
        let usage = fio::Usage {
            context_switches: used.context_switches,
            major_faults: used.major_faults,
            minor_faults: used.minor_faults,
        };
        let (samples, early) = match outcome {
            Ok(samples) => (Some(samples), None),
            Err(BackendError::Stopped) => (backend.take_stopped(), Some(Early::Interrupted)),
            Err(error) => (None, Some(Early::Failed(error.to_string()))),
        };
        let mut outcome = match samples {
            Some(samples) => Outcome::Samples(Box::new(samples)),
            None => Outcome::Failed(String::new()),
        };
        self.witness.end(&mut outcome);
        match outcome {
            Outcome::Samples(samples) => (Some(*samples), usage, early),
            Outcome::Failed(_) => (None, usage, early),
        }
    }

    /// What limits the job, from this one run of it; nothing where it was too short to tell.
    fn verdicts(&self, index: usize, job: &Job, samples: &TrialSamples) -> Vec<Verdict> {
        if samples.elapsed < JUDGED_FROM {
            return Vec::new();
        }
        let trial = Trial {
            index: 0,
            round: 0,
            design: 0,
            workload: 0,
            role: Role::Candidate,
            seed: self.session.meta.seed,
        };
        let mut alone = self.session.clone();
        alone.experiment.designs = vec![self.session.experiment.designs[job.design].clone()];
        alone.experiment.workloads = vec![self.session.experiment.workloads[index].clone()];
        alone.trials = vec![TrialRecord { trial, outcome: Outcome::Samples(Box::new(samples.clone())) }];
        analyse(&alone).results.into_iter().next().map(|result| result.verdicts).unwrap_or_default()
    }

    fn target(&self, job: &Job) -> String {
        let design = &self.session.experiment.designs[job.design];
        let known = &self.session.meta.inventory.volumes;
        match &design.layout {
            LayoutNode::Volume(index) => {
                known.get(*index).map_or_else(|| design.name.clone(), describe::volume)
            }
            LayoutNode::Array { kind, .. } => {
                let members = design.layout.volumes().len();
                format!("{}: {} over {members} volumes", design.name, kind.name())
            }
        }
    }
}

//! Runs the jobs of a benchmark on the `files` backend.

use super::{Done, Early, Job, Results, Spec, describe};
use crate::progress::Progress;
use crate::session::observer::HostObserver;
use crate::session::{TrialObserver, clock, surroundings};
use ebbtide_analysis::{RuledOut, Verdict, analyse, ladder};
use ebbtide_engine::files::{FilesBackend, TogetherJob};
use ebbtide_engine::{Ceiling, Usage, ceiling};
use ebbtide_formats::fio;
use ebbtide_host::hostinfo;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::{Backend, BackendError, BackendKind, Control};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::plan::{Role, Trial};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::session::{Outcome, Rung, Session, SessionMeta, TrialRecord};
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::Regions;
use std::cell::OnceCell;
use std::sync::Arc;

/// Shorter runs are not judged: the disks' counters are read four times a second, and what was cached or queued before
/// weighs too much.
const JUDGED_FROM: Nanos = Nanos::from_secs(1);

/// Below this the engine is far from its limit on any host, and the second that the self-test takes is saved.
const CEILING_ASKED_FROM: f64 = 100_000.0;

/// Says which jobs follow those that are done; none when that was all.
pub type Next<'a> = dyn FnMut(&[Done]) -> Option<Vec<Job>> + 'a;

/// Prepares the volumes of `spec`, runs its jobs and what `next` has follow them, and puts everything back.
///
/// # Errors
/// When the volumes cannot be prepared, or what was made cannot be removed; the text says which and why. A job that
/// fails is told in the results, with those before it.
pub fn run(
    spec: Spec,
    next: &mut Next<'_>,
    control: &Arc<Control>,
    progress: &mut Progress,
) -> Result<Results, BackendError> {
    let id = clock::session_id();
    let surroundings = surroundings::of_host(&id).map_err(BackendError::Other)?;
    let mut backend = FilesBackend::new(spec.options(&id), surroundings);
    let ladder = spec.ladder;
    let mut bench =
        Bench { session: session(&spec, id), progress, control, ceiling: OnceCell::new(), ladder };
    let results = bench.run(spec.jobs, next, &mut backend);
    bench.progress.idle();
    // A file that no job has used yet is not what the user asked for.
    if results.as_ref().is_ok_and(|results| results.ended_early.is_none() || !results.done.is_empty()) {
        backend.keep_named();
    }
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
            host: hostinfo::host_info(&Sys::host()),
            ..SessionMeta::new(id, BackendKind::Files, spec.seed, clock::now())
        },
        experiment,
        experiment_text: String::new(),
        trials: Vec::new(),
    }
}

struct Bench<'a> {
    session: Session,
    progress: &'a mut Progress,
    control: &'a Arc<Control>,
    /// What the engine can do on this host, once somebody asked.
    ceiling: OnceCell<Option<Ceiling>>,
    /// See [`Spec::ladder`].
    ladder: bool,
}

impl Bench<'_> {
    fn run(
        &mut self,
        mut jobs: Vec<Job>,
        next: &mut Next<'_>,
        backend: &mut FilesBackend,
    ) -> Result<Results, BackendError> {
        self.progress.filling(self.session.experiment.volumes.len(), self.control);
        let inventory = match backend.prepare(&self.session.experiment, self.control) {
            Ok(inventory) => inventory,
            Err(BackendError::Stopped) => {
                let ended_early = Some(Early::Interrupted);
                return Ok(Results { done: Vec::new(), notes: Vec::new(), ended_early });
            }
            Err(error) => return Err(error),
        };
        let mut results = Results { done: Vec::new(), notes: inventory.notes.clone(), ended_early: None };
        self.session.meta.inventory = inventory;
        let mut first = 0;
        while first < jobs.len() && results.ended_early.is_none() {
            let group = jobs[first].group;
            let length = jobs[first..].iter().take_while(|job| job.group == group).count();
            self.group(&jobs[first..first + length], first, backend, &mut results);
            let last = first + length == jobs.len();
            // What later jobs find is not to be what a ladder has written.
            if self.ladder
                && length == 1
                && results.ended_early.is_none()
                && (last || !jobs[first].workload.writes())
                && let Some(done) = results.done.last_mut()
            {
                self.climb(first, done, backend);
            }
            first += length;
            if first == jobs.len()
                && let Some(more) = next(&results.done)
            {
                self.session.experiment.workloads.extend(more.iter().map(|job| job.workload.clone()));
                jobs.extend(more);
            }
        }
        Ok(results)
    }

    /// Runs `jobs`, the first of which is number `first`, at the same time.
    fn group(&mut self, jobs: &[Job], first: usize, backend: &mut FilesBackend, results: &mut Results) {
        let trials: Vec<Trial> =
            jobs.iter().enumerate().map(|(index, job)| self.trial(first + index, job)).collect();
        self.progress.jobs(jobs.iter().map(|job| (job.name.as_str(), &job.workload)), self.control);
        let mut observers: Vec<HostObserver> = trials
            .iter()
            .map(|trial| {
                let mut observer = HostObserver::default();
                observer.ready(&self.session.meta.inventory);
                observer.begin(&self.session.experiment, trial, self.control);
                observer
            })
            .collect();
        let designs = &self.session.experiment.designs;
        let together: Vec<TogetherJob<'_>> = jobs
            .iter()
            .zip(&trials)
            .map(|(job, trial)| TogetherJob { design: &designs[job.design], workload: &job.workload, trial })
            .collect();
        let before = Usage::of_process();
        let ran = backend.run_together(&together, self.control);
        self.control.edges.clear();
        let used = Usage::of_process().since(before);
        let ended = clock::now();
        for (index, ran) in ran.into_iter().enumerate() {
            let job = &jobs[index];
            let mut failed = None;
            let samples = match ran.samples {
                Ok(samples) => Some(samples),
                Err(BackendError::Stopped) => {
                    results.ended_early.get_or_insert(Early::Interrupted);
                    ran.seen
                }
                Err(error) => {
                    let name = if jobs.len() > 1 { format!("{}: ", job.name) } else { String::new() };
                    results.ended_early = Some(Early::Failed(format!("{name}{error}")));
                    failed = Some((error.to_string(), ran.errno));
                    ran.seen
                }
            };
            let mut outcome = match samples {
                Some(samples) => Outcome::Samples(Box::new(samples)),
                None => Outcome::Failed(String::new()),
            };
            observers[index].end(&mut outcome);
            if let Outcome::Samples(samples) = outcome {
                let (verdicts, ruled_out) = match &failed {
                    None => self.verdicts(first + index, job, &samples, &[]),
                    Some(_) => Default::default(),
                };
                results.done.push(Done {
                    target: self.target(job),
                    verdicts,
                    ruled_out,
                    rungs: Vec::new(),
                    job: job.clone(),
                    samples: *samples,
                    usage: fio::Usage {
                        context_switches: used.context_switches,
                        major_faults: used.major_faults,
                        minor_faults: used.minor_faults,
                    },
                    ended,
                    failed,
                });
            }
        }
    }

    /// What limits the job, from this one run of it and the short ones after it, and what does not; nothing where it was too
    /// short to tell, or nothing completed.
    fn verdicts(
        &self,
        index: usize,
        job: &Job,
        samples: &TrialSamples,
        rungs: &[Rung],
    ) -> (Vec<Verdict>, Vec<RuledOut>) {
        let ops = samples.array.read.count.ops + samples.array.write.count.ops;
        if samples.elapsed < JUDGED_FROM || ops == 0 {
            return Default::default();
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
        alone.meta.rungs = rungs.to_vec();
        alone.trials = vec![TrialRecord { trial, outcome: Outcome::Samples(Box::new(samples.clone())) }];
        if ops as f64 / samples.elapsed.as_secs_f64() > CEILING_ASKED_FROM {
            let ceiling = self.ceiling.get_or_init(|| ceiling().ok());
            alone.meta.engine_ceiling_iops = ceiling.map(|ceiling| ceiling.iops);
        }
        let result = analyse(&alone).results.into_iter().next();
        result.map(|result| (result.verdicts, result.ruled_out)).unwrap_or_default()
    }

    /// Looks for a moment at more and less load than that of job number `index`, which is `done`, where that may say what
    /// limits it.
    fn climb(&mut self, index: usize, done: &mut Done, backend: &mut FilesBackend) {
        let job = &done.job;
        if !ladder::wanted(&job.workload, &done.verdicts) {
            return;
        }
        let (experiment, inventory) = (&self.session.experiment, &self.session.meta.inventory);
        let design = &experiment.designs[job.design];
        let ran_as = self.trial(index, job);
        self.progress.probing(&job.name, self.control);
        let mut rungs = Vec::new();
        for (number, rung) in ladder::rungs(&job.workload, &[&done.samples]).iter().enumerate() {
            let trial = ladder::trial_of(&ran_as, number);
            let mut observer = HostObserver::default();
            observer.ready(inventory);
            observer.begin(experiment, &trial, self.control);
            let ran = backend.run_trial(design, rung, &trial, self.control);
            self.control.edges.clear();
            let mut outcome = match ran {
                Ok(samples) => Outcome::Samples(Box::new(samples)),
                // The answer stands without it.
                Err(BackendError::Stopped) => break,
                Err(error) => Outcome::Failed(error.to_string()),
            };
            observer.end(&mut outcome);
            match outcome {
                Outcome::Samples(samples) => rungs.push(ladder::ran(&design.name, rung, *samples)),
                Outcome::Failed(why) => tracing::debug!("a rung of {}: {why}", job.name),
            }
        }
        (done.verdicts, done.ruled_out) = self.verdicts(index, &done.job, &done.samples, &rungs);
        done.rungs = rungs;
    }

    /// The trial as which job number `index` runs.
    fn trial(&self, index: usize, job: &Job) -> Trial {
        Trial {
            index: index as u32,
            round: 0,
            design: job.design,
            workload: index,
            role: Role::Candidate,
            seed: self.session.meta.seed.wrapping_add(index as u64),
        }
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
                if job.workload.details.regions == Regions::Own && job.workload.numjobs as usize == members {
                    return format!("{}: {members} files, one for each job", design.name);
                }
                format!("{}: {} over {members} volumes", design.name, kind.name())
            }
        }
    }
}

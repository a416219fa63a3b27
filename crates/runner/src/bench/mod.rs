//! Benchmarks: jobs on volumes, each run once, without rounds.

mod jobs;
mod search;

pub use jobs::{Done, Early, Job, Results, Spec};

use crate::listener::SessionListener;
use crate::observer::Observer;
use crate::trial::{self, Trials};
use crate::{RunnerError, clock};
use ebbtide_analysis::analyse;
use ebbtide_analysis::ladder::{self, Ladder};
use ebbtide_analysis::latency_target::DepthSearch;
use ebbtide_engine::ceiling;
use ebbtide_engine::files::FilesBackend;
use ebbtide_host::hostinfo;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::{
    Backend, BackendError, BackendKind, Control, PreparedVolume, TrialFailure, TrialRun,
};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::samples::{ProcessUse, TrialSamples};
use ebbtide_model::schedule::{Role, Trial};
use ebbtide_model::session::{Ending, Outcome, Rung, Session, SessionMeta, TrialRecord};
use ebbtide_model::units::{Nanos, UnixTime};
use ebbtide_model::workload::{Regions, Workload};
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
/// When the volumes cannot be prepared; the text says which and why. A job that fails is told in the results, with those
/// before it, and so is what cannot be put back.
pub fn run(
    spec: Spec,
    next: &mut Next<'_>,
    control: &Arc<Control>,
    watch: &mut dyn SessionListener,
) -> Result<Results, RunnerError> {
    let id = clock::session_id();
    let mut backend = spec.backend(&id)?;
    let Spec { mut experiment, jobs, ladder, options } = spec;
    experiment.workloads = jobs.iter().map(|job| job.workload.clone()).collect();
    let meta = SessionMeta {
        host: hostinfo::host_info(&Sys::host()),
        ..SessionMeta::new(id, BackendKind::Files, options.seed, clock::now())
    };
    let mut bench = Bench { meta, experiment, watch, control, ceiling: OnceCell::new(), ladder };
    let results = bench.run(jobs, next, &mut backend).map(|results| bench.with_session(results));
    bench.watch.done();
    // A file that no job has used yet is not what the user asked for.
    if results.as_ref().is_ok_and(|results| results.ended_early.is_none() || !results.done.is_empty()) {
        backend.keep_named();
    }
    let left = trial::put_back(&mut backend, false);
    let mut results = results?;
    results.notes.extend(left);
    Ok(results)
}

struct Bench<'a> {
    meta: SessionMeta,
    /// Its workloads are those of the jobs, in their order.
    experiment: Experiment,
    watch: &'a mut dyn SessionListener,
    control: &'a Arc<Control>,
    /// Operations per second that the engine reaches on this host, once somebody asked.
    ceiling: OnceCell<Option<f64>>,
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
        let mut results = Results { done: Vec::new(), notes: Vec::new(), ended_early: None, session: None };
        self.watch.preparing(self.experiment.volumes.len(), self.control);
        match backend.prepare(&self.experiment, self.control) {
            Ok(inventory) => self.meta.inventory = inventory,
            Err(BackendError::Stopped) => {
                results.ended_early = Some(Early::Interrupted);
                return Ok(results);
            }
            Err(error) => return Err(error),
        }
        results.notes.clone_from(&self.meta.inventory.notes);
        let observer = Observer::new(&self.meta.id, &self.meta.inventory);
        let mut trials = Trials { backend, observer: Some(&observer), control: self.control };
        let mut first = 0;
        while first < jobs.len() && results.ended_early.is_none() {
            let group = jobs[first].group;
            let length = jobs[first..].iter().take_while(|job| job.group == group).count();
            self.group(&jobs[first..first + length], first, &mut trials, &mut results);
            let last = first + length == jobs.len();
            // What later jobs find is not to be what a ladder has written.
            if self.ladder
                && length == 1
                && results.ended_early.is_none()
                && (last || !jobs[first].workload.writes())
                && let Some(done) = results.done.last_mut()
            {
                self.climb(first, done, &mut trials);
            }
            first += length;
            if first == jobs.len()
                && let Some(more) = next(&results.done)
            {
                self.experiment.workloads.extend(more.iter().map(|job| job.workload.clone()));
                jobs.extend(more);
            }
        }
        Ok(results)
    }

    /// `results` with the session that they are: a trial for each job, under a workload of its own.
    fn with_session(&self, mut results: Results) -> Results {
        let (mut workloads, mut trials, mut rungs) = (Vec::<Workload>::new(), Vec::new(), Vec::new());
        let mut experiment = self.experiment.clone();
        for index in 1..experiment.designs.len() {
            let (known, rest) = experiment.designs.split_at_mut(index);
            rest[0].name = apart(&rest[0].name, known.iter().map(|known| &known.name), index);
        }
        for (index, done) in results.done.iter().enumerate() {
            let known = workloads.iter().map(|known| &known.name);
            let name = apart(&done.job.name, known, index);
            let workload = Workload { name, ..done.job.workload.clone() };
            let design = &experiment.designs[done.job.design].name;
            let named = |rung: &Rung| Rung {
                design: design.clone(),
                workload: workload.name.clone(),
                ..rung.clone()
            };
            rungs.extend(done.rungs.iter().map(named));
            let outcome = match &done.failed {
                Some((why, _)) => Outcome::Failed(why.clone()),
                None => Outcome::Samples(Box::new(done.samples.clone())),
            };
            trials.push(TrialRecord { trial: self.trial(index, &done.job), outcome });
            workloads.push(workload);
        }
        let ending = match &results.ended_early {
            None => Ending::NotReached,
            Some(Early::Interrupted) => Ending::Interrupted,
            Some(Early::Failed(why)) => Ending::Failed(why.clone()),
        };
        let meta = SessionMeta {
            backend: BackendKind::Bench,
            engine_ceiling_iops: self.ceiling.get().copied().flatten(),
            ended_unix: Some(clock::now()),
            ending,
            rungs,
            ..self.meta.clone()
        };
        experiment.workloads = workloads;
        results.session = Some(Session { meta, experiment, experiment_text: String::new(), trials });
        results
    }

    /// Runs `jobs`, the first of which is number `first`, at the same time.
    fn group(&mut self, jobs: &[Job], first: usize, trials: &mut Trials<'_>, results: &mut Results) {
        if let [job] = jobs
            && let Some(search) = DepthSearch::of(&job.workload)
        {
            return self.search((first, job), search, trials, results);
        }
        let numbered: Vec<Trial> = (first..).zip(jobs).map(|(index, job)| self.trial(index, job)).collect();
        let runs: Vec<TrialRun<'_>> = jobs
            .iter()
            .zip(&numbered)
            .map(|(job, trial)| TrialRun {
                design: &self.experiment.designs[job.design],
                workload: &job.workload,
                trial,
            })
            .collect();
        let named: Vec<(&str, &Workload)> =
            jobs.iter().map(|job| (job.name.as_str(), &job.workload)).collect();
        let ran = trials.run(&runs, || self.watch.jobs_begin(&named, self.control));
        for ((index, job), result) in (first..).zip(jobs).zip(ran.results) {
            let named = (jobs.len() > 1).then_some(job.name.as_str());
            let done = self.done(job, named, result, (ran.used, ran.ended), results);
            let Some(mut done) = done else { continue };
            self.judge(index, &mut done);
            results.done.push(done);
        }
    }

    /// What came of `job`, where anything did; why it ended early, which its `name` comes before where there are others, goes
    /// into `results`.
    fn done(
        &self,
        job: &Job,
        name: Option<&str>,
        result: Result<TrialSamples, TrialFailure>,
        (used, ended): (ProcessUse, UnixTime),
        results: &mut Results,
    ) -> Option<Done> {
        let (samples, failed) = match result {
            Ok(samples) => (Some(samples), None),
            Err(failure) if failure.error == BackendError::Stopped => {
                results.ended_early.get_or_insert(Early::Interrupted);
                (failure.seen.map(|seen| *seen), None)
            }
            Err(failure) => {
                let why = failure.error.to_string();
                let named = name.map_or_else(|| why.clone(), |name| format!("{name}: {why}"));
                results.ended_early = Some(Early::Failed(named));
                (failure.seen.map(|seen| *seen), Some((why, failure.errno)))
            }
        };
        Some(Done {
            job: job.clone(),
            target: self.target(job),
            samples: samples?,
            verdicts: Vec::new(),
            ruled_out: Vec::new(),
            rungs: Vec::new(),
            used,
            ended,
            failed,
            search: None,
        })
    }

    /// Finds what limits job number `index`, which is `done`, from its one run and the short ones after it, and what does not;
    /// nothing where it failed, was too short to tell, or nothing completed.
    fn judge(&self, index: usize, done: &mut Done) {
        let Done { job, samples, .. } = &*done;
        if done.failed.is_some() || samples.elapsed < JUDGED_FROM || done.is_empty() {
            return;
        }
        let trial = Trial { design: 0, workload: 0, ..self.trial(index, job) };
        let mut alone = Session {
            meta: SessionMeta { rungs: done.rungs.clone(), ..self.meta.clone() },
            experiment: Experiment {
                designs: vec![self.experiment.designs[job.design].clone()],
                workloads: vec![job.workload.clone()],
                ..self.experiment.clone()
            },
            experiment_text: String::new(),
            trials: vec![TrialRecord { trial, outcome: Outcome::Samples(Box::new(samples.clone())) }],
        };
        if done.operations() as f64 / samples.elapsed.as_secs_f64() > CEILING_ASKED_FROM {
            let reached = || ceiling().ok().map(|ceiling| ceiling.iops);
            alone.meta.engine_ceiling_iops = *self.ceiling.get_or_init(reached);
        }
        if let Some(result) = analyse(&alone).results.into_iter().next() {
            (done.verdicts, done.ruled_out) = (result.verdicts, result.ruled_out);
        }
    }

    /// Looks for a moment at more and less load than that of job number `index`, which is `done`, as long as that may say what
    /// limits it.
    fn climb(&mut self, index: usize, done: &mut Done, trials: &mut Trials<'_>) {
        loop {
            let job = &done.job;
            let ran: Vec<&Rung> = done.rungs.iter().collect();
            let rungs = ladder::next(&job.workload, &done.verdicts, &[&done.samples], &ran);
            if rungs.is_empty() {
                return;
            }
            self.watch.probing(&job.name, self.control);
            let ladder = Ladder { trial: self.trial(index, job), rungs, ran: ran.len() };
            let climbed = trials.climb(&self.experiment.designs[job.design], &ladder);
            if climbed.is_empty() {
                return;
            }
            done.rungs.extend(climbed);
            self.judge(index, done);
        }
    }

    /// The trial as which job number `index` runs.
    fn trial(&self, index: usize, job: &Job) -> Trial {
        Trial {
            index: index as u32,
            round: 0,
            design: job.design,
            workload: index,
            role: Role::Candidate,
            seed: self.meta.seed.wrapping_add(index as u64),
        }
    }

    fn target(&self, job: &Job) -> String {
        let design = &self.experiment.designs[job.design];
        let known = &self.meta.inventory.volumes;
        match &design.layout {
            LayoutNode::Volume(index) => known.get(*index).map_or_else(|| design.name.clone(), volume),
            LayoutNode::Array { kind, .. } => {
                let members = design.layout.volumes().len();
                let jobs = job.workload.numjobs.max(1) as usize;
                if job.workload.details.regions == Regions::Own {
                    let each = if members == jobs { "one".to_owned() } else { (members / jobs).to_string() };
                    return format!("{}: {members} files, {each} for each job", design.name);
                }
                format!("{}: {} over {members} volumes", design.name, kind.name())
            }
        }
    }
}

/// `name`, or with the number of place `index` where it is `known`: names tell jobs and designs of a session apart.
fn apart<'a>(name: &str, mut known: impl Iterator<Item = &'a String>, index: usize) -> String {
    if known.any(|known| known == name) { format!("{name}-{}", index + 1) } else { name.to_owned() }
}

/// A volume in words: `/data/f: 1GiB on ext4 (nvme1n1)`, `/dev/md0: 1GiB (stripe of 2, chunk 512KiB, over vdb, vdc)`.
fn volume(volume: &PreparedVolume) -> String {
    let mut text = format!("{}: {}", volume.name, volume.size.short());
    if let Some(filesystem) = &volume.filesystem {
        text.push_str(&format!(" on {filesystem}"));
    }
    if let Some(below) = volume.through.as_ref().or(volume.disk_name.as_ref()) {
        text.push_str(&format!(" ({below})"));
    }
    text
}

//! The simulator: the experiment in virtual time, I/O by I/O.
//!
//! ```text
//! workload::Generator → slots (iodepth × numjobs) → CPU → page cache → layout::Map → volume::Model
//!                          ▲                                                             │
//!                          └────────────── queue of events ◄──── completion instant ─────┘
//! ```
//!
//! The volume model is a state machine that answers an operation with its completion instant, so an I/O costs one
//! event. A trial is a pure function of (experiment, seed, trial): trials run in any order and on any number of
//! threads and give the same samples to the bit. What follows from that:
//!
//! - Volumes have one life over the whole session. Birth quality, moods and drift are functions of (session seed,
//!   volume, virtual instant); trial number n happens at n times the longest trial and its rest.
//! - Workloads that run at the same time meet at one array; their trials are one universe, at the instant of the first of them.
//! - Credits and caches do not carry over: every trial starts with the credits that the shape says (full unless
//!   `credits_at_start` is given), as after a rest that is long enough.
//!
//! What is not modelled is listed in docs/explanation/simulator.md.
//!
//! Whatever exists only in virtual time lives here; the volume model, layouts and the stream of operations are the ones that
//! real I/O uses too and belong to `ebbtide-model`. When a simulated session ends is told by who calls: nothing here judges samples.

mod array;
mod cpu;
mod leap;
mod load;
mod observe;
mod pages;
mod planted;
mod queue;
mod record;
mod resync;
mod scope;
mod session;
mod stripes;
#[cfg(test)]
mod tests;
mod together;

pub use scope::check;
pub use session::{session, virtual_time};

use array::Array;
use ebbtide_model::backend::{
    Backend, BackendError, BackendKind, Control, Inventory, PreparedVolume, TrialFailure, TrialRun, alone,
};
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::samples::{Execution, TrialSamples};
use ebbtide_model::schedule::Trial;
use ebbtide_model::units::UnixTime;
use ebbtide_model::volume::Model;
use ebbtide_model::workload::Workload;
use load::Work;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Runs trials, of which those that are not [beside](TrialRun::runs_beside) one another do not touch, in any order or at the same time.
pub type Together = fn(&SimBackend, &[TrialRun<'_>], &Control) -> Vec<Result<TrialSamples, TrialFailure>>;

/// The backend in virtual time.
#[derive(Debug)]
pub struct SimBackend {
    seed: u64,
    experiment: Option<Experiment>,
    together: Together,
}

impl SimBackend {
    /// A simulator whose volumes live as `seed` decides: the session's seed.
    pub fn new(seed: u64) -> Self {
        let together: Together = |sim, runs, control| {
            runs.chunk_by(TrialRun::runs_beside).flat_map(|runs| sim.run(runs, control)).collect()
        };
        SimBackend { seed, experiment: None, together }
    }

    /// The same, whose trials are run by `together`.
    pub fn with(self, together: Together) -> Self {
        SimBackend { together, ..self }
    }

    /// Runs trials at the same time, or one alone, which touch no others: may run on any thread.
    ///
    /// Each fails as [`simulate_together`] does, and when nothing was prepared.
    pub fn run(&self, runs: &[TrialRun<'_>], control: &Control) -> Vec<Result<TrialSamples, TrialFailure>> {
        let ran = match &self.experiment {
            Some(experiment) => simulate_together(experiment, self.seed, runs, control),
            None => Err(BackendError::Other("the simulator was not prepared".into())),
        };
        match ran {
            Ok(samples) => samples.into_iter().map(Ok).collect(),
            Err(error) => runs.iter().map(|_| Err(error.clone().into())).collect(),
        }
    }
}

impl Backend for SimBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::Sim
    }

    fn prepare(&mut self, experiment: &Experiment, _control: &Control) -> Result<Inventory, BackendError> {
        check(experiment)?;
        self.experiment = Some(experiment.clone());
        let volumes = experiment.volumes.iter().map(|volume| PreparedVolume {
            name: volume.name.clone(),
            path: format!("sim:{}", volume.name),
            size: volume.size.unwrap_or_default(),
            direct: true,
            ..PreparedVolume::default()
        });
        Ok(Inventory {
            volumes: volumes.collect(),
            notes: std::iter::once("simulated in virtual time: no device was touched".to_owned())
                .chain(planted::note(&experiment.environment))
                .collect(),
        })
    }

    fn run_trial(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples, BackendError> {
        alone(self.run(&[TrialRun { design, workload, trial }], control))
    }

    fn run_together(
        &mut self,
        runs: &[TrialRun<'_>],
        control: &Control,
    ) -> Vec<Result<TrialSamples, TrialFailure>> {
        (self.together)(self, runs, control)
    }

    fn finish(&mut self, _keep: bool) -> Result<(), BackendError> {
        self.experiment = None;
        Ok(())
    }
}

/// Seed number `n` of `seed`.
fn derive(seed: u64, n: u64) -> u64 {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64()
}

/// Simulates one trial. A pure function, apart from `control`, which it reads and tells how far it is: may run on
/// any thread.
///
/// # Errors
/// When the experiment depends on what the simulator does not know, when a member fails for good during the trial, when the
/// trial would take more I/Os than can be computed, or when `control` says stop.
pub fn simulate(
    experiment: &Experiment,
    seed: u64,
    design: &Design,
    workload: &Workload,
    trial: &Trial,
    control: &Control,
) -> Result<TrialSamples, BackendError> {
    let run = TrialRun { design, workload, trial };
    let mut samples = simulate_within(Work::USUAL, experiment, seed, &[run], control)?;
    samples.pop().ok_or_else(|| TrialFailure::not_run().error)
}

/// The same of trials that run at the same time on one design; the samples of each, in their order.
///
/// # Errors
/// As [`simulate`]: one that fails has no array to leave to the others.
pub fn simulate_together(
    experiment: &Experiment,
    seed: u64,
    runs: &[TrialRun<'_>],
    control: &Control,
) -> Result<Vec<TrialSamples>, BackendError> {
    simulate_within(Work::USUAL, experiment, seed, runs, control)
}

/// The same, taking at most so much `work` each.
fn simulate_within(
    work: Work,
    experiment: &Experiment,
    seed: u64,
    runs: &[TrialRun<'_>],
    control: &Control,
) -> Result<Vec<TrialSamples>, BackendError> {
    check(experiment)?;
    let Some(TrialRun { design, trial, .. }) = runs.first() else { return Ok(Vec::new()) };
    let environment = &scope::environment_of(&experiment.environment, design);
    let age = scope::pitch(experiment).times(u64::from(trial.index));
    let model = |volume: usize| {
        let shape = experiment.volumes.get(volume)?.shape.as_ref()?;
        let (life, here) = (derive(seed, volume as u64), derive(trial.seed, volume as u64));
        Some(Model::with_history(shape, life, here, age))
    };
    let (max_request, clients) = (environment.host.max_request, environment.clients as usize);
    let mut array = Array::new(experiment, design, max_request, clients, model)?;
    let outcomes = together::run(runs, environment, &mut array, control, work)?;
    let observed: Vec<_> = (0..outcomes.len())
        .map(|own| observe::observe(experiment, &environment.host, design, &array, &outcomes, own))
        .collect();
    let ran = runs.iter().zip(outcomes).zip(observed).map(|((run, outcome), observed)| {
        let mut members = outcome.recorded.members;
        for (index, member) in members.iter_mut().enumerate() {
            member.model = Some(array.model(index).report(outcome.end));
        }
        let mut samples = TrialSamples {
            started_unix: UnixTime::EPOCH + age + run.workload.before(),
            elapsed: outcome.recorded.elapsed,
            interval: outcome.recorded.interval,
            array: outcome.recorded.array,
            members,
            series: outcome.recorded.series,
            cpu: outcome.cpu,
            execution: Execution { unfinished: outcome.unfinished, ..Execution::default() },
            mean_in_flight: outcome.recorded.mean_in_flight,
            observed: Some(Box::new(observed)),
            hosts: Vec::new(),
            notes: scope::notes(experiment, run.workload),
        };
        if let Some(effect) = experiment.environment.planted.get(&design.name) {
            planted::apply(*effect, run.workload, &mut samples);
        }
        samples
    });
    Ok(ran.collect())
}

//! Sessions: runs an experiment on a backend, round by round, and stores each trial when it ends.

pub mod clock;
pub mod fit;
pub mod journal;
pub mod kernel;
pub mod observer;
mod probe;
pub mod setup;
pub mod signals;
pub mod simulated;
pub mod surroundings;
#[cfg(test)]
mod tests;
pub mod worker;

use crate::store::{Store, StoreError};
use ebbtide_analysis::stop::{Decision, decide};
use ebbtide_model::backend::{Backend, BackendError, BackendKind, Control, Inventory};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::plan::{Plan, Schedule, Trial};
use ebbtide_model::session::{Ending, HostInfo, Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::Workload;
use ebbtide_sim::virtual_time;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a session starts from.
#[derive(Debug)]
pub struct Request {
    /// Its id.
    pub id: String,
    pub experiment: Experiment,
    /// The experiment file's text.
    pub text: String,
    /// Seed of the order and of everything random.
    pub seed: u64,
    pub host: HostInfo,
    /// What the engine reaches on it with nothing behind it, operations per second, where that was measured.
    pub engine_ceiling_iops: Option<f64>,
    /// What the reader must know from the start.
    pub warnings: Vec<String>,
    /// Whether volumes that were made are kept.
    pub keep: bool,
    /// Existing volumes may be overwritten.
    pub destroy: bool,
}

/// Is told how a session is going.
pub trait Watch {
    /// Volumes are being made and filled; `control` says how far.
    fn preparing(&mut self, _session: &Session, _control: &Arc<Control>) {}
    /// A trial begins, after a pause; `control` says how it is going.
    fn trial_begins(&mut self, _session: &Session, _trial: &Trial, _control: &Arc<Control>) {}
    /// A trial ended, and is the last in `session`.
    fn trial_ended(&mut self, _session: &Session, _record: &TrialRecord) {}
    /// After the last trial, its design is looked at for a moment under more load and less.
    fn probing(&mut self, _session: &Session, _trial: &Trial, _control: &Arc<Control>) {}
    /// Nothing more runs.
    fn done(&mut self) {}
}

/// Watches nothing.
#[derive(Debug)]
pub struct NoObserver;
impl Watch for NoObserver {}

/// Sees what is around each trial: the disks below, the host, others.
pub trait TrialObserver {
    /// The volumes are ready.
    fn ready(&mut self, _inventory: &Inventory) {}
    /// A trial is about to begin; `control` tells the edges of its I/O.
    fn begin(&mut self, _experiment: &Experiment, _trial: &Trial, _control: &Control) {}
    /// It ended; what was seen may be put into its samples.
    fn end(&mut self, _outcome: &mut Outcome) {}
}

impl TrialObserver for NoObserver {}

/// What takes part in a session beside the backend.
pub struct RunContext<'a> {
    /// Where it is stored; nowhere when absent.
    pub store: Option<&'a mut Store>,
    /// How it is ended early.
    pub control: Arc<Control>,
    pub watch: &'a mut dyn Watch,
    /// Who looks around.
    pub observer: &'a mut dyn TrialObserver,
}

impl RunContext<'_> {
    fn stopped(&self) -> bool {
        self.control.stop.load(Ordering::Relaxed)
    }

    fn store(&mut self, write: impl FnOnce(&mut Store) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.store.as_deref_mut().map_or(Ok(()), write)
    }
}

/// Runs a session to its end, whatever that is: the ending is in the session that is returned.
/// Everything that the backend made is put back, also after errors. One that was refused before its first trial is not
/// kept in the store.
///
/// # Errors
/// When the store cannot be written: going on would lose what is measured.
pub fn run(
    request: Request,
    backend: &mut dyn Backend,
    context: &mut RunContext<'_>,
) -> Result<Session, StoreError> {
    let plan = Plan::new(&request.experiment, backend.kind(), request.seed, request.destroy);
    let keep = request.keep;
    let mut session = begin(request, backend);
    let plan = serde_json::to_value(&plan).unwrap_or_default();
    context.store(|store| store.begin(&session, &plan))?;

    let measured = measure(&mut session, backend, context);
    if matches!(measured, Ok(Ending::Reached | Ending::NotReached)) {
        session.meta.rungs = probe::ladders(&session, backend, context);
    }
    context.watch.done();
    let put_back = backend.finish(keep);
    session.meta.ending = match &measured {
        Ok(ending) => ending.clone(),
        Err(error) => Ending::Failed(error.to_string()),
    };
    if let Err(error) = put_back {
        let left = format!("not everything was put back: {error}; `ebb cleanup` tries again");
        // There need not be a report that says it.
        tracing::error!("{left}");
        session.meta.warnings.push(left);
    }
    session.meta.ended_unix = Some(clock::now());
    measured?;
    let refused = was_refused(&session);
    context.store(|store| {
        // Why is said on the spot; a session without a trial has nothing more to show.
        if refused { store.forget(&session.meta.id) } else { store.update(&session.meta, None) }
    })?;
    Ok(session)
}

/// Whether `session` failed before its first trial: there is nothing of it to keep or to show.
pub fn was_refused(session: &Session) -> bool {
    matches!(session.meta.ending, Ending::Failed(_)) && session.trials.is_empty()
}

fn begin(request: Request, backend: &dyn Backend) -> Session {
    Session {
        meta: SessionMeta {
            host: request.host,
            engine_ceiling_iops: request.engine_ceiling_iops,
            warnings: request.warnings,
            ..SessionMeta::new(request.id, backend.kind(), request.seed, clock::now())
        },
        experiment: request.experiment,
        experiment_text: request.text,
        trials: Vec::new(),
    }
}

/// Prepares and runs rounds until the answer is there, the budget is spent, or somebody stops it.
fn measure(
    session: &mut Session,
    backend: &mut dyn Backend,
    context: &mut RunContext<'_>,
) -> Result<Ending, StoreError> {
    context.watch.preparing(session, &context.control);
    match backend.prepare(&session.experiment, &context.control) {
        Ok(inventory) => session.meta.inventory = inventory,
        Err(BackendError::Stopped) => return Ok(Ending::Interrupted),
        Err(error) => return Ok(Ending::Failed(error.to_string())),
    }
    context.store(|store| store.update(&session.meta, None))?;
    context.observer.ready(&session.meta.inventory);

    let schedule = Schedule::new(&session.experiment, session.meta.seed);
    let simulated = backend.kind() == BackendKind::Sim;
    let start = Instant::now();
    for round in 0.. {
        let before = session.trials.len();
        let trials = schedule.round(round);
        backend.announce(&trials);
        for trial in trials {
            if !session.trials.is_empty() && !simulated {
                rest(session.experiment.answer.rest, context);
            }
            if context.stopped() {
                return Ok(Ending::Interrupted);
            }
            match run_trial(session, backend, context, &trial) {
                Some(record) => {
                    context.store(|store| store.add_trial(&session.meta.id, &record))?;
                    session.trials.push(record.clone());
                    context.watch.trial_ended(session, &record);
                }
                None => return Ok(Ending::Interrupted),
            }
        }
        let elapsed = if simulated { virtual_time(&session.trials) } else { nanos(start.elapsed()) };
        let nothing_ran =
            session.trials[before..].iter().all(|record| matches!(record.outcome, Outcome::Failed(_)));
        let decision = decide(&session.experiment, &session.trials, round + 1, elapsed);
        if nothing_ran || decision != Decision::Continue {
            return Ok(failed_designs(session)
                .map_or_else(|| decision.ending().unwrap_or(Ending::NotReached), Ending::Failed));
        }
    }
    Ok(Ending::NotReached)
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The trial with what came of it; `None` when it was stopped.
fn run_trial(
    session: &Session,
    backend: &mut dyn Backend,
    context: &mut RunContext<'_>,
    trial: &Trial,
) -> Option<TrialRecord> {
    let RunContext { control, watch, observer, .. } = context;
    let begins = || watch.trial_begins(session, trial, control);
    let outcome = measured(&session.experiment, trial, backend, *observer, control, begins)?;
    Some(TrialRecord { trial: *trial, outcome })
}

/// What came of `trial`, `observer` looking on; `None` when it was stopped. `begins` is called once `control` counts
/// from 0.
fn measured(
    experiment: &Experiment,
    trial: &Trial,
    backend: &mut dyn Backend,
    observer: &mut dyn TrialObserver,
    control: &Control,
    begins: impl FnOnce(),
) -> Option<Outcome> {
    match experiment.workloads.get(trial.workload) {
        Some(workload) => measured_as(workload, experiment, trial, backend, observer, control, begins),
        None => Some(Outcome::Failed("the experiment has no such workload".to_owned())),
    }
}

/// The same with `workload` instead of the trial's own.
fn measured_as(
    workload: &Workload,
    experiment: &Experiment,
    trial: &Trial,
    backend: &mut dyn Backend,
    observer: &mut dyn TrialObserver,
    control: &Control,
    begins: impl FnOnce(),
) -> Option<Outcome> {
    let Some(design) = experiment.designs.get(trial.design) else {
        return Some(Outcome::Failed("the experiment has no such design".to_owned()));
    };
    control.ops.store(0, Ordering::Relaxed);
    control.bytes.store(0, Ordering::Relaxed);
    begins();
    observer.begin(experiment, trial, control);
    let ran = backend.run_trial(design, workload, trial, control);
    control.edges.clear();
    let mut outcome = match ran {
        Ok(samples) => Outcome::Samples(Box::new(samples)),
        Err(BackendError::Stopped) => return None,
        Err(error) => Outcome::Failed(error.to_string()),
    };
    observer.end(&mut outcome);
    Some(outcome)
}

/// Says which designs have no trial with samples at all.
fn failed_designs(session: &Session) -> Option<String> {
    let failed: Vec<String> = (0..session.experiment.designs.len())
        .filter_map(|design| {
            let mut trials = session.trials.iter().filter(|record| record.trial.design == design).peekable();
            let first = trials.peek().and_then(|record| match &record.outcome {
                Outcome::Failed(why) => Some(why.clone()),
                Outcome::Samples(_) => None,
            })?;
            let name = &session.experiment.designs[design].name;
            trials
                .all(|record| matches!(record.outcome, Outcome::Failed(_)))
                .then(|| format!("every trial of {name} failed, the first with: {first}"))
        })
        .collect();
    (!failed.is_empty()).then(|| failed.join("; "))
}

/// Pauses between trials, in short steps so that a stop is heard.
fn rest(pause: Nanos, context: &RunContext<'_>) {
    let end = Instant::now() + Duration::from_nanos(pause.0);
    while !context.stopped() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

//! A session: runs an experiment on a backend, round by round, and stores each trial when it ends.

mod batches;
#[cfg(test)]
mod tests;

use crate::clock;
use crate::listener::SessionListener;
use crate::observer::Observer;
use crate::store::{Keep, StoreError};
use crate::trial::{self, Trials};
use crate::ways::Facts;
use ebbtide_analysis::latency_target::DepthSearch;
use ebbtide_analysis::stop::{Decider, Decision};
use ebbtide_analysis::{OfDesign, ladder};
use ebbtide_model::backend::{Backend, BackendError, Control};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::plan::RunPlan;
use ebbtide_model::schedule::{Referee, Schedule};
use ebbtide_model::session::{Ending, Outcome, Rung, Session, TrialRecord};
use ebbtide_model::units::Nanos;
use ebbtide_sim::virtual_time;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What takes part in a session beside the backend.
pub struct RunContext<'a, 'k> {
    /// What is known of the backend.
    pub facts: Facts,
    /// Where its trials are kept.
    pub keep_in: &'a mut Keep<'k>,
    /// How it is ended early.
    pub control: Arc<Control>,
    pub watch: &'a mut dyn SessionListener,
    /// Whether volumes that were made are kept.
    pub keep: bool,
    /// Existing volumes may be overwritten.
    pub destroy: bool,
}

impl RunContext<'_, '_> {
    fn stopped(&self) -> bool {
        self.control.stop.load(Ordering::Relaxed)
    }
}

/// A session that ended, whatever way.
#[derive(Debug)]
pub struct Ended {
    /// Without its trials: they are where they were kept.
    pub session: Session,
    /// How many there are.
    pub trials: usize,
}

impl Ended {
    /// Whether it failed before its first trial: there is nothing of it to keep or to show.
    pub fn was_refused(&self) -> bool {
        matches!(self.session.meta.ending, Ending::Failed(_)) && self.trials == 0
    }
}

/// Runs `session`, which has no trial yet, to its end, whatever that is: the ending is in the session that is returned. Its trials
/// go where the context keeps them, one by one as they end.
/// Everything that the backend made is put back, also after errors. One that was refused before its first trial is not
/// kept in the store.
///
/// # Errors
/// When the store cannot be written: going on would lose what is measured.
pub fn run(
    mut session: Session,
    backend: &mut dyn Backend,
    context: &mut RunContext<'_, '_>,
) -> Result<Ended, StoreError> {
    session.meta.started_unix = clock::now();
    let plan = RunPlan::new(&session.experiment, backend.kind(), session.meta.seed, context.destroy);
    let plan = serde_json::to_value(&plan).unwrap_or_default();
    context.keep_in.begin(&session, &plan)?;
    let mut course = Course::new(&session.experiment);

    let measured = measure(&mut session, &mut course, backend, context);
    context.watch.done();
    session.meta.ending = match &measured {
        Ok(ending) => ending.clone(),
        Err(error) => Ending::Failed(error.to_string()),
    };
    if let Some(left) = trial::put_back(backend, context.keep) {
        // There need not be a report that says it.
        tracing::error!("{left}");
        session.meta.warnings.push(left);
    }
    session.meta.ended_unix = Some(clock::now());
    measured?;
    let ended = Ended { session, trials: course.decider.seen() };
    let meta = &ended.session.meta;
    // Why is said on the spot; a session without a trial has nothing more to show.
    if ended.was_refused() { context.keep_in.forget(&meta.id) } else { context.keep_in.update(meta, None) }?;
    Ok(ended)
}

/// What is known of the trials that ended, which are kept elsewhere.
struct Course {
    decider: Decider,
    /// Of each design: whether a trial of it gave samples.
    ran: Vec<bool>,
    /// Of each design: why its first trial failed, where it did.
    first_failed: Vec<Option<String>>,
}

impl Course {
    fn new(experiment: &Experiment) -> Course {
        let designs = experiment.designs.len();
        Course {
            decider: Decider::new(experiment),
            ran: vec![false; designs],
            first_failed: vec![None; designs],
        }
    }

    /// Takes in a trial that ended.
    fn add(&mut self, experiment: &Experiment, record: &TrialRecord) {
        self.decider.add(experiment, record);
        let design = record.trial.design;
        let (Some(ran), Some(failed)) = (self.ran.get_mut(design), self.first_failed.get_mut(design)) else {
            return;
        };
        match &record.outcome {
            Outcome::Samples(_) => *ran = true,
            Outcome::Failed(why) => {
                failed.get_or_insert_with(|| why.clone());
            }
        }
    }

    /// Says which designs have no trial with samples at all. In a sweep they are out of the race, and the others are its answer,
    /// where there are any.
    fn failed_designs(&self, experiment: &Experiment) -> Option<String> {
        if experiment.sweep.is_some() && self.ran.contains(&true) {
            return None;
        }
        let designs = experiment.designs.iter().zip(self.ran.iter().zip(&self.first_failed));
        let failed = designs.filter_map(|(design, (ran, why))| {
            let why = why.as_ref().filter(|_| !ran)?;
            Some(format!("every trial of {} failed, the first with: {why}", design.name))
        });
        let failed: Vec<String> = failed.collect();
        (!failed.is_empty()).then(|| failed.join("; "))
    }
}

/// Up to so many trials are simulated at the same time: enough for every processor, and all whose samples are in memory before they are
/// condensed.
const AT_ONCE: usize = 32;

/// Prepares, runs rounds, and the ladders after the last one.
fn measure(
    session: &mut Session,
    course: &mut Course,
    backend: &mut dyn Backend,
    context: &mut RunContext<'_, '_>,
) -> Result<Ending, StoreError> {
    context.watch.preparing(session.experiment.volumes.len(), &context.control);
    match backend.prepare(&session.experiment, &context.control) {
        Ok(inventory) => session.meta.inventory = inventory,
        Err(BackendError::Stopped) => return Ok(Ending::Interrupted),
        Err(error) => return Ok(Ending::Failed(error.to_string())),
    }
    context.keep_in.update(&session.meta, None)?;
    let observer = context.facts.is_here.then(|| Observer::new(&session.meta.id, &session.meta.inventory));
    let control = context.control.clone();
    let mut trials = Trials { backend, observer: observer.as_ref(), control: &control };
    let ending = rounds(session, course, &mut trials, context)?;
    if matches!(ending, Ending::Reached | Ending::NotReached) {
        // What nothing explains after its ladder wants some of it again.
        for _ in 0..2 {
            let rungs = ladders(session, &course.decider, &mut trials, context)?;
            session.meta.rungs.extend(rungs);
        }
    }
    Ok(ending)
}

/// Runs rounds until the answer is there, the budget is spent, or somebody stops it.
fn rounds(
    session: &Session,
    course: &mut Course,
    trials: &mut Trials<'_>,
    context: &mut RunContext<'_, '_>,
) -> Result<Ending, StoreError> {
    let schedule = Schedule::new(&session.experiment, session.meta.seed);
    let simulated = context.facts.in_virtual_time;
    let searches = session.experiment.loads().any(|workload| workload.conditions.latency.is_some());
    let (start, mut virtually) = (Instant::now(), Nanos(0));
    for round in 0.. {
        let first = u32::try_from(course.decider.seen()).unwrap_or(u32::MAX);
        let of_round = schedule.round_of(round, first, |design| course.decider.runs(design));
        let mut nothing_ran = true;
        // What is simulated does not touch each other; a search goes from one step to the next.
        let at_once = if simulated && !searches { AT_ONCE } else { 1 };
        let runs = of_round.iter().map(|trial| trial::of_experiment(&session.experiment, trial));
        let runs = match runs.collect::<Result<Vec<_>, _>>() {
            Ok(runs) => runs,
            Err(error) => return Ok(Ending::Failed(error.to_string())),
        };
        for runs in batches::parts(&runs, at_once) {
            if course.decider.seen() > 0 && !simulated {
                rest(session.experiment.answer.rest, context);
            }
            if context.stopped() {
                return Ok(Ending::Interrupted);
            }
            let first = runs[0].trial;
            let so_far = course.decider.standing().point(first.design, first.workload);
            let mut begins = || context.watch.trial_begins(session, first, so_far, &context.control);
            let results = match (runs, DepthSearch::of(runs[0].workload)) {
                ([run], Some(search)) => {
                    begins();
                    vec![trials.search(run, search)]
                }
                _ => batches::whole(runs, trials.run(runs, begins).results),
            };
            for (run, result) in runs.iter().zip(results) {
                let outcome = match result {
                    Ok(samples) => Outcome::Samples(Box::new(samples.condensed())),
                    Err(failure) if failure.error == BackendError::Stopped => return Ok(Ending::Interrupted),
                    Err(failure) => Outcome::Failed(failure.error.to_string()),
                };
                let record = TrialRecord { trial: *run.trial, outcome };
                context.keep_in.add_trial(&session.meta.id, &record)?;
                course.add(&session.experiment, &record);
                nothing_ran &= matches!(record.outcome, Outcome::Failed(_));
                virtually = virtually.max(virtual_time(std::slice::from_ref(&record)));
                context.watch.trial_ended(session, &record);
            }
        }
        let elapsed = if simulated { virtually } else { nanos(start.elapsed()) };
        let decision = course.decider.decide(&session.experiment, round + 1, elapsed);
        if let Some(race) = course.decider.race() {
            context.watch.race(race.left().len(), race.sweep().arms.len());
        }
        if nothing_ran || decision != Decision::Continue {
            return Ok(course
                .failed_designs(&session.experiment)
                .map_or_else(|| decision.ending().unwrap_or(Ending::NotReached), Ending::Failed));
        }
    }
    Ok(Ending::NotReached)
}

/// The rungs of every design and workload that wants a ladder, or those that there was a chance to run. What is simulated
/// is known anyway, and what has lost a race nobody asks about.
fn ladders(
    session: &Session,
    decider: &Decider,
    trials: &mut Trials<'_>,
    context: &mut RunContext<'_, '_>,
) -> Result<Vec<Rung>, StoreError> {
    let mut rungs = Vec::new();
    if context.facts.in_virtual_time {
        return Ok(rungs);
    }
    let of_designs = |part: &OfDesign, records: &[&TrialRecord]| ladder::of_design(session, part, records);
    let mut of_designs = context.keep_in.by_design(session, of_designs)?;
    of_designs.sort_by_key(|(part, _)| part.design());
    for ladder in of_designs.into_iter().flat_map(|(_, ladders)| ladders) {
        if context.stopped() {
            break;
        }
        if !decider.runs(ladder.trial.design) {
            continue;
        }
        let Ok(run) = trial::of_experiment(&session.experiment, &ladder.trial) else { continue };
        context.watch.probing(&format!("{}, {}", run.design.name, run.workload.name), &context.control);
        rungs.extend(trials.climb(run.design, &ladder));
    }
    Ok(rungs)
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Pauses between trials, in short steps so that a stop is heard.
fn rest(pause: Nanos, context: &RunContext<'_, '_>) {
    let end = Instant::now() + Duration::from_nanos(pause.0);
    while !context.stopped() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

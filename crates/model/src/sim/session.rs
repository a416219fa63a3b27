//! A whole session in virtual time, as `ebb run --on sim` runs it: for studies, labelled cases and tests.

use super::{SimBackend, simulate};
use crate::analysis::stop::{Decision, decide};
use crate::backend::{Backend, BackendError, BackendKind, Control};
use crate::experiment::Experiment;
use crate::plan::Schedule;
use crate::session::{Ending, Outcome, Session, SessionMeta, TrialRecord};
use crate::units::Nanos;

/// The virtual instant at which the last of simulated `trials` ended; the first one began at 0.
pub fn virtual_time(trials: &[TrialRecord]) -> Nanos {
    let ends = trials.iter().filter_map(|record| match &record.outcome {
        Outcome::Samples(samples) => Some(samples.started_unix.plus(samples.elapsed)),
        Outcome::Failed(_) => None,
    });
    ends.max().unwrap_or_default()
}

/// Runs `experiment` in virtual time until its answer is there or its rounds or budget are used up. A pure
/// function: the same experiment and seed give the same session.
///
/// # Errors
/// When the experiment depends on what the simulator does not know. A trial that fails is part of the session.
pub fn session(experiment: &Experiment, seed: u64) -> Result<Session, BackendError> {
    let control = Control::default();
    let inventory = SimBackend::new(seed).prepare(experiment, &control)?;
    let mut session = Session {
        meta: SessionMeta {
            inventory,
            ..SessionMeta::new(format!("simulated-{seed}"), BackendKind::Sim, seed, Nanos(0))
        },
        experiment: experiment.clone(),
        experiment_text: String::new(),
        trials: Vec::new(),
    };
    let schedule = Schedule::new(experiment, seed);
    for round in 0.. {
        for trial in schedule.round(round) {
            let parts = experiment.designs.get(trial.design).zip(experiment.workloads.get(trial.workload));
            let Some((design, workload)) = parts else { continue };
            let outcome = match simulate(experiment, seed, design, workload, &trial, &control) {
                Ok(samples) => Outcome::Samples(Box::new(samples)),
                Err(error) => Outcome::Failed(error.to_string()),
            };
            session.trials.push(TrialRecord { trial, outcome });
        }
        match decide(experiment, &session.trials, round + 1, virtual_time(&session.trials)) {
            Decision::Continue => {}
            Decision::Reached => {
                session.meta.ending = Ending::Reached;
                break;
            }
            Decision::NotReached(_) => {
                session.meta.ending = Ending::NotReached;
                break;
            }
        }
    }
    Ok(session)
}

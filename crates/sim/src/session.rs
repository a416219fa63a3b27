//! A whole session in virtual time, as `ebb run --on sim` runs it: for studies, labelled cases and tests.

use super::{SimBackend, simulate};
use ebbtide_model::backend::{Backend, BackendError, BackendKind, Control};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::plan::Schedule;
use ebbtide_model::session::{Ending, Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_model::units::Nanos;

/// The virtual instant at which the last of simulated `trials` ended; the first one began at 0.
pub fn virtual_time(trials: &[TrialRecord]) -> Nanos {
    let ends = trials.iter().filter_map(|record| match &record.outcome {
        Outcome::Samples(samples) => Some(samples.started_unix.plus(samples.elapsed)),
        Outcome::Failed(_) => None,
    });
    ends.max().unwrap_or_default()
}

/// Runs `experiment` in virtual time until `stop` says how it ends, which is asked after each round with the trials so
/// far, their rounds and the virtual time that they took. A pure function where `stop` is one: the same experiment and
/// seed give the same session.
///
/// # Errors
/// When the experiment depends on what the simulator does not know. A trial that fails is part of the session.
pub fn session(
    experiment: &Experiment,
    seed: u64,
    stop: impl Fn(&Experiment, &[TrialRecord], u32, Nanos) -> Option<Ending>,
) -> Result<Session, BackendError> {
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
        if let Some(ending) = stop(experiment, &session.trials, round + 1, virtual_time(&session.trials)) {
            session.meta.ending = ending;
            break;
        }
    }
    Ok(session)
}

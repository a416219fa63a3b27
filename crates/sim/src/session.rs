//! A whole session in virtual time, as `ebb run --on sim` runs it: for studies, labelled cases and tests.

use super::{SimBackend, simulate_together};
use ebbtide_model::backend::{Backend, BackendError, BackendKind, Control, TrialRun};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::schedule::{Referee, Schedule};
use ebbtide_model::session::{Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_model::units::{Nanos, UnixTime};

/// Virtual time from the begin of the first of simulated `trials` to the end of the last.
pub fn virtual_time(trials: &[TrialRecord]) -> Nanos {
    let ends = trials.iter().filter_map(|record| match &record.outcome {
        Outcome::Samples(samples) => Some(samples.started_unix + samples.elapsed),
        Outcome::Failed(_) => None,
    });
    ends.max().unwrap_or(UnixTime::EPOCH) - UnixTime::EPOCH
}

/// Runs `experiment` in virtual time until `referee` says how it ends, which is asked after each round with the trials so
/// far, their rounds and the virtual time that they took. A pure function where that is one: the same experiment and
/// seed give the same session.
///
/// # Errors
/// When the experiment depends on what the simulator does not know. A trial that fails is part of the session.
pub fn session(
    experiment: &Experiment,
    seed: u64,
    mut referee: impl Referee,
) -> Result<Session, BackendError> {
    let control = Control::default();
    let inventory = SimBackend::new(seed).prepare(experiment, &control)?;
    let mut session = Session {
        meta: SessionMeta {
            inventory,
            ..SessionMeta::new(format!("simulated-{seed}"), BackendKind::Sim, seed, UnixTime::EPOCH)
        },
        experiment: experiment.clone(),
        experiment_text: String::new(),
        trials: Vec::new(),
    };
    let schedule = Schedule::new(experiment, seed);
    for round in 0.. {
        let first = u32::try_from(session.trials.len()).unwrap_or(u32::MAX);
        let trials = schedule.round_of(round, first, |design| referee.runs(design));
        let runs = trials.iter().filter_map(|trial| {
            let design = experiment.designs.get(trial.design)?;
            Some(TrialRun { design, workload: experiment.load(trial.design, trial.workload)?, trial })
        });
        for batch in runs.collect::<Vec<_>>().chunk_by(TrialRun::runs_beside) {
            let outcomes = match simulate_together(experiment, seed, batch, &control) {
                Ok(ran) => ran.into_iter().map(|samples| Outcome::Samples(Box::new(samples))).collect(),
                Err(error) => vec![Outcome::Failed(error.to_string()); batch.len()],
            };
            let records = batch.iter().zip(outcomes);
            session.trials.extend(records.map(|(run, outcome)| TrialRecord { trial: *run.trial, outcome }));
        }
        let elapsed = virtual_time(&session.trials);
        if let Some(ending) = referee.after(experiment, &session.trials, round + 1, elapsed) {
            session.meta.ending = ending;
            break;
        }
    }
    Ok(session)
}

//! The ladder after the last trial (`ebbtide_analysis::ladder`): runs its rungs, and looks around each as around a trial.

use super::{RunContext, measured_as};
use ebbtide_analysis::ladder::{self, Ladder};
use ebbtide_model::backend::{Backend, BackendKind};
use ebbtide_model::session::{Outcome, Rung, Session};

/// The rungs of every design and workload that wants a ladder, or those that there was a chance to run. What is simulated
/// is known anyway.
pub(super) fn ladders(
    session: &Session,
    backend: &mut dyn Backend,
    context: &mut RunContext<'_>,
) -> Vec<Rung> {
    let mut rungs = Vec::new();
    if backend.kind() == BackendKind::Sim {
        return rungs;
    }
    for ladder in ladder::of_session(session) {
        if context.stopped() {
            break;
        }
        context.watch.probing(session, &ladder.trial, &context.control);
        climb(&ladder, session, backend, context, &mut rungs);
    }
    rungs
}

/// Runs the rungs of one ladder on its design, which is built once.
fn climb(
    ladder: &Ladder,
    session: &Session,
    backend: &mut dyn Backend,
    context: &mut RunContext<'_>,
    rungs: &mut Vec<Rung>,
) {
    let experiment = &session.experiment;
    let (Some(design), Some(first)) = (experiment.designs.get(ladder.trial.design), ladder.rungs.first())
    else {
        return;
    };
    // The answer stands without it.
    if let Err(error) = backend.hold(design, first, &ladder.trial, &context.control) {
        tracing::debug!("no ladder of {}: {error}", design.name);
        return;
    }
    for (index, rung) in ladder.rungs.iter().enumerate() {
        let trial = ladder::trial_of(&ladder.trial, index);
        let RunContext { control, observer, .. } = context;
        match measured_as(rung, experiment, &trial, backend, *observer, control, || {}) {
            Some(Outcome::Samples(samples)) => rungs.push(ladder::ran(&design.name, rung, *samples)),
            Some(Outcome::Failed(why)) => tracing::debug!("a rung of {}: {why}", design.name),
            None => break,
        }
    }
    // What is left is told when everything is put back.
    if let Err(error) = backend.release() {
        tracing::warn!("{}: {error}", design.name);
    }
}

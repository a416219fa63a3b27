//! The trials of a session that belong together.

use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Role;
use ebbtide_model::session::{Outcome, Session, TrialRecord};

/// The trials of each design of `session`, in the order in which they ran.
pub fn by_design(session: &Session) -> Vec<Vec<&TrialRecord>> {
    let mut designs = vec![Vec::new(); session.experiment.designs.len()];
    for record in &session.trials {
        if let Some(of_design) = designs.get_mut(record.trial.design) {
            of_design.push(record);
        }
    }
    designs
}

/// Samples of the trials under one workload in one role.
pub fn samples<'a>(
    records: &'a [&'a TrialRecord],
    workload: usize,
    role: Role,
) -> impl Iterator<Item = (&'a TrialRecord, &'a TrialSamples)> {
    of(records, workload, role).filter_map(|record| match &record.outcome {
        Outcome::Samples(samples) if samples.elapsed.0 > 0 => Some((record, samples.as_ref())),
        _ => None,
    })
}

/// Of the trials of one design those under one workload in one role, those that failed too.
pub fn of<'a>(
    records: &'a [&'a TrialRecord],
    workload: usize,
    role: Role,
) -> impl Iterator<Item = &'a TrialRecord> {
    let meant = (workload, role);
    records.iter().copied().filter(move |record| (record.trial.workload, record.trial.role) == meant)
}

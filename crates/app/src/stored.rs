//! What a store holds, as it is shown: reports and comparisons, for the command line and for browsers.

use crate::views::Format;
use ebbtide_analysis::{TrialSummary, together};
use ebbtide_model::metric::Metric;
use ebbtide_model::session::{Ending, Session};
use ebbtide_report::{Beside, BesideError, CompareRequest, ComparedSession, OfDesign, Report};
use ebbtide_runner::store::{Store, StoreError, Summary};

/// The report of the session that `which` names, with as much of each trial as `format` shows.
///
/// # Errors
/// When there is no such session, or it cannot be read.
pub fn report(store: &Store, which: &str, format: Format) -> Result<Report, StoreError> {
    let session = store.head(which)?;
    let kept = format.kept(&session);
    let parts = store.by_design(&session, |part, records| OfDesign::new(&session, part, records, kept))?;
    let (parts, of_designs) = parts.into_iter().unzip();
    Ok(Report::together(&session, together(&session, parts), of_designs))
}

/// Why sessions are not compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// One is not there, or cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// They have nothing to compare.
    #[error(transparent)]
    Beside(#[from] BesideError),
}

/// Differences below it are nothing by themselves.
const INDIFFERENCE: f64 = 0.02;

/// What is asked of sessions, where `workloads` are written `NAME[,NAME...]`; without an `indifference` it is 2%, or the threshold where
/// that is less. Nothing where the indifference is more than the threshold: a regression would not even be called slower.
pub fn asked<S: AsRef<str>>(
    workloads: impl IntoIterator<Item = S>,
    mut metrics: Vec<Metric>,
    threshold: f64,
    indifference: Option<f64>,
) -> Option<CompareRequest> {
    metrics.sort_unstable();
    metrics.dedup();
    let indifference = indifference.unwrap_or(INDIFFERENCE.min(threshold));
    let asked = CompareRequest { tables: tables(workloads), metrics, indifference, threshold };
    (indifference <= threshold).then_some(asked)
}

/// The session, and the design where one is named, of SESSION or SESSION:DESIGN.
pub fn session_and_design(which: &str) -> (&str, Option<&str>) {
    which.split_once(':').map_or((which, None), |(id, design)| (id, Some(design)))
}

/// The sessions that `which` names (SESSION or SESSION:DESIGN) beside the first of them.
///
/// # Errors
/// See [`CompareError`].
pub fn beside<S: AsRef<str>>(
    store: &Store,
    which: &[S],
    asked: &CompareRequest,
) -> Result<Beside, CompareError> {
    let mut sessions: Vec<(Session, Vec<TrialSummary>, Option<&str>)> = Vec::new();
    for which in which.iter().map(S::as_ref) {
        let (id, design) = session_and_design(which);
        let session = store.head(id)?;
        // Two designs of one session are read once.
        let known = sessions.iter().find(|(known, ..)| known.meta.id == session.meta.id);
        let mut trials = known.map_or_else(Vec::new, |(_, trials, _)| trials.clone());
        if known.is_none() {
            store
                .each_trial(&session, |record| trials.push(TrialSummary::of(&session.experiment, &record)))?;
        }
        sessions.push((session, trials, design));
    }
    let sides: Vec<ComparedSession<'_>> = sessions
        .iter()
        .map(|(session, trials, design)| ComparedSession { session, trials, design: *design })
        .collect();
    Ok(Beside::new(&sides, asked)?)
}

/// The workloads that are written `NAME[,NAME...]`: those of one text are treated as the same workload.
fn tables<S: AsRef<str>>(workloads: impl IntoIterator<Item = S>) -> Vec<Vec<String>> {
    let names = |names: S| names.as_ref().split(',').map(|name| name.trim().to_owned()).collect();
    workloads.into_iter().map(names).collect()
}

/// The trials of a session, in words.
pub fn trials(session: &Summary) -> String {
    match session.failed {
        0 => session.trials.to_string(),
        failed => format!("{} + {failed} failed", session.trials),
    }
}

/// How a session ended, in words.
pub fn ended(session: &Summary) -> &'static str {
    match &session.ending {
        // It ended elsewhere, and no precision was asked for.
        Ending::Failed(_) => "failed",
        _ if session.backend == "import" => "imported",
        Ending::NotReached if session.backend == "bench" => "once",
        Ending::Reached => "reached",
        Ending::NotReached => "not reached",
        Ending::Interrupted => "interrupted",
        Ending::Unfinished => "unfinished",
    }
}

//! The best design of a sweep as an experiment file of its own: `-o best.toml`.

use crate::error::CliError;
use crate::experiment_file::LONGEST;
use ebbtide_analysis::race::{Lane, Raced};
use ebbtide_experiment::{alone, is_sweep};
use ebbtide_model::session::Session;
use ebbtide_model::shown::{Shown, one_line};
use ebbtide_model::sweep::Goal;
use std::path::Path;

/// Whether `path` asks for it.
pub(super) fn is_asked(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"))
}

/// That an experiment without a sweep has none.
pub(super) fn none(path: &Path) -> CliError {
    CliError::Usage(format!(
        "{}: only a sweep finds a best design, and this experiment has no [sweep]; use .html, .json, .csv or .txt",
        path.shown()
    ))
}

/// Looks whether what is at `path` may be replaced.
///
/// # Errors
/// When it is an experiment with a sweep: what the best design comes from is not lost to it.
pub(super) fn may_replace(path: &Path) -> Result<(), CliError> {
    // What is not there, is too long or is no text is no experiment.
    let text = ebbtide_door::read::text(path, LONGEST).unwrap_or_default();
    if is_sweep(&text) {
        return Err(CliError::Usage(format!(
            "{}: this file has a [sweep] of its own, which the best design would replace; choose another file with -o",
            path.shown()
        )));
    }
    Ok(())
}

/// The text of the file; nothing where no design that is left has run.
pub(super) fn text(session: &Session, race: &Raced) -> Option<String> {
    // Where every trial failed all are left, and none of them is the best.
    let measured =
        |lane: &Lane| lane.figures.iter().any(|(goal, value)| *goal != Goal::Price && value.is_some());
    let ran = |design: &usize| race.lanes.iter().any(|lane| lane.design == *design && measured(lane));
    let best = race.left.iter().copied().find(ran)?;
    let written = alone(&session.experiment_text, &session.experiment, best)?;
    let name = session.experiment.designs.get(best).map_or("", |design| design.name.as_str());
    let others = race.left.len().saturating_sub(1);
    let how = match race.winner() {
        Some(_) => "the best".to_owned(),
        None if race.decided => format!("the first of those that are left, {others} more are as good"),
        None => format!("the first of those that are left, not shown to be better than {others} more"),
    };
    let of = race.lanes.len();
    let lines = [
        format!("{name}: {how} of {of} designs"),
        format!("of the sweep `{}`, session {}", session.experiment.name, session.meta.id),
    ];
    let comment: String = lines.iter().map(|line| format!("# {}\n", one_line(line))).collect();
    Some(format!("{comment}\n{written}"))
}

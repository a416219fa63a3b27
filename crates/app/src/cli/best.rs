//! The best design of a sweep as an experiment file of its own: `-o best.toml`.

use crate::error::CliError;
use crate::experiment_file::LONGEST;
use ebbtide_analysis::race::{Lane, Raced};
use ebbtide_experiment::{alone, is_sweep};
use ebbtide_model::session::Session;
use ebbtide_model::shown::{Shown, one_line};
use ebbtide_model::sweep::{Goal, Objective};
use std::path::Path;

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

/// A design that was decided for, as an experiment of its own.
pub(super) struct Best {
    /// What is to be said of it before anything else.
    pub(super) said: String,
    /// The text of the file.
    pub(super) text: String,
}

/// Why there is no best design.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoBest {
    /// None is left that has run.
    None,
    /// It is not known which; the text says what is, and what would tell.
    Open(String),
}

impl NoBest {
    /// What is said of the file at `path`.
    pub(super) fn error(self, path: &Path) -> CliError {
        let path = path.shown();
        match self {
            NoBest::None => {
                CliError::Failed(format!("{path} is not written: no design is left that has run"))
            }
            NoBest::Open(why) => CliError::Inconclusive(format!("{path} is not written: {why}")),
        }
    }
}

/// What decides among designs that are as good as each other: the price, else what there is of them.
fn simplest(session: &Session, tied: &[usize]) -> Option<(usize, &'static str)> {
    let sweep = session.experiment.sweep.as_ref()?;
    let price = |design: usize| sweep.arms.iter().find(|arm| arm.design == design)?.price;
    let pieces = |design: usize| {
        let design = &session.experiment.designs[design];
        // The fewer volumes, levels and settings, the simpler.
        (design.volumes().len(), design.layout.to_string().len(), format!("{:?}", design.stack).len())
    };
    let prices: Option<Vec<f64>> = tied.iter().map(|design| price(*design)).collect();
    let least = prices.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let cheapest: Vec<usize> = match &prices {
        Some(prices) => {
            tied.iter().zip(prices).filter(|(_, price)| **price <= least).map(|(d, _)| *d).collect()
        }
        None => tied.to_vec(),
    };
    let how = if cheapest.len() < tied.len() { "the cheapest" } else { "the simplest" };
    cheapest.into_iter().min_by_key(|design| pieces(*design)).map(|design| (design, how))
}

/// The best design of `session`, where something was decided.
///
/// # Errors
/// Why there is none.
pub(super) fn best(session: &Session, race: &Raced) -> Result<Best, NoBest> {
    // Where every trial failed all are left, and none of them is the best.
    let measured =
        |lane: &Lane| lane.figures.iter().any(|(goal, value)| *goal != Goal::Price && value.is_some());
    let ran = |design: &usize| race.lanes.iter().any(|lane| lane.design == *design && measured(lane));
    let left: Vec<usize> = race.left.iter().copied().filter(ran).collect();
    let (number, of) = (left.len(), race.lanes.len());
    if left.is_empty() {
        return Err(NoBest::None);
    }
    if !race.decided {
        let why = format!(
            "{number} of {of} designs are left, and nothing tells which is the best; allow more rounds or time"
        );
        return Err(NoBest::Open(why));
    }
    if let (Objective::Pareto(_), 2..) = (&race.objective, number) {
        let why = format!(
            "{number} designs make the front, and none of them is the best; name one figure as the objective"
        );
        return Err(NoBest::Open(why));
    }
    let name =
        |design: usize| session.experiment.designs.get(design).map_or("", |design| design.name.as_str());
    let (best, said) = match race.winner() {
        Some(winner) => (winner, format!("{}: the best of {of} designs", name(winner))),
        None => {
            let (best, how) = simplest(session, &left).ok_or(NoBest::None)?;
            let name = name(best);
            let tie = format!("one of a tie: {number} of {of} designs are as good as each other");
            (best, format!("{tie}, and {name} is {how} of them"))
        }
    };
    let written = alone(&session.experiment_text, &session.experiment, best).ok_or(NoBest::None)?;
    let lines =
        [said.clone(), format!("of the sweep `{}`, session {}", session.experiment.name, session.meta.id)];
    let comment: String = lines.iter().map(|line| format!("# {}\n", one_line(line))).collect();
    Ok(Best { said, text: format!("{comment}\n{written}") })
}

//! Sessions beside one another: each that was named later against the first, with the ratio of each figure, its interval and what may
//! be concluded, and in what the sessions differ.

mod answer;
mod csv;
mod differs;
mod json;
mod measured;
mod model;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use answer::{conclusion, detectable, percent};
pub use csv::csv as beside_csv;
pub(crate) use model::letter;
pub use model::{
    Beside, BesideError, BesideFigures, BesideRow, BesideSession, BesideTable, CompareRequest,
    ComparedSession, Differs,
};

use ebbtide_analysis::between::{self, Bounds, Question};
use ebbtide_analysis::primary;
use ebbtide_model::backend::BackendKind;
use ebbtide_model::metric::Metric;
use ebbtide_model::session::Ending;
use ebbtide_model::workload::Workload;
use ebbtide_model::workload::options::{OPTIONS, WorkloadOption};
use measured::Measured;

impl Beside {
    /// Each of the `sides` after the first against the first.
    ///
    /// # Errors
    /// When a workload or a design that was asked for is in no session, or something is to be compared with itself.
    pub fn new(sides: &[ComparedSession<'_>], asked: &CompareRequest) -> Result<Beside, BesideError> {
        check(sides)?;
        let known = workload_names(sides);
        if let Some(name) = asked.tables.iter().flatten().find(|name| !known.contains(name)) {
            return Err(BesideError::NoWorkload { name: name.clone(), known });
        }
        let level = sides.first().map_or(0.95, |side| side.session.experiment.answer.level);
        let bounds = Bounds { level, indifference: asked.indifference, threshold: asked.threshold };
        let measured: Vec<Vec<Measured>> = sides.iter().map(Measured::all).collect();
        let mut questions: Vec<Question> = Vec::new();
        let mut beside = Beside {
            sessions: sides.iter().map(session).collect(),
            bounds,
            answer: Vec::new(),
            rows: Vec::new(),
            differs: differs::differs(sides),
            remarks: Vec::new(),
            tables: tables(sides, &measured, &known, &asked.tables, level),
        };
        for side in 1..sides.len() {
            let found = rows::matches(sides, &measured, side, &asked.tables);
            for one in &found {
                for metric in rows::metrics(&sides[0], one.both[0].workload, &asked.metrics) {
                    let Some((row, question)) = rows::ask(sides, one, metric, level) else { continue };
                    beside.rows.push(row);
                    questions.push(question);
                }
                beside.remarks.extend(depths(sides, one));
            }
            let unmatched = rows::unmatched(sides, &measured, side, &found, &asked.tables);
            beside.remarks.extend(answer::unmatched(side, &unmatched));
        }
        for (row, answered) in beside.rows.iter_mut().zip(between::compare(&questions, bounds)) {
            row.answered = answered;
        }
        beside.answer = answer::sentences(&beside);
        let of_rows = answer::of_rows(&beside);
        beside.remarks.extend(of_rows);
        beside.remarks.extend(sides.iter().enumerate().filter_map(|(index, side)| ended(index, side)));
        beside.remarks.extend(
            sides.iter().enumerate().skip(1).filter_map(|(index, side)| same_draws(index, side, &sides[0])),
        );
        let method = answer::method(&beside);
        beside.remarks.extend(method);
        Ok(beside)
    }
}

fn check(sides: &[ComparedSession<'_>]) -> Result<(), BesideError> {
    for (index, side) in sides.iter().enumerate() {
        let session = || side.session.meta.id.clone();
        let designs = &side.session.experiment.designs;
        if let Some(name) = side.design.filter(|name| designs.iter().all(|d| d.name != *name)) {
            let known = designs.iter().map(|d| d.name.clone()).collect();
            return Err(BesideError::NoDesign { session: session(), name: name.to_owned(), known });
        }
        let same = |other: &&ComparedSession<'_>| {
            other.session.meta.id == side.session.meta.id
                && (other.design == side.design || other.design.is_none() || side.design.is_none())
        };
        if sides.iter().take(index).any(|other| same(&other)) {
            return Err(BesideError::Twice { session: session() });
        }
    }
    Ok(())
}

fn session(side: &ComparedSession<'_>) -> BesideSession {
    let (meta, experiment) = (&side.session.meta, &side.session.experiment);
    BesideSession {
        id: meta.id.clone(),
        design: side.design.map(str::to_owned),
        experiment: experiment.name.clone(),
        backend: meta.backend,
        started_unix: meta.started_unix,
        hostname: meta.host.hostname.clone(),
        version: meta.version.clone(),
    }
}

/// The iodepth at which both ran, where that is one that was found to keep a latency.
fn depths(sides: &[ComparedSession<'_>], one: &rows::Match<'_>) -> Option<String> {
    let [first, other] = one.both.map(|measured| measured.depth());
    if first.is_none() && other.is_none() {
        return None;
    }
    let (design, workload) = rows::names(&sides[0], one.both[0]);
    let told = |depth: Option<String>| depth.unwrap_or_else(|| "none was found".to_owned());
    Some(format!(
        "The largest iodepth that keeps the latency, of {design} under {workload}: {} {}; {} {}.",
        letter(0),
        told(first),
        letter(one.side),
        told(other)
    ))
}

/// That a session did not run to its end.
fn ended(index: usize, side: &ComparedSession<'_>) -> Option<String> {
    let why = match &side.session.meta.ending {
        Ending::Interrupted => "was interrupted",
        Ending::Failed(_) => "failed before its end",
        Ending::Unfinished => "has no end on record (still running, or killed)",
        Ending::Reached | Ending::NotReached => return None,
    };
    Some(format!("{} {why}: only what had finished is compared.", letter(index)))
}

/// That a simulated session drew the same numbers as the first.
fn same_draws(index: usize, side: &ComparedSession<'_>, first: &ComparedSession<'_>) -> Option<String> {
    let (one, other) = (&side.session.meta, &first.session.meta);
    let simulated = [one, other].iter().all(|meta| meta.backend == BackendKind::Sim);
    (simulated && one.seed == other.seed && one.id != other.id).then(|| {
        format!(
            "{} was simulated with the seed of {}: both drew the same random numbers, which the intervals do not take into account.",
            letter(index),
            letter(0)
        )
    })
}

/// Names of all workloads, each once.
fn workload_names(sides: &[ComparedSession<'_>]) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for workload in sides.iter().flat_map(|side| &side.session.experiment.workloads) {
        if !known.contains(&workload.name) {
            known.push(workload.name.clone());
        }
    }
    known
}

/// A table for each of `asked`, or for each name of a workload.
fn tables(
    sides: &[ComparedSession<'_>],
    measured: &[Vec<Measured>],
    known: &[String],
    asked: &[Vec<String>],
    level: f64,
) -> Vec<BesideTable> {
    let each: Vec<Vec<String>> = known.iter().map(|name| vec![name.clone()]).collect();
    let tables = if asked.is_empty() { each.as_slice() } else { asked };
    tables.iter().filter_map(|names| table(sides, measured, names, level)).collect()
}

/// The table of the workloads called `names`; none when nothing was measured under them.
fn table(
    sides: &[ComparedSession<'_>],
    measured: &[Vec<Measured>],
    names: &[String],
    level: f64,
) -> Option<BesideTable> {
    let meant = |name: &str| names.iter().any(|n| n == name);
    let workloads: Vec<(usize, &Workload)> = sides
        .iter()
        .enumerate()
        .flat_map(|(index, side)| side.session.experiment.workloads.iter().map(move |w| (index, w)))
        .filter(|(_, workload)| meant(&workload.name))
        .collect();
    let (first, workload) = workloads.first()?;
    let metric = primary(&sides.get(*first)?.session.experiment.answer, workload);
    let mut figures: Vec<BesideFigures> = measured
        .iter()
        .enumerate()
        .flat_map(|(index, all)| all.iter().map(move |one| (index, one, rows::names(&sides[index], one))))
        .filter(|(_, one, (_, workload))| meant(workload) && one.trials() > 0)
        .map(|(session, one, (design, workload))| BesideFigures {
            session,
            design: design.to_owned(),
            workload: workload.to_owned(),
            trials: one.trials(),
            estimate: one.estimate(metric, level),
            lat_p50: one.estimate(Metric::LatP50, level),
            lat_p99: one.estimate(Metric::LatP99, level),
            ratio: None,
        })
        .collect();
    let first = figures.first()?.estimate.map(|e| e.median).filter(|median| *median > 0.0);
    for row in figures.iter_mut().skip(1) {
        row.ratio = first.and_then(|first| Some(row.estimate?.median / first));
    }
    let told =
        |(session, workload): &(usize, &Workload)| (*session, workload.name.clone(), workload.in_words());
    Some(BesideTable {
        metric,
        workloads: workloads.iter().map(told).collect(),
        differences: differences(&workloads.iter().map(|(_, workload)| *workload).collect::<Vec<_>>()),
        rows: figures,
    })
}

/// Settings, by fio's names, in which some of `workloads` differ from the first; when they end is none of what they do.
fn differences(workloads: &[&Workload]) -> Vec<&'static str> {
    let Some((first, rest)) = workloads.split_first() else { return Vec::new() };
    let says = OPTIONS.iter().filter(|option| !["runtime", "time_based", "io_size"].contains(&option.name));
    let differ =
        |option: &&WorkloadOption| rest.iter().any(|other| (option.fio)(other) != (option.fio)(first));
    says.filter(differ).map(|option| option.name).collect()
}

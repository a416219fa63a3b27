//! Sessions beside one another: each that was named later against the first, with the ratio of each figure, its interval and what may
//! be concluded, and in what the sessions differ.

mod answer;
mod csv;
mod differs;
mod json;
mod measured;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use answer::{conclusion, detectable, percent};
pub use csv::csv as beside_csv;
pub use differs::Differs;

use ebbtide_analysis::between::{self, Answered, Bounds, Gate, Question};
use ebbtide_analysis::{Conclusion, Estimate, TrialSummary, primary};
use ebbtide_model::backend::BackendKind;
use ebbtide_model::metric::Metric;
use ebbtide_model::session::{Ending, Session};
use ebbtide_model::units::UnixTime;
use ebbtide_model::workload::Workload;
use ebbtide_model::workload::options::{OPTIONS, WorkloadOption};
use measured::Measured;

/// Why trials of two sessions say less than those of one.
pub(super) const NOT_PAIRED: &str = "Trials of different sessions are not paired: their intervals hold for the hours in which the \
     sessions ran. Hour, machine and whatever else differs may explain a difference; run the sessions in turn and more than once, or \
     both designs in one experiment, to find out.";

/// What a row holds until it is answered.
const UNANSWERED: Answered = Answered {
    ratio: None,
    interval: None,
    p: 1.0,
    conclusion: Conclusion::Inconclusive,
    gate: Gate::Undecided,
    detectable: None,
    correlation: 0.0,
};

/// A session that is to be compared, or one design of it.
#[derive(Debug, Clone, Copy)]
pub struct ComparedSession<'a> {
    /// The session; its trials are not looked at.
    pub session: &'a Session,
    /// Its trials by their figures, in the order in which they ran.
    pub trials: &'a [TrialSummary],
    /// The only design that counts; all of them where it is not given.
    pub design: Option<&'a str>,
}

/// What is asked of the sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareRequest {
    /// Names of workloads, those of one table taken for the same work; empty: all, by their names.
    pub tables: Vec<Vec<String>>,
    /// Metrics that count; empty: the headline of each workload, and the 99th percentile of latency.
    pub metrics: Vec<Metric>,
    /// Ratio, less 1, within which nothing is called faster or slower.
    pub indifference: f64,
    /// Ratio, less 1, beyond which what is worse is a regression.
    pub threshold: f64,
}

/// Sessions beside one another.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// The sessions in the order in which they were named.
    pub sessions: Vec<BesideSession>,
    /// What differences count, and the level of the intervals, which is that of the first session.
    pub bounds: Bounds,
    /// The answer: whether there is a regression, and where.
    pub answer: Vec<String>,
    /// Each later session against the first, by session, workload, design and metric.
    pub rows: Vec<BesideRow>,
    /// What is not the same in all sessions.
    pub differs: Vec<Differs>,
    /// Sentences about what was not compared, and what to know of what was.
    pub remarks: Vec<String>,
    /// What each session measured, one table for each workload.
    pub tables: Vec<BesideTable>,
}

/// A session of the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BesideSession {
    /// Id of the session.
    pub id: String,
    /// The only design of it that counts, where one was named.
    pub design: Option<String>,
    /// Name of its experiment.
    pub experiment: String,
    /// What it ran on.
    pub backend: BackendKind,
    /// When the session started.
    pub started_unix: UnixTime,
    /// Name of the host; empty where it is not known.
    pub hostname: String,
    /// Version of `ebb` that measured or imported it.
    pub version: String,
}

/// A design under a workload by one metric, in the first session and in another.
#[derive(Debug, Clone, PartialEq)]
pub struct BesideRow {
    /// Index of the other session.
    pub side: usize,
    /// Names of the design in the first and in the other.
    pub designs: [String; 2],
    /// Names of the workload in the first and in the other.
    pub workloads: [String; 2],
    /// The figure that is compared.
    pub metric: Metric,
    /// Medians with their intervals, where it was measured.
    pub estimates: [Option<Estimate>; 2],
    /// Values of the trials behind them.
    pub values: [Vec<f64>; 2],
    /// Trials that failed, of each session.
    pub failed: [usize; 2],
    /// Whether the trials are paired by round: designs of one session.
    pub paired: bool,
    /// The other by the first, and what may be said of it.
    pub answered: Answered,
}

/// What the sessions measured under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct BesideTable {
    /// The metric by which the first workload is judged.
    pub metric: Metric,
    /// The workloads that are taken for the same: (index of the session, name, what it does in words).
    pub workloads: Vec<(usize, String, String)>,
    /// Settings that are not the same in all of them, in words; durations are not looked at.
    pub differences: Vec<&'static str>,
    /// By session, then by design in the experiment's order.
    pub rows: Vec<BesideFigures>,
}

/// A design of a session under a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct BesideFigures {
    /// Index of the session.
    pub session: usize,
    /// Name of the design.
    pub design: String,
    /// Name of the workload.
    pub workload: String,
    /// Trials that gave samples.
    pub trials: usize,
    /// The table's metric, where it was measured.
    pub estimate: Option<Estimate>,
    /// Median latency in nanoseconds, where it is known.
    pub lat_p50: Option<Estimate>,
    /// 99th percentile of latency in nanoseconds, where it is known.
    pub lat_p99: Option<Estimate>,
    /// Its median by that of the table's first row; absent in the first row and where either is not known.
    pub ratio: Option<f64>,
}

/// Why sessions cannot be put beside one another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum BesideError {
    /// A workload was asked for that no session has.
    #[error("no workload is named `{name}` in these sessions; there are: {}", known.join(", "))]
    NoWorkload {
        /// The name that was asked for.
        name: String,
        known: Vec<String>,
    },
    /// A design was asked for that its session does not have.
    #[error("session {session} has no design `{name}`; it has: {}", known.join(", "))]
    NoDesign {
        session: String,
        /// The name that was asked for.
        name: String,
        known: Vec<String>,
    },
    /// A session or a design of it is named twice.
    #[error(
        "session {session} is named already; name another one (`ebb list` shows them), or two designs of it, {session}:DESIGN"
    )]
    Twice { session: String },
}

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

    /// Whether a gate may pass: no row is a regression, and each is known not to be one.
    pub fn gate(&self) -> Gate {
        self.rows.iter().map(|row| row.answered.gate).max().unwrap_or(Gate::Undecided)
    }

    fn id(&self, session: usize) -> &str {
        self.sessions.get(session).map_or("–", |s| &s.id)
    }
}

/// What a session is called beside others: A, B, and so on; numbers after Z.
pub(crate) fn letter(session: usize) -> String {
    u8::try_from(session)
        .ok()
        .filter(|&index| index < 26)
        .map_or_else(|| (session + 1).to_string(), |index| char::from(b'A' + index).to_string())
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

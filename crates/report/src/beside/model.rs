//! The model that every view of a comparison renders.

use ebbtide_analysis::between::{Answered, Bounds, Gate};
use ebbtide_analysis::{Estimate, TrialSummary};
use ebbtide_model::backend::BackendKind;
use ebbtide_model::metric::Metric;
use ebbtide_model::session::Session;
use ebbtide_model::units::UnixTime;

/// Why trials of two sessions say less than those of one.
pub(super) const NOT_PAIRED: &str = "Trials of different sessions are not paired: their intervals hold for the hours in which the \
     sessions ran. Hour, machine and whatever else differs may explain a difference; run the sessions in turn and more than once, or \
     both designs in one experiment, to find out.";

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
    #[error("session {session}: it has no design `{name}`; it has {}", known.join(", "))]
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

/// Something that is not the same in all sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differs {
    /// What it is, for example `kernel` or `size of vol0`.
    pub what: String,
    /// Its value in each session, in their order; nothing where it is not known or not there.
    pub values: Vec<Option<String>>,
}

impl Beside {
    /// Whether a gate may pass: no row is a regression, and each is known not to be one.
    pub fn gate(&self) -> Gate {
        self.rows.iter().map(|row| row.answered.gate).max().unwrap_or(Gate::Undecided)
    }

    pub(super) fn id(&self, session: usize) -> &str {
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

//! Sessions beside one another: a row for each session and design under workloads of one name, or under those that the
//! reader calls the same.
//!
//! Trials of different sessions are not paired, so a ratio across sessions is one of medians and has no interval.

use super::describe;
use ebbtide_analysis::{Analysis, Estimate, primary};
use ebbtide_model::backend::BackendKind;
use ebbtide_model::metric::Metric;
use ebbtide_model::session::Session;
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::Workload;
use ebbtide_model::workload::options::{OPTIONS, WorkloadOption};
use serde_json::{Value, json};

/// Name and version of the shape that [`Beside::json`] writes.
const SCHEMA: &str = "ebbtide.compare/1";

/// Why a ratio across sessions says less than one within a session.
pub(super) const NOT_PAIRED: &str = "Ratios are of medians, to the first row of each table. Trials of different sessions \
     are not paired: hour, machine and version may explain a difference, so these ratios have no interval.";

/// Sessions beside one another.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// The sessions in the order in which they were named.
    pub sessions: Vec<BesideSession>,
    /// One table for each workload.
    pub tables: Vec<BesideTable>,
}

/// A session of the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BesideSession {
    /// The session's id.
    pub id: String,
    /// Name of its experiment.
    pub experiment: String,
    /// What it ran on.
    pub backend: BackendKind,
    /// Wall clock at its start, nanoseconds since the epoch.
    pub started_unix: Nanos,
    /// Name of the host; empty where it is not known.
    pub hostname: String,
    /// Version of `ebb` that measured or imported it.
    pub version: String,
}

/// What the sessions measured under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct BesideTable {
    /// The metric of the column with the ratio: the one by which the first workload is judged.
    pub metric: Metric,
    /// The workloads that are taken for the same: (index of the session, name, what it does in words).
    pub workloads: Vec<(usize, String, String)>,
    /// Settings that are not the same in all of them, in words; durations are not looked at.
    pub differences: Vec<&'static str>,
    /// By session, then by design in the experiment's order.
    pub rows: Vec<BesideRow>,
}

/// A design of a session under a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct BesideRow {
    /// Index of the session.
    pub session: usize,
    /// Name of the design.
    pub design: String,
    /// Name of the workload.
    pub workload: String,
    /// Trials that gave samples.
    pub trials: u32,
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
pub enum BesideError {
    /// A workload was asked for that no session has.
    #[error("no workload is named `{name}` in these sessions; there are: {}", known.join(", "))]
    NoWorkload {
        /// The name that was asked for.
        name: String,
        /// Names that the sessions have.
        known: Vec<String>,
    },
}

impl Beside {
    /// The `sessions` beside one another. Each of `tables` lists the names of the workloads of one table; when it is
    /// empty, workloads of the same name share a table.
    ///
    /// # Errors
    /// When a name of `tables` is in no session.
    pub fn new(sessions: &[(&Session, &Analysis)], tables: &[Vec<String>]) -> Result<Beside, BesideError> {
        let mut known: Vec<String> = Vec::new();
        for workload in sessions.iter().flat_map(|(session, _)| &session.experiment.workloads) {
            if !known.contains(&workload.name) {
                known.push(workload.name.clone());
            }
        }
        if let Some(name) = tables.iter().flatten().find(|name| !known.contains(name)) {
            return Err(BesideError::NoWorkload { name: name.clone(), known });
        }
        let each: Vec<Vec<String>> = known.into_iter().map(|name| vec![name]).collect();
        let tables = if tables.is_empty() { &each } else { tables };
        Ok(Beside {
            sessions: sessions
                .iter()
                .map(|(session, _)| BesideSession {
                    id: session.meta.id.clone(),
                    experiment: session.experiment.name.clone(),
                    backend: session.meta.backend,
                    started_unix: session.meta.started_unix,
                    hostname: session.meta.host.hostname.clone(),
                    version: session.meta.version.clone(),
                })
                .collect(),
            tables: tables.iter().filter_map(|names| table(sessions, names)).collect(),
        })
    }

    /// Whether some table has rows of more than one session.
    pub fn shares_a_workload(&self) -> bool {
        self.tables.iter().any(|table| {
            table.rows.first().is_some_and(|first| table.rows.iter().any(|row| row.session != first.session))
        })
    }

    /// The comparison as one JSON object, schema `ebbtide.compare/1`, in base units; what is not known is `null`.
    pub fn json(&self) -> Value {
        json!({
            "schema": SCHEMA,
            "note": NOT_PAIRED,
            "sessions": self.sessions.iter().map(|s| json!({
                "id": s.id, "experiment": s.experiment, "backend": s.backend, "hostname": s.hostname,
                "started_unix_ns": s.started_unix, "version": s.version,
            })).collect::<Vec<_>>(),
            "tables": self.tables.iter().map(|table| json!({
                "metric": table.metric.name(),
                "unit": table.metric.unit(),
                "workloads": table.workloads.iter().map(|(session, name, summary)| json!({
                    "session": self.id(*session), "name": name, "summary": summary,
                })).collect::<Vec<_>>(),
                "differences": table.differences,
                "rows": table.rows.iter().map(|row| json!({
                    "session": self.id(row.session),
                    "design": row.design,
                    "workload": row.workload,
                    "trials": row.trials,
                    table.metric.name(): estimate(row.estimate.as_ref()),
                    "lat_p50": estimate(row.lat_p50.as_ref()),
                    "lat_p99": estimate(row.lat_p99.as_ref()),
                    "ratio": row.ratio,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    }

    fn id(&self, session: usize) -> &str {
        self.sessions.get(session).map_or("–", |s| &s.id)
    }
}

fn estimate(estimate: Option<&Estimate>) -> Value {
    estimate.map_or(Value::Null, |e| {
        json!({
            "median": e.median, "ci_low": e.interval.map(|i| i.0), "ci_high": e.interval.map(|i| i.1),
            "ci_level": e.ci_level,
        })
    })
}

/// The table of the workloads called `names`; none when nothing was measured under them.
fn table(sessions: &[(&Session, &Analysis)], names: &[String]) -> Option<BesideTable> {
    let meant = |name: &str| names.iter().any(|n| n == name);
    let asked: Vec<(usize, &Workload)> = sessions
        .iter()
        .enumerate()
        .flat_map(|(index, (session, _))| session.experiment.workloads.iter().map(move |w| (index, w)))
        .filter(|(_, workload)| meant(&workload.name))
        .collect();
    let (first, workload) = asked.first()?;
    let metric = primary(&sessions.get(*first)?.0.experiment.answer, workload);
    let mut rows: Vec<BesideRow> = sessions
        .iter()
        .enumerate()
        .flat_map(|(index, (_, analysis))| analysis.results.iter().map(move |result| (index, result)))
        .filter(|(_, result)| meant(&result.workload) && result.trials > 0)
        .map(|(session, result)| BesideRow {
            session,
            design: result.design.clone(),
            workload: result.workload.clone(),
            trials: result.trials,
            estimate: result.metric(metric).copied(),
            lat_p50: result.metric(Metric::LatP50).copied(),
            lat_p99: result.metric(Metric::LatP99).copied(),
            ratio: None,
        })
        .collect();
    let first = rows.first()?.estimate.map(|e| e.median).filter(|median| *median > 0.0);
    for row in rows.iter_mut().skip(1) {
        row.ratio = first.and_then(|first| Some(row.estimate?.median / first));
    }
    let told = |(session, workload): &(usize, &Workload)| {
        (*session, workload.name.clone(), describe::workload(workload))
    };
    Some(BesideTable {
        metric,
        workloads: asked.iter().map(told).collect(),
        differences: differences(&asked.iter().map(|(_, workload)| *workload).collect::<Vec<_>>()),
        rows,
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

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_analysis::analyse;
    use ebbtide_formats::import;

    const FIO: &str = include_str!("../../formats/src/import/recorded/fio-3.33.txt");
    const BONNIE: &str = include_str!("../../formats/src/import/recorded/bonnie-2.00.csv");

    fn imported(text: &str, id: &str) -> Session {
        let first = import::parse(text).unwrap().remove(0);
        import::session(first, id.to_owned(), "0.1.0", Nanos(1_000_000_000_000))
    }

    fn beside(tables: &[Vec<String>]) -> Result<Beside, BesideError> {
        let sessions = [imported(FIO, "one"), imported(BONNIE, "two")];
        let analyses = sessions.each_ref().map(analyse);
        let both: Vec<_> = sessions.iter().zip(&analyses).collect();
        Beside::new(&both, tables)
    }

    #[test]
    fn workloads_of_other_names_share_a_table_only_when_asked() {
        let plain = beside(&[]).unwrap();
        assert!(!plain.shares_a_workload(), "fio's and bonnie++'s names differ: {plain:?}");
        let asked = beside(&[vec!["seqread".to_owned(), "getc".to_owned()]]).unwrap();
        assert!(asked.shares_a_workload());
        let [table] = asked.tables.as_slice() else { panic!("{asked:?}") };
        let [fio, bonnie] = table.rows.as_slice() else { panic!("{table:?}") };
        assert_eq!((fio.session, fio.ratio, bonnie.session), (0, None, 1));
        let ratio = bonnie.estimate.unwrap().median / fio.estimate.unwrap().median;
        assert_eq!(bonnie.ratio, Some(ratio));
        assert!(table.differences.contains(&"bs"), "{:?}", table.differences);
        assert!(bonnie.lat_p50.is_none(), "bonnie++ keeps no distribution");
        let json = asked.json();
        assert_eq!(json["tables"][0]["rows"][1]["ratio"], ratio);
        assert!(json["tables"][0]["rows"][1]["lat_p50"].is_null());
    }

    #[test]
    fn a_workload_that_nobody_has_is_named() {
        let error = beside(&[vec!["seqraed".to_owned()]]).unwrap_err().to_string();
        assert!(error.contains("`seqraed`") && error.contains("seqread"), "{error}");
    }
}

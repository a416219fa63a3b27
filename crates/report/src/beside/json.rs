//! The comparison as JSON, schema `ebbtide.compare/1`, in base units; what is not known is `null`.

use super::model::{Beside, BesideRow, NOT_PAIRED};
use ebbtide_analysis::Estimate;
use serde_json::{Value, json};

/// Name and version of the shape that [`Beside::json`] writes.
const SCHEMA: &str = "ebbtide.compare/1";

impl Beside {
    /// The comparison as one JSON object.
    pub fn json(&self) -> Value {
        json!({
            "schema": SCHEMA,
            "answer": self.answer,
            "gate": self.gate(),
            "ci_level": self.bounds.level,
            "indifference": self.bounds.indifference,
            "threshold": self.bounds.threshold,
            "comparisons": self.rows.iter().map(|row| self.comparison(row)).collect::<Vec<_>>(),
            "differs": self.differs.iter().map(|d| json!({ "what": d.what, "values": d.values })).collect::<Vec<_>>(),
            "remarks": self.remarks,
            "note": NOT_PAIRED,
            "sessions": self.sessions.iter().map(|s| json!({
                "id": s.id, "design": s.design, "experiment": s.experiment, "backend": s.backend, "hostname": s.hostname,
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

    fn comparison(&self, row: &BesideRow) -> Value {
        let answered = &row.answered;
        let side = |index: usize, session: usize| {
            json!({
                "session": self.id(session), "design": row.designs[index], "workload": row.workloads[index],
                "trials": row.values[index].len(), "trials_failed": row.failed[index],
                "median": row.estimates[index].map(|e| e.median),
                "ci_low": row.estimates[index].and_then(|e| e.interval).map(|i| i.0),
                "ci_high": row.estimates[index].and_then(|e| e.interval).map(|i| i.1),
            })
        };
        json!({
            "design": row.designs[0],
            "workload": row.workloads[0],
            "metric": row.metric.name(),
            "unit": row.metric.unit(),
            "ratio": answered.ratio,
            "ci_low": answered.interval.map(|i| i.0),
            "ci_high": answered.interval.map(|i| i.1),
            "ci_level": self.bounds.level,
            "p": answered.p,
            "conclusion": answered.conclusion,
            "gate": answered.gate,
            "detectable": answered.detectable,
            "correlation": answered.correlation,
            "paired": row.paired,
            "against": side(0, 0),
            "session": side(1, row.side),
        })
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

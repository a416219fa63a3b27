//! The report as JSON, schema `ebbtide.session/1`. Numbers are in base units: bytes, nanoseconds, operations per
//! second; what is not known is `null`, never 0.

use super::model::{LatencyView, Report, ResultView, TrialView};
use super::words;
use ebbtide_analysis::{MemberShare, Verdict};
use ebbtide_model::metric::Metric;
use ebbtide_model::session::Ending;
use ebbtide_model::workload::OpKind;
use serde_json::{Map, Value, json};

/// Name and version of the shape that [`json`] writes.
pub const SCHEMA: &str = "ebbtide.session/1";

/// What to add to the JSON that is not always wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JsonOptions {
    /// Percentiles of every result by operation kind.
    pub percentiles: bool,
    /// Every trial with its series of intervals, its CPU and what was observed around it.
    pub series: bool,
}

/// The report as one JSON object.
pub fn json(report: &Report, options: JsonOptions) -> Value {
    let mut document = json!({
        "schema": SCHEMA,
        "session": session(report),
        "answer": report.answer,
        "designs": report.designs.iter().map(|d| json!({
            "name": d.name, "layout": d.layout, "members": d.members,
        })).collect::<Vec<_>>(),
        "workloads": report.workloads.iter().map(|w| json!({
            "name": w.name, "summary": w.summary, "primary_metric": w.headline.name(),
        })).collect::<Vec<_>>(),
        "results": report.results.iter().flat_map(results).collect::<Vec<_>>(),
        "comparisons": report.comparisons.iter().map(|c| json!({
            "design": c.design, "control": c.control, "workload": c.workload, "metric": c.metric.name(),
            "ratio": c.ratio, "ci_low": c.interval.map(|i| i.0), "ci_high": c.interval.map(|i| i.1),
            "ci_level": c.ci_level, "rounds": c.rounds, "conclusion": c.conclusion,
        })).collect::<Vec<_>>(),
        "undecided": report.undecided.iter().map(|u| json!({
            "design": u.design, "workload": u.workload, "metric": u.metric.name(),
            "ci_low": u.interval.map(|i| i.0), "ci_high": u.interval.map(|i| i.1), "rounds": u.rounds,
        })).collect::<Vec<_>>(),
        "aa": report.aa.iter().map(|a| json!({
            "design": a.design, "workload": a.workload, "metric": a.metric.name(),
            "ratio": a.ratio, "ci_low": a.interval.map(|i| i.0), "ci_high": a.interval.map(|i| i.1),
            "ci_level": a.ci_level, "rounds": a.rounds, "same": a.same,
        })).collect::<Vec<_>>(),
        "warnings": report.warnings,
    });
    if let Value::Object(object) = &mut document {
        if options.percentiles {
            object.insert("latencies".to_owned(), latencies(report));
        }
        if options.series {
            object.insert("trials".to_owned(), report.trials.iter().map(|t| trial(report, t)).collect());
        }
    }
    document
}

fn session(report: &Report) -> Value {
    let meta = &report.session;
    let (ending, reason) = match &meta.ending {
        _ if meta.imported() => ("imported", None),
        Ending::Reached => ("reached", None),
        Ending::NotReached => ("not_reached", None),
        Ending::Interrupted => ("interrupted", None),
        Ending::Failed(why) => ("failed", Some(why)),
        Ending::Unfinished => ("unfinished", None),
    };
    let finished = report.trials.iter().filter(|t| t.outcome.is_ok()).count();
    json!({
        "id": meta.id,
        "backend": meta.backend,
        "seed": meta.seed,
        "version": meta.version,
        "started_unix_ns": meta.started_unix,
        "ended_unix_ns": meta.ended_unix,
        "ending": ending,
        "ending_reason": reason,
        "experiment": report.experiment,
        "control": report.design_name(report.control),
        "ci_level": report.ci_level,
        "precision": report.precision,
        "rounds": report.rounds,
        "trials": finished,
        "trials_failed": report.trials.len() - finished,
        "host": meta.host,
        "engine_ceiling_iops": meta.engine_ceiling_iops,
        "inventory": meta.inventory,
    })
}

/// One object for each metric of a result.
fn results(view: &ResultView) -> Vec<Value> {
    let result = &view.result;
    let members: Vec<Value> = result.members.iter().map(member).collect();
    let main = result.verdicts.first().map_or(Value::Null, verdict);
    let verdicts: Vec<Value> = result.verdicts.iter().map(verdict).collect();
    result
        .metrics
        .iter()
        .map(|(metric, estimate)| {
            let mut object = json!({
                "design": result.design,
                "workload": result.workload,
                "metric": metric.name(),
                "unit": metric.unit(),
                "primary": *metric == result.primary,
                "trials": estimate.trials,
                "trials_failed": result.failed.len(),
                "median": estimate.median,
                "ci_low": estimate.interval.map(|i| i.0),
                "ci_high": estimate.interval.map(|i| i.1),
                "ci_level": estimate.ci_level,
                "reached": if *metric == result.primary { result.precise } else { None },
                "steady": result.steady,
                "members": members,
                "verdict": main,
                "verdicts": verdicts,
            });
            if !result.below.is_empty() {
                object["below"] = json!(result.below);
            }
            object
        })
        .collect()
}

fn member(member: &MemberShare) -> Value {
    json!({
        "name": member.name,
        "share": member.share,
        "throughput": member.throughput,
        "iops": member.iops,
        "lat_p50": member.lat_p50,
        "lat_p99": member.lat_p99,
        "in_flight": member.in_flight,
        "errors": member.errors,
    })
}

fn verdict(verdict: &Verdict) -> Value {
    json!({
        "kind": verdict.kind.name(),
        "basis": verdict.basis,
        "confidence": verdict.confidence,
        "explains": verdict.explains,
        "sentence": verdict.sentence,
        "evidence": verdict.evidence,
    })
}

fn latencies(report: &Report) -> Value {
    let one = |view: &ResultView, op: OpKind, latency: &LatencyView| -> Value {
        let percentiles: Map<String, Value> =
            latency.percentiles.iter().map(|(q, ns)| (words::quantile_key(*q), json!(ns))).collect();
        json!({
            "design": view.result.design,
            "workload": view.result.workload,
            "op": op,
            "unit": Metric::LatP50.unit(),
            "count": latency.count,
            "percentiles": percentiles,
        })
    };
    report
        .results
        .iter()
        .flat_map(|view| view.latencies().map(|(op, latency)| one(view, op, latency)).collect::<Vec<_>>())
        .collect()
}

fn trial(report: &Report, trial: &TrialView) -> Value {
    let mut object = json!({
        "index": trial.index,
        "round": trial.round,
        "design": report.design_name(trial.design),
        "workload": report.workload_name(trial.workload),
        "role": words::role_key(trial),
    });
    let details = match &trial.outcome {
        Err(why) => json!({ "failed": why }),
        Ok(figures) => json!({
            "elapsed_s": figures.elapsed_s,
            "values": figures.values.iter().map(|(m, v)| (m.name().to_owned(), json!(v))).collect::<Map<_, _>>(),
            "notes": figures.notes,
            "members": figures.members,
            "cpu": figures.cpu,
            "observed": figures.observed,
            "series": figures.series.iter().map(|p| json!({
                "end_s": p.end_s, "throughput": p.bytes_per_second, "iops": p.ops_per_second,
                "members_throughput": p.members,
            })).collect::<Vec<_>>(),
        }),
    };
    if let (Value::Object(object), Value::Object(details)) = (&mut object, details) {
        object.extend(details);
    }
    object
}

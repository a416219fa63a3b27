//! The report as JSON, schema `ebbtide.session/1`. Numbers are in base units: bytes, nanoseconds, operations per
//! second; what is not known is `null`, never 0.

use super::hosts::{HostFigures, HostRow, TrialHosts};
use super::model::{LatencyView, Report, ResultView, TrialView};
use super::race::{RaceView, objective_key, why};
use super::words;
use ebbtide_analysis::factors::{Effect, Term};
use ebbtide_analysis::race::Lane;
use ebbtide_analysis::{Comparison, Verdict};
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
            "name": d.name, "layout": d.layout, "members": d.members, "capacity": d.capacity,
            "survives": d.survives, "price_month_usd": d.price,
        })).collect::<Vec<_>>(),
        "workloads": report.workloads.iter().map(|w| json!({
            "name": w.name, "summary": w.summary, "primary_metric": w.headline.name(),
        })).collect::<Vec<_>>(),
        "results": report.results.iter().flat_map(results).collect::<Vec<_>>(),
        "comparisons": report.comparisons.iter().map(comparison).collect::<Vec<_>>(),
        "best": report.standings.iter().map(|s| json!({
            "workload": s.workload, "metric": s.metric.name(), "design": s.best,
            "against": s.against.iter().map(comparison).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "undecided": report.undecided.iter().map(|u| json!({
            "design": u.design, "against": u.against, "workload": u.workload, "metric": u.metric.name(),
            "ci_low": u.interval.map(|i| i.0), "ci_high": u.interval.map(|i| i.1), "rounds": u.rounds,
        })).collect::<Vec<_>>(),
        "aa": report.aa.iter().map(|a| json!({
            "design": a.design, "workload": a.workload, "metric": a.metric.name(),
            "ratio": a.ratio, "ci_low": a.interval.map(|i| i.0), "ci_high": a.interval.map(|i| i.1),
            "ci_level": a.ci_level, "rounds": a.rounds, "same": a.same,
        })).collect::<Vec<_>>(),
        "warnings": report.warnings,
    });
    if let (Value::Object(object), Some(view)) = (&mut document, &report.race) {
        object.insert("race".to_owned(), race(view));
        object.insert("factors".to_owned(), view.found.effects.iter().map(|e| factor(view, e)).collect());
        object.insert(
            "interactions".to_owned(),
            view.found.interactions.iter().map(|effect| interaction(view, effect)).collect(),
        );
    }
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

fn comparison(of: &Comparison) -> Value {
    json!({
        "design": of.design, "control": of.control, "workload": of.workload, "metric": of.metric.name(),
        "ratio": of.ratio, "ci_low": of.interval.map(|i| i.0), "ci_high": of.interval.map(|i| i.1),
        "ci_level": of.ci_level, "family": of.family, "correlation": of.correlation, "rounds": of.rounds,
        "conclusion": of.conclusion,
    })
}

/// A number, or nothing where it is not finite.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn race(view: &RaceView) -> Value {
    let raced = &view.raced;
    let lane = |lane: &Lane| {
        let figures: Map<String, Value> =
            lane.figures.iter().map(|(goal, value)| (goal.name().to_owned(), json!(value))).collect();
        json!({
            "design": view.name(lane.design),
            "rounds": lane.rounds,
            "dropped_in_round": lane.gone.map(|(round, _)| round),
            "why": lane.gone.map(|(_, gone)| why(gone)),
            "figures": figures,
            "ratio": lane.ratio,
            // Nothing bounds it yet: below it is 0, above it has no end.
            "ci_low": lane.interval.and_then(|(low, _)| finite(low)),
            "ci_high": lane.interval.and_then(|(_, high)| finite(high)),
        })
    };
    json!({
        "objective": objective_key(&raced.objective),
        "winner": raced.winner().map(|design| view.name(design)),
        "tied": raced.tied().iter().map(|design| view.name(*design)).collect::<Vec<_>>(),
        "decided": raced.decided,
        "error": raced.error,
        "indifference": raced.indifference,
        "rounds": raced.rounds,
        "designs": raced.lanes.iter().map(lane).collect::<Vec<_>>(),
        "io_seconds": raced.io_seconds,
        "grid_io_seconds": raced.grid_io_seconds,
        "budget": raced.budget,
        "full_grid_io_seconds": raced.full_grid_io_seconds,
    })
}

fn factor(view: &RaceView, effect: &Effect) -> Value {
    let term = &effect.terms[0];
    json!({
        "factor": view.factor(term),
        "level": view.level(term.factor, term.level),
        "against": view.level(term.factor, term.against),
        "ratio": effect.ratio,
        "ci_low": effect.interval.map(|i| i.0),
        "ci_high": effect.interval.map(|i| i.1),
    })
}

fn interaction(view: &RaceView, effect: &Effect) -> Value {
    let told = |of: &dyn Fn(&Term) -> String| effect.terms.iter().map(of).collect::<Vec<_>>();
    json!({
        "factors": told(&|term| view.factor(term).to_owned()),
        "levels": told(&|term| view.level(term.factor, term.level).to_owned()),
        "against": told(&|term| view.level(term.factor, term.against).to_owned()),
        "ratio": effect.ratio,
        "ci_low": effect.interval.map(|i| i.0),
        "ci_high": effect.interval.map(|i| i.1),
    })
}

fn session(report: &Report) -> Value {
    let meta = &report.session;
    let (ending, reason) = match &meta.ending {
        Ending::Failed(why) => ("failed", Some(why)),
        _ if meta.imported() => ("imported", None),
        Ending::NotReached if meta.is_once() => ("once", None),
        Ending::Reached => ("reached", None),
        Ending::NotReached => ("not_reached", None),
        Ending::Interrupted => ("interrupted", None),
        Ending::Unfinished => ("unfinished", None),
    };
    let finished = report.trials.iter().filter(|t| t.outcome.is_ok()).count();
    let mut object = json!({
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
        "indifference": report.indifference,
        "rounds": report.rounds,
        "trials": finished,
        "trials_failed": report.trials.len() - finished,
        "host": meta.host,
        "engine_ceiling_iops": meta.engine_ceiling_iops,
        "inventory": meta.inventory,
    });
    if !meta.hosts.is_empty() {
        object["hosts"] = json!(meta.hosts);
    }
    object
}

/// One object for each metric of a result.
fn results(view: &ResultView) -> Vec<Value> {
    let result = &view.result;
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
                "members": result.members,
                "verdict": main,
                "verdicts": verdicts,
            });
            if *metric == result.primary {
                object["resources"] = json!(result.resources);
            }
            if let Some(lasting) = &result.lasting {
                object["lasting"] = json!(lasting);
            }
            if !result.conditioned.is_nothing() {
                object["conditioned"] = json!(result.conditioned);
            }
            if !result.below.is_empty() {
                object["below"] = json!(result.below);
            }
            if let Some(hosts) = &view.hosts {
                object["hosts"] = hosts.rows.iter().map(|row| host_row(row, *metric)).collect();
            }
            object
        })
        .collect()
}

/// A host's figures by the metric of a result, where hosts have that one.
fn host_row(row: &HostRow, metric: Metric) -> Value {
    let estimate = match metric {
        Metric::Throughput => row.throughput.as_ref(),
        Metric::Iops => row.iops.as_ref(),
        Metric::LatP50 => row.lat_p50.as_ref(),
        Metric::LatP99 => row.lat_p99.as_ref(),
        Metric::Time | Metric::Own(_) => None,
    };
    json!({
        "name": row.name,
        "jobs": row.jobs,
        "median": estimate.map(|of| of.median),
        "ci_low": estimate.and_then(|of| of.interval).map(|i| i.0),
        "ci_high": estimate.and_then(|of| of.interval).map(|i| i.1),
        "late_ns": row.late,
    })
}

/// What each host did in a trial.
fn trial_hosts(hosts: &TrialHosts) -> Value {
    let host = |host: &HostFigures| {
        json!({
            "name": host.name, "jobs": host.jobs, "iops": host.iops, "throughput": host.throughput,
            "lat_p50": host.lat_p50, "lat_p99": host.lat_p99, "late_s": host.late_s,
            "clock_ahead_s": host.clock_ahead_s.0, "clock_error_s": host.clock_ahead_s.1,
            "wall_ahead_s": host.wall_ahead_s.0, "wall_error_s": host.wall_ahead_s.1,
        })
    };
    hosts.hosts.iter().map(host).collect()
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
        "role": trial.role_key(),
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
    if let Some(hosts) = trial.outcome.as_ref().ok().and_then(|figures| figures.hosts.as_ref()) {
        object["hosts"] = trial_hosts(hosts);
        object["skew_s"] = json!(hosts.skew_s.map(|skew| skew.0));
        object["skew_error_s"] = json!(hosts.skew_s.map(|skew| skew.1));
    }
    object
}

//! `unknown`: none of the rules found evidence.

use super::rungs::Rungs;
use super::{Case, evidence, standing};
use crate::{Evidence, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::units::{format_iops, format_throughput};
use ebbtide_model::workload::Arrival;

/// An open loop that completes this share of what arrives is served: nothing limits it.
const SERVED: f64 = 0.98;

/// Pausing for this share of the time a job does mostly that.
const PAUSING: f64 = 0.5;

/// The verdict that asserts nothing about a cause in the array, with what can be said: above all, whether the workload
/// limits itself.
pub fn verdict(case: &Case<'_>) -> Verdict {
    if let Some((sentence, seen)) = own_rate(case).or_else(|| own_pauses(case)) {
        let (kind, evidence) = (VerdictKind::Unknown, vec![seen]);
        return Verdict { kind, basis: None, confidence: 0.0, explains: 0.0, sentence, evidence };
    }
    let mut evidence_list = standing::waits(case);
    let mut sentence = "nothing that was measured shows what limits this design".to_owned();
    if let Some(rungs) = Rungs::of(case) {
        let depths = rungs.depths();
        let told: Vec<String> = depths
            .iter()
            .map(|step| format!("{} with {}", format_iops(step.ops.rate), step.rung.in_flight))
            .collect();
        if !told.is_empty() {
            sentence.push_str(&format!("; operations/s in short runs: {} in flight", told.join(", ")));
        }
    }
    let iops = case.result.metric(Metric::Iops).map(|estimate| estimate.median);
    if let (Arrival::Fixed { iops: asked } | Arrival::Poisson { iops: asked }, Some(iops)) =
        (case.workload.arrival, iops)
    {
        evidence_list.push(evidence(
            "operations per second against those that arrived",
            iops,
            "ops/s",
            Some(asked),
        ));
        sentence = if iops >= SERVED * asked {
            format!(
                "nothing limits it: the array served the {} operations/s that arrived",
                format_iops(asked)
            )
        } else {
            format!(
                "the array served {} of the {} operations/s that arrived; nothing that was measured shows why",
                format_iops(iops),
                format_iops(asked)
            )
        };
    }
    Verdict {
        kind: VerdictKind::Unknown,
        basis: None,
        confidence: 0.0,
        explains: 0.0,
        sentence,
        evidence: evidence_list,
    }
}

/// Whether the workload has all that it asks for: an open loop whose operations are served as they arrive, a `rate` that is
/// reached, or jobs that mostly pause.
pub(super) fn served(case: &Case<'_>) -> bool {
    let iops = case.result.metric(Metric::Iops).map(|estimate| estimate.median);
    let arrivals = match (case.workload.arrival, iops) {
        (Arrival::Fixed { iops: asked } | Arrival::Poisson { iops: asked }, Some(iops)) => {
            iops >= SERVED * asked
        }
        _ => false,
    };
    arrivals || own_rate(case).or_else(|| own_pauses(case)).is_some()
}

/// The workload's `rate`, where it is reached.
fn own_rate(case: &Case<'_>) -> Option<(String, Evidence)> {
    let rate = case.workload.rate?.0 as f64;
    let moved = case.result.metric(Metric::Throughput)?.median;
    let sentence = format!(
        "the workload's own `rate` of {} limits it, not the array: it moved {}",
        format_throughput(rate),
        format_throughput(moved)
    );
    let seen = evidence("throughput against the workload's `rate`", moved, "B/s", Some(rate));
    (moved >= SERVED * rate).then_some((sentence, seen))
}

/// The workload's `thinktime`, where its jobs mostly pause.
fn own_pauses(case: &Case<'_>) -> Option<(String, Evidence)> {
    let workload = case.workload;
    let iops = case.result.metric(Metric::Iops)?.median;
    let share = iops * workload.think_time.as_secs_f64() / f64::from(workload.numjobs.max(1));
    let sentence = format!(
        "the workload's own `thinktime` of {} limits it, not the array: its jobs pause for {:.0}% of the time",
        workload.think_time,
        share.min(1.0) * 100.0
    );
    let seen = evidence("share of the time that jobs pause", share.min(1.0), "", Some(PAUSING));
    (share >= PAUSING).then_some((sentence, seen))
}

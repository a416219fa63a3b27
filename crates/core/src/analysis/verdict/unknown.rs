//! `unknown`: none of the rules found evidence.

use super::{Case, evidence};
use crate::analysis::{Metric, Verdict, VerdictKind};
use crate::units::format_iops;
use crate::workload::Arrival;

/// An open loop that completes this share of what arrives is served: nothing limits it.
const SERVED: f64 = 0.98;

/// The verdict that asserts nothing about a cause, with what can be said.
pub fn verdict(case: &Case<'_>) -> Verdict {
    let mut evidence_list = Vec::new();
    let mut sentence = "nothing that was measured shows what limits this design".to_owned();
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
    Verdict { kind: VerdictKind::Unknown, confidence: 0.0, explains: 0.0, sentence, evidence: evidence_list }
}

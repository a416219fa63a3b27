//! `unknown`: none of the rules found evidence.

use super::*;
use crate::facts::served::{SERVED, arrivals, own_limit};
use crate::facts::standing;
use ebbtide_model::units::format_iops;

/// The verdict that asserts nothing about a cause in the array, with what can be said: above all, whether the workload
/// limits itself.
pub(super) fn verdict(case: &Case<'_>, facts: &Facts<'_>) -> Verdict {
    if let Some((sentence, seen)) = own_limit(case) {
        return Verdict::new(VerdictKind::Unknown, Sure::Not, 0.0, sentence, vec![seen])
            .known(Basis::Declared);
    }
    let mut figures = standing::waits(case);
    let mut sentence = "nothing that was measured shows what limits this design".to_owned();
    let depths = facts.rungs.iter().flat_map(|rungs| rungs.depths());
    let told: Vec<String> =
        depths.map(|step| format!("{} with {}", format_iops(step.ops.rate), step.rung.in_flight)).collect();
    if !told.is_empty() {
        sentence.push_str(&format!("; operations/s in short runs: {} in flight", told.join(", ")));
    }
    let mut served = false;
    if let Some((done, asked)) = arrivals(case) {
        let what = "operations per second against those that arrived";
        figures.push(evidence(what, done, Unit::OpsPerSecond, Some(asked)));
        let (measured, arrived) = (case.measured(), format_iops(asked));
        served = done >= SERVED * asked;
        sentence = if served {
            format!("the load asks for no more: {measured} served the {arrived} operations/s that arrived")
        } else {
            format!(
                "{measured} served {} of the {arrived} operations/s that arrived; nothing that was measured shows why",
                format_iops(done)
            )
        };
    }
    let verdict = Verdict::new(VerdictKind::Unknown, Sure::Not, 0.0, sentence, figures);
    if served { verdict.known(Basis::Declared) } else { verdict }
}

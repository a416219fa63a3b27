//! How long operations take, against what one alone takes.

use super::*;
use crate::members;
use ebbtide_model::samples::Count;

/// Floor over mean latency from which on operations do not wait: at most 30% of the latency is waiting, and
/// the tool's own share of a latency of 100 us is already 10 to 20%.
pub const FLOOR_SHARE: f64 = 0.70;

/// Mean latency of the members' operations and the floor of a typical member, in nanoseconds, for one trial; `None`
/// when the floor of a working member is unknown. The floor is the median over the members: what a slow
/// member needs beyond its siblings is its fault, not want of operations.
fn latency_and_floor(case: &Case<'_>, trial: &TrialSamples) -> Option<(f64, f64)> {
    let (mut latency_sum, mut all_ops, mut floors) = (0.0, 0u64, Vec::new());
    for member in &trial.members {
        let Count { ops, .. } = members::totals(member);
        if ops == 0 {
            continue;
        }
        let observed = trial.observed.as_ref().and_then(|o| o.member(&member.name));
        let shape = case.shape(&member.name);
        // A spindle's or a far cache's floor depends on where the operation goes.
        let shape = shape.filter(|s| s.character.seek.is_none() && s.character.cache.is_none());
        floors.push(match (observed.and_then(|m| m.floor), shape) {
            (Some(floor), _) => floor.0 as f64,
            (None, Some(shape)) => {
                let reads = member.ops.read.count.ops as f64 / ops as f64;
                shape.read_latency.mean() * reads + shape.write_latency.mean() * (1.0 - reads)
            }
            (None, None) => return None,
        });
        latency_sum += member.ops.latency().sum() as f64;
        all_ops += ops;
    }
    let floor = median(&floors).filter(|floor| *floor > 0.0)?;
    Some((latency_sum / all_ops as f64, floor))
}

/// Mean latency of the members' operations and what one alone takes, in nanoseconds: the median over the trials of each.
pub fn latency_over_floor(case: &Case<'_>) -> Option<(f64, f64)> {
    let of = |value: fn((f64, f64)) -> f64| case.median(|t| latency_and_floor(case, t).map(value));
    of(|(latency, _)| latency).zip(of(|(_, floor)| floor))
}

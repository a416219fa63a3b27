//! What each member did.

use super::MemberShare;
use super::estimate::median;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, Histogram, MemberSamples, OpSamples, TrialSamples};

/// Bytes that were read and written.
pub(super) fn bytes(ops: &PerOp<OpSamples>) -> PerOp<u64> {
    PerOp { read: ops.read.count.bytes, write: ops.write.count.bytes }
}

/// Operations and bytes of a member, reads and writes together.
pub(super) fn totals(member: &MemberSamples) -> Count {
    member.ops.counts().total()
}

/// Operations in flight at a member whose latencies nobody saw, as the kernel counted them on its device (`aqu-sz`).
fn observed_in_flight(trial: &TrialSamples, position: usize) -> Option<f64> {
    let observed = trial.observed.as_ref()?;
    let tops = observed.tops(observed.members.get(position)?);
    let tops = tops.iter().filter_map(|top| observed.devices.get(*top));
    let weighted = tops.map(|device| device.total.weighted.as_secs_f64()).reduce(|a, b| a + b)?;
    Some(weighted / trial.elapsed.as_secs_f64())
}

/// Operations in flight at a member on average; `None` where nothing says so.
pub(super) fn in_flight(trial: &TrialSamples, position: usize) -> Option<f64> {
    let member = trial.members.get(position)?;
    let of_both = [&member.ops.read.latency, &member.ops.write.latency];
    if of_both.iter().all(|latency| latency.is_empty()) && totals(member).ops > 0 {
        return observed_in_flight(trial, position);
    }
    // Little's law: operations in flight are their rate times the time each stays.
    let sum = of_both[0].sum().saturating_add(of_both[1].sum());
    Some(sum as f64 / 1e9 / trial.elapsed.as_secs_f64())
}

/// The members of a design over its trials, in the order of the first trial.
pub fn shares(trials: &[&TrialSamples]) -> Vec<MemberShare> {
    with_latencies(trials).into_iter().map(|(share, _)| share).collect()
}

/// The same with the latency of each, reads and writes together, over all trials.
pub(super) fn with_latencies(trials: &[&TrialSamples]) -> Vec<(MemberShare, Histogram)> {
    let Some(first) = trials.first() else { return Vec::new() };
    let mut shares = Vec::with_capacity(first.members.len());
    let mut moved_by_all = 0u64;
    let mut moved_by_each = Vec::with_capacity(first.members.len());
    for named in &first.members {
        let (mut throughput, mut iops, mut queues) = (Vec::new(), Vec::new(), Vec::new());
        let (mut moved, mut errors) = (0u64, 0u64);
        let mut latencies = Vec::with_capacity(2 * trials.len());
        for trial in trials {
            let seconds = trial.elapsed.as_secs_f64();
            let Some(position) = trial.members.iter().position(|m| m.name == named.name) else { continue };
            let member = &trial.members[position];
            let Count { ops, bytes } = totals(member);
            moved = moved.saturating_add(bytes);
            errors = member.errors.iter().fold(errors, |sum, error| sum.saturating_add(error.count));
            let of_both = [&member.ops.read.latency, &member.ops.write.latency];
            if seconds > 0.0 {
                throughput.push(bytes as f64 / seconds);
                iops.push(ops as f64 / seconds);
                queues.extend(in_flight(trial, position));
            }
            latencies.extend(of_both);
        }
        let all_latency = Histogram::sum_of(latencies);
        moved_by_all = moved_by_all.saturating_add(moved);
        moved_by_each.push(moved);
        let share = MemberShare {
            name: named.name.clone(),
            share: None,
            throughput: median(&throughput).unwrap_or(0.0),
            iops: median(&iops).unwrap_or(0.0),
            lat_p50: all_latency.percentile(50.0).map(|v| v as f64),
            lat_p99: all_latency.percentile(99.0).map(|v| v as f64),
            in_flight: median(&queues),
            errors,
        };
        shares.push((share, all_latency));
    }
    for ((share, _), moved) in shares.iter_mut().zip(moved_by_each) {
        share.share = (moved_by_all > 0).then(|| moved as f64 / moved_by_all as f64);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::trial;
    use ebbtide_model::per_op::PerOp;
    use ebbtide_model::samples::{DeviceObservation, DiskUse, MemberObservation, Observation, OpSamples};
    use ebbtide_model::units::Nanos;

    #[test]
    fn a_member_without_latencies_has_the_queue_that_the_kernel_saw() {
        let mut trial = trial(&[("a", 500, 1_000_000)]);
        let seconds = trial.elapsed.as_secs_f64();
        let mut op = OpSamples::default();
        op.count.ops = 500;
        let ops = PerOp { read: op, write: OpSamples::default() };
        trial.members = vec![MemberSamples { name: "a".into(), ops, ..MemberSamples::default() }];
        assert_eq!(shares(&[&trial])[0].in_flight, None, "unknown is not 0");
        let weighted = Nanos((seconds * 3e9) as u64);
        let total = DiskUse { weighted, ..DiskUse::default() };
        trial.observed = Some(Box::new(Observation {
            devices: vec![DeviceObservation { total, ..DeviceObservation::default() }],
            members: vec![MemberObservation { devices: vec![0], ..MemberObservation::default() }],
            ..Observation::default()
        }));
        let seen = shares(&[&trial])[0].in_flight.unwrap_or_default();
        assert!((seen - 3.0).abs() < 1e-6, "{seen}");
    }
}

//! What the members of a kernel's array did, from the kernel's counters: the layout is its own, and it tells no
//! latency of a member's share in an operation.

use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, DiskUse, MemberSamples, Observation, OpSamples, TrialSamples};
use ebbtide_model::units::Nanos;

/// Gives `samples` the members `names`, of which nothing is known yet.
pub fn prepare(samples: &mut TrialSamples, names: impl Iterator<Item = String>) {
    samples.members = names.map(|name| MemberSamples { name, ..MemberSamples::default() }).collect();
    let nothing = vec![PerOp::<Count>::default(); samples.members.len()];
    for interval in &mut samples.series {
        interval.members.clone_from(&nothing);
    }
}

/// Takes the members' counts from `observed`.
pub fn fill(samples: &mut TrialSamples, observed: &Observation) {
    for (position, member) in samples.members.iter_mut().enumerate() {
        // A member is one device here; of a file on a file system over several, the first would be a part.
        let tops = observed.members.get(position).map(|member| observed.tops(member));
        let Some([device]) = tops else { continue };
        let Some(total) = observed.devices.get(*device).map(|device| device.total) else { continue };
        let op = |ops, bytes| OpSamples { count: Count { ops, bytes }, ..OpSamples::default() };
        member.ops.read = op(total.ops.read, total.bytes.read);
        member.ops.write = op(total.ops.write, total.bytes.write);
        let seen: Vec<(Nanos, DiskUse)> = observed
            .series
            .iter()
            .filter_map(|interval| Some((interval.end, *interval.devices.get(*device)?)))
            .collect();
        let sum = Cumulative::new(&seen);
        let mut before = [0.0; 4];
        for interval in &mut samples.series {
            let now = sum.at(interval.end);
            let count = |i: usize| (now[i] - before[i]).round().max(0.0) as u64;
            if let Some(slot) = interval.members.get_mut(position) {
                slot.read = Count { ops: count(0), bytes: count(1) };
                slot.write = Count { ops: count(2), bytes: count(3) };
            }
            before = now;
        }
    }
}

/// Counters as running sums: reads, bytes read, writes, bytes written.
struct Cumulative(Vec<(Nanos, [f64; 4])>);

impl Cumulative {
    fn new(series: &[(Nanos, DiskUse)]) -> Self {
        let mut sum = [0.0; 4];
        let mut points = vec![(Nanos(0), sum)];
        for (end, disk) in series {
            let more = [disk.ops.read, disk.bytes.read, disk.ops.write, disk.bytes.write];
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more as f64);
            points.push((*end, sum));
        }
        Cumulative(points)
    }

    /// The sums at `time`: the observer's intervals are not the engine's, so the line between two looks counts.
    fn at(&self, time: Nanos) -> [f64; 4] {
        let (before, after) = self.0.split_at(self.0.partition_point(|(end, _)| *end <= time));
        let (begin, low) = before.last().copied().unwrap_or_default();
        let Some((end, high)) = after.first() else { return low };
        let share = (time.0 - begin.0) as f64 / (end.0 - begin.0) as f64;
        std::array::from_fn(|i| low[i] + (high[i] - low[i]) * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_spread_over_other_intervals_and_their_sum_stays() {
        let disk = |ops: u64| DiskUse {
            ops: PerOp { read: ops, write: 0 },
            bytes: PerOp { read: ops * 4096, write: 0 },
            ..DiskUse::default()
        };
        let sum = Cumulative::new(&[(Nanos(250), disk(100)), (Nanos(500), disk(50)), (Nanos(1000), disk(0))]);
        let at: Vec<f64> =
            [0, 125, 250, 300, 500, 900, 1000, 2000].map(|time| sum.at(Nanos(time))[0]).to_vec();
        assert_eq!(at, [0.0, 50.0, 100.0, 110.0, 150.0, 150.0, 150.0, 150.0]);
        assert_eq!(Cumulative::new(&[]).at(Nanos(5)), [0.0; 4]);
    }
}

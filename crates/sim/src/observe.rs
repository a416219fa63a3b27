//! What an observer beside the trial would have seen: the devices' counters, the cores, the resync.

use super::array::Array;
use super::load::Outcome;
use ebbtide_model::experiment::{Design, Experiment, Host};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::plan::build::Geometry;
use ebbtide_model::samples::{
    CoreUse, DeviceObservation, DiskUse, MemberObservation, Observation, OpSamples, OtherActivity, OtherKind,
};
use ebbtide_model::units::{Bytes, Nanos};

/// The observation of a finished trial, number `own` of the `outcomes` of those that ran at the same time.
pub(super) fn observe(
    experiment: &Experiment,
    host: &Host,
    design: &Design,
    array: &Array,
    outcomes: &[Outcome],
    own: usize,
) -> Observation {
    let outcome = &outcomes[own];
    let elapsed = outcome.recorded.elapsed.0;
    // Devices and cores are there for all: of each its share in the time that this one was measured.
    let shares = || outcomes.iter().map(|beside| (share(beside, outcome), beside));
    let rotational = |name: &str| {
        let volume = experiment.volumes.iter().find(|volume| volume.name == name)?;
        Some(volume.shape.as_ref()?.character.seek.is_some())
    };
    let resync = Resynced::new(&outcomes[0], outcome);
    let devices = outcome.recorded.members.iter().enumerate().map(|(index, member)| {
        let others = resync.bytes(index);
        let sum = |of: &dyn Fn(&OpSamples) -> u64| {
            let each = shares().map(|(share, beside)| {
                beside.recorded.members[index].ops.as_ref().map(|ops| (of(ops) as f64 * share).round() as u64)
            });
            each.fold(PerOp::default(), |sum: PerOp<u64>, more| sum.zip(more).map(|(sum, more)| sum + more))
        };
        let bytes = sum(&|ops| ops.count.bytes);
        let time = sum(&|ops| ops.latency.sum()).map(Nanos);
        let weighted = Nanos(time.read.0.saturating_add(time.write.0));
        DeviceObservation {
            name: member.name.clone(),
            total: DiskUse {
                ops: sum(&|ops| ops.count.ops),
                bytes: PerOp {
                    read: bytes.read.saturating_add(others.read),
                    write: bytes.write.saturating_add(others.write),
                },
                time,
                weighted,
                // Operations overlap as far as they can: exact for a device that is always or hardly ever busy.
                busy: Nanos(weighted.0.min(elapsed)),
                ..DiskUse::default()
            },
            max_request: host.max_request,
            readahead: Some(host.readahead_of(Geometry::of(&design.layout).map(Geometry::stripe))),
            rotational: rotational(&member.name),
            ..DeviceObservation::default()
        }
    });
    let members = outcome.recorded.members.iter().enumerate().map(|(index, member)| MemberObservation {
        member: member.name.clone(),
        devices: vec![index],
        untouched_before: untouched(experiment, design, array, &member.name),
        ..MemberObservation::default()
    });
    let cores = outcome.cpu.cores.max(1);
    let used: f64 =
        shares().map(|(share, beside)| share * beside.cpu.host_busy.unwrap_or_default().0 as f64).sum();
    let used = used as u64 / u64::from(cores);
    let core = CoreUse {
        system: Nanos(used.min(elapsed)),
        idle: Nanos(elapsed.saturating_sub(used)),
        ..CoreUse::default()
    };
    let others = outcomes[0].resynced.map(|moved| OtherActivity {
        kind: OtherKind::Resync,
        who: format!("{}: resync", design.name),
        device: None,
        bytes: Some(PerOp { read: moved.read.0, write: moved.write.0 }),
    });
    Observation {
        devices: devices.collect(),
        members: members.collect(),
        cores: vec![core; cores as usize],
        others: others.into_iter().collect(),
        ..Observation::default()
    }
}

/// Which part of what `beside` did falls into the time that `own` was measured, if it did it evenly.
fn share(beside: &Outcome, own: &Outcome) -> f64 {
    let begin = |outcome: &Outcome| outcome.end.0.saturating_sub(outcome.recorded.elapsed.0);
    let common = own.end.min(beside.end).0.saturating_sub(begin(own).max(begin(beside)));
    if beside.recorded.elapsed.0 == 0 { 0.0 } else { common as f64 / beside.recorded.elapsed.0 as f64 }
}

/// What a resync moved on each member during the measurement.
struct Resynced {
    /// Bytes read on every member but the last, and written on the last.
    each: PerOp<u64>,
    last: usize,
}

impl Resynced {
    /// What that of `first` moved while `outcome` was measured.
    fn new(first: &Outcome, outcome: &Outcome) -> Self {
        let last = outcome.recorded.members.len().saturating_sub(1);
        let moved = first.resynced.unwrap_or_default();
        // It runs at one pace from the start of the warm-up on.
        let measured = outcome.recorded.elapsed.0 as f64 / first.end.0.max(1) as f64;
        let part = |bytes: u64| (bytes as f64 * measured) as u64;
        Resynced {
            each: PerOp { read: part(moved.read.0 / last.max(1) as u64), write: part(moved.write.0) },
            last,
        }
    }

    fn bytes(&self, member: usize) -> PerOp<u64> {
        if member == self.last {
            PerOp { read: 0, write: self.each.write }
        } else {
            PerOp { read: self.each.read, write: 0 }
        }
    }
}

/// Bytes of the member's part of the region that were never touched: all of them, because every trial starts untouched;
/// absent where first touches cost nothing.
fn untouched(experiment: &Experiment, design: &Design, array: &Array, member: &str) -> Option<Bytes> {
    let volume = experiment.volumes.iter().find(|volume| volume.name == member)?;
    volume.shape.as_ref()?.character.first_touch?;
    let part = array.capacity().0 as f64 / design.layout.volumes().len().max(1) as f64;
    Some(volume.size?.min(Bytes(part as u64)))
}

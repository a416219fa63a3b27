//! What an observer beside the trial would have seen: the devices' counters, the cores, the resync.

use super::load::Outcome;
use ebbtide_model::experiment::{Design, Experiment, Host};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::plan::build::Geometry;
use ebbtide_model::samples::{
    CoreUse, DeviceObservation, DiskUse, MemberObservation, Observation, OtherActivity, OtherKind,
};
use ebbtide_model::units::{Bytes, Nanos};

/// The observation of a finished trial.
pub(super) fn observe(
    experiment: &Experiment,
    host: &Host,
    design: &Design,
    outcome: &Outcome,
) -> Observation {
    let elapsed = outcome.recorded.elapsed.0;
    let rotational = |name: &str| {
        let volume = experiment.volumes.iter().find(|volume| volume.name == name)?;
        Some(volume.shape.as_ref()?.character.seek.is_some())
    };
    let resync = Resynced::new(outcome);
    let devices = outcome.recorded.members.iter().enumerate().map(|(index, member)| {
        let others = resync.bytes(index);
        let (read, write) = (&member.ops.read, &member.ops.write);
        let time = PerOp { read: Nanos(read.latency.sum()), write: Nanos(write.latency.sum()) };
        let weighted = Nanos(time.read.0.saturating_add(time.write.0));
        DeviceObservation {
            name: member.name.clone(),
            total: DiskUse {
                ops: PerOp { read: read.count.ops, write: write.count.ops },
                bytes: PerOp {
                    read: read.count.bytes.saturating_add(others.read),
                    write: write.count.bytes.saturating_add(others.write),
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
        untouched_before: untouched(experiment, design, outcome, &member.name),
        ..MemberObservation::default()
    });
    let cores = outcome.cpu.cores.max(1);
    let used = outcome.cpu.host_busy.unwrap_or_default().0 / u64::from(cores);
    let core = CoreUse {
        system: Nanos(used.min(elapsed)),
        idle: Nanos(elapsed.saturating_sub(used)),
        ..CoreUse::default()
    };
    let others = outcome.resynced.map(|moved| OtherActivity {
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

/// What a resync moved on each member during the measurement.
struct Resynced {
    /// Bytes read on every member but the last, and written on the last.
    each: PerOp<u64>,
    last: usize,
}

impl Resynced {
    fn new(outcome: &Outcome) -> Self {
        let last = outcome.recorded.members.len().saturating_sub(1);
        let moved = outcome.resynced.unwrap_or_default();
        // It runs at one pace from the start of the warm-up on.
        let measured = outcome.recorded.elapsed.0 as f64 / outcome.end.0.max(1) as f64;
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
fn untouched(experiment: &Experiment, design: &Design, outcome: &Outcome, member: &str) -> Option<Bytes> {
    let volume = experiment.volumes.iter().find(|volume| volume.name == member)?;
    volume.shape.as_ref()?.character.first_touch?;
    let part = outcome.array.capacity().0 as f64 / design.layout.volumes().len().max(1) as f64;
    Some(volume.size?.min(Bytes(part as u64)))
}

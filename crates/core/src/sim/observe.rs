//! What an observer beside the trial would have seen: the devices' counters, the cores, the resync.

use super::load::Outcome;
use crate::experiment::{Design, Experiment, Host};
use crate::samples::{
    CoreUse, DeviceObservation, DiskUse, MemberObservation, Observation, OtherActivity, OtherKind, PerOp,
};
use crate::units::Nanos;

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
    let devices = outcome.recorded.members.iter().map(|member| {
        let (read, write) = (&member.ops.read, &member.ops.write);
        let time = PerOp { read: Nanos(read.latency.sum()), write: Nanos(write.latency.sum()) };
        let weighted = Nanos(time.read.0.saturating_add(time.write.0));
        DeviceObservation {
            name: member.name.clone(),
            total: DiskUse {
                ops: PerOp { read: read.count.ops, write: write.count.ops },
                bytes: PerOp { read: read.count.bytes, write: write.count.bytes },
                time,
                weighted,
                // Operations overlap as far as they can: exact for a device that is always or hardly ever busy.
                busy: Nanos(weighted.0.min(elapsed)),
                ..DiskUse::default()
            },
            max_request: host.max_request,
            readahead: Some(host.readahead_of(design.layout.stripe_width())),
            rotational: rotational(&member.name),
            ..DeviceObservation::default()
        }
    });
    let members = outcome.recorded.members.iter().enumerate().map(|(index, member)| MemberObservation {
        member: member.name.clone(),
        devices: vec![index],
        ..MemberObservation::default()
    });
    let cores = outcome.cpu.cores.max(1);
    let used = outcome.cpu.host_busy.unwrap_or_default().0 / u64::from(cores);
    let core = CoreUse {
        system: Nanos(used.min(elapsed)),
        idle: Nanos(elapsed.saturating_sub(used)),
        ..CoreUse::default()
    };
    let others = outcome.resynced.map(|(read, write)| OtherActivity {
        kind: OtherKind::Resync,
        who: format!("{}: resync", design.name),
        device: None,
        bytes: Some(PerOp { read, write }),
    });
    Observation {
        devices: devices.collect(),
        members: members.collect(),
        cores: vec![core; cores as usize],
        others: others.into_iter().collect(),
        ..Observation::default()
    }
}

//! What the disks moved against what the trial asked of them.

use crate::analysis::members;
use crate::samples::{DiskUse, PerOp, TrialSamples};

/// Bytes and requests of a trial: asked of the members, and moved by the disks below them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Bytes that the trial asked of its members.
    pub asked: PerOp<u64>,
    /// Operations that it asked.
    pub asked_ops: u64,
    /// Bytes that the disks moved, whoever asked.
    pub moved: PerOp<u64>,
    /// Requests that the disks completed.
    pub moved_ops: u64,
}

/// The disks below the members of a trial, each once; `None` when some member that worked has no observed disk.
pub fn disks(trial: &TrialSamples) -> Option<Vec<&crate::samples::DeviceObservation>> {
    let observed = trial.observed.as_ref()?;
    let mut indices: Vec<usize> = Vec::new();
    // A cache above the members may leave all of them idle.
    let idle = trial.members.iter().all(|member| members::totals(member).0 == 0);
    for member in &trial.members {
        if members::totals(member).0 == 0 && !idle {
            continue;
        }
        let chain = observed.members.iter().find(|m| m.member == member.name)?;
        let disk = *chain.devices.last()?;
        if !indices.contains(&disk) {
            indices.push(disk);
        }
    }
    indices.into_iter().map(|index| observed.devices.get(index)).collect()
}

/// See [`Moved`]; `None` when the disks were not observed.
pub fn moved(trial: &TrialSamples) -> Option<Moved> {
    let disks = disks(trial)?;
    if disks.is_empty() {
        return None;
    }
    let mut sum = Moved::default();
    for member in &trial.members {
        sum.asked.read = sum.asked.read.saturating_add(member.ops.read.count.bytes);
        sum.asked.write = sum.asked.write.saturating_add(member.ops.write.count.bytes);
        sum.asked_ops = sum.asked_ops.saturating_add(members::totals(member).0);
    }
    // Every byte that the application moves is asked of some member at least once, even where a cache above them
    // answers before they are asked.
    let array = PerOp { read: trial.array.read.count.bytes, write: trial.array.write.count.bytes };
    sum.asked.read = sum.asked.read.max(array.read);
    sum.asked.write = sum.asked.write.max(array.write);
    for disk in disks {
        let DiskUse { ops, bytes, .. } = disk.total;
        sum.moved.read = sum.moved.read.saturating_add(bytes.read);
        sum.moved.write = sum.moved.write.saturating_add(bytes.write);
        sum.moved_ops = sum.moved_ops.saturating_add(ops.read).saturating_add(ops.write);
    }
    Some(sum)
}

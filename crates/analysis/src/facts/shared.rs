//! Members, or devices of an array below them, that are one disk.

use super::*;
use crate::ArrayBelow;
use crate::ordered::entry;
use ebbtide_model::graph::Layers;
use ebbtide_model::layout::{ArrayKind, LayoutNode};

/// A member works when it moves at least this share of what an equal part would be.
const WORKS: f64 = 0.5;

/// Whether the layout works its members at once.
pub fn parallel(node: &LayoutNode) -> bool {
    match node {
        LayoutNode::Volume(_) => false,
        LayoutNode::Array { kind: ArrayKind::Linear, members } => members.iter().any(parallel),
        LayoutNode::Array { members, .. } => members.len() > 1,
    }
}

/// The working members without a shape that share a disk with another such member: their number and the
/// disk's name; for the disk that most share. Not of a layout that works them one after the other, which loses nothing by it.
pub fn shared(case: &Case<'_>) -> Option<(usize, String)> {
    if !parallel(&case.design.layout) {
        return None;
    }
    let mut disks: Vec<(_, usize)> = Vec::new();
    let least = WORKS / case.result.members.len().max(1) as f64;
    for member in case.result.members.iter().filter(|member| member.share.is_some_and(|s| s >= least)) {
        let unshaped = case.volume(&member.name).is_some_and(|volume| volume.shape.is_none());
        let prepared = case.meta.inventory.volumes.iter().find(|v| v.name == member.name);
        for disk in prepared.filter(|_| unshaped).into_iter().flat_map(|p| p.whole_disks()) {
            *entry(&mut disks, disk) += 1;
        }
    }
    most_shared(disks.into_iter().map(|((_, name), count)| (name, count)))
}

/// Of disks, each with how many are on it, the one that most share; of equals the first.
fn most_shared<'a>(disks: impl DoubleEndedIterator<Item = (&'a str, usize)>) -> Option<(usize, String)> {
    let most = disks.rev().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 1);
    most.map(|(name, count)| (count, name.to_owned()))
}

/// Devices of an array that share a disk: their number and the disk's name; for the disk that most share.
pub fn within(case: &Case<'_>, array: &ArrayBelow) -> Option<(usize, String)> {
    let observed = case.trials.iter().find_map(|trial| trial.observed.as_deref())?;
    let mut disks: Vec<(&str, usize)> = Vec::new();
    for device in &array.devices {
        let at = observed.devices.iter().position(|seen| seen.shown_name() == device.name)?;
        for disk in observed.disks_below(&[at]).into_iter().filter_map(|at| observed.devices.get(at)) {
            *entry(&mut disks, disk.name.as_str()) += 1;
        }
    }
    most_shared(disks.into_iter())
}

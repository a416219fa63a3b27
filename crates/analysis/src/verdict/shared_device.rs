//! `shared-device`: members that seem several are one disk.
//!
//! Derivation. `k` members on one disk have that disk's speed between them, so working them at once gains
//! nothing that the disk alone would not give. Asserted when at least two members that worked lie on the
//! same disk and none of these has a shape: a shape holds a file to a speed of its own, far below the disk's. What is below
//! a member may be several disks: one that two members have in common is shared. Likewise the devices of an array that
//! was there before, where it works them at once.

use super::concurrency::parallel;
use super::{Absent, Case, Judged, Rule, evidence};
use crate::{ArrayBelow, MemberShare, Verdict, VerdictKind};

#[derive(Debug)]
pub struct SharedDevice;

/// A member works when it moves at least this share of what an equal part would be.
const WORKS: f64 = 0.5;

/// The working members without a shape that share a disk with another such member: their number and the
/// disk's name; for the disk that most share. Not of a layout that works them one after the other, which loses nothing by it.
pub(super) fn shared(case: &Case<'_>) -> Option<(usize, String)> {
    if !parallel(&case.design.layout) {
        return None;
    }
    let mut disks: Vec<(String, String, usize)> = Vec::new();
    for member in working(case) {
        let unshaped = case.volume(&member.name).is_some_and(|volume| volume.shape.is_none());
        if !unshaped {
            continue;
        }
        let Some(prepared) = case.session.meta.inventory.volumes.iter().find(|v| v.name == member.name)
        else {
            continue;
        };
        for (number, name) in prepared.whole_disks() {
            match disks.iter_mut().find(|(known, ..)| known == number) {
                Some((.., count)) => *count += 1,
                None => disks.push((number.to_owned(), name.to_owned(), 1)),
            }
        }
    }
    most_shared(disks.into_iter().map(|(_, name, count)| (count, name)))
}

/// Members that worked.
fn working<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a MemberShare> {
    let fair = 1.0 / case.result.members.len().max(1) as f64;
    case.result.members.iter().filter(move |member| member.share.is_some_and(|share| share >= WORKS * fair))
}

/// Of disks, each with how many are on it, the one that most share.
fn most_shared(disks: impl Iterator<Item = (usize, String)>) -> Option<(usize, String)> {
    // Of equals the first.
    let shared = disks.filter(|(count, _)| *count >= 2);
    shared.fold(None, |most, disk| match most {
        Some((count, _)) if count >= disk.0 => most,
        _ => Some(disk),
    })
}

/// Devices of an array that share a disk: their number and the disk's name; for the disk that most share.
pub(super) fn within(case: &Case<'_>, array: &ArrayBelow) -> Option<(usize, String)> {
    let observed = case.trials.iter().find_map(|trial| trial.observed.as_deref())?;
    let mut disks: Vec<(usize, String)> = Vec::new();
    for device in &array.devices {
        let at = observed.devices.iter().position(|seen| seen.shown_name() == device.name)?;
        for disk in observed.disks_of(at).into_iter().filter_map(|at| observed.devices.get(at)) {
            match disks.iter_mut().find(|(_, name)| *name == disk.name) {
                Some((count, _)) => *count += 1,
                None => disks.push((1, disk.name.clone())),
            }
        }
    }
    most_shared(disks.into_iter())
}

impl Rule for SharedDevice {
    fn kind(&self) -> VerdictKind {
        VerdictKind::SharedDevice
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        if let Some((count, disk)) = shared(case) {
            let (worked, all) = (working(case).count(), case.result.members.len());
            let of = if worked == all {
                format!("{all} members")
            } else {
                format!("the {worked} members that worked")
            };
            let sentence = format!(
                "{count} of {of} are on the same disk ({disk}): this says nothing about the layout on separate \
                 volumes; give the volumes a shape, or put them on disks of their own"
            );
            return Ok(verdict(count, sentence, &format!("working members on {disk}"), "members"));
        }
        let arrays = case.result.below.iter().filter(|array| array.join.is_parallel());
        let within = arrays.filter_map(|array| Some((array, within(case, array)?)));
        let (array, (count, disk)) = within.max_by_key(|(_, (count, _))| *count).ok_or_else(|| {
            Absent::because("no two working members without a shape are known to be on the same disk")
        })?;
        let (name, all) = (&array.name, array.devices.len());
        let sentence = format!(
            "{count} of the {all} devices of {name} are on the same disk ({disk}), which does the work of them all: give \
             each a disk of its own"
        );
        Ok(verdict(count, sentence, &format!("devices of {name} on {disk}"), "devices"))
    }
}

fn verdict(count: usize, sentence: String, what: &str, unit: &str) -> Verdict {
    let k = count as f64;
    Verdict {
        kind: VerdictKind::SharedDevice,
        basis: None,
        confidence: 0.9,
        // Separate disks would give up to k times as much.
        explains: 1.0 - 1.0 / k,
        sentence,
        evidence: vec![evidence(what, k, unit, Some(1.0))],
    }
}

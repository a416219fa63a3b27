//! `shared-device`: members that seem several are one disk.
//!
//! Derivation. `k` members on one disk have that disk's speed between them, so working them at once gains
//! nothing that the disk alone would not give. Asserted when at least two members that worked lie on the
//! same disk and none of these has a shape: a shape holds a file to a speed of its own, far below the disk's. What is below
//! a member may be several disks: one that two members have in common is shared. Likewise the devices of an array that
//! was there before, where it works them at once.

use super::*;
use crate::facts::shared::within;

checks! {
    ON_ONE_DISK: at_least("working members without a shape, or devices of an array, on one disk", 2.0, Members, "they have its speed between them");
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if let Some((count, disk)) = facts.shared.clone() {
        let all = case.result.members.len();
        let sentence = format!(
            "{count} of {all} members are on the same disk ({disk}): this says nothing about the layout on separate \
                 volumes; give the volumes a shape, or put them on disks of their own"
        );
        return Ok(verdict(count, sentence, format!("working members on {disk}"), Unit::Members));
    }
    let arrays = case.result.below.iter().filter(|array| array.join.is_parallel());
    let within = arrays.filter_map(|array| Some((array, within(case, array)?)));
    let (array, (count, disk)) = within.max_by_key(|(_, (count, _))| *count).ok_or_else(|| {
        Absent::unmeasured("no two working members without a shape are known to be on the same disk")
    })?;
    let (name, all) = (&array.name, array.devices.len());
    let sentence = format!(
        "{count} of the {all} devices of {name} are on the same disk ({disk}), which does the work of them all: give \
             each a disk of its own"
    );
    Ok(verdict(count, sentence, format!("devices of {name} on {disk}"), Unit::Devices))
}

fn verdict(count: usize, sentence: String, what: String, unit: Unit) -> Verdict {
    let k = count as f64;
    let figures = vec![evidence(what, k, unit, Some(1.0))];
    // Separate disks would give up to k times as much.
    Verdict::new(VerdictKind::SharedDevice, Sure::Certain, 1.0 - 1.0 / k, sentence, figures)
}

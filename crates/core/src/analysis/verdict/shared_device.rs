//! `shared-device`: members that seem several are one disk.
//!
//! Derivation. `k` members on one disk have that disk's speed between them, so working them at once gains
//! nothing that the disk alone would not give. Asserted when at least two members that worked lie on the
//! same disk and none of these has a shape: a shape holds a file to a speed of its own, far below the disk's.

use super::{Absent, Case, Judged, Rule, evidence};
use crate::analysis::{Verdict, VerdictKind};

/// The rule.
#[derive(Debug)]
pub struct SharedDevice;

/// A member works when it moves at least this share of what an equal part would be.
const WORKS: f64 = 0.5;

/// The working members without a shape that share a disk with another such member: their number and the
/// disk's name; for the disk that most share.
pub(super) fn shared(case: &Case<'_>) -> Option<(usize, String)> {
    let fair = 1.0 / case.result.members.len().max(1) as f64;
    let mut disks: Vec<(String, String, usize)> = Vec::new();
    for member in &case.result.members {
        let unshaped = case.volume(&member.name).is_some_and(|volume| volume.shape.is_none());
        if !unshaped || member.share.is_none_or(|share| share < WORKS * fair) {
            continue;
        }
        let Some(prepared) = case.session.meta.inventory.volumes.iter().find(|v| v.name == member.name)
        else {
            continue;
        };
        let Some(disk) = &prepared.disk else { continue };
        match disks.iter_mut().find(|(number, ..)| number == disk) {
            Some((.., count)) => *count += 1,
            None => {
                let name = prepared.disk_name.clone().unwrap_or_else(|| disk.clone());
                disks.push((disk.clone(), name, 1));
            }
        }
    }
    disks
        .into_iter()
        .filter(|(.., count)| *count >= 2)
        .max_by_key(|(.., count)| *count)
        .map(|(_, name, n)| (n, name))
}

impl Rule for SharedDevice {
    fn kind(&self) -> VerdictKind {
        VerdictKind::SharedDevice
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let (count, disk) = shared(case).ok_or_else(|| {
            Absent::because("no two working members without a shape are known to be on the same disk")
        })?;
        let k = count as f64;
        Ok(Verdict {
            kind: VerdictKind::SharedDevice,
            confidence: 0.9,
            // Separate disks would give up to k times as much.
            explains: 1.0 - 1.0 / k,
            sentence: format!(
                "{count} of {} members are on the same disk ({disk}): this says nothing about the layout on separate \
                 volumes; give the volumes a shape, or put them on disks of their own",
                case.result.members.len()
            ),
            evidence: vec![evidence(&format!("working members on {disk}"), k, "members", Some(1.0))],
        })
    }
}

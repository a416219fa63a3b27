//! Devices that are made of devices, by their places in a list: what a trial saw of its members
//! ([`Observation`](crate::samples::Observation)), and the host's own graph (`host::graph`), are asked alike.
//!
//! ```text
//! md0 (stripe) ──► vdb1, vdc1       made: what it stands on, and how that is put together
//! vdb1 (one)   ──► vdb              a disk is made of nothing
//! ```

use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// What a device, or a file system, is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Below {
    /// Places in the list of devices that lie directly below; none below a disk.
    pub devices: Vec<usize>,
    /// How these are put together.
    pub join: Join,
    /// How many more there should be: a degraded array.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How devices are put together to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Join {
    /// The one below does all the work: a partition's disk, below dm-crypt, behind a loop device.
    Through,
    /// Several ways to the same disk.
    Paths,
    /// One after the other.
    Linear,
    /// RAID0, or a striped logical volume.
    Stripe {
        /// Bytes on one before the next one's turn.
        chunk: Option<Bytes>,
    },
    /// RAID1: every member holds all of it.
    Mirror {
        /// Copies of every byte.
        copies: u32,
    },
    /// RAID10: mirrors in a stripe.
    StripedMirror {
        /// Copies of every byte.
        copies: u32,
        /// Bytes on one before the next one's turn.
        chunk: Option<Bytes>,
    },
    /// RAID4, 5 and 6.
    Parity {
        /// Devices of a stripe that hold its parity.
        parity: u32,
        /// Devices of a stripe, data and parity.
        of: u32,
        /// Bytes on one before the next one's turn.
        chunk: Option<Bytes>,
    },
    /// One keeps copies of what another holds: bcache, dm-cache, dm-writecache.
    Cache,
    /// What is moved has little to do with what is asked: thin provisioning, snapshots, deduplication.
    Indirect,
    /// A kind of device that is not known: nothing is concluded of it.
    #[default]
    #[serde(other)]
    Other,
}

impl Join {
    /// In the words of the field: `stripe`, `raid5`.
    pub fn name(&self) -> &'static str {
        match self {
            Join::Through => "one device",
            Join::Paths => "paths",
            Join::Linear => "linear",
            Join::Stripe { .. } => "stripe",
            Join::Mirror { .. } => "mirror",
            Join::StripedMirror { .. } => "raid10",
            Join::Parity { parity: 0 | 1, .. } => "raid5",
            Join::Parity { .. } => "raid6",
            Join::Cache => "cache",
            Join::Indirect => "thin or a snapshot",
            Join::Other => "several devices",
        }
    }

    /// With how many devices: `stripe of 4, chunk 64KiB`.
    pub fn in_words(&self, devices: usize, missing: u32) -> String {
        let chunk = self.chunk().map_or(String::new(), |chunk| format!(", chunk {chunk}"));
        let missing = if missing > 0 { format!(", {missing} missing") } else { String::new() };
        match self {
            Join::Other | Join::Through => format!("{devices} devices{missing}"),
            _ => format!("{} of {devices}{chunk}{missing}", self.name()),
        }
    }

    /// Bytes on one device before the next one's turn.
    pub fn chunk(&self) -> Option<Bytes> {
        match self {
            Join::Stripe { chunk } | Join::StripedMirror { chunk, .. } | Join::Parity { chunk, .. } => *chunk,
            _ => None,
        }
    }

    /// Whether the devices are equals that share one load, so that one of them can be compared with the others.
    pub fn of_equals(&self) -> bool {
        matches!(
            self,
            Join::Linear
                | Join::Stripe { .. }
                | Join::Mirror { .. }
                | Join::StripedMirror { .. }
                | Join::Parity { .. }
        )
    }

    /// Whether its devices hold copies or parity.
    pub fn is_redundant(&self) -> bool {
        match self {
            Join::Mirror { .. } | Join::StripedMirror { .. } | Join::Parity { .. } => true,
            Join::Through
            | Join::Paths
            | Join::Linear
            | Join::Stripe { .. }
            | Join::Cache
            | Join::Indirect
            | Join::Other => false,
        }
    }

    /// Whether one operation at a time leaves some of its devices idle that more operations would work.
    pub fn is_parallel(&self) -> bool {
        self.of_equals() && *self != Join::Linear
    }
}

impl Below {
    /// One device that does all the work, where there is one.
    pub fn through(device: Option<usize>) -> Below {
        device.map_or_else(Below::default, |device| Below {
            devices: vec![device],
            join: Join::Through,
            missing: 0,
        })
    }

    /// The devices that do like work, so that one can be compared with the others: not a cache and what it caches, nor data and
    /// what describes it.
    pub fn siblings(&self) -> &[usize] {
        if self.join.of_equals() || self.join == Join::Other { &self.devices } else { &[] }
    }

    /// Of a striped array the bytes on one device before the next one's turn, and how many devices hold the data of one stripe.
    pub fn stripe(&self) -> Option<(Bytes, u64)> {
        let all = self.devices.len() as u64 + u64::from(self.missing);
        let data = match self.join {
            Join::Stripe { .. } => all,
            Join::StripedMirror { copies, .. } => all / u64::from(copies.max(1)),
            Join::Parity { parity, of, .. } => u64::from(of.saturating_sub(parity)),
            _ => return None,
        };
        Some((self.join.chunk()?, data.max(1)))
    }
}

/// A list of devices that are made of one another. Whatever it holds, circles and places that there are not among it, every
/// question has an end.
pub trait Layers {
    /// How many devices there are.
    fn count(&self) -> usize;

    /// What the device at this place is made of; nothing where that is not known.
    fn made(&self, device: usize) -> Option<&Below>;

    /// These and all that they are made of, upper ones first, each once.
    fn all_below(&self, tops: &[usize]) -> Vec<usize> {
        reached(self.count(), tops, |device| self.made(device).map_or(&[], |below| &below.devices))
    }

    /// The disks that these are made of, each once; a disk of itself.
    fn disks_below(&self, tops: &[usize]) -> Vec<usize> {
        let mut all = self.all_below(tops);
        all.retain(|device| self.made(*device).is_none_or(|below| below.devices.is_empty()));
        all
    }
}

/// Of `count` places these and all that `next` leads to, those that lead to others before them, each once. Places that there are
/// not are left out.
pub fn reached<'a>(count: usize, from: &[usize], next: impl Fn(usize) -> &'a [usize]) -> Vec<usize> {
    let mut seen = vec![false; count];
    let mut found = Vec::new();
    let mut open: Vec<usize> = from.iter().rev().copied().collect();
    while let Some(place) = open.pop() {
        if seen.get_mut(place).is_some_and(|seen| !std::mem::replace(seen, true)) {
            found.push(place);
            open.extend(next(place).iter().rev());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Debug)]
    struct Made(Vec<Below>);

    impl Layers for Made {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn made(&self, device: usize) -> Option<&Below> {
            self.0.get(device)
        }
    }

    /// Up to nine devices, each on any of them, itself and some that there are not among those.
    fn any_layers() -> impl Strategy<Value = Made> {
        let below = proptest::collection::vec(0..11_usize, 0..4);
        let below = below.prop_map(|devices| Below { devices, ..Below::default() });
        proptest::collection::vec(below, 1..10).prop_map(Made)
    }

    /// As slow as it is plain: whatever is reached in as many steps as there are devices.
    fn oracle(layers: &Made, tops: &[usize]) -> BTreeSet<usize> {
        let there = |device: &usize| *device < layers.0.len();
        let mut all: BTreeSet<usize> = tops.iter().copied().filter(there).collect();
        for _ in 0..layers.0.len() {
            let next: Vec<usize> = all.iter().flat_map(|at| layers.0[*at].devices.clone()).collect();
            all.extend(next.into_iter().filter(there));
        }
        all
    }

    proptest! {
        #[test]
        fn all_that_is_below_is_found_once_and_circles_end(layers in any_layers(), tops in proptest::collection::vec(0..11_usize, 0..4)) {
            let found = layers.all_below(&tops);
            let all: BTreeSet<usize> = found.iter().copied().collect();
            prop_assert_eq!(all.len(), found.len());
            prop_assert_eq!(&all, &oracle(&layers, &tops));
            let disks: BTreeSet<usize> = layers.disks_below(&tops).into_iter().collect();
            prop_assert_eq!(disks, all.iter().copied().filter(|at| layers.0[*at].devices.is_empty()).collect());
            // Each but the first is directly below one that was found before it.
            for (index, device) in found.iter().enumerate() {
                let led = found[..index].iter().any(|above| layers.0[*above].devices.contains(device));
                prop_assert!(led || tops.contains(device));
            }
        }
    }

    #[test]
    fn the_members_of_a_stripe_that_hold_its_data() {
        let chunk = Some(Bytes(65536));
        let of = |join: Join, devices: usize, missing: u32| {
            Below { devices: (0..devices).collect(), join, missing }.stripe().map(|(_, data)| data)
        };
        assert_eq!(of(Join::Stripe { chunk }, 4, 0), Some(4));
        assert_eq!(of(Join::StripedMirror { copies: 2, chunk }, 3, 1), Some(2));
        assert_eq!(of(Join::StripedMirror { copies: 2, chunk }, 3, 0), Some(1));
        // One more keeps a journal.
        assert_eq!(of(Join::Parity { parity: 2, of: 6, chunk }, 7, 0), Some(4));
        assert_eq!((of(Join::Stripe { chunk: None }, 4, 0), of(Join::Linear, 4, 0)), (None, None));
    }
}

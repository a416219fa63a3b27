//! What lies below a member of a trial, as it was recorded ([`Layers`]); and how many bytes the disks move for each byte
//! that is asked at the top.
//!
//! ```text
//! asked 1 byte to write of md0 (raid1)  ──►  sda 1, sdb 1       a mirror writes each byte once for each copy
//! asked 1 byte to write of md1 (raid5)  ──►  1.5 to 2 written, 0 to 2 read, whichever disks they are on
//! asked 1 byte to read of dm-0 (stripe) ──►  1 read
//! ```
//!
//! A session that was recorded before there were trees has `None` in [`MemberObservation::below`]; its devices are a
//! chain, the last one of which is the disk.

use super::observation::{MemberObservation, Observation};
use crate::graph::{Below, Join, Layers};

/// Bytes, at least and at most.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LeastMost {
    /// The least that it can be.
    pub least: f64,
    /// At most; infinite where nothing bounds it.
    pub most: f64,
}

impl LeastMost {
    const NONE: LeastMost = LeastMost { least: 0.0, most: 0.0 };
    const ONE: LeastMost = LeastMost { least: 1.0, most: 1.0 };

    fn new(least: f64, most: f64) -> LeastMost {
        LeastMost { least, most }
    }

    /// So many times as much; nothing of what is without bound is nothing.
    fn times(self, by: LeastMost) -> LeastMost {
        let product = |a: f64, b: f64| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
        LeastMost::new(product(self.least, by.least), product(self.most, by.most))
    }

    fn plus(self, more: LeastMost) -> LeastMost {
        LeastMost::new(self.least + more.least, self.most + more.most)
    }

    /// What either may be.
    fn or(self, other: LeastMost) -> LeastMost {
        LeastMost::new(self.least.min(other.least), self.most.max(other.most))
    }
}

/// Bytes that are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moves {
    /// Least and most that are read.
    pub read: LeastMost,
    /// Least and most that are written.
    pub write: LeastMost,
}

impl Moves {
    fn or(self, other: Moves) -> Moves {
        Moves { read: self.read.or(other.read), write: self.write.or(other.write) }
    }
}

/// What all disks below a device move for each byte that is asked of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// For a byte to read.
    pub read: Moves,
    /// For a byte to write.
    pub write: Moves,
}

impl Cost {
    /// The cost of a disk itself, where no layer adds any: what is asked is what is moved.
    pub const DISK: Cost = Cost {
        read: Moves { read: LeastMost::ONE, write: LeastMost::NONE },
        write: Moves { read: LeastMost::NONE, write: LeastMost::ONE },
    };

    fn or(self, other: Cost) -> Cost {
        Cost { read: self.read.or(other.read), write: self.write.or(other.write) }
    }

    /// What moves below devices of this cost where `moves` is asked of them.
    fn of(&self, moves: Moves) -> Moves {
        let by = |read: LeastMost, write: LeastMost| read.times(moves.read).plus(write.times(moves.write));
        Moves { read: by(self.read.read, self.write.read), write: by(self.read.write, self.write.write) }
    }
}

impl Below {
    /// What is asked of the devices below for a byte to read and for one to write.
    fn asked(&self) -> Cost {
        let devices = self.devices.len().max(1) as f64;
        let intact = self.missing == 0;
        let unbounded = |least: f64| LeastMost::new(least, f64::INFINITY);
        let written = |write: Moves| Cost { write, ..Cost::DISK };
        match self.join {
            Join::Through | Join::Paths | Join::Linear | Join::Stripe { .. } => Cost::DISK,
            Join::Mirror { copies } => {
                let least = copies.saturating_sub(self.missing).max(1);
                // One that is being rebuilt is written too.
                written(Moves {
                    write: LeastMost::new(f64::from(least), devices.max(f64::from(copies))),
                    ..Moves::default()
                })
            }
            Join::StripedMirror { copies, .. } => {
                let copies = f64::from(copies.max(1));
                let least = if intact { copies } else { 1.0 };
                written(Moves { write: LeastMost::new(least, copies), ..Moves::default() })
            }
            Join::Parity { parity, of, .. } => {
                let (parity, of) = (f64::from(parity), f64::from(of));
                let data = (of - parity).max(1.0);
                // A whole stripe needs nothing read; of a small write, data and parity are read before they are written.
                let least = if intact { of / data } else { 1.0 };
                let most = if intact { 1.0 + parity } else { of };
                // One more is a spare, or a journal that has everything first.
                let journal = if devices > of { 1.0 } else { 0.0 };
                Cost {
                    // What is on a device that is not there is computed from all the others.
                    read: Moves {
                        read: LeastMost::new(1.0, if intact { 1.0 } else { of }),
                        write: LeastMost::NONE,
                    },
                    write: Moves {
                        read: LeastMost::new(0.0, most),
                        write: LeastMost::new(least, 1.0 + parity + journal),
                    },
                }
            }
            // It reads a byte from one of them, and may fetch or write back whole blocks around it.
            Join::Cache => Cost {
                read: Moves { read: unbounded(1.0), write: unbounded(0.0) },
                write: Moves { read: unbounded(0.0), write: unbounded(1.0) },
            },
            Join::Indirect => Cost {
                read: Moves { read: unbounded(0.0), write: unbounded(0.0) },
                write: Moves { read: unbounded(0.0), write: unbounded(0.0) },
            },
            Join::Other if self.devices.len() < 2 => Cost::DISK,
            Join::Other => Cost {
                read: Moves { read: LeastMost::new(1.0, devices), write: LeastMost::NONE },
                write: Moves { read: LeastMost::new(0.0, devices), write: LeastMost::new(1.0, devices) },
            },
        }
    }
}

/// A device below a member that is made of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array<'a> {
    /// Its place in [`Observation::devices`]; nothing for a file system over several devices.
    pub device: Option<usize>,
    /// What it is made of.
    pub below: &'a Below,
}

impl Layers for Observation {
    fn count(&self) -> usize {
        self.devices.len()
    }

    fn made(&self, device: usize) -> Option<&Below> {
        self.devices.get(device)?.below.as_ref()
    }
}

impl Observation {
    /// What was seen of the member of this name.
    pub fn member(&self, name: &str) -> Option<&MemberObservation> {
        self.members.iter().find(|seen| seen.member == name)
    }

    /// The devices that `member` is directly on: one, or those of its file system.
    pub fn tops<'a>(&self, member: &'a MemberObservation) -> &'a [usize] {
        match &member.below {
            Some(below) => &below.devices,
            None => member.devices.get(..1).unwrap_or_default(),
        }
    }

    /// The disks that `member` rests on, each once.
    pub fn disks(&self, member: &MemberObservation) -> Vec<usize> {
        if member.below.is_none() {
            return member.devices.last().copied().into_iter().collect();
        }
        self.disks_below(self.tops(member))
    }

    /// What below `member` is made of several devices, upper ones first.
    pub fn arrays<'a>(&'a self, member: &'a MemberObservation) -> Vec<Array<'a>> {
        let several = |array: &Array<'_>| array.below.devices.len() > 1;
        let own = member.below.iter().map(|below| Array { device: None, below });
        let tops = if member.below.is_some() { self.tops(member) } else { &[] };
        let all = self.all_below(tops).into_iter();
        let devices = all.filter_map(|at| Some(Array { device: Some(at), below: self.made(at)? }));
        own.chain(devices).filter(several).collect()
    }

    /// What the disks below `member` move for each byte that is asked of it.
    pub fn cost(&self, member: &MemberObservation) -> Cost {
        let mut known: Vec<Option<Cost>> = vec![None; self.devices.len()];
        member.below.as_ref().map_or(Cost::DISK, |below| self.cost_below(below, &mut known, 0))
    }

    /// `known` holds what was found for each device: one that stands on itself, in a damaged file, ends there.
    fn cost_below(&self, below: &Below, known: &mut [Option<Cost>], depth: usize) -> Cost {
        let mut each: Option<Cost> = None;
        for &device in &below.devices {
            let Some(slot) = known.get_mut(device) else { continue };
            let cost = match *slot {
                Some(cost) => cost,
                None => {
                    *slot = Some(Cost::DISK);
                    let found = match self.made(device).filter(|b| !b.devices.is_empty()) {
                        Some(below) if depth < self.devices.len() => self.cost_below(below, known, depth + 1),
                        _ => Cost::DISK,
                    };
                    known[device] = Some(found);
                    found
                }
            };
            each = Some(each.map_or(cost, |all| all.or(cost)));
        }
        let each = each.unwrap_or(Cost::DISK);
        let asked = below.asked();
        Cost { read: each.of(asked.read), write: each.of(asked.write) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::DeviceObservation;
    use crate::units::Bytes;

    /// Devices, each with the places of what lies below it and how they are put together.
    fn tree(devices: &[(&str, &[usize], Join)]) -> Observation {
        let device = |(name, below, join): &(&str, &[usize], Join)| DeviceObservation {
            name: (*name).to_owned(),
            below: Some(Below { devices: below.to_vec(), join: *join, missing: 0 }),
            ..DeviceObservation::default()
        };
        Observation { devices: devices.iter().map(device).collect(), ..Observation::default() }
    }

    fn member(observed: &Observation) -> MemberObservation {
        MemberObservation {
            member: "v".into(),
            devices: (0..observed.devices.len()).collect(),
            below: Some(Below { devices: vec![0], join: Join::Through, missing: 0 }),
            ..MemberObservation::default()
        }
    }

    fn disks(observed: &Observation) -> Vec<&str> {
        let all = observed.disks(&member(observed)).into_iter();
        all.map(|disk| observed.devices[disk].name.as_str()).collect()
    }

    const DISK: (&[usize], Join) = (&[], Join::Other);

    fn disk(name: &str) -> (&str, &'static [usize], Join) {
        (name, DISK.0, DISK.1)
    }

    /// A logical volume of two stripes, one on a mirror over partitions, one on a disk; the mirror's first disk carries
    /// both a partition of it and is found once.
    #[test]
    fn the_disks_of_a_tree_are_its_leaves_each_once() {
        let observed = tree(&[
            ("dm-0", &[1, 6], Join::Stripe { chunk: None }),
            ("md1", &[2, 4], Join::Mirror { copies: 2 }),
            ("vdb2", &[3], Join::Through),
            disk("vdb"),
            ("vdb3", &[3], Join::Through),
            disk("unrelated"),
            disk("vdd"),
        ]);
        assert_eq!(disks(&observed), ["vdb", "vdd"]);
        let member = member(&observed);
        let arrays: Vec<_> =
            observed.arrays(&member).iter().map(|a| (a.device, a.below.join.name())).collect();
        assert_eq!(arrays, [(Some(0), "stripe"), (Some(1), "mirror")]);
        let cost = observed.cost(&member);
        assert_eq!(cost.read.read, LeastMost::ONE);
        // Half of it is written twice, nobody knows which half.
        assert_eq!(cost.write.write, LeastMost::new(1.0, 2.0));
    }

    #[test]
    fn what_is_moved_for_a_byte_by_level() {
        let over = |join: Join, missing: u32, devices: usize| {
            let mut observed = tree(&[("md0", &[1, 2, 3, 4][..devices], join)]);
            observed.devices[0].below.as_mut().unwrap().missing = missing;
            observed.devices.extend(tree(&[disk("a"), disk("b"), disk("c"), disk("d")]).devices);
            let cost = observed.cost(&member(&observed));
            (cost.read.read, cost.write.read, cost.write.write)
        };
        let (one, none, span) = (LeastMost::ONE, LeastMost::NONE, LeastMost::new);
        assert_eq!(over(Join::Linear, 0, 2), (one, none, one));
        assert_eq!(over(Join::Stripe { chunk: None }, 0, 4), (one, none, one));
        assert_eq!(over(Join::Mirror { copies: 3 }, 0, 3), (one, none, span(3.0, 3.0)));
        assert_eq!(over(Join::Mirror { copies: 3 }, 1, 2), (one, none, span(2.0, 3.0)));
        assert_eq!(over(Join::StripedMirror { copies: 2, chunk: None }, 0, 4), (one, none, span(2.0, 2.0)));
        let raid = |parity| Join::Parity { parity, of: 4, chunk: None };
        assert_eq!(over(raid(1), 0, 4), (one, span(0.0, 2.0), span(4.0 / 3.0, 2.0)));
        assert_eq!(over(raid(2), 0, 4), (one, span(0.0, 3.0), span(2.0, 3.0)));
        // Without one of the four, a byte may be computed from the three others.
        assert_eq!(over(raid(1), 1, 3), (span(1.0, 4.0), span(0.0, 4.0), span(1.0, 2.0)));
        let (read, _, write) = over(Join::Indirect, 0, 2);
        assert_eq!((read.least, write.most), (0.0, f64::INFINITY));
        assert_eq!(over(Join::Cache, 0, 2).0.least, 1.0);
    }

    /// RAID5 over three mirrors: each of its writes is two.
    #[test]
    fn costs_multiply_from_level_to_level() {
        let pair = Join::Mirror { copies: 2 };
        let observed = tree(&[
            ("md0", &[1, 2, 3], Join::Parity { parity: 1, of: 3, chunk: None }),
            ("md1", &[4, 5], pair),
            ("md2", &[6, 7], pair),
            ("md3", &[8, 9], pair),
            disk("a"),
            disk("b"),
            disk("c"),
            disk("d"),
            disk("e"),
            disk("f"),
        ]);
        let cost = observed.cost(&member(&observed));
        assert_eq!(cost.write.write, LeastMost::new(3.0, 4.0));
        assert_eq!(cost.write.read, LeastMost::new(0.0, 2.0));
    }

    /// A chain as it was recorded before: the last one is the disk, whatever the others are.
    #[test]
    fn an_old_record_is_a_chain() {
        let text = r#"{"devices": [{"name": "md0"}, {"name": "vdb"}, {"name": "vdc"}],
                       "members": [{"member": "v", "devices": [0, 1, 2]}]}"#;
        let observed: Observation = serde_json::from_str(text).expect("an observation");
        let member = &observed.members[0];
        assert_eq!((observed.disks(member), observed.tops(member)), (vec![2], &[0][..]));
        assert_eq!((observed.arrays(member), observed.cost(member)), (Vec::new(), Cost::DISK));
    }

    #[test]
    fn what_is_recorded_is_read_again_and_what_is_not_known_is_other() {
        let below = Below {
            devices: vec![1, 2],
            join: Join::Parity { parity: 1, of: 3, chunk: Some(Bytes(65536)) },
            missing: 1,
        };
        let text = serde_json::to_string(&below).expect("JSON");
        assert_eq!(
            text,
            r#"{"devices":[1,2],"join":{"kind":"parity","parity":1,"of":3,"chunk":65536},"missing":1}"#
        );
        assert_eq!(serde_json::from_str::<Below>(&text).expect("a record"), below);
        let later = r#"{"devices": [1], "join": {"kind": "not-yet-made-up", "width": 7}}"#;
        assert_eq!(serde_json::from_str::<Below>(later).expect("a record").join, Join::Other);
    }

    /// A damaged record: places that there are not, and a device that stands on itself.
    #[test]
    fn a_damaged_tree_ends() {
        let observed = tree(&[("a", &[0, 1, 7], Join::Mirror { copies: 2 }), ("b", &[0], Join::Through)]);
        let member = member(&observed);
        assert_eq!(observed.disks(&member), Vec::<usize>::new());
        assert!(observed.cost(&member).write.write.most.is_finite());
    }
}

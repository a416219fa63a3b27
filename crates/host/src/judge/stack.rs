//! What a device shares its blocks with, upwards and downwards.
//!
//! ```text
//! above    mounts, swap, md, dm, loop devices over it or over its partitions
//! itself   a disk with its partitions
//! below    the disk of a partition; what a loop device stands on, with everything else that stands on that;
//!          the members of an array, and what else stands on them in a way that may share their blocks
//! ```

use super::users::{Backing, LoopDevice};
use super::{HostLook, cannot_tell, claimed, has_open};
use crate::exposed::Exposed;
use crate::probe::DEEPEST;
use crate::rbd;
use crate::sys::{self, DevNum};
use ebbtide_door::{Footprint, Identity};
use ebbtide_model::guard::{Reason, RefusalKind};
use ebbtide_model::shown::Shown;
use std::path::PathBuf;

/// What a device stands on.
enum Below<'a> {
    /// A disk that has it as a partition.
    Disk(DevNum),
    /// What is behind a loop device.
    Loop(&'a LoopDevice),
    /// The members of an array, the device below a mapping.
    Members(Vec<DevNum>),
}

fn raw(dev: DevNum) -> u64 {
    rustix::fs::makedev(dev.major, dev.minor)
}

impl HostLook {
    fn place(&self, dev: DevNum) -> PathBuf {
        self.sys.sys.join("dev/block").join(dev.to_string())
    }

    fn name(&self, dev: DevNum) -> String {
        self.users.relation(dev).map_or_else(|| dev.to_string(), |relation| relation.shown_name().to_owned())
    }

    fn below(&self, dev: DevNum) -> Option<Below<'_>> {
        if let Some(over) = self.users.loops.iter().find(|one| one.dev == dev) {
            return Some(Below::Loop(over));
        }
        let relation = self.users.relation(dev)?;
        if let Some(disk) = &relation.partition_of {
            return self.users.named(disk).map(|disk| Below::Disk(disk.dev));
        }
        let members: Vec<DevNum> =
            relation.slaves.iter().filter_map(|name| self.users.named(name)).map(|m| m.dev).collect();
        (!members.is_empty()).then_some(Below::Members(members))
    }

    fn partitions(&self, disk: DevNum) -> Vec<DevNum> {
        let Some(disk) = self.users.relation(disk) else { return Vec::new() };
        let parts =
            self.users.tree.iter().filter(|part| part.partition_of.as_deref() == Some(disk.name.as_str()));
        parts.map(|part| part.dev).collect()
    }

    /// What `dev` stands on.
    pub(super) fn footprint_of(&self, dev: DevNum) -> Footprint {
        let mut footprint = Footprint::alone(Identity::Device(raw(dev)));
        let mut whole = dev;
        // A loop device passes everything on to what it stands on, and so does that.
        for _ in 0..DEEPEST {
            match self.below(whole) {
                Some(Below::Loop(LoopDevice { backing: Backing::Device(below), .. })) => {
                    whole = *below;
                    footprint.covers.push(Identity::Device(raw(whole)));
                }
                Some(Below::Loop(LoopDevice { backing: Backing::File(dev, ino), .. })) => {
                    footprint.covers.push(Identity::File { dev: *dev, ino: *ino });
                    return footprint;
                }
                _ => break,
            }
        }
        self.collect_within(whole, 0, &mut footprint.within);
        footprint
    }

    fn collect_within(&self, dev: DevNum, depth: usize, within: &mut Vec<Identity>) {
        if depth >= DEEPEST {
            return;
        }
        let below = match self.below(dev) {
            None => return,
            Some(Below::Disk(disk)) => vec![disk],
            Some(Below::Members(members)) => members,
            Some(Below::Loop(over)) => match &over.backing {
                Backing::Device(device) => vec![*device],
                Backing::File(dev, ino) => {
                    within.push(Identity::File { dev: *dev, ino: *ino });
                    return;
                }
                Backing::Unknown(_) => return,
            },
        };
        for dev in below {
            within.push(Identity::Device(raw(dev)));
            self.collect_within(dev, depth + 1, within);
        }
    }

    /// Every use of `dev` and of what shares its blocks.
    pub(super) fn in_use(&self, dev: DevNum) -> Vec<Reason> {
        let mut reasons = self.uses_above(dev);
        self.below_in_use(dev, 0, &mut reasons);
        reasons
    }

    /// Every use of `dev` itself and of its partitions, but for programs that only read it.
    pub(super) fn uses_above(&self, dev: DevNum) -> Vec<Reason> {
        let mut reasons = Vec::new();
        // Writing to a disk writes to its partitions too.
        for part in std::iter::once(dev).chain(self.partitions(dev)) {
            self.use_of(part, None, &mut reasons);
        }
        reasons
    }

    /// Every use of `dev` itself and of its partitions, programs that only read it among them.
    pub(super) fn users_above(&self, dev: DevNum) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let devices = std::iter::once(dev).chain(self.partitions(dev));
        for part in devices {
            self.use_of(part, None, &mut reasons);
            for opener in self.users.readers(&self.sys, part) {
                reasons.push(has_open(&opener, &format!("{} open", self.name(part))));
            }
        }
        reasons
    }

    /// Every use of what `dev` stands on but through it.
    pub(super) fn users_below_device(&self, dev: DevNum) -> Vec<Reason> {
        let mut reasons = Vec::new();
        self.below_in_use(dev, 0, &mut reasons);
        reasons
    }

    fn below_in_use(&self, dev: DevNum, depth: usize, reasons: &mut Vec<Reason>) {
        if depth >= DEEPEST {
            reasons.push(cannot_tell("what is below it", "it stands on more layers than anybody stacks"));
            return;
        }
        match self.below(dev) {
            None => {}
            Some(Below::Disk(disk)) => {
                self.use_of(disk, None, reasons);
                self.overlapping_partitions(dev, disk, reasons);
                self.below_in_use(disk, depth + 1, reasons);
            }
            Some(Below::Members(members)) => {
                for member in members {
                    self.use_of(member, Some(dev), reasons);
                    self.below_in_use(member, depth + 1, reasons);
                }
            }
            Some(Below::Loop(over)) => match &over.backing {
                Backing::Device(device) => {
                    for part in std::iter::once(*device).chain(self.partitions(*device)) {
                        self.use_of(part, Some(dev), reasons);
                    }
                    self.claimed(*device, over, reasons);
                    self.below_in_use(*device, depth + 1, reasons);
                }
                Backing::File(file_dev, ino) => {
                    self.file_below(over, (*file_dev, *ino), reasons);
                }
                Backing::Unknown(path) => {
                    let what = format!("what else uses {}, the file behind {},", path.shown(), over.name);
                    reasons.push(cannot_tell(&what, "run it as root, or where the file can be seen"));
                }
            },
        }
    }

    /// Uses of the one device `dev`. `through` stands on it and is what is to be written: that is no use by others.
    fn use_of(&self, dev: DevNum, through: Option<DevNum>, reasons: &mut Vec<Reason>) {
        let name = self.name(dev);
        let mut add = |reason| {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        };
        let mut push = |kind, what: String, remedy: String| add(Reason { kind, what, remedy });
        let mounts: Vec<&str> = self.mounts_of(dev);
        if let Some(mountpoint) = mounts.first() {
            let more = match mounts.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            push(
                RefusalKind::Mounted,
                format!("{name} is mounted on {mountpoint}{more}"),
                format!("unmount it (`umount {mountpoint}`) if nothing needs it"),
            );
        }
        if self.is_swap(dev) {
            push(
                RefusalKind::Swap,
                format!("{name} is swap in use"),
                format!("`swapoff /dev/{}` if the memory suffices without it", self.kernel_name(dev)),
            );
        }
        let holders = self.holders(dev, through);
        if !holders.is_empty() {
            push(
                RefusalKind::Held,
                format!("{name} is part of {}", holders.join(", ")),
                "stop what is built on it first (mdadm --stop, vgchange -an, cryptsetup close)".to_owned(),
            );
        }
        let loops: Vec<&str> = self
            .users
            .loops
            .iter()
            .filter(|over| over.backing == Backing::Device(dev) && Some(over.dev) != through)
            .map(|over| over.name.as_str())
            .collect();
        if let Some(first) = loops.first() {
            push(
                RefusalKind::Held,
                format!("{name} is behind {}", loops.join(", ")),
                format!("detach it first (`losetup -d /dev/{first}`) if nothing needs it"),
            );
        }
        if let Some(other) = rbd::same_image(&self.sys, &self.kernel_name(dev)).first() {
            push(
                RefusalKind::Held,
                format!("{name} is the same image of Ceph as {other}"),
                format!("unmap one of them (`rbd device unmap /dev/{other}`)"),
            );
        }
        for reason in self.users.exports_of(&Exposed::Device(dev), &name) {
            add(reason);
        }
        for opener in self.users.writers(&self.sys, dev) {
            add(has_open(&opener, &format!("{name} open to write")));
        }
    }

    fn kernel_name(&self, dev: DevNum) -> String {
        self.users.relation(dev).map_or_else(|| dev.to_string(), |relation| relation.name.clone())
    }

    pub(super) fn mounts_of(&self, dev: DevNum) -> Vec<&str> {
        let mut found: Vec<&str> = self
            .users
            .mounts()
            // btrfs and other multi-device file systems have a number of their own: their source names the device.
            .filter(|mount| mount.dev == dev || (mount.dev.major == 0 && self.is_called(dev, &mount.source)))
            .map(|mount| mount.mountpoint.as_str())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn is_swap(&self, dev: DevNum) -> bool {
        self.users.swaps.iter().any(|swap| self.is_called(dev, &swap.path))
    }

    /// Whether `path` is a name of the device `dev`.
    fn is_called(&self, dev: DevNum, path: &str) -> bool {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let Some(relation) = self.users.relation(dev) else { return false };
        let last = path.rsplit('/').next().unwrap_or(path);
        let by_name = path == format!("/dev/{}", relation.name)
            || (path.starts_with("/dev/mapper/") && Some(last) == relation.alias.as_deref());
        let by_number = || {
            let found = std::fs::metadata(self.sys.root().join(path.trim_start_matches('/')));
            found.is_ok_and(|found| {
                found.file_type().is_block_device() && DevNum::from_raw(found.rdev()) == dev
            })
        };
        // A recorded host has links, but no devices.
        let by_link = || {
            path.strip_prefix("/dev/disk/").is_some()
                && std::fs::read_link(self.sys.root().join(path.trim_start_matches('/')))
                    .is_ok_and(|to| to.file_name().is_some_and(|name| *name == *relation.name))
        };
        by_name || (path.starts_with('/') && (by_number() || by_link()))
    }

    /// Devices that stand on `dev`, without `through` and without those that share a member with it by design: logical
    /// volumes and mapped partitions, each with blocks of its own.
    fn holders(&self, dev: DevNum, through: Option<DevNum>) -> Vec<String> {
        let through = through.and_then(|through| self.users.relation(through));
        let own = through.map(|through| self.dm_uuid(&through.name)).unwrap_or_default();
        let here = self.users.relation(dev).map(|relation| self.dm_uuid(&relation.name)).unwrap_or_default();
        let apart = |uuid: &str| uuid.starts_with("LVM-") || uuid.starts_with("part");
        sys::names(&self.place(dev).join("holders"))
            .into_iter()
            .filter(|holder| {
                let Some(through) = through else { return true };
                if *holder == through.name {
                    return false;
                }
                // LVM names the origin of a snapshot after the volume that everybody sees: writing to that one uses up
                // the snapshots' space, and one that is full is lost.
                let origin = !own.is_empty() && here == format!("{own}-real");
                origin || !(apart(&own) && apart(&self.dm_uuid(holder)))
            })
            .map(|holder| self.users.named(&holder).map_or(holder.clone(), |r| r.shown_name().to_owned()))
            .collect()
    }

    fn dm_uuid(&self, name: &str) -> String {
        sys::word(&self.sys.sys.join("block").join(name).join("dm/uuid")).unwrap_or_default()
    }

    /// Partitions of `disk` that share blocks with its partition `dev`, as an extended one does with the logical ones.
    fn overlapping_partitions(&self, dev: DevNum, disk: DevNum, reasons: &mut Vec<Reason>) {
        let extent = |dev: DevNum| {
            let of = |name: &str| sys::number::<u64>(&self.place(dev).join(name));
            Some((of("start")?, of("size")?))
        };
        let Some((start, size)) = extent(dev) else { return };
        for other in self.partitions(disk).into_iter().filter(|other| *other != dev) {
            let apart = extent(other).is_some_and(|(other_start, other_size)| {
                other_start >= start.saturating_add(size) || start >= other_start.saturating_add(other_size)
            });
            if !apart {
                self.use_of(other, None, reasons);
            }
        }
    }

    /// A loop device does not claim the device that it stands on: whether somebody has, in whatever namespace, the kernel
    /// tells by refusing a claim.
    fn claimed(&self, dev: DevNum, over: &LoopDevice, reasons: &mut Vec<Reason>) {
        if !self.sys.is_host() || reasons.iter().any(|reason| reason.kind.is_absolute()) {
            return;
        }
        let name = self.kernel_name(dev);
        let what = format!("{}, behind {},", name, over.name);
        match ebbtide_door::is_claimed(&self.sys.dev.join(&name), raw(dev)) {
            Ok(false) => {}
            Ok(true) => {
                reasons.push(claimed(format!("{what} is claimed by the kernel or a program")));
            }
            Err(_) => reasons.push(cannot_tell(&format!("who uses {what}"), "run it as root")),
        }
    }
}

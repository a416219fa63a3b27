//! What makes everybody wait who uses what was made, whoever did it: a file system that is frozen, a device that is suspended.

use super::undo::shown;
use super::{Failure, Keeper};
use crate::build::undo;
use crate::probe::tables;
use crate::sys;
use ebbtide_model::plan::build::{BuildUndo, Mounted};
use ebbtide_model::shown::Shown;
use ebbtide_provision::Desired;
use std::collections::BTreeSet;
use std::path::Path;

/// Bytes of an ext4 file system to the end of what is looked at.
const HEAD: u64 = 2048;
/// Where its superblock begins, and in that: its magic number, and what it has (Linux, `fs/ext4/ext4.h`, `struct ext4_super_block`).
const SUPERBLOCK: usize = 1024;
const MAGIC: usize = SUPERBLOCK + 0x38;
const COMPATIBLE: usize = SUPERBLOCK + 0x5c;
const INCOMPATIBLE: usize = SUPERBLOCK + 0x60;
/// It has a journal (`EXT4_FEATURE_COMPAT_HAS_JOURNAL`).
const HAS_JOURNAL: u8 = 4;
/// The journal is to be replayed: so as long as it is mounted to be written to (`EXT4_FEATURE_INCOMPAT_RECOVER`).
const RECOVER: u8 = 4;

impl Keeper<'_> {
    /// Fails where something of `desired` is frozen or suspended: what was asked of it would not end.
    pub(super) fn refuse_waiting(&self, desired: &Desired) -> Result<(), Failure> {
        self.refuse_suspended(desired)?;
        let mut undos = desired.build.steps.iter().filter_map(|step| step.undo.as_ref());
        undos.find_map(|undo| self.frozen(undo)).map_or(Ok(()), |why| Err(Failure::Refused(why)))
    }

    /// Fails where something of `desired` is suspended.
    pub(super) fn refuse_suspended(&self, desired: &Desired) -> Result<(), Failure> {
        self.suspended(desired).map_or(Ok(()), |why| Err(Failure::Refused(why)))
    }

    /// That what `undo` would unmount is frozen, as far as its file system shows that: ext4 has nothing to replay then, and XFS holds nothing back.
    pub(super) fn frozen(&self, undo: &BuildUndo) -> Option<String> {
        let BuildUndo::Unmount { mountpoint, from: Some(from) } = undo else { return None };
        if !matches!(undo::mounted(&self.sys, mountpoint, Some(from)), Ok(None)) {
            return None;
        }
        let mounts = tables::mounts_of(&self.sys);
        let mount = tables::seen_at(&mounts, mountpoint)?;
        if ["ro", "shutdown", "emergency_ro"].into_iter().any(|option| mount.has_option(option)) {
            return None;
        }
        let is_frozen = match mount.fstype.as_str() {
            "ext3" | "ext4" => self.has_nothing_to_replay(from).unwrap_or(false),
            "xfs" => self.holds_nothing_back(mountpoint),
            _ => false,
        };
        let at = mountpoint.shown();
        is_frozen.then(|| {
            format!("{at} is frozen, as by `fsfreeze -f`: whoever writes there waits. `fsfreeze -u {at}` ends that")
        })
    }

    fn has_nothing_to_replay(&self, from: &Mounted) -> Option<bool> {
        let head = sys::beginning(&self.sys.at(Path::new(&from.device)), HEAD)?;
        let is_ext = head.get(MAGIC..MAGIC + 2)? == [0x53, 0xef];
        let has = |at: usize, flag: u8| head.get(at).is_some_and(|byte| byte & flag != 0);
        Some(is_ext && has(COMPATIBLE, HAS_JOURNAL) && !has(INCOMPATIBLE, RECOVER))
    }

    fn holds_nothing_back(&self, mountpoint: &Path) -> bool {
        let at = mountpoint.to_string_lossy();
        let output = self.runner.run("xfs_io", &["-r", "-x", "-c", "resblks", &at]);
        output.is_ok_and(|output| output.text().lines().any(|line| line.trim() == "reserved blocks = 0"))
    }

    /// A device that `desired` names, or one below it, that the device mapper holds up. Nothing is asked of any.
    pub(super) fn suspended(&self, desired: &Desired) -> Option<String> {
        let place = self.sys.sys.join("class/block");
        let made = desired.build.steps.iter().filter_map(|step| match &step.undo {
            Some(
                undo @ (BuildUndo::StopMd { .. } | BuildUndo::RemoveLv { .. } | BuildUndo::CloseCrypt { .. }),
            ) => Some(shown(undo)),
            _ => None,
        });
        let members = desired.members.iter().map(|member| member.path.clone());
        let mut open: Vec<String> = made.chain(members).filter_map(|path| self.kernel_name(&path)).collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop() {
            let device = place.join(&name);
            if sys::word(&device.join("dm/suspended")).as_deref() == Some("1") {
                let name = sys::word(&device.join("dm/name")).unwrap_or(name);
                let name = Path::new(&name).shown().to_string();
                return Some(format!(
                    "/dev/mapper/{name} is suspended: whoever uses it waits. `dmsetup resume {name}` ends that"
                ));
            }
            open.extend(
                sys::names(&device.join("slaves")).into_iter().filter(|below| seen.insert(below.clone())),
            );
        }
        None
    }
}

//! What tells a device that a run used from another one under its name.

use crate::probe::tables::Mount;
use crate::sys::{self, DevNum, Sys};
use ebbtide_model::journal::FileId;
use ebbtide_model::plan::build::Mounted;
use std::path::Path;

/// The number of `device`, `major:minor`; nothing where it is not there.
pub(crate) fn number(sys: &Sys, device: &str) -> Option<String> {
    let node = std::fs::canonicalize(sys.at(Path::new(device))).ok()?;
    let name = node.file_name()?.to_str()?;
    sys::word(&sys.sys.join("class/block").join(name).join("dev"))
}

/// The kernel's number of this use of the loop device `device`, counted up with each; nothing before Linux 5.15.
pub(super) fn sequence(sys: &Sys, device: &str) -> Option<u64> {
    sys::number(&sys.sys.join("block").join(device.trim_start_matches("/dev/")).join("diskseq"))
}

/// The same of a device that may be another kind than a loop device, of which it is not asked: disks keep their content over
/// a reboot, and the numbers begin anew.
pub(super) fn loop_sequence(sys: &Sys, device: &str) -> Option<u64> {
    device.starts_with("/dev/loop").then(|| sequence(sys, device)).flatten()
}

/// Whether the file that is behind the loop device `device` is `id`; nothing where that cannot be found out.
pub(super) fn is_behind(sys: &Sys, device: &str, id: &FileId) -> Option<bool> {
    if !sys.is_host() {
        return None;
    }
    let device = ebbtide_door::read::open(Path::new(device)).ok()?;
    let behind = ebbtide_sys::loops::behind(&device).ok()??;
    Some((behind.dev, behind.ino) == (id.dev, id.ino))
}

/// Whether `mount` is of `from`, all of it.
pub(crate) fn is_mounted(sys: &Sys, mount: &Mount, from: &Mounted) -> bool {
    // Of a bind mount the root is a directory in the file system.
    is_of(sys, mount, from) && (mount.root == "/" || mount.dev.major == 0)
}

/// Whether `mount` is of `from`, or of a directory in it. Of file systems over several devices the mount has a number of its own: there its
/// source tells.
pub(super) fn is_of(sys: &Sys, mount: &Mount, from: &Mounted) -> bool {
    let same_type = from.fstype.as_ref().is_none_or(|fstype| *fstype == mount.fstype);
    let device = from.number.clone().or_else(|| number(sys, &from.device));
    let own_number = mount.dev.major == 0;
    let same_device = match device {
        Some(device) if own_number => number(sys, &mount.source).as_ref() == Some(&device),
        Some(device) => device.parse::<DevNum>().is_ok_and(|device| device == mount.dev),
        None => mount.source == from.device,
    };
    same_type && same_device
}

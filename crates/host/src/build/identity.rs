//! What tells a device that a run used from another one under its name.

use crate::probe::tables::Mount;
use crate::sys::{self, DevNum, Sys};
use ebbtide_model::journal::FileId;
use ebbtide_model::plan::build::{Mounted, Opened};
use std::path::Path;

/// The last part of the path that `device` leads to; nothing where it leads nowhere.
pub(super) fn node(sys: &Sys, device: impl AsRef<Path>) -> Option<String> {
    let node = std::fs::canonicalize(sys.at(device.as_ref())).ok()?;
    Some(node.file_name()?.to_str()?.to_owned())
}

/// The number of `device`, `major:minor`; nothing where it is not there.
pub(crate) fn number(sys: &Sys, device: &str) -> Option<String> {
    number_of(sys, &node(sys, device)?)
}

fn number_of(sys: &Sys, name: &str) -> Option<String> {
    sys::word(&sys.sys.join("class/block").join(name).join("dev"))
}

/// What the kernel calls the block device at `device`; nothing where there is none.
pub(crate) fn name(sys: &Sys, device: &str) -> Option<String> {
    node(sys, device).filter(|name| number_of(sys, name).is_some())
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

/// A mapping of the device mapper.
pub(crate) struct Mapping {
    /// Who made it of what, as its maker writes it.
    pub(crate) uuid: String,
    /// The devices that it is on, by the kernel's names.
    below: Vec<String>,
}

impl Mapping {
    /// The UUID of the LUKS2 header that it was opened by, without dashes.
    pub(crate) fn luks(&self) -> Option<&str> {
        self.uuid.strip_prefix("CRYPT-LUKS2-")?.split('-').next()
    }
}

/// The mapping `name`; nothing where there is none.
pub(crate) fn mapping(sys: &Sys, name: &str) -> Option<Mapping> {
    let block = sys.sys.join("class/block");
    let places = sys::names(&block).into_iter().map(|device| block.join(device));
    let found =
        places.into_iter().find(|place| sys::word(&place.join("dm/name")).as_deref() == Some(name))?;
    let uuid = sys::word(&found.join("dm/uuid")).unwrap_or_default();
    Some(Mapping { uuid, below: sys::names(&found.join("slaves")) })
}

/// A mapping of somebody's under a name that was ours.
pub(super) struct OtherMapping {
    /// What it is, in words.
    pub(super) what: String,
    /// Whether it is on the device that was opened, all the same.
    pub(super) is_on_it: bool,
}

/// The mapping `name` where it is not the one that was made `of` a device; nothing where it is, or there is none.
pub(super) fn other_mapping(sys: &Sys, name: &str, of: Option<&Opened>) -> Option<OtherMapping> {
    let (of, found) = (of?, mapping(sys, name)?);
    let device = node(sys, &of.device);
    let is_on_it = device.as_ref().is_some_and(|device| found.below.contains(device));
    let is_of_it = found.luks().is_some_and(|uuid| uuid == of.uuid.replace('-', ""));
    let what = match is_of_it {
        // Of a device that is not there only the UUID tells.
        true if is_on_it || device.is_none() => return None,
        true => format!("it is on /dev/{}, and not on {}", found.below.join(", /dev/"), of.device),
        false => format!("its UUID is {}, and not that of the LUKS header {}", found.uuid, of.uuid),
    };
    Some(OtherMapping { what: format!("/dev/mapper/{name} is a mapping of somebody's: {what}"), is_on_it })
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

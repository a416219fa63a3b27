//! What of this host an array that stays is made of: how it boots, who it is, what its devices are called for good.

use super::super::identity;
use crate::judge;
use crate::probe::{BlockDevice, Devices, Kind, is_steady_link, steadiest_name};
use crate::sys::{self, Sys};
use ebbtide_door::{Door, DoorError, Expected, Wanted};
use ebbtide_model::guard::{Permission, RefusalKind, WriteRequest};
use ebbtide_provision::boot::Members;
use ebbtide_provision::{Member, System};
use std::collections::BTreeSet;
use std::path::Path;

/// How the host of `sys` boots.
pub fn system(sys: &Sys) -> System {
    let release = ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| sys::text(&sys.at(Path::new(path))));
    System::of(&release.unwrap_or_default(), |path| sys.at(path).exists())
}

/// What tells the host of `sys` from others; empty where it has no such thing, and then its members' ids have to do.
pub fn machine(sys: &Sys) -> String {
    let id = || sys::word(&sys.at(Path::new("/etc/machine-id"))).filter(|id| id != "uninitialized");
    id().or_else(|| sys::word(&sys.sys.join("class/dmi/id/product_uuid"))).unwrap_or_default()
}

/// The link below /dev/disk to the device at `path` that says which it is, or `path` where it is such a link; nothing where there is none.
pub fn stable_path(sys: &Sys, devices: &Devices, path: &Path) -> Option<String> {
    let text = path.to_str()?;
    if is_steady_link(text) {
        return Some(text.to_owned());
    }
    let device = devices.get(&identity::node(sys, path)?)?;
    Some(format!("/dev/disk/by-id/{}", steadiest_name(&device.ids.by_id)?))
}

/// What kind of device is at `path`; nothing where there is none.
pub fn kind(sys: &Sys, devices: &Devices, path: &Path) -> Option<Kind> {
    let device = devices.get(&identity::node(sys, path)?)?;
    let disk = device.partition_of.as_deref().and_then(|disk| devices.get(disk)).unwrap_or(device);
    Some(disk.kind)
}

/// The whole disks among `members`, each by one link, but those that are in use, such as the machine's own.
pub fn free_disks(sys: &Sys, devices: &Devices, members: &Members) -> Vec<String> {
    let places: BTreeSet<&Path> =
        members.links().iter().filter_map(|link| Path::new(link).parent()).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let named = places.iter().flat_map(|place| links(sys, place));
    for link in named.filter(|link| members.have(link)) {
        let Some(node) = identity::node(sys, &link) else { continue };
        let device = devices.get(&node).filter(|device| device.partition_of.is_none());
        let Some(device) = device else { continue };
        if is_in_use(devices, device) || !seen.insert(device.name.clone()) {
            continue;
        }
        // After a stop instance store is another drive, in the same place.
        let in_place = || {
            links(sys, Path::new("/dev/disk/by-path"))
                .into_iter()
                .find(|link| identity::node(sys, link).as_ref() == Some(&node))
        };
        let steady = if device.kind == Kind::InstanceStore { in_place() } else { None };
        found.push(steady.unwrap_or(link));
    }
    found
}

/// The links in `place`.
fn links(sys: &Sys, place: &Path) -> Vec<String> {
    let names = sys::names(&sys.at(place));
    names.iter().map(|name| place.join(name).to_string_lossy().into_owned()).collect()
}

/// Whether `device`, or what is on it, is mounted or swapped to.
fn is_in_use(devices: &Devices, device: &BlockDevice) -> bool {
    let above = device.partitions.iter().chain(&device.holders);
    !device.mounts.is_empty()
        || device.swap_used.is_some()
        || above.filter_map(|name| devices.get(name)).any(|above| is_in_use(devices, above))
}

/// Whether `members` may be written: those that are blank always, others as the door has it, with `destroy` and their ids.
///
/// # Errors
/// The first that may not, and what to do.
pub(crate) fn may_build(members: &[&Member], destroy: bool) -> Result<(), String> {
    let door = judge::door();
    let mut loaded = Vec::new();
    for member in members {
        match claim(&door, &[member], false) {
            // Nothing is against it but that nobody said it may be lost, and there is nothing to lose.
            Err((_, DoorError::Refused(refusal)))
                if refusal.reasons.iter().all(|reason| reason.kind == RefusalKind::NotDestroy) => {}
            Ok(()) => {}
            Err(_) => loaded.push(*member),
        }
    }
    // All that are written are claimed at once, so that two of them that are one device are told.
    let blank: Vec<&Member> = members
        .iter()
        .copied()
        .filter(|member| !loaded.iter().any(|other| other.path == member.path))
        .collect();
    for (members, destroy) in [(&blank, true), (&loaded, destroy)] {
        claim(&door, members, destroy).map_err(|(position, error)| {
            let name = members.get(position).map_or("", |member| member.name.as_str());
            format!("volume {name}: {error}")
        })?;
    }
    Ok(())
}

fn claim(door: &Door, members: &[&Member], destroy: bool) -> Result<(), (usize, DoorError)> {
    let wanted: Vec<Wanted<'_>> = members
        .iter()
        .map(|member| Wanted {
            request: WriteRequest {
                path: Path::new(&member.path),
                permission: Permission::User { id: member.id.as_deref(), destroy, used: false },
            },
            expected: Expected::Device,
            write: true,
        })
        .collect();
    door.claim(&wanted).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_named_by_what_an_apply_does_not_change() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let before = names(&["nvme-Amazon_Elastic_Block_Store_vol0a", "nvme-nvme.1d0f-76"]);
        let after =
            names(&["lvm-pv-uuid-HgV8", "nvme-Amazon_Elastic_Block_Store_vol0a", "nvme-nvme.1d0f-76"]);
        assert_eq!(steadiest_name(&before), Some("nvme-Amazon_Elastic_Block_Store_vol0a"));
        assert_eq!(steadiest_name(&after), steadiest_name(&before));
        assert_eq!(steadiest_name(&names(&["lvm-pv-uuid-HgV8", "wwn-0x5"])), Some("wwn-0x5"));
        assert_eq!(steadiest_name(&names(&["md-name-any:data"])), None);
    }

    #[test]
    fn links_that_a_copy_takes_over_name_no_member() {
        let (sys, devices) = (Sys::below(Path::new("/nowhere")), Devices::default());
        for (link, is_steady) in [
            ("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0a", true),
            ("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0a-part1", true),
            ("/dev/disk/by-id/dm-uuid-mpath-3600", true),
            ("/dev/disk/by-path/pci-0000:00:1f.0-nvme-1", true),
            ("/dev/disk/by-id/lvm-pv-uuid-HgV8", false),
            ("/dev/disk/by-id/md-name-any:data", false),
            ("/dev/disk/by-uuid/0123", false),
            ("/dev/disk/by-partuuid/0123", false),
            ("/dev/disk/by-label/data", false),
            ("/dev/disk/by-diskseq/7", false),
            ("/dev/sdb", false),
        ] {
            let wanted = is_steady.then(|| link.to_owned());
            assert_eq!(stable_path(&sys, &devices, Path::new(link)), wanted, "{link}");
        }
    }
}

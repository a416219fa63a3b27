//! May this device be written? Asked of every device before it is opened for writing.
//!
//! A device in use (mounted, swapped on, part of another device) is never written. A device with anything on it is
//! written only when the experiment names that very device by a stable id and the command says `--destroy`. A device
//! whose content cannot be read counts as having something on it.

use crate::command::{Never, Real, Runner};
use crate::probe::{self, BlockDevice, Content, Devices};
use crate::sys::{DevNum, Sys};
use ebbtide_core::guard::{DeviceGuard, Reason, Refusal, RefusalKind, WriteRequest};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// The guard of this host: it looks afresh each time it is asked.
#[derive(Debug, Clone)]
pub struct Guard {
    sys: Sys,
}

impl Guard {
    /// For this host.
    pub fn host() -> Guard {
        Guard { sys: Sys::host() }
    }
}

impl DeviceGuard for Guard {
    fn may_write(&self, request: &WriteRequest<'_>) -> Result<(), Refusal> {
        let refuse = |reasons: Vec<Reason>| Refusal { path: request.path.display().to_string(), reasons };
        let not_there = |what: String| {
            refuse(vec![Reason {
                kind: RefusalKind::NotADevice,
                what,
                remedy: "give the path of a file or block device; `ebb volumes` lists devices".to_owned(),
            }])
        };
        let meta =
            std::fs::metadata(request.path).map_err(|e| not_there(format!("it cannot be looked at: {e}")))?;
        if meta.is_file() {
            return if request.destroy {
                Ok(())
            } else {
                Err(refuse(vec![not_destroy("it is an existing file")]))
            };
        }
        if !meta.file_type().is_block_device() {
            return Err(not_there("it is neither a file nor a block device".to_owned()));
        }
        let dev = DevNum::from_raw(meta.rdev());
        // No program is asked what else is on the disk: what decides is read afresh below.
        let devices = probe::disk_with(&self.sys, dev, &Never);
        let device = devices
            .by_dev(dev)
            .ok_or_else(|| not_there(format!("no block device {dev} of non-zero size is in /sys/block")))?;
        let reasons = reasons(&devices, device, &self.fresh_content(&Real, device), request);
        if reasons.is_empty() { Ok(()) } else { Err(refuse(reasons)) }
    }
}

impl Guard {
    /// What is on the device and its partitions now, not what udev saw when it appeared.
    fn fresh_content(&self, runner: &dyn Runner, device: &BlockDevice) -> Content {
        match (probe::signature::read(runner, &self.sys.dev.join(&device.name)), &device.content) {
            // udev may know what an unprivileged user cannot read.
            (Content::Unknown(_), known @ (Content::Signature(_) | Content::PartitionTable(_))) => {
                known.clone()
            }
            (fresh, _) => fresh,
        }
    }
}

/// Every reason against writing `device`, the ones that no option lifts first; empty when it may be written.
pub fn reasons(
    devices: &Devices,
    device: &BlockDevice,
    content: &Content,
    request: &WriteRequest<'_>,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    // Writing to a disk writes to its partitions too.
    for part in std::iter::once(device).chain(device.partitions.iter().filter_map(|p| devices.get(p))) {
        in_use(part, &mut reasons);
    }
    if device.read_only {
        reasons.push(Reason {
            kind: RefusalKind::ReadOnly,
            what: format!("{} is read-only", device.name),
            remedy: "choose another device".to_owned(),
        });
    }
    if let Some(id) = request.id
        && !device.ids.matches(id)
    {
        reasons.push(Reason {
            kind: RefusalKind::WrongId,
            what: format!("its stable id is not `{id}`"),
            remedy: match device.ids.best() {
                Some(own) => format!("the experiment may mean another device; this one is `{own}`"),
                None => "the device has no stable id".to_owned(),
            },
        });
    }
    if !(request.destroy && request.id.is_some()) {
        reasons.extend(not_allowed(device, content, request));
    }
    reasons
}

/// What uses this device or partition now.
fn in_use(device: &BlockDevice, reasons: &mut Vec<Reason>) {
    let name = device.shown_name();
    if let Some(mount) = device.mounts.first() {
        let more = match device.mounts.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        reasons.push(Reason {
            kind: RefusalKind::Mounted,
            what: format!("{name} is mounted on {}{more}", mount.mountpoint),
            remedy: format!("unmount it (`umount {}`) if nothing needs it", mount.mountpoint),
        });
    }
    if device.swap_used.is_some() {
        reasons.push(Reason {
            kind: RefusalKind::Swap,
            what: format!("{name} is swap in use"),
            remedy: format!("`swapoff /dev/{}` if the memory suffices without it", device.name),
        });
    }
    if !device.holders.is_empty() {
        reasons.push(Reason {
            kind: RefusalKind::Held,
            what: format!("{name} is part of {}", device.holders.join(", ")),
            remedy: "stop what is built on it first (mdadm --stop, vgchange -an, cryptsetup close)"
                .to_owned(),
        });
    }
}

/// What is on the device, and what lacks to be allowed to destroy it.
fn not_allowed(device: &BlockDevice, content: &Content, request: &WriteRequest<'_>) -> Vec<Reason> {
    let (kind, what) = match content {
        Content::Signature(s) => {
            let label = s.label.as_deref().map(|l| format!(" \"{l}\"")).unwrap_or_default();
            (RefusalKind::Signature, format!("it carries {}{label}", s.kind))
        }
        Content::PartitionTable(table) => {
            let count = device.partitions.len();
            (
                RefusalKind::PartitionTable,
                format!("it carries a {table} partition table with {count} partitions"),
            )
        }
        Content::Unknown(why) => (RefusalKind::Unreadable, format!("what is on it cannot be read: {why}")),
        Content::Nothing if !device.partitions.is_empty() => {
            (RefusalKind::PartitionTable, format!("it has the partitions {}", device.partitions.join(", ")))
        }
        Content::Nothing => return Vec::new(),
    };
    let mut reasons = vec![Reason {
        kind,
        what,
        remedy: match device.ids.best() {
            Some(id) => format!("if it may be lost, give `id = \"{id}\"` in the experiment and `--destroy`"),
            None => "it has no stable id, so it cannot be released by one: erase it yourself (`wipefs -a`) if it may \
                     be lost"
                .to_owned(),
        },
    }];
    if request.destroy && request.id.is_none() {
        reasons.push(Reason {
            kind: RefusalKind::NoId,
            what: "it is not named by its stable id".to_owned(),
            remedy: "names like /dev/sdb move at a reboot; an id does not".to_owned(),
        });
    } else if !request.destroy && request.id.is_some() {
        reasons.push(not_destroy("its content would be lost"));
    }
    reasons
}

fn not_destroy(what: &str) -> Reason {
    Reason {
        kind: RefusalKind::NotDestroy,
        what: what.to_owned(),
        remedy: "say `--destroy` if it may be overwritten".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::tree::unpack;
    use std::path::Path;

    const ARRAYS: &str = include_str!("../tests/trees/arrays.tree");

    fn kinds(name: &str, id: Option<&str>, destroy: bool) -> Vec<RefusalKind> {
        let root = unpack(ARRAYS);
        let devices = probe::devices(&Sys::below(root.path()));
        let device = devices.get(name).expect("recorded");
        let request = WriteRequest { path: Path::new("/dev/x"), id, destroy };
        reasons(&devices, device, &device.content, &request).iter().map(|r| r.kind).collect()
    }

    /// The guard reads one disk only: what it sees there is what a look at the whole host sees.
    #[test]
    fn one_disk_is_seen_as_among_all() {
        let root = unpack(ARRAYS);
        let sys = Sys::below(root.path());
        let all = probe::devices(&sys);
        assert!(all.devices.iter().any(|device| !device.partitions.is_empty()));
        for device in &all.devices {
            let disk = device.partition_of.as_ref().map_or(device, |name| all.get(name).expect("its disk"));
            let parts = disk.partitions.iter().map(|name| all.get(name).expect("its partition"));
            let expected: Vec<&BlockDevice> = std::iter::once(disk).chain(parts).collect();
            let seen = probe::disk_with(&sys, device.dev, &Never);
            assert_eq!(seen.devices.iter().collect::<Vec<_>>(), expected, "{}", device.name);
        }
        let none = DevNum { major: 259, minor: 999 };
        assert_eq!(probe::disk_with(&sys, none, &Never), Devices::default());
    }

    #[test]
    fn an_empty_device_may_be_written() {
        assert_eq!(kinds("nvme3n1", None, false), []);
        assert_eq!(kinds("nvme3n1", Some("vol0a1b2c3d4e5f60703"), true), []);
    }

    #[test]
    fn a_wrong_id_is_refused_even_for_an_empty_device() {
        assert_eq!(kinds("nvme3n1", Some("vol0a1b2c3d4e5f60702"), true), [RefusalKind::WrongId]);
    }

    #[test]
    fn devices_in_use_are_refused_whatever_is_said() {
        for (name, id, kind) in [
            ("md0", "md-uuid-2c489a92:8b07e035:2ebfd658:3605bd0e", RefusalKind::Mounted),
            ("nvme0n1", "vol0a1b2c3d4e5f60700", RefusalKind::Held),
            ("vdd", "virtio-vol00000006", RefusalKind::Held),
            ("vde", "virtio-vol00000007", RefusalKind::Held),
            ("vda", "virtio-root", RefusalKind::Mounted),
        ] {
            assert_eq!(kinds(name, Some(id), true), [kind], "{name}");
        }
    }

    #[test]
    fn a_disk_is_in_use_when_its_partitions_are() {
        assert_eq!(kinds("vdc", Some("virtio-vol00000005"), true), [RefusalKind::Swap, RefusalKind::Held]);
    }

    #[test]
    fn content_needs_both_the_id_and_destroy() {
        let id = Some("md-uuid-4712d46c:8f0a7822:fdd224ad:66f104fb");
        let root = unpack(ARRAYS);
        let devices = probe::devices(&Sys::below(root.path()));
        let device = devices.get("md1").expect("md1");
        let luks = devices.get("vde").expect("vde").content.clone();
        let ask = |id, destroy| -> Vec<RefusalKind> {
            let request = WriteRequest { path: Path::new("/dev/md1"), id, destroy };
            reasons(&devices, device, &luks, &request).iter().map(|r| r.kind).collect()
        };
        assert_eq!(ask(None, false), [RefusalKind::Signature]);
        assert_eq!(ask(None, true), [RefusalKind::Signature, RefusalKind::NoId]);
        assert_eq!(ask(id, false), [RefusalKind::Signature, RefusalKind::NotDestroy]);
        assert_eq!(ask(id, true), []);
    }

    #[test]
    fn content_that_cannot_be_read_is_refused() {
        let root = unpack(ARRAYS);
        let devices = probe::devices(&Sys::below(root.path()));
        let device = devices.get("nvme3n1").expect("recorded");
        let request = WriteRequest { path: Path::new("/dev/x"), id: None, destroy: false };
        let found = reasons(&devices, device, &Content::Unknown("no permission".into()), &request);
        assert_eq!(found[0].kind, RefusalKind::Unreadable);
        assert!(found[0].remedy.contains("vol0a1b2c3d4e5f60703"), "{}", found[0].remedy);
    }

    #[test]
    fn a_file_needs_destroy_and_a_directory_is_no_device() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let ask = |path, destroy| Guard::host().may_write(&WriteRequest { path, id: None, destroy });
        assert_eq!(ask(file.path(), true), Ok(()));
        let refusal = ask(file.path(), false).expect_err("refused");
        assert_eq!(refusal.reasons[0].kind, RefusalKind::NotDestroy);
        let refusal = ask(Path::new("/"), true).expect_err("refused");
        assert_eq!(refusal.reasons[0].kind, RefusalKind::NotADevice);
    }
}

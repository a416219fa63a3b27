//! What each of the host's files says of an array that stays.

use super::Part;
use crate::can_lose;
use crate::desired::{Class, Member, Seed, across_hosts};
use crate::system::System;
use ebbtide_model::experiment::Design;
use ebbtide_model::plan::build::{Build, BuildUndo};
use ebbtide_model::stack::Filesystem;
use std::fmt::Write;
use std::path::Path;

/// How long boot waits for the device of something that is mounted, in seconds: an EBS volume is there long before, and one that is not
/// there by then will not come.
const DEVICE_TIMEOUT: u32 = 30;

/// The same of what can be used without a member: md starts it 30 s after its first member came (mdadm-last-resort@.timer), which may be late in a boot.
const DEGRADED_TIMEOUT: u32 = 120;

/// How much longer it waits where a key has to be derived first, which was made to take two seconds on the machine that made it and takes longer where
/// processors are slower or busy with a boot. Nothing waits for it but the mount.
const UNLOCK_TIMEOUT: u32 = 90;

/// The same where the device may have to be made first, with its file system.
const REBUILD_TIMEOUT: u32 = 3600;

/// The same of an array over hosts.
const HOSTS_TIMEOUT: u32 = 300;

/// All that the host's files say of `build`, which builds `design`, in the order in which they are written: what refers to something
/// comes after what makes it.
pub fn parts(
    name: &str,
    class: Class,
    seed: &Seed,
    design: &Design,
    build: &Build,
    members: &[Member],
    (system, program): (&System, &str),
) -> Vec<Part> {
    let boot = Boot::of(class, system, build, members);
    let mut parts = Vec::new();
    let mut add = |part: Part| {
        if !part.lines.is_empty() {
            parts.push(part);
        }
    };
    add(Part::block(&system.mdadm_conf, arrays(build, members)));
    if system.udev {
        let rules = rules(build);
        if !rules.is_empty() {
            add(Part::file(format!("/etc/udev/rules.d/90-ebb-{name}.rules"), name, &rules));
        }
    }
    if boot != Boot::Kernel {
        add(Part::file(format!("/etc/systemd/system/{}", unit(name)), name, &boot_unit(name, program, boot)));
    }
    add(Part::block("/etc/crypttab", crypt(name, seed, design)));
    add(Part::block(super::FSTAB, fstab(name, boot, seed, design, build)));
    parts
}

/// What starts an array at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Boot {
    /// udev, mdadm and LVM, from what is on the members.
    Kernel,
    /// `ebb`: it may have to be made anew.
    MadeAnew,
    /// `ebb`: its members come with the network, and whether those that are there may be run alone is to be judged.
    AcrossHosts,
}

impl Boot {
    fn of(class: Class, system: &System, build: &Build, members: &[Member]) -> Boot {
        if class == Class::Ephemeral {
            Boot::MadeAnew
        } else if system.systemd && build.steps.iter().any(|step| across_hosts(members, step)) {
            Boot::AcrossHosts
        } else {
            Boot::Kernel
        }
    }
}

/// mdadm.conf: each array by its uuid, under its name.
///
/// One with members on different hosts is to be left alone: udev would start what is there after 30 seconds (mdadm-last-resort), and what
/// is there may be the half that was away while the other was written to.
fn arrays(build: &Build, members: &[Member]) -> String {
    let mut lines = String::new();
    for step in &build.steps {
        if let Some(BuildUndo::StopMd { device, uuid, .. }) = &step.undo {
            let device = if across_hosts(members, step) { "<ignore>" } else { device };
            let _ = writeln!(lines, "ARRAY {device} UUID={uuid}");
        }
    }
    lines
}

/// crypttab: the encrypted device by its uuid.
fn crypt(name: &str, seed: &Seed, design: &Design) -> String {
    let Some(encryption) = &design.stack.encryption else { return String::new() };
    let Some(key) = &encryption.key_file else { return String::new() };
    let mut options = "luks".to_owned();
    let queues = [
        (encryption.no_read_workqueue, ",no-read-workqueue"),
        (encryption.no_write_workqueue, ",no-write-workqueue"),
    ];
    options.extend(queues.into_iter().filter_map(|(given, option)| given.then_some(option)));
    let (uuid, key, timeout) = (seed.of("crypt").uuid(), key.to_string_lossy(), device_timeout(design));
    format!("{name} UUID={uuid} {key} {options},nofail,x-systemd.device-timeout={timeout}s\n")
}

/// fstab: the file system and the swap spaces by their uuids. None keeps the host from booting.
fn fstab(name: &str, boot: Boot, seed: &Seed, design: &Design, build: &Build) -> String {
    let mut lines = String::new();
    // What makes it at boot comes before it.
    let made = match boot {
        Boot::MadeAnew => format!(",x-systemd.requires={}", unit(name)),
        Boot::AcrossHosts => format!(",_netdev,x-systemd.requires={}", unit(name)),
        Boot::Kernel => String::new(),
    };
    let timeout = match boot {
        Boot::MadeAnew => REBUILD_TIMEOUT,
        Boot::AcrossHosts => HOSTS_TIMEOUT,
        Boot::Kernel if design.stack.encryption.is_some() => device_timeout(design) + UNLOCK_TIMEOUT,
        Boot::Kernel => device_timeout(design),
    };
    let late = format!("{}{made}", late(timeout));
    if let (Some(filesystem), Some(mountpoint)) = (design.stack.filesystem, &build.mountpoint) {
        let options = design.stack.mount_options.as_deref();
        let fields = mount_fields(mountpoint, filesystem, options, &late);
        let _ = writeln!(lines, "{} {fields}", source(seed, filesystem));
    }
    for (group, swap) in design.stack.swap.iter().enumerate() {
        for position in 0..swap.members.len() {
            let uuid = seed.of(&format!("swap{group}.{position}")).uuid();
            let priority = swap.priority.map(|priority| format!("pri={priority},")).unwrap_or_default();
            let _ = writeln!(lines, "UUID={uuid} none swap sw,{priority}{late} 0 0");
        }
    }
    lines
}

/// How long boot waits for the device that the kernel makes of `design`.
fn device_timeout(design: &Design) -> u32 {
    let can_lose = can_lose(&design.layout, &|_| true).is_some_and(|members| members > 0);
    if can_lose { DEGRADED_TIMEOUT } else { DEVICE_TIMEOUT }
}

/// Options of what boot does not wait for longer than `timeout` seconds, and goes on without.
fn late(timeout: u32) -> String {
    format!("nofail,x-systemd.device-timeout={timeout}s")
}

/// fstab's fields after the first, of an array that the kernel starts.
pub(crate) fn started_by_the_kernel(design: &Design, mountpoint: &Path, filesystem: Filesystem) -> String {
    let options = design.stack.mount_options.as_deref();
    mount_fields(mountpoint, filesystem, options, &late(device_timeout(design)))
}

/// fstab's fields after the first.
fn mount_fields(mountpoint: &Path, filesystem: Filesystem, options: Option<&str>, late: &str) -> String {
    let options = options.filter(|options| !options.is_empty());
    let options = options.map_or_else(|| late.to_owned(), |options| format!("{options},{late}"));
    // The ext file systems are checked at boot; the others check themselves as they are mounted.
    let pass = match filesystem {
        Filesystem::Ext2 | Filesystem::Ext3 | Filesystem::Ext4 | Filesystem::Jfs => 2,
        Filesystem::Xfs | Filesystem::Btrfs => 0,
    };
    let (mountpoint, kind) = (escaped(&mountpoint.to_string_lossy()), filesystem.as_ref());
    format!("{mountpoint} {kind} {} 0 {pass}", escaped(&options))
}

/// How fstab finds the file system: by its uuid, which JFS draws by itself.
fn source(seed: &Seed, filesystem: Filesystem) -> String {
    let identity = seed.of("file system");
    match filesystem {
        Filesystem::Jfs => format!("LABEL={}", identity.label()),
        _ => format!("UUID={}", identity.uuid()),
    }
}

/// The unit that makes or starts an array at boot.
pub fn unit(name: &str) -> String {
    format!("ebb-{name}.service")
}

/// What makes or starts an array at boot, before it is mounted: `ebb` itself, from the record, so that nothing but its own members, by
/// their ids, is looked at.
fn boot_unit(name: &str, program: &str, boot: Boot) -> String {
    let (what, after) = match boot {
        Boot::AcrossHosts => (
            "started from the hosts that are there, where no other can have newer data",
            "Wants=network-online.target\n\
             After=network-online.target open-iscsi.service nvmf-autoconnect.service\n\
             Before=remote-fs-pre.target umount.target\n",
        ),
        Boot::Kernel | Boot::MadeAnew => (
            "started, or made anew where all its volumes came back blank",
            "After=systemd-remount-fs.service systemd-udevd.service systemd-udev-trigger.service\n\
             Before=umount.target\n",
        ),
    };
    format!(
        "[Unit]\n\
         Description=Array {name}: {what}\n\
         DefaultDependencies=no\n\
         {after}\
         Conflicts=umount.target\n\
         RequiresMountsFor={program} /var/lib/ebbtide\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart={program} apply --at-boot {name}\n\
         TimeoutStartSec=infinity\n"
    )
}

/// A field of fstab or crypttab: blanks and the like as octal numbers (fstab(5)).
pub(super) fn escaped(field: &str) -> String {
    field.chars().fold(String::new(), |mut text, sign| {
        match sign {
            ' ' | '\t' | '\n' | '\\' | '#' => {
                let _ = write!(text, "\\{:03o}", u32::from(sign));
            }
            other => text.push(other),
        }
        text
    })
}

/// udev rules: tunables of the members' disks and of the array, by what identifies them.
fn rules(build: &Build) -> String {
    let mut lines = String::new();
    for step in &build.steps {
        if let Some(BuildUndo::RestoreQueue { set, .. }) = &step.undo {
            let (directory, file, value) = (set.attribute.directory(), set.attribute.file(), &set.value);
            let _ = writeln!(
                lines,
                "ACTION==\"add|change\", SUBSYSTEM==\"block\", {}, ATTR{{{directory}/{file}}}=\"{value}\"",
                matched(&set.device, build)
            );
        }
    }
    lines
}

/// What udev tells `device` by: md's uuid, the device mapper's name, or the disk's own id.
fn matched(device: &str, build: &Build) -> String {
    let uuid = build.steps.iter().find_map(|step| match &step.undo {
        Some(BuildUndo::StopMd { device: array, uuid, .. }) if array == device => Some(uuid),
        _ => None,
    });
    if let Some(uuid) = uuid {
        return format!("ENV{{MD_UUID}}==\"{uuid}\"");
    }
    if let Some(mapping) = device.strip_prefix("/dev/mapper/") {
        return format!("ENV{{DM_NAME}}==\"{mapping}\"");
    }
    let volume = build.steps.iter().find_map(|step| match &step.undo {
        Some(BuildUndo::RemoveLv { volume }) if Path::new("/dev").join(volume) == Path::new(device) => {
            Some(volume)
        }
        _ => None,
    });
    if let Some((group, name)) = volume.and_then(|volume| volume.split_once('/')) {
        return format!("ENV{{DM_NAME}}==\"{group}-{name}\"");
    }
    let link = device.strip_prefix("/dev/").unwrap_or(device);
    // The queue is the disk's, not a partition's.
    let disk = match link.rsplit_once("-part") {
        Some((disk, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => disk,
        _ => link,
    };
    // What has a meaning in a pattern matches itself as any sign.
    let pattern: String =
        disk.chars().map(|sign| if "*?[]|\\\"".contains(sign) { '?' } else { sign }).collect();
    format!("SYMLINK==\"{}\"", pattern)
}

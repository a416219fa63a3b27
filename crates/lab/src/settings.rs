//! What the packages' maintainer scripts would have written below /etc.

use super::files::{make_directory, write};
use super::{LabError, recipe};
use ebbtide_door::own;
use std::path::Path;

const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/bash
sshd:x:100:65534::/run/sshd:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";
/// The groups that udev's rules name, beside the usual ones.
const GROUP: &str = "\
root:x:0:
tty:x:5:
disk:x:6:
lp:x:7:
kmem:x:15:
dialout:x:20:
cdrom:x:24:
floppy:x:25:
tape:x:26:
audio:x:29:
utmp:x:43:
video:x:44:
users:x:100:
render:x:105:
kvm:x:106:
input:x:107:
sgx:x:108:
nogroup:x:65534:
";
const NAMES: &str =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n";
/// Debian's own paths are built into its loader; this is for programs that ask.
const LIBRARIES: &str = "include /etc/ld.so.conf.d/*.conf\n";

/// Starts the packed program.
const EBB: &str = "#!/bin/sh\n[ -e /ebb/loader ] || exec /ebb/ebb \"$@\"\nexec /ebb/loader --library-path /ebb /ebb/ebb \"$@\"\n";
/// One machine for ever: nothing may depend on it, and systemd's tools complain without it.
const MACHINE_ID: &str = "0123456789abcdef0123456789abcdef\n";

/// Writes the settings of a guest into its root directory.
///
/// # Errors
/// When a file cannot be written.
pub fn write_settings(root: &Path) -> Result<(), LabError> {
    let etc = root.join("etc");
    for directory in
        ["etc/iscsi", "etc/mdadm", "root", "ebb", "mnt", "proc", "sys", "dev", "run", "tmp", "usr/local/bin"]
    {
        make_directory(&root.join(directory))?;
    }
    let files = [
        ("passwd", PASSWD),
        ("shadow", "root:*:20000:0:99999:7:::\n"),
        ("group", GROUP),
        ("nsswitch.conf", NAMES),
        ("hosts", "127.0.0.1 localhost\n"),
        ("hostname", "guest\n"),
        ("fstab", ""),
        ("machine-id", MACHINE_ID),
        ("ld.so.conf", LIBRARIES),
    ];
    for (name, content) in files {
        write(&etc.join(name), content.as_bytes())?;
    }
    program(&root.join("init"), recipe::INIT)?;
    program(&root.join("usr/local/bin/ebb"), EBB)?;
    link("/proc/self/mounts", &etc.join("mtab"))?;
    // Debian chooses these with alternatives and diversions.
    for (name, target) in [("awk", "gawk"), ("sh", "bash")] {
        link(target, &root.join("usr/bin").join(name))?;
    }
    Ok(())
}

/// Writes the settings of a system disk, whose root file system has this UUID, into its root directory.
///
/// # Errors
/// When a file cannot be written.
pub fn write_system(root: &Path, uuid: &str) -> Result<(), LabError> {
    for directory in [
        "ebb",
        "mnt",
        "proc",
        "sys",
        "dev",
        "run",
        "tmp",
        "root",
        "usr/local/bin",
        "share",
        "etc/initramfs-tools/conf.d",
    ] {
        make_directory(&root.join(directory))?;
    }
    let fstab = format!("UUID={uuid} / ext4 errors=remount-ro 0 1\n");
    let files = [
        ("hosts", "127.0.0.1 localhost guest\n"),
        ("hostname", "guest\n"),
        ("fstab", &fstab),
        ("nsswitch.conf", NAMES),
        ("machine-id", MACHINE_ID),
        ("modules", ""),
        ("systemd/system/ebb.mount", recipe::SYSTEM_MOUNT),
        ("systemd/system/ebb-agent.service", recipe::SYSTEM_AGENT),
        ("udev/rules.d/61-ebb.rules", recipe::UML_RULES),
    ];
    for (name, content) in files {
        write(&root.join("etc").join(name), content.as_bytes())?;
    }
    program(&root.join("usr/local/bin/ebb-agent"), recipe::SYSTEM_SERVICE)?;
    program(&root.join("usr/local/bin/ebb"), EBB)
}

fn program(path: &Path, content: &str) -> Result<(), LabError> {
    write(path, content.as_bytes())?;
    own::make_executable(path).map_err(LabError::file("make executable", path))
}

/// A symbolic link, where nothing has its name.
fn link(target: &str, path: &Path) -> Result<(), LabError> {
    own::link(target, path).map_err(LabError::file("make the link", path))
}

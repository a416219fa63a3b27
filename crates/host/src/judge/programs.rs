//! Which programs have devices and files open: by a descriptor of any of their threads, or mapped.

use super::HostLook;
use crate::probe::tables;
use crate::sys::{self, DevNum, Sys};
use ebbtide_sys::task;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Inode number of the PID namespace that all others are in (`PROC_PID_INIT_INO` of the kernel's linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// Number of the capability that lifts what the mount option `hidepid` hides (linux/capability.h).
const CAP_SYS_PTRACE: u32 = 19;

/// A program that has something open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opener {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) writes: bool,
}

/// Who has which devices and files open.
#[derive(Debug, Default)]
pub(super) struct Openers {
    pub(super) devices: BTreeMap<DevNum, Vec<Opener>>,
    pub(super) files: BTreeMap<(u64, u64), Vec<Opener>>,
    /// Programs whose files this user may not see.
    pub(super) hidden: usize,
    /// Why there may be programs that are not even counted.
    pub(super) unlisted: Option<&'static str>,
}

/// A block device by its number, or a file by device and inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Device(DevNum),
    File(u64, u64),
}

/// What one program uses, and whether it may write to it.
type Uses = BTreeMap<What, bool>;

fn processes(sys: &Sys) -> impl Iterator<Item = u32> {
    sys::names(&sys.proc).into_iter().filter_map(|name| name.parse().ok())
}

/// What every program but this one has open.
pub(super) fn openers(sys: &Sys) -> Openers {
    let mut all = Openers { unlisted: unlisted(sys), ..Openers::default() };
    let own = own(sys);
    for pid in processes(sys).filter(|pid| *pid != own) {
        let place = sys.proc.join(pid.to_string());
        let Some(uses) = uses_of(sys, pid) else {
            // One that ended meanwhile has nothing open any more; a thread of the kernel's has no files.
            let lives = sys::text(&place.join("status")).is_some_and(|text| !text.contains("State:\tZ"));
            all.hidden += usize::from(
                lives
                    && std::fs::read_link(place.join("exe"))
                        .map_or_else(|error| error.kind() != ErrorKind::NotFound, |_| true),
            );
            continue;
        };
        let name = sys::word(&place.join("comm")).unwrap_or_else(|| "a program".to_owned());
        for (what, writes) in uses {
            let opener = Opener { name: name.clone(), pid, writes };
            match what {
                What::Device(dev) => all.devices.entry(dev).or_default().push(opener),
                What::File(dev, ino) => all.files.entry((dev, ino)).or_default().push(opener),
            }
        }
    }
    all
}

/// For how long somebody who has something open is watched before they count as its user.
pub(super) const PATIENCE: Duration = Duration::from_millis(600);
/// Between two looks at them.
pub(super) const STEP: Duration = Duration::from_millis(50);

impl HostLook {
    /// Programs with open files; looked at when first asked.
    pub(super) fn openers(&self) -> &Openers {
        self.openers.get_or_init(|| openers(&self.sys))
    }

    /// Programs that have the device `dev` open, to write or only to read, and go on to have it for a moment. One that has just
    /// been started still holds what its parent has, and udev looks at a device that was closed.
    pub(super) fn staying(&self, dev: DevNum, writes: bool) -> Vec<Opener> {
        let mut openers: Vec<Opener> = self.openers().devices.get(&dev).cloned().unwrap_or_default();
        openers.retain(|opener| opener.writes == writes);
        let begin = Instant::now();
        while !openers.is_empty() && begin.elapsed() < PATIENCE {
            std::thread::sleep(STEP);
            openers.retain(|opener| writes_to(&self.sys, opener.pid, dev) == Some(writes));
        }
        openers
    }
}

/// Whether the program `pid` has the device `dev` open to write now; nothing where it does not have it open.
fn writes_to(sys: &Sys, pid: u32, dev: DevNum) -> Option<bool> {
    uses_of(sys, pid)?.get(&What::Device(dev)).copied()
}

/// This process as /proc counts, which may be mounted from another PID namespace than the one it is in.
fn own(sys: &Sys) -> u32 {
    let link = std::fs::read_link(sys.proc.join("self")).ok();
    let number = link.and_then(|link| link.to_str()?.parse().ok());
    number.unwrap_or_else(std::process::id)
}

/// Why /proc need not list all programs of the host.
fn unlisted(sys: &Sys) -> Option<&'static str> {
    if !sys.is_host() {
        return None;
    }
    let namespace = std::fs::metadata(sys.proc.join("self/ns/pid"));
    if !namespace.is_ok_and(|found| found.ino() == INITIAL_PID_NAMESPACE) {
        return Some("this is a PID namespace (a container), which does not show the programs outside of it");
    }
    let status = sys::text(&sys.proc.join("self/status")).unwrap_or_default();
    (hides_processes(&tables::mounts_of(sys)) && !is_capable(&status, CAP_SYS_PTRACE))
        .then_some("/proc is mounted with `hidepid`, which hides the programs of others")
}

/// Whether the topmost /proc of `mounts` shows users their own processes only (proc(5), `hidepid`).
fn hides_processes(mounts: &[tables::Mount]) -> bool {
    let proc = mounts.iter().rev().find(|mount| mount.mountpoint == "/proc" && mount.fstype == "proc");
    proc.is_some_and(|proc| {
        let mode = proc.options.split(',').find_map(|option| option.strip_prefix("hidepid="));
        mode.is_some_and(|mode| !matches!(mode, "0" | "off"))
    })
}

/// Whether the process with this `/proc/PID/status` has the capability of this number in effect.
fn is_capable(status: &str, capability: u32) -> bool {
    sys::field(status, "CapEff:")
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .is_some_and(|set| set >> capability & 1 == 1)
}

/// What the program `pid` has open or mapped; nothing where that may not be seen.
fn uses_of(sys: &Sys, pid: u32) -> Option<Uses> {
    let place = sys.proc.join(pid.to_string());
    let mut uses = Uses::new();
    descriptors(&place, &mut uses)?;
    for task in other_tables(sys, pid) {
        // A thread that ended meanwhile has nothing open any more.
        let _ = descriptors(&place.join("task").join(task.to_string()), &mut uses);
    }
    mappings(&place, &mut uses);
    Some(uses)
}

/// What `path` leads to, as far as this host knows without asking a server: one that is gone would never answer.
fn known(path: &Path) -> Option<What> {
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(CWD, path, flags, StatxFlags::TYPE | StatxFlags::INO).ok()?;
    match FileType::from_raw_mode(found.stx_mode.into()) {
        FileType::BlockDevice => {
            Some(What::Device(DevNum { major: found.stx_rdev_major, minor: found.stx_rdev_minor }))
        }
        FileType::RegularFile => {
            Some(What::File(rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino))
        }
        _ => None,
    }
}

fn add(uses: &mut Uses, what: What, writes: impl FnOnce() -> bool) {
    *uses.entry(what).or_default() |= writes();
}

/// What the descriptors of the process or thread at `place` lead to; nothing where they may not be listed.
fn descriptors(place: &Path, uses: &mut Uses) -> Option<()> {
    for entry in std::fs::read_dir(place.join("fd")).ok()?.flatten() {
        let Some(what) = known(&entry.path()) else { continue };
        add(uses, what, || is_open_to_write(&place.join("fdinfo").join(entry.file_name())));
    }
    Some(())
}

/// Threads of `pid` that may have descriptors which `/proc/PID/fd` does not show: it shows those of the first thread,
/// which may have ended, and another may have a table of its own (unshare(2), `CLONE_FILES`).
fn other_tables(sys: &Sys, pid: u32) -> Vec<u32> {
    let names = std::fs::read_dir(sys.proc.join(pid.to_string()).join("task"));
    let tasks = names.into_iter().flatten().flatten();
    let tasks = tasks.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // The numbers of a copy of /proc, or of one of another namespace, are not those that the kernel goes by here.
    let comparable = sys.is_host() && own(sys) == std::process::id();
    let shares = |one, other| comparable && task::shares_descriptors(one, other).unwrap_or(false);
    let mut others: Vec<u32> = Vec::new();
    for task in tasks.filter(|task| *task != pid) {
        let seen = shares(pid, task) || others.last().is_some_and(|last| shares(*last, task));
        if !seen {
            others.push(task);
        }
    }
    others
}

/// What the program at `place` has mapped so that what it writes to memory goes there.
fn mappings(place: &Path, uses: &mut Uses) {
    let text = sys::text(&place.join("maps")).unwrap_or_default();
    for mapping in text.lines().filter_map(shared_mapping) {
        let link = place.join("map_files").join(&mapping.name);
        // The link's mode says how the file was opened: what is mapped to be read can be made writable by that.
        let writes =
            || std::fs::symlink_metadata(&link).map_or(true, |found| found.permissions().mode() & 0o200 != 0);
        if let Some(what) = known(&link) {
            add(uses, what, writes);
        } else if let Some(what @ What::File(_, ino)) = known(&in_root(place, mapping.path))
            && ino == mapping.ino
        {
            // These links are root's to follow; of one's own programs the name tells too.
            add(uses, what, writes);
        }
    }
}

/// `path` as the program at `place` sees it.
fn in_root(place: &Path, path: &str) -> PathBuf {
    place.join("root").join(path.trim_start_matches('/'))
}

/// A shared mapping of a file.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'a> {
    /// Its link's name in `/proc/PID/map_files`.
    name: String,
    ino: u64,
    path: &'a str,
}

/// One line of `/proc/PID/maps`, where it is a shared mapping of a file.
fn shared_mapping(line: &str) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, ' ');
    let (range, access) = (fields.next()?, fields.next()?);
    let ino = fields.nth(2)?.parse().ok().filter(|ino| *ino != 0)?;
    let path = fields.next().unwrap_or_default().trim_start();
    if !access.ends_with('s') {
        return None;
    }
    // The one pads addresses with zeros and the other does not.
    let (begin, end) = range.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping { name: format!("{:x}-{:x}", address(begin)?, address(end)?), ino, path })
}

/// Whether the descriptor that `info` (`/proc/PID/fdinfo/FD`) is about may write; one that cannot be read may.
fn is_open_to_write(info: &Path) -> bool {
    const ACCESS_MODE: u32 = 0o3;
    let text = sys::text(info).unwrap_or_default();
    let flags = sys::field(&text, "flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
    flags.is_none_or(|flags| flags & ACCESS_MODE != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_mappings_of_files_are_taken() {
        let line = "00400000-00500000 rw-s 00000000 00:06 95                         /dev/a disk (deleted)";
        let expected = Mapping { name: "400000-500000".to_owned(), ino: 95, path: "/dev/a disk (deleted)" };
        assert_eq!(shared_mapping(line), Some(expected));
        for other in [
            "00400000-00500000 rw-p 00000000 00:06 95                         /dev/loop1",
            "7f00-8f00 rw-s 00000000 00:00 0 ",
            "7ffe-7fff r-xp 00000000 00:00 0                                  [vdso]",
            "",
        ] {
            assert_eq!(shared_mapping(other), None, "{other}");
        }
    }

    #[test]
    fn hidepid_hides_unless_it_is_off_or_another_mount_is_on_top() {
        let proc = |options: &str| format!("20 1 0:4 / /proc rw,nosuid - proc proc {options}");
        let hides = |text: &str| hides_processes(&tables::mountinfo(text));
        for options in ["rw,hidepid=2", "rw,hidepid=invisible,gid=4", "rw,hidepid=noaccess", "hidepid=4"] {
            assert!(hides(&proc(options)), "{options}");
        }
        for options in ["rw", "rw,hidepid=0", "rw,hidepid=off"] {
            assert!(!hides(&proc(options)), "{options}");
        }
        assert!(!hides(&format!("{}\n{}", proc("rw,hidepid=2"), proc("rw"))));
        assert!(!hides("20 1 0:4 / /x rw - proc proc rw,hidepid=2"));
    }

    #[test]
    fn capabilities_are_bits() {
        let status = |set: &str| format!("Name:\tx\nCapPrm:\tffffffffffffffff\nCapEff:\t{set}\n");
        assert!(is_capable(&status("000001ffffffffff"), CAP_SYS_PTRACE));
        assert!(is_capable(&status("0000000000080000"), CAP_SYS_PTRACE));
        assert!(!is_capable(&status("000001fffff7ffff"), CAP_SYS_PTRACE));
        assert!(!is_capable("", CAP_SYS_PTRACE));
    }
}

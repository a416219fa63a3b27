//! Who uses devices and files: mounts of every namespace that can be seen, swap, loop devices.

use super::programs::{self, Opener, Openers};
use crate::chain;
use crate::exposed::{self, Exposed, KernelExport};
use crate::probe::tables::{self, Mount, Swap};
use crate::probe::{Relation, relations};
use crate::sys::{self, DevNum, Sys};
use ebbtide_model::guard::{Reason, RefusalKind};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For how long somebody who has a file open is watched before they count as its user.
pub(super) const PATIENCE: Duration = Duration::from_millis(600);
/// Between two looks at them.
pub(super) const STEP: Duration = Duration::from_millis(50);

/// What a loop device stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Backing {
    /// A block device; where on it the loop device begins, and whether it is all of it.
    Device(DevNum),
    /// A regular file by device and inode number.
    File(u64, u64),
    /// Something under this name that cannot be looked at.
    Unknown(PathBuf),
}

/// A loop device that is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoopDevice {
    pub(super) name: String,
    pub(super) dev: DevNum,
    pub(super) backing: Backing,
    /// Its file's path as the kernel has it.
    pub(super) path: PathBuf,
    /// Whether it is only a part of what it stands on.
    pub(super) part: bool,
}

/// What is mounted in one mount namespace.
pub(super) struct Namespace {
    /// A process that is in it; none for that of this program.
    pub(super) process: Option<u32>,
    pub(super) mounts: Vec<Mount>,
}

/// Who uses what, at one instant.
pub(super) struct Users {
    pub(super) tree: Vec<Relation>,
    /// Mount namespaces, this program's own first.
    pub(super) namespaces: Vec<Namespace>,
    pub(super) swaps: Vec<Swap>,
    pub(super) loops: Vec<LoopDevice>,
    /// What is given to other hosts: nvmet claims nothing of it, and LIO no files.
    pub(super) exports: Vec<KernelExport>,
    openers: OnceCell<Openers>,
}

impl Users {
    pub(super) fn look(sys: &Sys) -> Users {
        Users {
            tree: relations(sys),
            namespaces: namespaces(sys),
            swaps: tables::swaps_of(sys),
            loops: loop_devices(sys),
            exports: exposed::seen(sys),
            openers: OnceCell::new(),
        }
    }

    /// Programs that have the device `dev` open to write, and go on to have it for a moment: one that has just been started
    /// still holds what its parent has, and udev looks at a device that was closed.
    pub(super) fn writers(&self, sys: &Sys, dev: DevNum) -> Vec<Opener> {
        self.staying(sys, dev, true)
    }

    /// The same of programs that only read the device.
    pub(super) fn readers(&self, sys: &Sys, dev: DevNum) -> Vec<Opener> {
        self.staying(sys, dev, false)
    }

    fn staying(&self, sys: &Sys, dev: DevNum, writes: bool) -> Vec<Opener> {
        let mut openers: Vec<Opener> = self.openers(sys).devices.get(&dev).cloned().unwrap_or_default();
        openers.retain(|opener| opener.writes == writes);
        let begin = Instant::now();
        while !openers.is_empty() && begin.elapsed() < PATIENCE {
            std::thread::sleep(STEP);
            openers.retain(|opener| programs::writes_to(sys, opener.pid, dev) == Some(writes));
        }
        openers
    }

    /// Programs with open files; looked at when first asked.
    pub(super) fn openers(&self, sys: &Sys) -> &Openers {
        self.openers.get_or_init(|| programs::openers(sys))
    }

    /// Reasons against writing what is exported, which is called `name`.
    pub(super) fn exports_of(&self, what: &Exposed, name: &str) -> Vec<Reason> {
        let these = self.exports.iter().filter(|seen| seen.exposed == *what);
        let reason = |seen: &KernelExport| Reason {
            kind: RefusalKind::Held,
            what: format!("{name} is exported to other hosts over {} as {}", seen.protocol, seen.target),
            remedy: seen.remedy(),
        };
        these.map(reason).collect()
    }

    pub(super) fn mounts(&self) -> impl Iterator<Item = &Mount> {
        self.namespaces.iter().flat_map(|namespace| &namespace.mounts)
    }

    pub(super) fn relation(&self, dev: DevNum) -> Option<&Relation> {
        self.tree.iter().find(|relation| relation.dev == dev)
    }

    pub(super) fn named(&self, name: &str) -> Option<&Relation> {
        self.tree.iter().find(|relation| relation.name == name)
    }
}

/// The mounts of this process's namespace, and of every other one that a process is in and that may be read.
pub(super) fn namespaces(sys: &Sys) -> Vec<Namespace> {
    let own = Namespace { process: None, mounts: tables::mounts_of(sys) };
    let namespace = |pid: &str| std::fs::read_link(sys.proc.join(pid).join("ns/mnt")).ok();
    let mut seen: BTreeSet<PathBuf> = namespace("self").into_iter().collect();
    let others = programs::processes(sys).filter_map(|process| {
        let pid = process.to_string();
        namespace(&pid).is_some_and(|namespace| seen.insert(namespace)).then(|| {
            let text = sys::text(&sys.proc.join(&pid).join("mountinfo")).unwrap_or_default();
            Namespace { process: Some(process), mounts: tables::mountinfo(&text) }
        })
    });
    std::iter::once(own).chain(others).collect()
}

fn loop_devices(sys: &Sys) -> Vec<LoopDevice> {
    let all = sys.sys.join("block");
    let names = sys::names(&all).into_iter().filter(|name| name.starts_with("loop"));
    names
        .filter_map(|name| {
            let place = all.join(&name);
            let path = PathBuf::from(sys::word(&place.join("loop/backing_file"))?);
            let dev = sys::text(&place.join("dev"))?.parse().ok()?;
            let attribute = |name: &str| sys::number::<u64>(&place.join("loop").join(name)).unwrap_or(0);
            let part = attribute("offset") != 0 || attribute("sizelimit") != 0;
            let backing = backing(sys, &name, dev, &path);
            Some(LoopDevice { name, dev, backing, path, part })
        })
        .collect()
}

/// What the loop device `name` stands on: as the kernel says, or where it does not say so to this user, by the name.
fn backing(sys: &Sys, name: &str, dev: DevNum, path: &Path) -> Backing {
    if let Some(behind) = chain::behind(sys, name, dev) {
        return match behind.rdev {
            Some(rdev) => Backing::Device(DevNum::from_raw(rdev)),
            None => Backing::File(behind.dev, behind.ino),
        };
    }
    let there = sys.at(path);
    match std::fs::metadata(&there) {
        Ok(found) if found.file_type().is_block_device() => Backing::Device(DevNum::from_raw(found.rdev())),
        Ok(found) if found.is_file() => Backing::File(found.dev(), found.ino()),
        _ => Backing::Unknown(path.to_owned()),
    }
}

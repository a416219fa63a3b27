//! Mounts on the name of a file or directory, or of it, in every mount namespace that can be seen: taking the name away
//! ends the first, and leaves the second nothing but themselves.

use super::HostLook;
use crate::graph::{self, Mounted};
use crate::probe::tables::{Mount, mounts_of};
use crate::sys::{DevNum, Sys};
use ebbtide_model::guard::{Reason, RefusalKind};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Device and inode number.
type Identity = (u64, u64);

/// A file or directory by its name.
struct Named {
    identity: Identity,
    directory: Identity,
    name: PathBuf,
}

impl Named {
    fn of(sys: &Sys, file: &File) -> Option<Named> {
        let found = file.metadata().ok()?;
        let path = std::fs::read_link(sys.proc.join("self/fd").join(file.as_raw_fd().to_string())).ok()?;
        let directory = identity(path.parent()?)?;
        Some(Named { identity: (found.dev(), found.ino()), directory, name: path.file_name()?.into() })
    }

    /// Whether the mount of `path` may have to do with it: what else is mounted is not looked at, it may not answer.
    fn is_called(&self, path: &str) -> bool {
        Path::new(path).file_name() == Some(OsStr::new(&self.name))
    }
}

fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// What is mounted over the place of `path`, whose file system, with the device number `dev`, is mounted below it.
pub fn mounted_over(sys: &Sys, path: &Path, dev: u64) -> Option<String> {
    let seen = path.ancestors().skip(1).find_map(|above| std::fs::metadata(above).ok())?.dev();
    let mounts = mounts_of(sys);
    let mut around = mounts.iter().filter(|mount| path.starts_with(&mount.mountpoint));
    let below = (seen != dev).then(|| around.find(|mount| mount.dev == DevNum::from_raw(dev)))??;
    let over = around.rfind(|mount| mount.dev != below.dev)?;
    Some(format!(
        "{} ({}) is mounted over it on {}; unmount that first",
        over.source, over.fstype, over.mountpoint
    ))
}

/// Mounts of which `is_it` holds, in every namespace that can be seen.
pub fn mounts_that(sys: &Sys, is_it: &dyn Fn(&Mount) -> bool) -> Vec<Reason> {
    let mounts = graph::namespaces(sys).into_iter().filter(|(_, mount)| is_it(mount));
    let reasons = mounts.map(|(process, mount)| {
        let what = format!("it is mounted on {}", mount.mountpoint);
        against(&Mounted { process, mount, on: Vec::new() }, what)
    });
    reasons.collect()
}

/// A mount that stands against something, and how it goes.
fn against(seen: &Mounted, what: String) -> Reason {
    let (place, enter) = match seen.process {
        Some(process) => (
            format!(" in the mount namespace of process {process}"),
            format!("nsenter --target {process} --mount "),
        ),
        None => (String::new(), String::new()),
    };
    Reason {
        kind: RefusalKind::Mounted,
        what: format!("{what}{place}"),
        remedy: format!("`{enter}umount {}` if nothing needs it", seen.mount.mountpoint),
    }
}

impl HostLook {
    /// Reasons against taking away the name of what `file` is open on.
    pub(super) fn mounts_on_name(&self, file: &File) -> Vec<Reason> {
        let Some(named) = Named::of(&self.sys, file) else { return Vec::new() };
        let mut reasons: Vec<Reason> =
            self.graph.mounts.iter().filter_map(|seen| self.on_name(&named, seen)).collect();
        reasons.dedup();
        reasons
    }

    fn on_name(&self, named: &Named, seen: &Mounted) -> Option<Reason> {
        let mount = &seen.mount;
        let root = match seen.process {
            Some(process) => self.sys.proc.join(process.to_string()).join("root"),
            None => self.sys.root().to_owned(),
        };
        let at = root.join(mount.mountpoint.trim_start_matches('/'));
        let over =
            named.is_called(&mount.mountpoint) && at.parent().and_then(identity) == Some(named.directory);
        let bound = named.is_called(&mount.root) && identity(&at) == Some(named.identity);
        let what = match (over, bound) {
            (true, _) => format!("{} ({}) is mounted on it", mount.source, mount.fstype),
            (false, true) => format!("it is mounted on {}", mount.mountpoint),
            (false, false) => return None,
        };
        Some(against(seen, what))
    }
}

//! Mounts on the name of a file or directory, or of it, in every mount namespace that can be seen: taking the name away
//! ends the first, and leaves the second nothing but themselves.

use super::HostLook;
use super::users::{self, Namespace};
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
    let mut reasons = Vec::new();
    for namespace in users::namespaces(sys) {
        let found = namespace.mounts.iter().filter(|mount| is_it(mount));
        reasons.extend(found.map(|mount| {
            namespace.reason(format!("it is mounted on {}", mount.mountpoint), &mount.mountpoint)
        }));
    }
    reasons
}

impl Namespace {
    /// A mount in it that stands against something, and how it goes.
    fn reason(&self, what: String, mountpoint: &str) -> Reason {
        let (place, enter) = match self.process {
            Some(process) => (
                format!(" in the mount namespace of process {process}"),
                format!("nsenter --target {process} --mount "),
            ),
            None => (String::new(), String::new()),
        };
        Reason {
            kind: RefusalKind::Mounted,
            what: format!("{what}{place}"),
            remedy: format!("`{enter}umount {mountpoint}` if nothing needs it"),
        }
    }
}

impl HostLook {
    /// Reasons against taking away the name of what `file` is open on.
    pub(super) fn mounts_on_name(&self, file: &File) -> Vec<Reason> {
        let Some(named) = Named::of(&self.sys, file) else { return Vec::new() };
        let all = self.users.namespaces.iter();
        let mut reasons: Vec<Reason> = all
            .flat_map(|namespace| namespace.mounts.iter().map(move |mount| (namespace, mount)))
            .filter_map(|(namespace, mount)| self.against(&named, namespace, mount))
            .collect();
        reasons.dedup();
        reasons
    }

    fn against(&self, named: &Named, namespace: &Namespace, mount: &Mount) -> Option<Reason> {
        let root = match namespace.process {
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
        Some(namespace.reason(what, &mount.mountpoint))
    }
}

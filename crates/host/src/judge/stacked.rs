//! File systems that keep their files in files of others: who uses the file below is not told by asking at the one above.

use super::{HostLook, cannot_tell};
use crate::probe::tables::{self, Mount};
use crate::sys::{self, Sys};
use ebbtide_door::read;
use ebbtide_model::guard::Reason;
use ebbtide_model::shown::Shown;
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More layers than anybody stacks.
const DEEPEST: usize = 16;

/// Where the content of a file is kept.
#[derive(Debug)]
enum Kept {
    /// In itself, as far as this host has to do with it.
    Here,
    /// In another file, held open, at this path.
    In(File, PathBuf),
    /// In one that is not told, by a file system of this type.
    Untold(String),
}

impl HostLook {
    /// Every use of the files that the content of `file` is in, where it is on a stacked file system.
    pub(super) fn users_below(&self, file: &File) -> Vec<Reason> {
        let (files, hidden) = self.below(file);
        let mut reasons = Vec::new();
        for (below, path) in files {
            // The file system has it open itself, as long as the one above is: the kernel's count of openers is
            // no answer, only who is seen is.
            let identity = below.metadata().map(|found| (found.dev(), found.ino()));
            let users = identity.map_or_else(|_| Vec::new(), |identity| self.named_users(identity, None));
            reasons.extend(users.into_iter().chain(self.untold_openers()).map(|mut reason| {
                reason.what = format!("{}, the file below it: {}", path.shown(), reason.what);
                reason
            }));
        }
        reasons.extend(hidden.as_deref().map(untold));
        reasons
    }

    /// The files that the content of `file` is in, as far as they are told.
    pub(super) fn files_below(&self, file: &File) -> Vec<Metadata> {
        self.below(file).0.iter().filter_map(|(file, _)| file.metadata().ok()).collect()
    }

    /// The same, upper ones first, each with its path; and the type of a file system below the last that does not tell its file.
    fn below(&self, file: &File) -> (Vec<(File, PathBuf)>, Option<String>) {
        let mut found: Vec<(File, PathBuf)> = Vec::new();
        while found.len() < DEEPEST {
            match kept(&self.sys, found.last().map_or(file, |(below, _)| below)) {
                Kept::Here => return (found, None),
                Kept::Untold(fstype) => return (found, Some(fstype)),
                Kept::In(below, path) => found.push((below, path)),
            }
        }
        (found, Some("stack of file systems".to_owned()))
    }
}

fn untold(fstype: &str) -> Reason {
    let what = format!("in which file below this {fstype} its content is, and who uses that,");
    cannot_tell(&what, "name the file below itself, or a new file, which is made")
}

/// Where the content of the regular file `file` is.
fn kept(sys: &Sys, file: &File) -> Kept {
    if !sys.is_host() {
        return Kept::Here;
    }
    let Some(mount) = mount_of(sys, file) else { return Kept::Untold("file system".to_owned()) };
    match stacked(&mount.fstype) {
        Stacked::No => Kept::Here,
        Stacked::Unknown => Kept::Untold(mount.fstype),
        Stacked::Overlay => match open_upper(sys, file, &mount) {
            Some((file, path)) => Kept::In(file, path),
            None => Kept::Untold(mount.fstype),
        },
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Stacked {
    No,
    /// What is opened to be written is in the upper directory.
    Overlay,
    Unknown,
}

/// Whether a file system of this type keeps its files in files of another one of this host. What a server or another host
/// keeps is beyond this host (NFS, 9p, virtiofs); `fuseblk` is a file system on a device.
fn stacked(fstype: &str) -> Stacked {
    match fstype {
        "overlay" => Stacked::Overlay,
        "ecryptfs" | "aufs" | "unionfs" | "shiftfs" | "fuse" => Stacked::Unknown,
        other if other.starts_with("fuse.") => Stacked::Unknown,
        _ => Stacked::No,
    }
}

/// The mount that `file` was opened through.
fn mount_of(sys: &Sys, file: &File) -> Option<Mount> {
    let info = sys::text(&sys.proc.join("self/fdinfo").join(file.as_raw_fd().to_string()))?;
    let id = sys::field(&info, "mnt_id:")?;
    let mounts = sys::text(&sys.proc.join("self/mountinfo"))?;
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(id))?;
    tables::mountinfo(line).pop()
}

/// The file that has the content of `file`, which is on the overlay `mount`: the one of its name in the upper directory,
/// where that can be seen from here and is no other.
fn open_upper(sys: &Sys, file: &File, mount: &Mount) -> Option<(File, PathBuf)> {
    let name = std::fs::read_link(sys.proc.join("self/fd").join(file.as_raw_fd().to_string())).ok()?;
    let path = upper(mount, &name)?;
    if !std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
        return None;
    }
    let below = read::open(&path).ok()?;
    let (above, found) = (file.metadata().ok()?, below.metadata().ok()?);
    // An overlay passes these on. Another file has not changed in the same nanosecond.
    let told = |found: &Metadata| {
        (found.len(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec(), found.mode())
    };
    (told(&above) == told(&found)).then_some((below, path))
}

/// Where the file `name` on the overlay `mount` is in its upper directory. One that was given relative to wherever the
/// mounting program was does not tell.
fn upper(mount: &Mount, name: &Path) -> Option<PathBuf> {
    let layer = mount.options.split(',').find_map(|option| option.strip_prefix("upperdir="))?;
    let layer = PathBuf::from(tables::unescape(layer));
    let within = name.strip_prefix(&mount.mountpoint).ok()?;
    let root = Path::new(&mount.root).strip_prefix("/").ok()?;
    let mut path = layer;
    path.extend(root.components().chain(within.components()));
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(root: &str, mountpoint: &str, upper: &str) -> Mount {
        let line = format!(
            "50 1 0:44 {root} {mountpoint} rw - overlay o rw,lowerdir=/l,upperdir={upper},workdir=/w,xino=off"
        );
        tables::mountinfo(&line).pop().expect("a mount")
    }

    #[test]
    fn a_file_of_an_overlay_is_in_its_upper_directory() {
        let of = |mount: &Mount, name: &str| upper(mount, Path::new(name));
        assert_eq!(of(&overlay("/", "/m", "/u"), "/m/a/b"), Some("/u/a/b".into()));
        assert_eq!(of(&overlay("/", "/", "/u"), "/a"), Some("/u/a".into()));
        assert_eq!(of(&overlay("/a/b", "/bound", "/u"), "/bound"), Some("/u/a/b".into()));
        assert_eq!(of(&overlay("/a", "/bound", "/u\\040\\054x"), "/bound/b"), Some("/u ,x/a/b".into()));
        assert_eq!(of(&overlay("/", "/m", "u"), "/m/a"), None, "relative");
        assert_eq!(of(&overlay("/", "/m", "/u"), "/other/a"), None);
    }

    #[test]
    fn only_what_keeps_its_files_in_files_of_this_host_is_stacked() {
        for fstype in ["ext4", "xfs", "btrfs", "tmpfs", "nfs4", "9p", "virtiofs", "fuseblk", "fusectl"] {
            assert_eq!(stacked(fstype), Stacked::No, "{fstype}");
        }
        assert_eq!(stacked("overlay"), Stacked::Overlay);
        for fstype in ["ecryptfs", "fuse", "fuse.bindfs", "fuse.mergerfs"] {
            assert_eq!(stacked(fstype), Stacked::Unknown, "{fstype}");
        }
    }

    #[test]
    fn a_file_on_no_stacked_file_system_is_its_own() {
        let file = tempfile::tempfile_in("/var/tmp").expect("a file");
        let mount = mount_of(&Sys::host(), &file).expect("a mount");
        if stacked(&mount.fstype) == Stacked::No {
            assert!(matches!(kept(&Sys::host(), &file), Kept::Here));
        }
    }
}

//! Where a file system may be mounted for good: asked of the host as it is, before anything is made.

use crate::probe::tables::{self, FstabLine};
use crate::sys::{self, Sys};
use ebbtide_model::shown::{Shown, one_line};
use ebbtide_provision::files::FSTAB;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// Why nothing can be mounted at a place, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the mount point {} {what}", path.shown())]
pub struct Unfit {
    path: PathBuf,
    what: String,
}

impl Unfit {
    fn new(path: &Path, what: String) -> Unfit {
        Unfit { path: path.to_owned(), what: one_line(&what).into_owned() }
    }
}

/// `path` as the kernel names it once something is mounted there: links in what there is of it are followed. A path that no check of its
/// text lets pass is left as it is.
///
/// # Errors
/// When a part of it is no directory, or a link that leads nowhere.
pub fn followed(sys: &Sys, path: &Path) -> Result<PathBuf, Unfit> {
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Ok(path.to_owned());
    }
    let there = path.ancestors().find(|above| sys.at(above).symlink_metadata().is_ok());
    let there = there.unwrap_or(Path::new("/"));
    let fail = |what: String| Unfit::new(path, format!("cannot be made: {} {what}", there.shown()));
    let real = std::fs::canonicalize(sys.at(there))
        .map_err(|error| fail(format!("is a symbolic link that cannot be followed ({error})")))?;
    if !real.is_dir() {
        return Err(fail("is no directory".to_owned()));
    }
    let root = std::fs::canonicalize(sys.root()).unwrap_or_else(|_| sys.root().to_owned());
    let below = real.strip_prefix(root).unwrap_or(&real);
    let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
    Ok(Path::new("/").join(below).join(rest).components().collect())
}

/// Whether a file system can be mounted at `path`, where it is not yet. It is one of `own`, as fstab names it.
///
/// # Errors
/// Why not, and what to write instead.
pub fn check(sys: &Sys, path: &Path, own: &[&str]) -> Result<(), Unfit> {
    let fail = |what: String| Err(Unfit::new(path, what));
    let real = followed(sys, path)?;
    if real.as_path() != path {
        return fail(format!("leads elsewhere by a symbolic link: write {}", real.shown()));
    }
    let mounts = tables::mounts_of(sys);
    let around = tables::seen_at(&mounts, path);
    if let Some(there) = mounts.iter().rev().find(|mount| Path::new(&mount.mountpoint) == path) {
        let what = format!("has {} ({}) mounted on it", there.source, there.fstype);
        return match around.filter(|around| around.id != there.id) {
            Some(over) => {
                fail(format!("{what}, and {} covers that: unmount {} first", over.source, over.mountpoint))
            }
            None => fail(format!("{what}: unmount that first, or choose another directory")),
        };
    }
    if let Some(line) = given_to_another(sys, path, own) {
        return fail(format!(
            "is that of {} by line {} of /etc/fstab: choose another directory, or take that line out",
            line.source, line.number
        ));
    }
    let is_missing = |line: &FstabLine| {
        let above = Path::new(&line.mountpoint);
        above != path
            && path.starts_with(above)
            && !line.options.split(',').any(|option| option == "noauto")
            && tables::seen_at(&mounts, above).is_some_and(|seen| Path::new(&seen.mountpoint) != above)
    };
    if let Some(line) = lines(sys).iter().find(|line| is_missing(line)) {
        return fail(format!(
            "is below {0}, which line {1} of /etc/fstab mounts and which is not mounted: `mount {0}` first",
            line.mountpoint, line.number
        ));
    }
    match std::fs::read_dir(sys.at(path)).map(|mut entries| entries.next()) {
        Ok(None) => Ok(()),
        Ok(Some(Ok(entry))) => fail(format!(
            "is not empty (it has {} in it), and what is mounted there would hide that: choose another directory, or move the files",
            Path::new(&entry.file_name()).shown()
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            match around.filter(|mount| mount.has_option("ro")) {
                Some(mount) => fail(format!(
                    "is not there, and {} is mounted read-only: choose another directory, or make it first",
                    mount.mountpoint
                )),
                None => Ok(()),
            }
        }
        Ok(Some(Err(error))) | Err(error) => fail(format!("cannot be looked into: {error}")),
    }
}

/// The line of fstab that mounts something at `path` that is none of `own`.
pub fn given_to_another(sys: &Sys, path: &Path, own: &[&str]) -> Option<FstabLine> {
    lines(sys)
        .into_iter()
        .find(|line| Path::new(&line.mountpoint) == path && !own.contains(&line.source.as_str()))
}

/// The lines of fstab, with links in their mount points followed.
fn lines(sys: &Sys) -> Vec<FstabLine> {
    let text = sys::text(&sys.at(Path::new(FSTAB))).unwrap_or_default();
    let mut lines = tables::fstab(&text);
    for line in &mut lines {
        if let Ok(real) = followed(sys, Path::new(&line.mountpoint)) {
            line.mountpoint = real.to_string_lossy().into_owned();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MOUNTS: &str = "20 1 254:0 / / rw - ext4 /dev/vda rw\n\
        30 20 254:1 / /srv/ro ro - ext4 /dev/vdb ro\n\
        31 20 254:2 / /srv/taken rw - ext4 /dev/vdc rw\n\
        32 20 254:3 / /covered/place rw - ext4 /dev/vdd rw\n\
        33 20 254:4 / /covered rw - tmpfs none rw\n";
    const FSTAB: &str = "UUID=1 / ext4 defaults 0 1\n/dev/sdz /srv/my\\040data xfs defaults 0 0\n\
        UUID=own /srv/own xfs nofail 0 0\n/dev/sdy /srv/later ext4 nofail 0 0\n/dev/sdx /srv/never ext4 noauto 0 0\n\
        /dev/sdw /link/other ext4 defaults 0 0\n";

    fn host() -> (tempfile::TempDir, Sys) {
        let root = tempfile::tempdir().expect("a directory");
        for place in
            ["proc/self", "etc", "srv/empty", "srv/full", "srv/ro/there", "srv/taken", "covered", "real"]
        {
            fs::create_dir_all(root.path().join(place)).expect("makes");
        }
        for (path, text) in [
            ("proc/self/mountinfo", MOUNTS),
            ("etc/fstab", FSTAB),
            ("srv/full/precious", ""),
            ("srv/file", ""),
        ] {
            fs::write(root.path().join(path), text).expect("writes");
        }
        for (to, link) in [("real", "link"), ("nowhere", "dangling"), ("ring", "ring")] {
            std::os::unix::fs::symlink(to, root.path().join(link)).expect("links");
        }
        let sys = Sys::below(root.path());
        (root, sys)
    }

    #[test]
    fn a_place_is_judged_before_anything_is_mounted_there() {
        let (_root, sys) = host();
        for (path, wanted) in [
            ("/srv/empty", ""),
            ("/srv/new/deep", ""),
            ("/srv/own", ""),
            ("/srv/ro/there", ""),
            ("/srv/never/below", ""),
            ("/srv/full", "is not empty (it has precious in it)"),
            ("/srv/file", "no directory"),
            ("/srv/file/below", "/srv/file is no directory"),
            ("/srv/taken", "has /dev/vdc (ext4) mounted on it: unmount that first"),
            ("/srv/my data", "is that of /dev/sdz by line 2 of /etc/fstab"),
            ("/srv/later/below", "is below /srv/later, which line 4 of /etc/fstab mounts"),
            ("/srv/ro/new", "/srv/ro is mounted read-only"),
            (
                "/covered/place",
                "has /dev/vdd (ext4) mounted on it, and none covers that: unmount /covered first",
            ),
            ("/link/new", "write /real/new"),
            ("/real/other", "is that of /dev/sdw by line 6"),
            ("/dangling/new", "/dangling is a symbolic link that cannot be followed"),
            ("/ring", "cannot be followed"),
        ] {
            let said = check(&sys, Path::new(path), &["UUID=own"])
                .err()
                .map_or_else(String::new, |unfit| unfit.to_string());
            assert!(said.contains(wanted) && said.is_empty() == wanted.is_empty(), "{path}: {said}");
        }
    }

    #[test]
    fn links_are_followed_as_far_as_there_is_a_path() {
        let (_root, sys) = host();
        for (path, wanted) in [
            ("/link/new/deep", "/real/new/deep"),
            ("/link", "/real"),
            ("/link/", "/real"),
            ("/srv//empty/./", "/srv/empty"),
            ("relative", "relative"),
            ("/srv/../link", "/srv/../link"),
        ] {
            assert_eq!(followed(&sys, Path::new(path)).expect(path).to_str(), Some(wanted), "{path}");
        }
    }
}

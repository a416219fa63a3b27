//! Directories of `ebb`'s own with everything below them: reached and removed without following a link or crossing a
//! mount, and told from anybody's by a mark that is made with them.

use crate::directory::{Directory, id_of};
use ebbtide_model::shown::Shown;
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags, flock, openat2, statat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The mark: a file in a directory that `ebb` made, with which everything in it is `ebb`'s to remove.
pub const MARK: &str = ".ebbtide";
/// What the mark says, to programs and to people.
const MARK_SAYS: &[u8] = b"ebbtide-own/1\nebb made this directory and removes it with everything in it\n";

/// Below one directory: no link, no way up, no other mount.
const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);
const READ: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Why what is at `path` is not reached, in words.
fn why(path: &Path, errno: Errno) -> io::Error {
    match errno {
        Errno::XDEV => io::Error::other(format!("something is mounted at {}; unmount it", path.shown())),
        Errno::LOOP | Errno::NOTDIR => io::Error::new(
            io::ErrorKind::NotADirectory,
            format!("{} is a link or no directory", path.shown()),
        ),
        Errno::NOSYS => io::Error::other(
            "this kernel cannot tell mounts (openat2, Linux 5.6), without which nothing is removed",
        ),
        errno => errno.into(),
    }
}

impl Directory {
    /// The directory at `path` itself, not one that a link leads to. Links above it are followed.
    ///
    /// # Errors
    /// `NotFound` where there is nothing; when it is a link or no directory.
    pub fn open_itself(path: &Path) -> io::Result<Directory> {
        let fd = rustix::fs::open(path, READ, Mode::empty()).map_err(|errno| why(path, errno))?;
        Ok(Directory::held(File::from(fd), path.to_owned()))
    }

    /// The directory `name` in it, on the same mount.
    ///
    /// # Errors
    /// `NotFound` where there is nothing; when it is a link or no directory, or something is mounted there.
    pub fn below(&self, name: &OsStr) -> io::Result<Directory> {
        let path = self.path().join(name);
        let fd = openat2(self.fd(), name, READ, Mode::empty(), INSIDE).map_err(|errno| why(&path, errno))?;
        Ok(Directory::held(File::from(fd), path))
    }

    /// Names of all that is in it, sorted.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.fd())? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Marks it as made by `ebb`, to be removed with everything in it.
    ///
    /// # Errors
    /// When there is something of the mark's name, or it cannot be made.
    pub fn mark(&self) -> io::Result<()> {
        self.create(MARK, 0o600)?.write_all(MARK_SAYS)
    }

    /// Whether it carries the mark.
    pub fn is_marked(&self) -> bool {
        let mut says = Vec::new();
        let mark = self.open_file(MARK, OFlags::RDONLY);
        let read = mark.and_then(|mark| mark.take(MARK_SAYS.len() as u64 + 1).read_to_end(&mut says));
        read.is_ok() && says == MARK_SAYS
    }

    /// Whether somebody holds the lock `name` in it; a lock that is not there is held by nobody.
    ///
    /// # Errors
    /// When it is no regular file or cannot be opened.
    pub fn is_locked(&self, name: &str) -> io::Result<bool> {
        let lock = match self.open_file(name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes the directory `name` in it with everything in it; already gone is success. Links are removed and not
    /// followed. Where something is mounted anywhere in it nothing is removed. The mark goes last, so that what a kill
    /// leaves still carries it.
    ///
    /// # Errors
    /// When it is a link or no directory, something is mounted in it, or something cannot be removed.
    pub fn remove_tree(&self, name: &OsStr) -> io::Result<()> {
        let tree = match self.below(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let id = id_of(&tree.fd().metadata()?);
        tree.survey()?;
        tree.empty()?;
        self.remove(name, &id).map(drop)
    }

    /// Fails where something is mounted in it, at any depth.
    fn survey(&self) -> io::Result<()> {
        for name in self.names()? {
            let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = match openat2(self.fd(), &name, look, Mode::empty(), INSIDE) {
                Err(Errno::NOENT) => continue,
                other => File::from(other.map_err(|errno| why(&self.path().join(&name), errno))?),
            };
            if found.metadata()?.is_dir() {
                match self.below(&name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    inner => inner?.survey()?,
                }
            }
        }
        Ok(())
    }

    /// Removes all that is in it, the mark last.
    fn empty(&self) -> io::Result<()> {
        let mut names = self.names()?;
        names.sort_by_key(|name| name == MARK);
        for name in names {
            let gone = |result: Result<(), Errno>| match result {
                Err(Errno::NOENT) => Ok(()),
                other => other.map_err(|errno| why(&self.path().join(&name), errno)),
            };
            let kind = match statat(self.fd(), &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                found => FileType::from_raw_mode(found?.st_mode),
            };
            if kind == FileType::Directory {
                match self.below(&name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    inner => inner?.empty()?,
                }
                gone(rustix::fs::unlinkat(self.fd(), &name, AtFlags::REMOVEDIR))?;
            } else {
                gone(rustix::fs::unlinkat(self.fd(), &name, AtFlags::empty()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> (tempfile::TempDir, Directory) {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let open = Directory::open_itself(place.path()).expect("opens");
        (place, open)
    }

    #[test]
    fn a_tree_goes_and_what_its_links_lead_to_stays() {
        let (place, top) = here();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("mine/in/deep")).expect("makes");
        std::fs::create_dir_all(at("photos")).expect("makes");
        for file in ["mine/in/deep/f", "mine/f", "photos/a"] {
            std::fs::write(at(file), "x").expect("writes");
        }
        std::os::unix::fs::symlink(at("photos"), at("mine/in/link")).expect("links");
        std::os::unix::fs::symlink(at("photos"), at("link")).expect("links");
        let error = top.remove_tree(OsStr::new("link")).expect_err("is a link").to_string();
        assert!(error.contains("is a link"), "{error}");
        assert!(top.below(OsStr::new("..")).is_err());
        top.remove_tree(OsStr::new("mine")).expect("removes");
        top.remove_tree(OsStr::new("mine")).expect("is gone");
        assert_eq!(top.names().expect("reads"), ["link", "photos"]);
        assert!(at("photos/a").exists());
        assert!(Directory::open_itself(&at("link")).is_err());
    }

    #[test]
    fn only_a_whole_mark_counts() {
        let (place, top) = here();
        assert!(!top.is_marked());
        std::fs::write(place.path().join(MARK), "ebbtide-own/1\n").expect("writes");
        assert!(!top.is_marked() && top.mark().is_err());
        std::fs::remove_file(place.path().join(MARK)).expect("removes");
        top.mark().expect("marks");
        assert!(top.is_marked());
        std::fs::rename(place.path().join(MARK), place.path().join("real")).expect("moves");
        std::os::unix::fs::symlink("real", place.path().join(MARK)).expect("links");
        assert!(!top.is_marked());
    }

    #[test]
    fn a_lock_is_told_and_not_made() {
        let (place, top) = here();
        assert!(!top.is_locked("lock").expect("looks"));
        assert_eq!(top.names().expect("reads"), [""; 0]);
        let lock = crate::own::try_lock(&place.path().join("lock")).expect("makes");
        assert!(lock.is_some() && top.is_locked("lock").expect("looks"));
        drop(lock);
        assert!(!top.is_locked("lock").expect("looks"));
    }
}

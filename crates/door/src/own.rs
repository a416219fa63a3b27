//! `ebb`'s own files: what it makes in directories of its own, and how they are told from others'.

use crate::directory::{Directory, id_of, name_content, unguessable};
use ebbtide_model::journal::Entry;
use ebbtide_model::session::STORE_APPLICATION_ID;
use ebbtide_model::verify::Header;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// What an SQLite database begins with; its application id is at byte 68 (SQLite's file format, 1.3).
pub(crate) const DATABASE: &[u8] = b"SQLite format 3\0";
pub(crate) const APPLICATION_ID: std::ops::Range<usize> = 68..72;

/// Which of the files that `ebb` keeps for its user `file` is open on: "a store", "a ledger", "a journal".
pub fn recognise(file: &File) -> Option<&'static str> {
    let mut begin = [0; 72];
    let read = file.read_at(&mut begin, 0).ok()?;
    let begins_with = |text: &str| begin[..read].starts_with(text.as_bytes());
    if begin.starts_with(DATABASE) && begin[APPLICATION_ID] == STORE_APPLICATION_ID.to_be_bytes() {
        return Some("a store");
    }
    if begins_with(&format!("{{\"schema\":\"{}", Header::SCHEMA)) {
        return Some("a ledger");
    }
    Entry::FIRST.into_iter().any(begins_with).then_some("a journal")
}

/// Makes the file `path` with `content`, where nothing may be. `mode` is cut by the umask.
///
/// # Errors
/// When there is something of this name, or it cannot be made.
pub fn create(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let (directory, name) = Directory::of(path)?;
    directory.create(name, mode)?.write_all(content)
}

/// Makes the file `path` of `size` bytes, all of it a hole, where nothing may be.
///
/// # Errors
/// As [`create`].
pub fn create_sparse(path: &Path, size: u64) -> io::Result<()> {
    let (directory, name) = Directory::of(path)?;
    directory.create(name, 0o600)?.set_len(size)
}

/// Whether the file `path` of `ebb`'s own can be accessed with O_DIRECT.
pub fn has_direct(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty()).is_ok()
}

/// Opens the file `path` in a directory of `ebb`'s own to be written anew, making it where it is missing.
///
/// # Errors
/// When it is a link or no regular file, or cannot be opened.
pub fn anew(path: &Path) -> io::Result<File> {
    let file = made_or_found(path)?;
    file.set_len(0)?;
    Ok(file)
}

/// Opens the file `path`, no link and with no second name, or makes it for this user.
fn made_or_found(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?);
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(io::Error::other("it is a link, or no regular file"));
    }
    Ok(file)
}

/// Writes the whole file `path` in a directory of `ebb`'s own.
///
/// # Errors
/// As [`anew`].
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    anew(path)?.write_all(content)
}

/// Puts `content` in the place of the file `path` in a directory of `ebb`'s own, durably: after a kill or a power cut there is the old one
/// or the new one, and beside it at most a hidden file that nobody reads.
///
/// # Errors
/// When it cannot be written; the old one is whole then.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let (directory, name) = Directory::of(path)?;
    let hidden = unguessable(&name)?;
    let mut file = directory.create(&hidden, 0o600)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    let put = written.and_then(|()| directory.rename(&hidden, &name));
    if put.is_err() {
        // The first error is the one to tell.
        let _ = file.metadata().and_then(|found| directory.remove(&hidden, &id_of(&found)));
    }
    put.and_then(|()| directory.sync())
}

/// Removes the file `path` of `ebb`'s own, durably; already gone is success.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    let (directory, name) = match Directory::of(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        place => place?,
    };
    let Some(found) = directory.look(&name)? else { return Ok(()) };
    directory.remove(&name, &id_of(&found))?;
    directory.sync()
}

/// Copies the file `from` to `to` in a directory of `ebb`'s own, with what it says of who may run it.
///
/// # Errors
/// As [`anew`].
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut copy = anew(to)?;
    io::copy(&mut source, &mut copy)?;
    copy.set_permissions(source.metadata()?.permissions())
}

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub struct Locked {
    file: File,
    noted: bool,
}

impl Locked {
    /// Has the lock's file say `text`, a line, while it is held: who holds it, for those who want it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&mut self, text: &[u8]) -> io::Result<()> {
        let line = [text, b"\n"].concat();
        self.noted = true;
        // What a holder that was killed said is behind this line for a moment: whoever reads takes the first.
        self.file.write_all_at(&line, 0)?;
        self.file.set_len(line.len() as u64)
    }

    /// Programs that are started from now on inherit it: after a kill of this program it is held by the one that is still at work.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn inherit(&self) -> io::Result<()> {
        inherit(&self.file)
    }
}

impl Drop for Locked {
    /// Not by closing it alone: a child that was just forked has it open too, until it runs its program.
    fn drop(&mut self) {
        if self.noted {
            let _ = self.file.set_len(0);
        }
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Programs that are started from now on inherit `file`, and with it its lock.
pub(crate) fn inherit(file: &File) -> io::Result<()> {
    Ok(fcntl_setfd(file, FdFlags::empty())?)
}

/// Programs that are started from now on do not inherit `file`.
pub(crate) fn withhold(file: &File) -> io::Result<()> {
    Ok(fcntl_setfd(file, FdFlags::CLOEXEC)?)
}

/// Waits for the lock `path`, a file that is made where it is missing, and takes it.
///
/// # Errors
/// As [`anew`].
pub fn lock(path: &Path) -> io::Result<Locked> {
    let file = made_or_found(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(Locked { file, noted: false })
}

/// Takes the lock `path`; nothing while somebody has it.
///
/// # Errors
/// As [`anew`].
pub fn try_lock(path: &Path) -> io::Result<Option<Locked>> {
    let file = made_or_found(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Locked { file, noted: false })),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a directory of `ebb`'s own with everything in it; already gone is success. No link is followed, and nothing is
/// removed where something is mounted in it ([`Directory::remove_tree`]).
///
/// # Errors
/// When something cannot be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match Directory::of(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        place => place.and_then(|(place, name)| place.remove_tree(&name)),
    }
}

/// Gives what is at `from` the name `to`, both in directories of `ebb`'s own; a file there is replaced.
///
/// # Errors
/// When it cannot be moved.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Makes the link `path` to `target` in a directory of `ebb`'s own, where nothing has its name.
///
/// # Errors
/// When it cannot be made.
pub fn link(target: &str, path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(_) => Ok(()),
        Err(_) => std::os::unix::fs::symlink(target, path),
    }
}

/// Lets any user pass through the directory `path` of `ebb`'s own, but not see what is in it.
///
/// # Errors
/// When it is not there or not ours.
pub fn let_pass(path: &Path) -> io::Result<()> {
    let mode = Mode::RWXU | Mode::XGRP | Mode::XOTH;
    Ok(rustix::fs::chmodat(CWD, path, mode, rustix::fs::AtFlags::empty())?)
}

/// Whether the directory `path` is empty.
///
/// # Errors
/// What is in it where it is not (`DirectoryNotEmpty`), or when it cannot be read.
pub fn is_empty(path: &Path) -> io::Result<()> {
    match std::fs::read_dir(path)?.next() {
        Some(_) => Err(name_content(path, ErrorKind::DirectoryNotEmpty.into())),
        None => Ok(()),
    }
}

/// Removes the directory `path` if it is empty.
///
/// # Errors
/// What is in it where it is not (`DirectoryNotEmpty`), or when it cannot be removed.
pub fn remove_empty(path: &Path) -> io::Result<()> {
    std::fs::remove_dir(path).map_err(|error| name_content(path, error))
}

/// Makes the file `path` in a directory of `ebb`'s own executable.
///
/// # Errors
/// When it is not there or not ours.
pub fn make_executable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::chmodat(
        CWD,
        path,
        Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH,
        rustix::fs::AtFlags::empty(),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_not_written_through() {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let (victim, link, second) =
            (place.path().join("victim"), place.path().join("link"), place.path().join("second"));
        std::fs::write(&victim, "a user's own").expect("writes");
        std::os::unix::fs::symlink(&victim, &link).expect("links");
        std::fs::hard_link(&victim, &second).expect("links");
        for path in [&link, &second] {
            assert!(write(path, b"x").is_err() && create(path, 0o600, b"x").is_err(), "{}", path.display());
        }
        assert_eq!(std::fs::read(&victim).expect("reads"), b"a user's own");
        let mine = place.path().join("mine");
        write(&mine, b"long").expect("makes");
        write(&mine, b"new").expect("writes");
        assert_eq!(std::fs::read(&mine).expect("reads"), b"new");
    }

    #[test]
    fn own_files_are_recognised_by_how_they_begin() {
        let of = |bytes: &[u8]| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), bytes).expect("writes");
            recognise(&File::open(file.path()).expect("opens"))
        };
        let mut store = [0; 100];
        store[..16].copy_from_slice(DATABASE);
        assert_eq!(of(&store), None, "another program's database");
        store[APPLICATION_ID].copy_from_slice(&STORE_APPLICATION_ID.to_be_bytes());
        assert_eq!(of(&store), Some("a store"));
        let ledger = format!("{{\"schema\":\"{}\",\"run\":1{}", Header::SCHEMA, " ".repeat(99));
        assert_eq!(of(ledger.as_bytes()), Some("a ledger"));
        assert_eq!(of(b"{\"making_file\":\"/f\"}\n"), Some("a journal"));
        assert_eq!(of(b"{\"making_file\":false}\n"), None);
        assert_eq!(of(b"{}"), None);
    }
}

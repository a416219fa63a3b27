//! Files and directories that a run makes: announced in the journal, removed at the end.

use super::place::mib;
use ebbtide_core::journal::{Entry, FileId, Journal};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a run has made so far.
pub(super) struct Made {
    journal: Arc<dyn Journal>,
    /// In the order in which it was made.
    items: Vec<Item>,
}

struct Item {
    path: PathBuf,
    directory: bool,
    id: FileId,
}

/// Identity of the file or directory that `found` is of.
pub fn id_of(found: &Metadata) -> FileId {
    FileId::new(found.dev(), found.ino(), found.created().ok())
}

impl Made {
    pub(super) fn new(journal: Arc<dyn Journal>) -> Self {
        Made { journal, items: Vec::new() }
    }

    /// Makes a directory that only this user may enter.
    pub(super) fn directory(&mut self, path: &Path) -> Result<(), String> {
        self.journal.write(&Entry::MakingDirectory(path.to_owned()))?;
        let made = rustix::fs::mkdir(path, Mode::RWXU)
            .map_err(io::Error::from)
            .and_then(|()| File::open(path))
            .and_then(|directory| directory.metadata())
            .map(|found| id_of(&found));
        self.note(path, true, made).map_err(|error| format!("cannot make {}: {error}", path.display()))
    }

    /// Makes a file of `size` bytes with all its blocks allocated; opened for reading and writing.
    pub(super) fn file(&mut self, path: &Path, size: u64) -> Result<File, String> {
        let fail = |error: io::Error| format!("cannot make {}: {error}", path.display());
        self.journal.write(&Entry::MakingFile(path.to_owned()))?;
        // O_EXCL: never an existing file, not even through a symbolic link.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map(File::from);
        let file = opened.map_err(|errno| {
            // Nothing was made: whatever is at that path is somebody else's.
            let _ = self.journal.write(&Entry::Gone(path.to_owned()));
            fail(errno.into())
        })?;
        self.note(path, false, file.metadata().map(|found| id_of(&found))).map_err(fail)?;
        allocate(&file, size).map_err(|errno| match errno {
            Errno::FBIG => format!(
                "cannot make {} of {}: larger than the file system or `ulimit -f` allows",
                path.display(),
                mib(size)
            ),
            Errno::NOSPC | Errno::DQUOT => {
                format!("cannot make {} of {}: {errno}; free some space", path.display(), mib(size))
            }
            _ => fail(errno.into()),
        })?;
        Ok(file)
    }

    fn note(&mut self, path: &Path, directory: bool, made: io::Result<FileId>) -> io::Result<()> {
        match made {
            Ok(id) => {
                self.items.push(Item { path: path.to_owned(), directory, id });
                self.journal.write(&Entry::Made(path.to_owned(), id)).map_err(io::Error::other)
            }
            Err(error) => {
                let _ = self.journal.write(&Entry::Gone(path.to_owned()));
                Err(error)
            }
        }
    }

    /// Removes everything, the last one first; what cannot be removed stays on the list and is named.
    pub(super) fn remove(&mut self) -> Result<(), String> {
        let mut left = Vec::new();
        let mut errors = Vec::new();
        while let Some(item) = self.items.pop() {
            match item
                .remove()
                .and_then(|()| self.journal.write(&Entry::Gone(item.path.clone())).map_err(io::Error::other))
            {
                Ok(()) => {}
                Err(error) => {
                    errors.push(format!("{}: {error}", item.path.display()));
                    left.push(item);
                }
            }
        }
        left.reverse();
        self.items = left;
        if errors.is_empty() { Ok(()) } else { Err(format!("cannot remove {}", errors.join(", "))) }
    }

    /// Leaves everything to the user.
    pub(super) fn keep(&mut self) -> Result<(), String> {
        self.items.drain(..).try_for_each(|item| self.journal.write(&Entry::Kept(item.path)))
    }
}

impl Item {
    /// Already gone is success; something else under its name is left alone.
    fn remove(&self) -> io::Result<()> {
        let found = match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        if id_of(&found) != self.id {
            return Err(io::Error::other("something else has its name now; it is left alone"));
        }
        if self.directory { std::fs::remove_dir(&self.path) } else { std::fs::remove_file(&self.path) }
    }
}

/// All blocks now, so that no trial meets a full disk; only a length where the file system cannot (NFS, ZFS).
fn allocate(file: &File, size: u64) -> rustix::io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP) => return rustix::fs::ftruncate(file, size),
            other => return other,
        }
    }
}

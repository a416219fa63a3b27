//! Files and directories that a run makes: announced in the journal, removed at the end.

use ebbtide_door::{Claim, Directory, Door, Doubt, id_of};
use ebbtide_model::backend::BackendError;
use ebbtide_model::journal::{Entry, FileId, Journal, JournalError};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a file that was closed may count as open: the kernel lets go of a ring's files in the background, on a busy machine after seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time between two attempts to remove what is still busy.
const STEP: Duration = Duration::from_millis(100);

/// Why something was not made or not removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum MadeError {
    #[error("cannot make {}: {source}", path.shown())]
    Make { path: PathBuf, source: io::Error },
    #[error("cannot make {} of {}: larger than the file system or `ulimit -f` allows", path.shown(), size.short())]
    TooLarge { path: PathBuf, size: Bytes },
    #[error("cannot make {} of {}: {source}; free some space", path.shown(), size.short())]
    NoSpace { path: PathBuf, size: Bytes, source: Errno },
    #[error("cannot remove {}", each(.0))]
    Remove(Vec<(PathBuf, io::Error)>),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

fn each(errors: &[(PathBuf, io::Error)]) -> String {
    let errors = errors.iter().map(|(path, error)| format!("{}: {error}", path.shown()));
    errors.collect::<Vec<_>>().join(", ")
}

impl From<MadeError> for BackendError {
    fn from(error: MadeError) -> Self {
        BackendError::Other(error.to_string())
    }
}

/// What a run has made so far.
pub(super) struct Made {
    door: Door,
    journal: Arc<dyn Journal>,
    /// In the order in which it was made.
    items: Vec<Item>,
}

struct Item {
    /// The directory that it is in.
    place: Arc<Directory>,
    name: OsString,
    id: FileId,
}

impl Item {
    fn path(&self) -> PathBuf {
        self.place.path().join(&self.name)
    }
}

impl Made {
    pub(super) fn new(door: Door, journal: Arc<dyn Journal>) -> Self {
        Made { door, journal, items: Vec::new() }
    }

    fn note(&self, entry: &Entry) -> Result<(), MadeError> {
        Ok(self.journal.write(entry)?)
    }

    /// Makes the directory `path`, which only this user may enter.
    pub(super) fn directory(&mut self, path: &Path) -> Result<Arc<Directory>, MadeError> {
        let fail = |source| MadeError::Make { path: path.to_owned(), source };
        let (place, name) = Directory::of(path).map_err(fail)?;
        self.note(&Entry::MakingDirectory(path.to_owned()))?;
        let made = place.make(&name).and_then(|made| Ok((made.id()?, made)));
        let (id, made) = self.made(path, made).map_err(fail)?;
        self.items.push(Item { place: Arc::new(place), name, id });
        self.note(&Entry::Made(path.to_owned(), id))?;
        Ok(Arc::new(made))
    }

    /// Makes the file `name` of this `size` in `directory`, with all its blocks allocated.
    pub(super) fn file(
        &mut self,
        directory: &Arc<Directory>,
        name: &str,
        size: Bytes,
    ) -> Result<Claim, MadeError> {
        let path = directory.path().join(name);
        let fail = |source| MadeError::Make { path: path.clone(), source };
        self.note(&Entry::MakingFile(path.clone()))?;
        let made = directory.create(name, 0o600).and_then(|file| Ok((id_of(&file.metadata()?), file)));
        let (id, file) = self.made(&path, made).map_err(fail)?;
        self.items.push(Item { place: directory.clone(), name: name.into(), id });
        self.note(&Entry::Made(path.clone(), id))?;
        allocate(&file, size).map_err(|errno| match errno {
            Errno::FBIG => MadeError::TooLarge { path: path.clone(), size },
            source @ (Errno::NOSPC | Errno::DQUOT) => MadeError::NoSpace { path: path.clone(), size, source },
            _ => fail(errno.into()),
        })?;
        Claim::of_new(file, &path).map_err(fail)
    }

    /// What was announced, if it was made; the journal knows when not: what is at that path then is somebody else's.
    fn made<T>(&self, path: &Path, made: io::Result<T>) -> io::Result<T> {
        made.inspect_err(|_| {
            let _ = self.journal.write(&Entry::Gone(path.to_owned()));
        })
    }

    /// Removes everything that nobody else uses by now, the last one first; what cannot be removed stays on the list and is
    /// named.
    pub(super) fn remove(&mut self) -> Result<(), MadeError> {
        let begin = Instant::now();
        loop {
            let errors = self.remove_once();
            let may_pass = errors.iter().any(|(_, error)| error.kind() == io::ErrorKind::ResourceBusy);
            if errors.is_empty() {
                return Ok(());
            }
            if !may_pass || begin.elapsed() >= PATIENCE {
                return Err(MadeError::Remove(errors));
            }
            std::thread::sleep(STEP);
        }
    }

    fn remove_once(&mut self) -> Vec<(PathBuf, io::Error)> {
        let mut left: Vec<Item> = Vec::new();
        let mut errors = Vec::new();
        while let Some(item) = self.items.pop() {
            let path = item.path();
            if left.iter().any(|left| left.path().starts_with(&path)) {
                left.push(item);
                continue;
            }
            let removed = self.door.remove(&item.place, &item.name, &item.id, Doubt::Removes, &[]);
            let noted = removed
                .and_then(|_| self.journal.write(&Entry::Gone(path.clone())).map_err(io::Error::other));
            if let Err(error) = noted {
                errors.push((path, error));
                left.push(item);
            }
        }
        left.reverse();
        self.items = left;
        errors
    }

    /// Leaves everything to who cleans up after this run, by what the journal says.
    pub(super) fn leave(&mut self) {
        self.items.clear();
    }

    /// Leaves everything to the user.
    pub(super) fn keep(&mut self) -> Result<(), MadeError> {
        std::mem::take(&mut self.items).iter().try_for_each(|item| self.note(&Entry::Kept(item.path())))
    }
}

/// All blocks now, so that no trial meets a full disk; only a length where the file system cannot (NFS, ZFS).
pub(super) fn allocate(file: &File, size: Bytes) -> rustix::io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size.0) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP) => return rustix::fs::ftruncate(file, size.0),
            other => return other,
        }
    }
}

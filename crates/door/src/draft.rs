//! A new file that appears under its name when it is ready, and not before.

use crate::claim::{Claim, Handle, reopen};
use crate::directory::{Directory, Removed, id_of, unguessable};
use crate::door::{Door, Doubt};
use crate::pause::pause_at;
use ebbtide_model::journal::{Entry, FileId, Journal};
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file on its way to a name where nothing may be. Dropped without [`publish`](Self::publish) it leaves nothing.
///
/// It has no name until then, so that a kill leaves nothing either. On file systems without such files it has a name that
/// cannot be foreseen, which the journal knows.
pub struct Draft {
    directory: Directory,
    name: OsString,
    file: File,
    temporary: Option<Temporary>,
}

struct Temporary {
    name: OsString,
    id: FileId,
    journal: Option<Arc<dyn Journal>>,
}

impl Draft {
    /// Begins a file for `path`, readable by others only as far as `mode` and the umask say.
    ///
    /// # Errors
    /// When there is something of this name, or it cannot be made.
    pub fn begin(path: &Path, mode: u32, journal: Option<Arc<dyn Journal>>) -> io::Result<Draft> {
        let (directory, name) = Directory::of(path)?;
        if directory.look(&name)?.is_some() {
            return Err(exists());
        }
        if let Some(file) = directory.unnamed(mode)? {
            return Ok(Draft { directory, name, file, temporary: None });
        }
        let hidden = unguessable(&name)?;
        let place = directory.path().join(&hidden);
        let note = |entry: Entry| match &journal {
            Some(journal) => journal.write(&entry).map_err(io::Error::other),
            None => Ok(()),
        };
        note(Entry::MakingFile(place.clone()))?;
        // Nothing was made: a journal that says otherwise is one of a run that seems to have been killed.
        let file = directory.create(&hidden, mode).inspect_err(|_| {
            let _ = note(Entry::Gone(place.clone()));
        })?;
        let id = id_of(&file.metadata()?);
        note(Entry::Made(place, id))?;
        Ok(Draft { directory, name, file, temporary: Some(Temporary { name: hidden, id, journal }) })
    }

    /// The file, to be filled.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file as a volume: nobody else can know it yet.
    ///
    /// # Errors
    /// When it cannot be opened once more.
    pub fn claim(&self) -> io::Result<Claim> {
        Claim::new(reopen(&self.file, OFlags::RDWR)?, &self.path(), true, None)
    }

    /// Where it is going.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Gives it its name, durably.
    ///
    /// # Errors
    /// `AlreadyExists` where somebody else took the name meanwhile; what is there stays.
    pub fn publish(mut self) -> io::Result<Published> {
        pause_at("draft.publishing");
        match &self.temporary {
            None => self.directory.link(&self.file, &self.name)?,
            Some(temporary) => self.directory.rename_new(&temporary.name, &self.name)?,
        }
        self.directory.sync()?;
        let id = id_of(&self.file.metadata()?);
        if let Some(Temporary { name, journal: Some(journal), .. }) = self.temporary.take() {
            journal.write(&Entry::Gone(self.directory.path().join(name))).map_err(io::Error::other)?;
        }
        let directory = Directory::open(self.directory.path())?;
        Ok(Published { directory, name: self.name.clone(), id })
    }
}

fn exists() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "something of this name is there already; it is left alone")
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(Temporary { name, id, journal }) = self.temporary.take()
            && self.directory.remove(&name, &id).is_ok()
            && let Some(journal) = journal
        {
            // Otherwise `ebb cleanup` finds it gone.
            let _ = journal.write(&Entry::Gone(self.directory.path().join(name)));
        }
    }
}

/// A file that was published.
#[derive(Debug)]
pub struct Published {
    directory: Directory,
    name: OsString,
    id: FileId,
}

impl Published {
    /// Removes it again, unless something else has its name by now or somebody uses it.
    ///
    /// # Errors
    /// As [`Door::remove`].
    pub fn discard(&self, door: &Door) -> io::Result<Removed> {
        door.remove(&self.directory, &self.name, &self.id, Doubt::Removes, &[])
    }

    /// Path of the file now that it is in its place.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Opens it to be read.
    ///
    /// # Errors
    /// When it is gone, or another.
    pub fn read(&self) -> io::Result<Handle> {
        let file = self.directory.open_file(&self.name, OFlags::RDONLY)?;
        match id_of(&file.metadata()?) == self.id {
            true => Ok(Handle::new(file)),
            false => Err(io::Error::other("something else has its name now")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::journal::JournalError;
    use std::io::Write;

    #[test]
    fn nothing_is_seen_before_it_is_published_and_nothing_is_replaced() {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = place.path().join("f");
        drop(Draft::begin(&path, 0o600, None).expect("begins"));
        let draft = Draft::begin(&path, 0o600, None).expect("begins");
        draft.file().write_all(b"all").expect("writes");
        assert_eq!(std::fs::read_dir(place.path()).expect("reads").count(), 0);
        draft.publish().expect("publishes");
        assert_eq!(std::fs::read(&path).expect("reads"), b"all");

        assert!(Draft::begin(&path, 0o600, None).is_err());
        std::fs::remove_file(&path).expect("removes");
        let draft = Draft::begin(&path, 0o600, None).expect("begins");
        std::fs::write(&path, "a user's own").expect("writes");
        let error = draft.publish().expect_err("is taken");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).expect("reads"), b"a user's own");
        assert_eq!(std::fs::read_dir(place.path()).expect("reads").count(), 1);
    }

    /// What a run noted.
    #[derive(Default)]
    struct Noted(std::sync::Mutex<Vec<Entry>>);

    impl Journal for Noted {
        fn write(&self, entry: &Entry) -> Result<(), JournalError> {
            self.0.lock().expect("locks").push(entry.clone());
            Ok(())
        }
    }

    #[test]
    fn what_could_not_be_made_leaves_nothing_in_the_journal() {
        let noted = Arc::new(Noted::default());
        // It has no files without a name, and none can be made there.
        assert!(Draft::begin(Path::new("/proc/new"), 0o600, Some(noted.clone())).is_err());
        let entries = noted.0.lock().expect("locks");
        assert!(matches!(entries[0], Entry::MakingFile(_)), "{entries:?}");
        assert_eq!(ebbtide_model::journal::leftovers(&entries), []);
    }
}

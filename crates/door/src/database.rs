//! A database file that its library opens by name: held on to by identity, before, during and after.

use crate::claim::reopen;
use crate::directory::{Directory, id_of};
use crate::door::{DoorError, Footprint, Identity, kind_name};
use crate::held::Held;
use crate::own;
use ebbtide_core::guard::RefusalKind;
use ebbtide_core::journal::FileId;
use ebbtide_core::shown::Shown;
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What SQLite keeps beside a database (its "Temporary Files" page).
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// A database file, held on to while it is open. Opening and closing it here takes no lock and drops none.
#[derive(Debug)]
pub struct Database {
    directory: Directory,
    name: OsString,
    path: PathBuf,
    id: FileId,
    foreign: bool,
    /// Without it the inode's number could be given to another file.
    _pin: File,
    _held: Held,
}

impl Database {
    /// The database at `path`, links resolved; an empty file for this user only is made where there is nothing and it is
    /// to be made, else `None`.
    ///
    /// # Errors
    /// When it is no regular file, when something else stands where its library would write beside it, when it is claimed
    /// as a volume, or when it cannot be made.
    pub fn at(path: &Path, make: bool) -> Result<Option<Database>, DoorError> {
        let failed = |error| DoorError::System { what: "open", path: path.to_owned(), source: error };
        // A user's link to a store is meant; SQLite resolves it likewise.
        let resolved = match std::fs::canonicalize(path) {
            Ok(resolved) => resolved,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(failed(error)),
        };
        let (directory, name) = match Directory::of(&resolved) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
            other => other.map_err(failed)?,
        };
        let path = std::path::absolute(&resolved).map_err(failed)?;
        let pin = match directory.pin(&name).map_err(failed)? {
            Some(pin) => pin,
            None if !make => return Ok(None),
            None => {
                match directory.create(&name, 0o600) {
                    Ok(_) => {}
                    // Another process made it at the same moment.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(failed(error)),
                }
                let gone = || failed(io::Error::from(io::ErrorKind::NotFound));
                directory.pin(&name).map_err(failed)?.ok_or_else(gone)?
            }
        };
        let found = pin.metadata().map_err(failed)?;
        if !found.is_file() {
            let what = format!("{}, not a regular file", kind_name(found.file_type()));
            return Err(DoorError::NoVolume { path, what });
        }
        for suffix in BESIDE {
            let mut beside = name.clone();
            beside.push(suffix);
            let strange = match directory.look(&beside).map_err(failed)? {
                Some(found) => !found.is_file() || found.nlink() != 1,
                None => false,
            };
            if strange {
                let what = format!("{} beside it is a link, or no file of its own", beside.shown());
                return Err(DoorError::reason(
                    &path,
                    RefusalKind::NotADevice,
                    what,
                    "remove it, or choose another store",
                ));
            }
        }
        let what = format!("the store {}", path.shown());
        let held = Held::share(what, Footprint::alone(Identity::of(&found))).map_err(|other| {
            let what = format!("it is {other}, which is in use here already");
            DoorError::reason(&path, RefusalKind::Twice, what, "choose another store")
        })?;
        // SQLite takes a file of less than a page for an empty database. Closing what it has open drops its locks, so that
        // only the first claim may look.
        let alone = Held::count(&Footprint::alone(Identity::of(&found))) == 1;
        let foreign =
            alone && found.len() > 0 && !own::is_database(&reopen(&pin, OFlags::RDONLY).map_err(failed)?);
        Ok(Some(Database { id: id_of(&found), directory, name, path, foreign, _pin: pin, _held: held }))
    }

    /// Whether it holds something that is no database.
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// Its path, for its library: absolute, no links in it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its path still leads to it.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn is_there(&self) -> io::Result<bool> {
        // By its path too: its directory may have been moved.
        let by_path = match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(id_of(&other?)),
        };
        let named = self.directory.look(&self.name)?.map(|found| id_of(&found));
        Ok(named == Some(self.id) && by_path == named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_replaced_is_noticed() {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = place.path().join("store");
        assert!(Database::at(&path, false).expect("looks").is_none());
        let database = Database::at(&path, true).expect("makes").expect("is there");
        assert!(database.is_there().expect("looks"));
        assert!(Database::at(&path, false).expect("is shared").is_some());
        std::fs::rename(&path, place.path().join("elsewhere")).expect("moves");
        assert!(!database.is_there().expect("looks"));
        std::fs::write(&path, "").expect("makes");
        assert!(!database.is_there().expect("looks"));
    }

    #[test]
    fn nothing_but_a_file_is_a_database_and_nothing_is_planted_beside_it() {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        for path in [place.path(), Path::new("/dev/null")] {
            assert!(
                matches!(Database::at(path, true), Err(DoorError::NoVolume { .. })),
                "{}",
                path.display()
            );
        }
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("store-wal")).expect("links");
        let error = Database::at(&place.path().join("store"), true).expect_err("is planted").to_string();
        assert!(error.contains("store-wal"), "{error}");
    }
}

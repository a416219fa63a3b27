//! A database file that its library opens by name: held on to by identity, before, during and after. What SQLite finds beside
//! it, it rolls back, copies into it and deletes: that is judged before SQLite sees any of it.

mod beside;
mod format;
mod place;

use crate::claim::reopen;
use crate::directory::{Directory, id_of};
use crate::door::{DoorError, kind_name};
use crate::footprint::{Footprint, Identity};
use crate::held::Held;
use beside::Beside;
use ebbtide_model::guard::RefusalKind;
use ebbtide_model::journal::FileId;
use ebbtide_model::shown::Shown;
use format::Content;
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Held while a database is looked at. Closing a file drops all locks of this process on it, SQLite's too, so that nobody
/// else may open it meanwhile.
static LOOKING: Mutex<()> = Mutex::new(());

/// A database file, held on to while it is open. Opening and closing it here takes no lock and drops none.
#[derive(Debug)]
pub struct Database {
    directory: Directory,
    name: OsString,
    path: PathBuf,
    id: FileId,
    foreign: Option<&'static str>,
    /// Without it the inode's number could be given to another file.
    _pin: File,
    _held: Held,
}

impl Database {
    /// The database at `path`, links resolved; an empty file for this user only is made where there is nothing and it is
    /// to be made, else `None`.
    ///
    /// # Errors
    /// When it is no regular file, when something else stands where its library would write beside it, or what that would
    /// take away is not its own, when anybody may make files beside it, when it is claimed as a volume, or when it cannot
    /// be made.
    pub fn at(path: &Path, make: bool) -> Result<Option<Database>, DoorError> {
        let failed = |error| DoorError::System { what: "open", path: path.to_owned(), source: error };
        let path = std::path::absolute(resolved(path).map_err(failed)?).map_err(failed)?;
        let (directory, name) = match Directory::of(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
            other => other.map_err(failed)?,
        };
        // Before the database: a log that another process begins meanwhile would seem to be beside nothing.
        let beside = Beside::look(&directory, &name, &path)?;
        let pin = match directory.pin(&name).map_err(failed)? {
            None if !make => return Ok(None),
            pin => pin,
        };
        if let Some(pin) = &pin {
            is_file(pin, &path)?;
        }
        place::judge(&directory, &path)?;
        let pin = match pin {
            Some(pin) => pin,
            None => {
                beside.judge(None, Content::Nothing, None)?;
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
        let found = is_file(&pin, &path)?;
        let footprint = Footprint::alone(Identity::of(&found));
        let _looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
        let what = format!("the store {}", path.shown());
        let held = Held::share(what, footprint.clone()).map_err(|other| {
            let what = format!("it is {other}, which is in use here already");
            DoorError::reason(&path, RefusalKind::Twice, what, "choose another store")
        })?;
        let mut foreign = None;
        // Only the first claim looks, for the others.
        if Held::count(&footprint) == 1 {
            let main = reopen(&pin, OFlags::RDONLY).map_err(failed)?;
            let log = beside.log().map_err(failed)?;
            let content = Content::of(&main, log.as_ref()).map_err(failed)?;
            foreign = content.foreign();
            if foreign.is_none() {
                let keeps_log = format::keeps_log(&main).map_err(failed)?;
                beside.judge(Some(found.uid()), content, keeps_log.then_some(&main))?;
            }
        }
        Ok(Some(Database { id: id_of(&found), directory, name, path, foreign, _pin: pin, _held: held }))
    }

    /// What it is instead of a store of `ebb`'s, where it is something else. It is left as it is: its library must not open
    /// it.
    pub fn foreign(&self) -> Option<&'static str> {
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

/// What the system says of `pin`, which `path` led to and which must be a regular file.
fn is_file(pin: &File, path: &Path) -> Result<Metadata, DoorError> {
    let found = pin.metadata().map_err(DoorError::system("look at", path))?;
    if found.is_file() {
        return Ok(found);
    }
    let what = format!("{}, not a regular file", kind_name(found.file_type()));
    Err(DoorError::NoVolume { path: path.to_owned(), what })
}

/// Where `path` leads, also where there is no file yet. A user's link to a store, or to its directory, is meant; SQLite
/// follows none.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let written = path.as_os_str().as_encoded_bytes();
    if written.ends_with(b"/") || written.ends_with(b"/.") {
        let what = "it is written as a directory; leave out what is behind the name";
        return Err(io::Error::new(io::ErrorKind::IsADirectory, what));
    }
    let above = match std::fs::canonicalize(path) {
        Err(error) if missing(&error) => path.parent().zip(path.file_name()),
        other => return other,
    };
    let Some((parent, name)) = above else { return Ok(path.to_owned()) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    match std::fs::canonicalize(parent) {
        Err(error) if missing(&error) => Ok(path.to_owned()),
        parent => Ok(parent?.join(name)),
    }
}

#[cfg(test)]
mod tests;

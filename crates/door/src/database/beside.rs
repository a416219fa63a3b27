//! What is beside a database under the names that SQLite takes for its own there, without asking whose it is: it rolls back a
//! journal and deletes it, and the super-journal that it names too; it copies a log into the database and deletes it.

use super::format::{Content, Journal, begins_log, is_blank, is_index, is_log};
use crate::claim::reopen;
use crate::directory::Directory;
use crate::door::DoorError;
use ebbtide_model::guard::RefusalKind;
use ebbtide_model::shown::Shown;
use rustix::fs::OFlags;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What SQLite keeps beside a database (its "Temporary Files" page).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A rollback journal, `-journal`.
    Journal,
    /// A write-ahead log, `-wal`.
    Log,
    /// The index of the log, which is shared memory.
    Index,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Journal, Kind::Log, Kind::Index];

    fn suffix(self) -> &'static str {
        match self {
            Kind::Journal => "-journal",
            Kind::Log => "-wal",
            Kind::Index => "-shm",
        }
    }
}

/// What was beside a database when it was looked at.
#[derive(Debug)]
pub(super) struct Beside {
    path: PathBuf,
    found: Vec<Found>,
}

#[derive(Debug)]
struct Found {
    kind: Kind,
    name: OsString,
    pin: File,
    owner: u32,
}

/// What a file beside a database turns out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Nothing that anybody could miss.
    Nothing,
    /// What its name says, of a database with something in it.
    Own,
    /// A journal with the first page of a store.
    OfStore,
    /// A journal with the first page of another program's database.
    Foreign,
    /// A journal that names another file.
    Super,
    Strange,
    /// This user may not read it, and SQLite neither.
    Unreadable,
}

/// Of a journal that would be rolled back into a store which it is not of.
const OF_ANOTHER: (&str, &str) =
    ("is of another database", "move it away, to the database that it belongs to");

impl Beside {
    /// Looks at what is in `directory` beside the database `name`, which is at `path`.
    ///
    /// # Errors
    /// When something there is a link, no regular file, or has a second name.
    pub fn look(directory: &Directory, name: &OsStr, path: &Path) -> Result<Beside, DoorError> {
        let found =
            Kind::ALL.into_iter().filter_map(|kind| Found::look(directory, name, kind, path).transpose());
        Ok(Beside { path: path.to_owned(), found: found.collect::<Result<_, _>>()? })
    }

    /// The write-ahead log, where there is one that may be read.
    pub fn log(&self) -> io::Result<Option<File>> {
        let log = self.found.iter().find(|found| found.kind == Kind::Log);
        Ok(log.map(Found::open).transpose()?.flatten())
    }

    /// Whether SQLite may work on it, with a database of this `owner` (nobody's where there is none yet) and `content`; `logged` is that of one that
    /// keeps a log and no journal. Not to be asked while this process has the database open: SQLite's locks on the index would be dropped.
    ///
    /// # Errors
    /// When something is not the database's own.
    pub fn judge(
        &self,
        owner: Option<u32>,
        content: Content,
        logged: Option<&File>,
    ) -> Result<(), DoorError> {
        let own = [Some(rustix::process::geteuid().as_raw()), owner];
        for found in &self.found {
            let failed = DoorError::system("read", &self.path);
            let held = match (found.held(), logged) {
                (Ok(Held::OfStore), Some(main)) => {
                    found.begins_log(main).map(|begins| if begins { Held::OfStore } else { Held::Own })
                }
                (held, _) => held,
            };
            let held = held.map_err(failed)?;
            let (what, remedy) = match held {
                _ if !own.contains(&Some(found.owner)) => {
                    ("belongs to another user", "remove it if nobody needs it")
                }
                Held::Foreign if content == Content::Store => OF_ANOTHER,
                // It was removed when the store began its log, unless a kill came between.
                Held::Own if found.kind == Kind::Journal && logged.is_some() && content == Content::Store => {
                    OF_ANOTHER
                }
                Held::Super => (
                    "names another file, which would be deleted with it, as no journal of ebb's does",
                    "see who made it, and move it away",
                ),
                Held::Strange => ("is not what SQLite keeps there, and would be lost", "move it away"),
                Held::Own | Held::OfStore | Held::Foreign | Held::Unreadable
                    if content == Content::Nothing =>
                {
                    (
                        "is of a database that is not there, and would be lost",
                        "put it back beside its database, or move it away",
                    )
                }
                Held::Nothing | Held::Own | Held::OfStore | Held::Foreign | Held::Unreadable => continue,
            };
            let what = format!("{} beside it {what}", found.name.shown());
            return Err(DoorError::reason(&self.path, RefusalKind::Own, what, remedy));
        }
        Ok(())
    }
}

impl Found {
    fn look(
        directory: &Directory,
        name: &OsStr,
        kind: Kind,
        path: &Path,
    ) -> Result<Option<Found>, DoorError> {
        let failed = |error| DoorError::System { what: "look at", path: path.to_owned(), source: error };
        let mut beside = name.to_owned();
        beside.push(kind.suffix());
        let Some(pin) = directory.pin(&beside).map_err(failed)? else { return Ok(None) };
        let found = pin.metadata().map_err(failed)?;
        // One that another process removes at this moment has no name any more.
        if !found.is_file() || found.nlink() > 1 {
            let what = format!("{} beside it is a link, or no file of its own", beside.shown());
            let remedy = "remove it, or choose another store";
            return Err(DoorError::reason(path, RefusalKind::NotADevice, what, remedy));
        }
        Ok(Some(Found { kind, name: beside, owner: found.uid(), pin }))
    }

    /// Opens it to be read; nothing where this user may not.
    fn open(&self) -> io::Result<Option<File>> {
        match reopen(&self.pin, OFlags::RDONLY) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(None),
            other => other.map(Some),
        }
    }

    /// Whether it is the journal with which the store `main` began its log.
    fn begins_log(&self, main: &File) -> io::Result<bool> {
        self.open()?.map_or(Ok(false), |journal| begins_log(&journal, main))
    }

    fn held(&self) -> io::Result<Held> {
        let Some(file) = self.open()? else { return Ok(Held::Unreadable) };
        if is_blank(&file)? {
            return Ok(Held::Nothing);
        }
        let is_own = match self.kind {
            Kind::Journal => match Journal::of(&file)? {
                // What a kill at a database's first write leaves.
                Journal::OfNothing => return Ok(Held::Nothing),
                Journal::Super => return Ok(Held::Super),
                Journal::OfStore => return Ok(Held::OfStore),
                Journal::OfForeign => return Ok(Held::Foreign),
                journal => journal != Journal::Other,
            },
            Kind::Log => is_log(&file)?,
            Kind::Index => is_index(&file)?,
        };
        Ok(if is_own { Held::Own } else { Held::Strange })
    }
}

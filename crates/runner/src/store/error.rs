//! What can go wrong with a store, said with its path and a remedy.

use ebbtide_model::shown::{Shown, excerpt};
use rusqlite::{Error, ErrorCode};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Neither XDG_DATA_HOME nor HOME says where user data go.
    #[error("no place for the store: neither XDG_DATA_HOME nor HOME is set; choose one with --store FILE")]
    NoHome,
    /// The directory for it cannot be made.
    #[error("cannot make the store's directory {}: {what}; choose another place with --store FILE", path.shown())]
    Directory { path: PathBuf, what: String },
    /// The file cannot be opened or made.
    #[error("cannot open the store {}: {what}; choose another one with --store FILE", path.shown())]
    Open { path: PathBuf, what: String },
    /// It may be read only.
    #[error(
        "cannot write to the store {}: it, its directory or its file system is read-only for this user", path.shown()
    )]
    ReadOnly { path: PathBuf },
    /// It is some other file.
    #[error(
        "{} is not a store of ebb: {what}; it is left as it is, choose another file with --store FILE", path.shown()
    )]
    NotAStore {
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// Written by a newer version.
    #[error(
        "the store {} has schema version {found}, written by a newer ebb; this ebb knows versions up to {known}: use the newer one, or another store with --store FILE",
        path.shown()
    )]
    Newer {
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest version this program knows.
        known: i64,
    },
    /// Of an older version, and it cannot be brought up to date.
    #[error(
        "the store {} has schema version {found} and is read-only, so that it cannot be brought up to date; copy it to where it can be written, and give the copy with --store FILE",
        path.shown()
    )]
    Older {
        path: PathBuf,
        /// Its schema version.
        found: i64,
    },
    /// Of an older version by what it says, and not by what is in it.
    #[error(
        "the store {} says that it has schema version {found}, and is not one of that version ({what}): another program has changed it; it is left as it is; put back an older copy of it, or give another store with --store FILE",
        path.shown()
    )]
    NotOfItsVersion {
        path: PathBuf,
        /// The schema version that it says.
        found: i64,
        /// What SQLite says.
        what: String,
    },
    /// It is not there any more.
    #[error(
        "the store {} was removed or replaced while it was in use{}", path.shown(),
        rescued.as_ref().map_or_else(String::new, |to| format!("; what it held is in {} now, give that with --store FILE", to.shown()))
    )]
    Gone {
        path: PathBuf,
        /// Where its content is now.
        rescued: Option<PathBuf>,
    },
    /// No space is left for the store.
    #[error("no space left for the store {}; free some on its file system, finished trials are kept", path.shown())]
    Full { path: PathBuf },
    /// Somebody else kept it locked.
    #[error("the store {} was locked by another program for more than 10 s", path.shown())]
    Busy { path: PathBuf },
    /// No session of that name.
    #[error("no session `{}` in {}; `ebb list` shows what there is, and `last` is the last one", excerpt(which), path.shown())]
    NoSession {
        /// What was asked for.
        which: String,
        path: PathBuf,
    },
    /// Several sessions begin like that.
    #[error("`{}` is the beginning of {} sessions ({}); write more of it", excerpt(which), ids.len(), some_of(ids))]
    Ambiguous {
        /// What was asked for.
        which: String,
        ids: Vec<String>,
    },
    /// What it holds of a session is not what was written.
    #[error("the store {} is damaged: {}{what}; other sessions can be read, this one from a copy of the store", path.shown(), session.as_ref().map_or_else(String::new, |id| format!("session {id}: ")))]
    Damaged {
        path: PathBuf,
        /// Which, where that is known.
        session: Option<String>,
        /// What SQLite, or reading the file, says of the damage.
        what: String,
    },
    #[error("the store {}: {what}", path.shown())]
    Other { path: PathBuf, what: String },
    /// Trials that are kept in memory alone cannot be packed or unpacked.
    #[error("the trials of this session cannot be kept in memory: {0}; run it without --no-save")]
    Memory(String),
}

fn some_of(ids: &[String]) -> String {
    let more = if ids.len() > 3 { ", ..." } else { "" };
    format!("{}{more}", ids[..ids.len().min(3)].join(", "))
}

/// That this process can open no more files, where that is so: SQLite does not tell why it cannot open one.
fn no_descriptors() -> Option<String> {
    /// The database, its log, the log's index, its directory.
    const AT_ONCE: usize = 4;
    let opened: std::io::Result<Vec<_>> =
        (0..AT_ONCE).map(|_| ebbtide_door::read::open(Path::new("/dev/null"))).collect();
    let error = opened.err()?;
    let none_left = matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE));
    none_left.then(|| format!("{error}: this process may open more with a higher `ulimit -n`"))
}

impl StoreError {
    /// That trials could not be packed or unpacked, which the same code does that stores them.
    pub(super) fn memory(error: rusqlite::Error) -> Self {
        StoreError::Memory(error.to_string())
    }

    /// The same, of the session `id`.
    pub(super) fn of(mut self, id: &str) -> Self {
        if let StoreError::Damaged { session, .. } = &mut self {
            *session = Some(id.to_owned());
        }
        self
    }

    /// What SQLite said about `path`, as a user needs it.
    pub(super) fn sqlite(path: &Path, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let damaged = |what: String| StoreError::Damaged { path: path.clone(), session: None, what };
        match &error {
            Error::FromSqlConversionFailure(_, _, why) => return damaged(why.to_string()),
            Error::IntegralValueOutOfRange(_, value) => return damaged(format!("a number in it is {value}")),
            Error::InvalidColumnType(_, column, kind) => return damaged(format!("its {column} is {kind}")),
            _ => {}
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                StoreError::NotAStore { path, what: "it is not an SQLite database".to_owned() }
            }
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
            Some(ErrorCode::SystemIoFailure) => {
                let what = match getrlimit(Resource::Fsize).current {
                    Some(most) => format!(
                        "it cannot be written ({error}): files of this process may have {most} bytes; raise it with `ulimit -f`"
                    ),
                    None => {
                        format!("its file system failed ({error}): see how much space it has, and `dmesg`")
                    }
                };
                StoreError::Other { path, what }
            }
            Some(ErrorCode::CannotOpen) => {
                StoreError::Open { path, what: no_descriptors().unwrap_or_else(|| error.to_string()) }
            }
            _ => StoreError::Other { path, what: error.to_string() },
        }
    }
}

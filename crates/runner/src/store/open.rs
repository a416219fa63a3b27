//! A store that is open, to be written or only read: sessions and trials go in one by one and come out by their number.

use super::error::StoreError;
use super::location::{self, connect, default_path, read_only};
use super::rows::{insert_session, insert_trial, trial_of, update_session};
use super::schema;
use ebbtide_door::Database;
use ebbtide_model::session::{Session, SessionMeta, TrialRecord};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Store {
    pub(super) connection: Connection,
    /// Dropped after the connection: its file is held on to for longer than SQLite has it open.
    file: Database,
}

impl Store {
    /// Opens the store at `path`, or the user's own where none is given, making it where there is none.
    ///
    /// # Errors
    /// When it cannot be made, opened or brought to this version's schema.
    pub fn open(path: Option<&Path>) -> Result<Self, StoreError> {
        let path = path.map_or_else(location::make_default, |path| Ok(path.to_owned()))?;
        let gone = || StoreError::Gone { path: path.clone(), rescued: None };
        let file = location::claim(&path, true)?.ok_or_else(gone)?;
        let mut connection = connect(&file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::prepare(&mut connection, file.path(), true)?;
        let store = Store { connection, file };
        store.still_there()?;
        Ok(store)
    }

    /// Opens a store that exists; `None` where there is none yet, or nothing in the file, which then stays as it is. One
    /// that may not be written is opened to be read.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_existing(path: Option<&Path>) -> Result<Option<Self>, StoreError> {
        let path = path.map_or_else(default_path, |path| Ok(path.to_owned()))?;
        let Some(file) = location::claim(&path, false)? else { return Ok(None) };
        let mut connection = connect(&file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let prepared = match connection.is_readonly(rusqlite::MAIN_DB) {
            Ok(true) => None,
            _ => match schema::prepare(&mut connection, file.path(), false) {
                // Its directory, its file system or the file cannot be written.
                Err(StoreError::ReadOnly { .. } | StoreError::Open { .. }) => None,
                other => Some(other?),
            },
        };
        let is_store = match prepared {
            Some(is_store) => is_store,
            None => {
                drop(connection);
                connection = read_only(&file)?;
                schema::check_read_only(&connection, file.path())?
            }
        };
        let store = Store { connection, file };
        store.still_there()?;
        Ok(is_store.then_some(store))
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Whether its path still leads to it.
    pub fn is_there(&self) -> bool {
        self.file.is_there().unwrap_or(false)
    }

    /// Fails where its path does not lead to it any more; what it holds is saved beside it.
    fn still_there(&self) -> Result<(), StoreError> {
        match self.file.is_there() {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Gone { path: self.path().to_owned(), rescued: self.rescue() }),
            Err(error) => Err(StoreError::Other {
                path: self.path().to_owned(),
                what: format!("it cannot be looked at: {error}"),
            }),
        }
    }

    /// Copies what the store holds to a new file beside the place where it was.
    fn rescue(&self) -> Option<PathBuf> {
        let beside = |number: u32| {
            let mut name = self.path().as_os_str().to_owned();
            name.push(format!(".rescued-{number}"));
            PathBuf::from(name)
        };
        // Claimed like any other: what has the names of its journal and log is somebody's.
        let claimed = |path: &PathBuf| location::claim(path, true).ok().flatten();
        let mut free = (1..100).map(beside).filter(|path| path.symlink_metadata().is_err());
        let to = free.find_map(|path| claimed(&path))?;
        let copied = self.connection.execute("VACUUM INTO ?1", [to.path().to_str()?]);
        copied.is_ok().then(|| to.path().to_owned())
    }

    /// Writes down a session that begins: everything but its trials.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(&mut self, session: &Session, plan: &serde_json::Value) -> Result<(), StoreError> {
        self.write(|connection| insert_session(connection, session, plan))
    }

    /// Writes down what became known of a session since [`Store::begin`]: inventory, warnings, its ending,
    /// and its answer in a line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn update(&mut self, meta: &SessionMeta, headline: Option<&str>) -> Result<(), StoreError> {
        self.write(|connection| update_session(connection, meta, headline))
    }

    /// Takes back a session that began and has no trial.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn forget(&mut self, id: &str) -> Result<(), StoreError> {
        self.write(|connection| {
            let sql =
                "DELETE FROM sessions WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM trials WHERE session = ?1)";
            connection.execute(sql, [id]).map(drop)
        })
    }

    /// Writes down a trial that ended; it is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add_trial(&mut self, id: &str, record: &TrialRecord) -> Result<(), StoreError> {
        self.write(|connection| insert_trial(connection, id, record))
    }

    /// Writes down sessions that have ended, each with its headline and all its trials, in one transaction: all of them or
    /// nothing.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add_all<'a>(
        &mut self,
        sessions: impl Iterator<Item = (&'a Session, String)>,
    ) -> Result<(), StoreError> {
        self.write(|connection| {
            // One that reads first and writes later fails at once where another wrote in between.
            let all = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            for (session, headline) in sessions {
                insert_session(&all, session, &serde_json::Value::Null)?;
                for record in &session.trials {
                    insert_trial(&all, &session.meta.id, record)?;
                }
                update_session(&all, &session.meta, Some(&headline))?;
            }
            all.commit()
        })
    }

    /// The full id of the session that `which` means: an id, the beginning of one, or `last`.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn resolve(&self, which: &str) -> Result<String, StoreError> {
        let mut ids: Vec<String> = self.run(|connection| {
            let sql = match which {
                "last" => "SELECT id FROM sessions ORDER BY started_unix DESC, id DESC LIMIT 1",
                _ => {
                    "SELECT id FROM sessions WHERE substr(id, 1, length(?1)) = ?1
                     ORDER BY id <> ?1, started_unix DESC"
                }
            };
            let mut statement = connection.prepare(sql)?;
            let arguments: &[&str] = if which == "last" { &[] } else { &[which] };
            statement.query_map(rusqlite::params_from_iter(arguments), |row| row.get(0))?.collect()
        })?;
        match ids.len() {
            0 => Err(StoreError::NoSession { which: which.to_owned(), path: self.path().to_owned() }),
            n if n == 1 || ids[0] == which => Ok(ids.swap_remove(0)),
            _ => Err(StoreError::Ambiguous { which: which.to_owned(), ids }),
        }
    }

    /// Hands each trial of `session` to `each`, in the order in which they ran: one at a time is in memory.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn each_trial(&self, session: &Session, mut each: impl FnMut(TrialRecord)) -> Result<(), StoreError> {
        self.run(|connection| {
            let mut statement = connection.prepare("SELECT * FROM trials WHERE session = ?1 ORDER BY idx")?;
            let mut rows = statement.query_map([&session.meta.id], trial_of)?;
            rows.try_for_each(|record| record.map(&mut each))
        })
        .map_err(|error| error.of(&session.meta.id))
    }

    /// Runs `work` on the connection and gives its error a path and a remedy.
    pub(super) fn run<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.connection).map_err(|error| StoreError::sqlite(self.path(), error))
    }

    /// The same for work that writes: what was written is in the file that its path leads to.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = self.run(work);
        self.still_there()?;
        done
    }
}

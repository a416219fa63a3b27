//! The store: sessions and their trials in one SQLite file.
//!
//! Every write is one durable transaction (WAL, `synchronous=FULL`): when [`Store::add_trial`]
//! returns, the trial survives `kill -9` and a power cut. Several processes may use a store at once.

mod encoding;
mod error;
mod location;
mod schema;
#[cfg(test)]
mod tests;

pub use error::StoreError;
pub use location::default_path;

use ebbtide_door::Database;
use ebbtide_model::plan::Trial;
use ebbtide_model::session::{Ending, Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Nanos;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, named_params, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a write waits for another process's write.
const BUSY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Store {
    connection: Connection,
    /// Dropped after the connection: its file is held on to for longer than SQLite has it open.
    file: Database,
}

/// One line of `ebb list`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Summary {
    pub id: String,
    /// Wall clock at the start, nanoseconds since the epoch.
    pub started_unix: Nanos,
    /// Name of the experiment.
    pub experiment: String,
    /// Backend, as its lower-case name.
    pub backend: String,
    /// Trials with samples.
    pub trials: u32,
    /// Trials that failed.
    pub failed: u32,
    pub ending: Ending,
    /// The answer in one line, as it read when the session ended.
    pub headline: Option<String>,
}

impl Store {
    /// Opens the store at `path`, or the user's own where none is given, making it where there is none.
    ///
    /// # Errors
    /// When it cannot be made, opened or brought to this version's schema.
    pub fn open(path: Option<&Path>) -> Result<Self, StoreError> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => location::make_default()?,
        };
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
        let path = match path {
            Some(path) => path.to_owned(),
            None => default_path()?,
        };
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
            let all = connection.unchecked_transaction()?;
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

    /// All sessions, the newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn list(&self) -> Result<Vec<Summary>, StoreError> {
        self.run(|connection| {
            let mut statement = connection.prepare(
                "SELECT id, started_unix, experiment_name, backend, ending, headline,
                     (SELECT count(samples) FROM trials WHERE session = id) AS trials,
                     (SELECT count(failure) FROM trials WHERE session = id) AS failed
                 FROM sessions ORDER BY started_unix DESC, id DESC",
            )?;
            let rows = statement.query_map([], |row| {
                Ok(Summary {
                    id: row.get("id")?,
                    started_unix: nanos(row, "started_unix")?,
                    experiment: row.get("experiment_name")?,
                    backend: row.get("backend")?,
                    trials: row.get("trials")?,
                    failed: row.get("failed")?,
                    ending: encoding::parse(&row.get::<_, String>("ending")?)?,
                    headline: row.get("headline")?,
                })
            })?;
            rows.collect()
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

    /// The session that `which` means (see [`Store::resolve`]), with all its trials.
    ///
    /// # Errors
    /// When there is none, more than one, or it cannot be read.
    pub fn load(&self, which: &str) -> Result<Session, StoreError> {
        let id = self.resolve(which)?;
        self.run(|connection| {
            let mut session = connection
                .query_row("SELECT * FROM sessions WHERE id = ?1", [&id], session_of)
                .optional()?
                .ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            let mut statement = connection.prepare("SELECT * FROM trials WHERE session = ?1 ORDER BY idx")?;
            session.trials = statement.query_map([&id], trial_of)?.collect::<Result<_, _>>()?;
            Ok(session)
        })
    }

    /// Runs `work` on the connection and gives its error a path and a remedy.
    fn run<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work(&self.connection).map_err(|error| StoreError::sqlite(self.path(), error))
    }

    /// The same for work that writes: what was written is in the file that its path leads to.
    fn write<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let done = self.run(work);
        self.still_there()?;
        done
    }
}

/// Opens `file` with `flags` beside those that every connection has; nothing of it is read yet.
fn connect(file: &Database, flags: OpenFlags) -> Result<Connection, StoreError> {
    let fail = |error| StoreError::sqlite(file.path(), error);
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(file.path(), flags).map_err(fail)?;
    connection.busy_timeout(BUSY).map_err(fail)?;
    Ok(connection)
}

/// Opens `file`, which cannot be written, or not what SQLite keeps beside it.
fn read_only(file: &Database) -> Result<Connection, StoreError> {
    let connection = connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let reads = |connection: &Connection| {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
    };
    if reads(&connection).is_ok() {
        return Ok(connection);
    }
    // What goes with a write-ahead log cannot be made here. Told that nobody changes it, SQLite reads the file alone.
    let mut log = file.path().as_os_str().to_owned();
    log.push("-wal");
    if std::fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
        tracing::warn!(
            "{}: what was written last is in its log, which cannot be read here",
            file.path().shown()
        );
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let uri = format!("file:{}?immutable=1", escaped(file.path()));
    let connection =
        Connection::open_with_flags(uri, flags).map_err(|error| StoreError::sqlite(file.path(), error))?;
    Ok(connection)
}

/// `path` as a URI has it (SQLite's "Uniform Resource Identifiers").
fn escaped(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes
        .map(|&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn insert_session(
    connection: &Connection,
    session: &Session,
    plan: &serde_json::Value,
) -> rusqlite::Result<()> {
    let meta = &session.meta;
    let inserted = connection.execute(
        "INSERT INTO sessions (id, experiment_name, backend, started_unix, ending, meta,
             experiment, experiment_text, plan)
         VALUES (:id, :name, :backend, :started, :ending, :meta, :experiment, :text, :plan)",
        named_params! {
            ":id": meta.id,
            ":name": session.experiment.name,
            ":backend": encoding::name(&meta.backend)?,
            ":started": meta.started_unix.0.cast_signed(),
            ":ending": encoding::json(&meta.ending)?,
            ":meta": encoding::json(meta)?,
            ":experiment": encoding::json(&session.experiment)?,
            ":text": session.experiment_text,
            ":plan": encoding::json(plan)?,
        },
    );
    inserted.map(|_| ())
}

fn update_session(
    connection: &Connection,
    meta: &SessionMeta,
    headline: Option<&str>,
) -> rusqlite::Result<()> {
    let updated = connection.execute(
        "UPDATE sessions SET ending = ?2, meta = ?3, headline = ?4 WHERE id = ?1",
        params![meta.id, encoding::json(&meta.ending)?, encoding::json(meta)?, headline],
    );
    updated.map(|_| ())
}

fn insert_trial(connection: &Connection, id: &str, record: &TrialRecord) -> rusqlite::Result<()> {
    let Trial { index, round, design, workload, role, seed } = record.trial;
    let (samples, failure) = match &record.outcome {
        Outcome::Samples(samples) => (Some(encoding::pack(samples)?), None),
        Outcome::Failed(why) => (None, Some(why)),
    };
    let inserted = connection.execute(
        "INSERT INTO trials (session, idx, round, design, workload, role, seed, samples, failure)
         VALUES (:session, :index, :round, :design, :workload, :role, :seed, :samples, :failure)",
        named_params! {
            ":session": id,
            ":index": index,
            ":round": round,
            ":design": design,
            ":workload": workload,
            ":role": encoding::name(&role)?,
            ":seed": seed.cast_signed(),
            ":samples": samples,
            ":failure": failure,
        },
    );
    inserted.map(|_| ())
}

fn nanos(row: &Row<'_>, column: &str) -> rusqlite::Result<Nanos> {
    row.get::<_, i64>(column).map(|value| Nanos(value.cast_unsigned()))
}

fn session_of(row: &Row<'_>) -> rusqlite::Result<Session> {
    let json = |column: &str| row.get::<_, String>(column);
    Ok(Session {
        meta: encoding::parse(&json("meta")?)?,
        experiment: encoding::parse(&json("experiment")?)?,
        experiment_text: row.get("experiment_text")?,
        trials: Vec::new(),
    })
}

fn trial_of(row: &Row<'_>) -> rusqlite::Result<TrialRecord> {
    let outcome = match row.get::<_, Option<Vec<u8>>>("samples")? {
        Some(packed) => Outcome::Samples(Box::new(encoding::unpack(&packed)?)),
        None => Outcome::Failed(row.get::<_, Option<String>>("failure")?.unwrap_or_default()),
    };
    Ok(TrialRecord {
        trial: Trial {
            index: row.get("idx")?,
            round: row.get("round")?,
            design: row.get("design")?,
            workload: row.get("workload")?,
            role: encoding::from_name(&row.get::<_, String>("role")?)?,
            seed: row.get::<_, i64>("seed")?.cast_unsigned(),
        },
        outcome,
    })
}

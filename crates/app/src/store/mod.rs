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

use ebbtide_core::plan::Trial;
use ebbtide_core::session::{Ending, Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_core::units::Nanos;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, named_params, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a write waits for another process's write.
const BUSY: Duration = Duration::from_secs(10);

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// One line of `ebb list`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Session id.
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
    /// How it ended.
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
        let mut store = Self::connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
        schema::prepare(&mut store.connection, &store.path, true)?;
        Ok(store)
    }

    /// Opens a store that exists; `None` where there is none yet, or nothing in the file, which then stays as it is.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_existing(path: Option<&Path>) -> Result<Option<Self>, StoreError> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => default_path()?,
        };
        match std::fs::metadata(&path) {
            Ok(_) => {
                let mut store = Self::connect(path, OpenFlags::empty())?;
                Ok(schema::prepare(&mut store.connection, &store.path, false)?.then_some(store))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::Open { path, what: error.to_string() }),
        }
    }

    /// Opens the file with `flags` beside those that every connection has; nothing of it is read yet.
    fn connect(path: PathBuf, flags: OpenFlags) -> Result<Self, StoreError> {
        location::check(&path)?;
        let fail = |error| StoreError::sqlite(&path, error);
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(fail)?;
        connection.busy_timeout(BUSY).map_err(fail)?;
        Ok(Store { connection, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down a session that begins: everything but its trials.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(&mut self, session: &Session, plan: &serde_json::Value) -> Result<(), StoreError> {
        self.run(|connection| insert_session(connection, session, plan))
    }

    /// Writes down what became known of a session since [`Store::begin`]: inventory, warnings, its ending,
    /// and its answer in a line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn update(&mut self, meta: &SessionMeta, headline: Option<&str>) -> Result<(), StoreError> {
        self.run(|connection| update_session(connection, meta, headline))
    }

    /// Writes down a trial that ended; it is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add_trial(&mut self, id: &str, record: &TrialRecord) -> Result<(), StoreError> {
        self.run(|connection| insert_trial(connection, id, record))
    }

    /// Writes down a session that has ended with all its trials, in one transaction: all of it or nothing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(
        &mut self,
        session: &Session,
        plan: &serde_json::Value,
        headline: &str,
    ) -> Result<(), StoreError> {
        self.run(|connection| {
            let all = connection.unchecked_transaction()?;
            insert_session(&all, session, plan)?;
            for record in &session.trials {
                insert_trial(&all, &session.meta.id, record)?;
            }
            update_session(&all, &session.meta, Some(headline))?;
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
            0 => Err(StoreError::NoSession { which: which.to_owned(), path: self.path.clone() }),
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
        work(&self.connection).map_err(|error| StoreError::sqlite(&self.path, error))
    }
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

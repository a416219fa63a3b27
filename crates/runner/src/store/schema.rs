//! The schema and how older stores are brought to it.

use super::error::StoreError;
use super::location::BUSY;
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;
use std::time::{Duration, Instant};

/// Marks a database as ours.
pub(super) const APPLICATION_ID: i64 = ebbtide_model::session::STORE_APPLICATION_ID as i64;

/// Step `n` brings a store from schema version `n` to `n + 1`. Steps are only ever appended: stores of
/// users have been through the earlier ones.
pub(super) const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE sessions (
        id              TEXT PRIMARY KEY,
        experiment_name TEXT NOT NULL,
        backend         TEXT NOT NULL,
        started_unix    INTEGER NOT NULL,     -- ns since the epoch
        ending          TEXT NOT NULL,        -- JSON
        headline        TEXT,                 -- the answer in a line, as it read when the session ended
        meta            TEXT NOT NULL,        -- JSON: seed, version, host, inventory, warnings...
        experiment      TEXT NOT NULL,        -- JSON: as it was understood
        experiment_text TEXT NOT NULL,        -- the file as it was written
        plan            TEXT NOT NULL         -- JSON
    ) STRICT;
    CREATE TABLE trials (
        session  TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        idx      INTEGER NOT NULL,            -- order in the session
        round    INTEGER NOT NULL,
        design   INTEGER NOT NULL,            -- index into the experiment's designs
        workload INTEGER NOT NULL,            -- index into the experiment's workloads
        role     TEXT NOT NULL,
        seed     INTEGER NOT NULL,
        samples  BLOB,                        -- JSON, deflated (zlib); NULL when it failed
        failure  TEXT,
        CHECK ((samples IS NULL) <> (failure IS NULL)),
        PRIMARY KEY (session, idx)
    ) STRICT;
    CREATE INDEX sessions_by_start ON sessions (started_unix);
",
    "
    -- From here on the samples of new trials are no longer JSON alone: encoding.rs.
    CREATE INDEX trials_by_design ON trials (session, design, idx);
",
    "
    -- What monitors measure: store/canary.
    CREATE TABLE canary_volumes (
        key     INTEGER PRIMARY KEY,
        id      TEXT NOT NULL UNIQUE,         -- stays the same wherever the volume is attached
        name    TEXT NOT NULL,                -- as it was called last
        host    TEXT NOT NULL,                -- where it was seen last
        last    INTEGER NOT NULL,             -- the last pass, s since the epoch
        counted TEXT                          -- JSON: what the kernel had counted then
    ) STRICT;
    CREATE TABLE canary_points (
        volume  INTEGER NOT NULL REFERENCES canary_volumes (key) ON DELETE CASCADE,
        at      INTEGER NOT NULL,             -- s since the epoch
        data    BLOB NOT NULL,                -- measures and values: canary/pack.rs
        PRIMARY KEY (volume, at)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE canary_rolled (
        volume  INTEGER NOT NULL REFERENCES canary_volumes (key) ON DELETE CASCADE,
        measure INTEGER NOT NULL,
        span    INTEGER NOT NULL,             -- s: 3600 or 86400
        chunk   INTEGER NOT NULL,             -- which 768 hours or 1024 days since the epoch
        data    BLOB NOT NULL,                -- canary/pack.rs
        PRIMARY KEY (volume, measure, span, chunk)
    ) STRICT;
",
    "
    -- What happened to volumes that are monitored: model/monitor/events.rs.
    ALTER TABLE canary_volumes ADD COLUMN found TEXT;   -- JSON: what it and its host were at the last pass
    CREATE TABLE canary_events (
        key     INTEGER PRIMARY KEY,
        volume  INTEGER NOT NULL REFERENCES canary_volumes (key) ON DELETE CASCADE,
        at      INTEGER NOT NULL,             -- s since the epoch
        data    TEXT NOT NULL                 -- JSON
    ) STRICT;
    CREATE INDEX canary_events_by_volume ON canary_events (volume, at);
",
];

/// From this version on nothing but indices and the tables of canaries was added: one that cannot be written is read as it is.
const READABLE: i64 = 1;

/// Whether `connection`, through which nothing can be written, is to a store of this version's schema; false where it is
/// empty.
pub(super) fn check_read_only(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    match check(connection, path)? {
        None => Ok(false),
        Some(version) if version >= READABLE => Ok(true),
        Some(found) => Err(StoreError::Older { path: path.to_owned(), found }),
    }
}

/// Sets up `connection` and brings its schema to this version. An empty database becomes a store only to `make` one; false
/// where it was left as it is.
pub(super) fn prepare(connection: &mut Connection, path: &Path, make: bool) -> Result<bool, StoreError> {
    let fail = |error| StoreError::sqlite(path, error);
    // The first read tells a database from any other file, before anything is changed.
    // In one transaction: another process may create the same store between two reads, and half of it would be neither
    // empty nor ours.
    let version = {
        let snapshot = connection.transaction().map_err(fail)?;
        check(&snapshot, path)?
    };
    if version.is_none() && !make {
        return Ok(false);
    }
    set_wal(connection).map_err(fail)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(fail)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(fail)?;
    if version.unwrap_or(0) < newest() {
        migrate(connection, path)?;
    }
    Ok(true)
}

fn newest() -> i64 {
    MIGRATIONS.len() as i64
}

/// The schema version of a database that is ours; nothing of an empty one.
fn check(connection: &Connection, path: &Path) -> Result<Option<i64>, StoreError> {
    let number = |sql: &str| -> Result<i64, StoreError> {
        connection.query_row(sql, [], |row| row.get(0)).map_err(|error| StoreError::sqlite(path, error))
    };
    let found = number("PRAGMA user_version")?;
    let application = number("PRAGMA application_id")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let empty = tables == 0 && application == 0 && found == 0;
    if application != APPLICATION_ID && !empty {
        let what = "it is the database of another program".to_owned();
        return Err(StoreError::NotAStore { path: path.to_owned(), what });
    }
    if found > newest() {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: newest() });
    }
    Ok((!empty).then_some(found))
}

/// All missing steps in one transaction: a kill in between leaves the old schema.
fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let fail = |error| StoreError::sqlite(path, error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    // Read again under the lock: another process may have migrated meanwhile.
    let version = check(&transaction, path)?.unwrap_or(0);
    for step in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        transaction.execute_batch(step).map_err(|error| match does_not_fit(&error) {
            Some(what) => StoreError::NotOfItsVersion { path: path.to_owned(), found: version, what },
            None => fail(error),
        })?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(fail)?;
    transaction.pragma_update(None, "user_version", newest()).map_err(fail)?;
    transaction.commit().map_err(fail)
}

/// That a statement does not fit what is there, in SQLite's words; what else may go wrong has nothing to do with versions.
fn does_not_fit(error: &rusqlite::Error) -> Option<String> {
    let (code, what) = match error {
        rusqlite::Error::SqlInputError { error, msg, .. } => (error, Some(msg)),
        rusqlite::Error::SqliteFailure(code, what) => (code, what.as_ref()),
        _ => return None,
    };
    what.filter(|_| code.extended_code == rusqlite::ffi::SQLITE_ERROR).cloned()
}

/// Write-ahead logging, where the file system can do it; elsewhere SQLite keeps its rollback journal.
/// The change of mode does not wait for other processes by itself.
fn set_wal(connection: &Connection) -> rusqlite::Result<()> {
    let begin = Instant::now();
    loop {
        let result = connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()));
        match result {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && begin.elapsed() < BUSY =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

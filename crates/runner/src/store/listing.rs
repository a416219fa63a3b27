//! Sessions in the order in which they began: all of them, one, or a page of them.

use super::error::StoreError;
use super::open::Store;
use super::rows::Summary;
use super::rows::summary_of;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

/// What a line of the list is made of, for the sessions that follow.
const COLUMNS: &str = "id, started_unix, experiment_name, backend, ending, headline,
    (SELECT count(samples) FROM trials WHERE session = id) AS trials,
    (SELECT count(failure) FROM trials WHERE session = id) AS failed";
/// The sessions that a name is part of.
const NAMED: &str = "instr(lower(experiment_name), lower(:name)) > 0";

/// Some of the sessions, the newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// One summary per session.
    pub sessions: Vec<Summary>,
    /// How many there are of that name.
    pub all: u64,
    /// Whether there are older ones.
    pub older: bool,
}

impl Store {
    /// All sessions, the newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn list(&self) -> Result<Vec<Summary>, StoreError> {
        self.run(|connection| {
            let sql = format!("SELECT {COLUMNS} FROM sessions ORDER BY started_unix DESC, id DESC");
            connection.prepare(&sql)?.query_map([], line)?.collect()
        })
    }

    /// At most `most` sessions, the newest first: those whose experiment has `name` in its name (ASCII letters of either case), and that began
    /// before the session `before`, where these are given. No other session is read.
    ///
    /// # Errors
    /// When they cannot be read, or there is no session `before`.
    pub fn some(&self, name: Option<&str>, before: Option<&str>, most: u32) -> Result<Listing, StoreError> {
        let no_session =
            |which: &str| StoreError::NoSession { which: which.to_owned(), path: self.path().to_owned() };
        let start = self.run(|connection| before.map_or(Ok(None), |id| started(connection, id)))?;
        if let (Some(before), None) = (before, start) {
            return Err(no_session(before));
        }
        self.run(|connection| {
            // Without a name, an index alone is read: a row is large.
            let (all, named) = match name {
                Some(name) => {
                    let sql = format!("SELECT count(*) FROM sessions WHERE {NAMED}");
                    (connection.query_row(&sql, named_params! { ":name": name }, |row| row.get(0))?, NAMED)
                }
                None => {
                    let sql = "SELECT count(*) FROM sessions";
                    (connection.query_row(sql, [], |row| row.get(0))?, ":name IS NULL")
                }
            };
            // The first bound is one for the index. Trials are counted of what is shown alone.
            let sql = format!(
                "SELECT {COLUMNS} FROM sessions WHERE id IN (
                     SELECT id FROM sessions WHERE {named}
                         AND started_unix <= coalesce(:start, 9223372036854775807)
                         AND (:start IS NULL OR (started_unix, id) < (:start, :before))
                     ORDER BY started_unix DESC, id DESC LIMIT :most)
                 ORDER BY started_unix DESC, id DESC"
            );
            let more = i64::from(most) + 1;
            let given = named_params! { ":name": name, ":start": start, ":before": before, ":most": more };
            let mut sessions: Vec<Summary> =
                connection.prepare(&sql)?.query_map(given, line)?.collect::<Result<_, _>>()?;
            let older = sessions.len() > most as usize;
            sessions.truncate(most as usize);
            Ok(Listing { sessions, all, older })
        })
    }

    /// The line of the session that `which` means (see [`Store::resolve`]).
    ///
    /// # Errors
    /// When there is none, more than one, or it cannot be read.
    pub fn summary(&self, which: &str) -> Result<Summary, StoreError> {
        let id = self.resolve(which)?;
        self.run(|connection| {
            connection.query_row(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1"), [&id], line)
        })
    }
}

/// When the session `id` began.
fn started(connection: &Connection, id: &str) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT started_unix FROM sessions WHERE id = ?1";
    connection.query_row(sql, [id], |row| row.get(0)).optional()
}

/// One that is damaged does not hide the others.
fn line(row: &Row<'_>) -> rusqlite::Result<Summary> {
    Ok(summary_of(row).unwrap_or_else(|error| Summary::damaged(row, &error)))
}

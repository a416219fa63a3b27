//! What passes of a monitor measured, and how it is kept for years: single values for 35 days, medians, extremes and counts of hours
//! for two years, of days for ever.
//!
//! | kept | as | for |
//! | --- | --- | --- |
//! | single values | a row for each pass | [`SINGLE_DAYS`], then rolled up by the hour |
//! | hours | packed ([`pack`]), 32 days a row | [`HOURS_DAYS`], then rolled up by the day |
//! | days | packed, 1024 days a row | ever |

mod pack;
#[cfg(test)]
mod tests;

use super::encoding;
use super::error::StoreError;
use super::open::Store;
use ebbtide_analysis::estimate::median;
use ebbtide_model::monitor::events::{Event, VolumeContext, events};
use ebbtide_model::monitor::{Measure, Pass, Value, Watched};
use ebbtide_model::units::{Nanos, UnixTime};
use pack::Cell;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::collections::BTreeMap;

/// Days for which single values are kept.
pub const SINGLE_DAYS: u64 = 35;
/// Days for which hours are kept: two years.
pub const HOURS_DAYS: u64 = 731;
const DAY_S: u64 = 86_400;
/// Passes in which the newest value of what the host did is looked for: it may have done nothing, or not be asked.
const NEWEST: u32 = 96;

/// A length of time by which values are rolled up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    seconds: u64,
    /// How many are in one row.
    chunk: u64,
}

const HOUR: Span = Span { seconds: 3600, chunk: 32 * 24 };
const DAY: Span = Span { seconds: DAY_S, chunk: 1024 };

/// A volume of the store, and what is known of it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Monitored {
    /// Its identity and names.
    #[serde(flatten)]
    pub volume: Watched,
    /// When the last pass read it.
    pub last_unix: Option<UnixTime>,
    /// Single values that are kept: passes of the last 35 days.
    pub passes: u64,
    /// What the kernel had counted at the last pass, as JSON.
    #[serde(skip)]
    counted: Option<String>,
    #[serde(skip)]
    key: i64,
}

impl Monitored {
    /// What the kernel had counted at the last pass.
    pub fn counted(&self) -> Option<ebbtide_model::monitor::Counted> {
        encoding::parse(self.counted.as_deref()?).ok()
    }
}

impl Store {
    /// Writes down what one pass of a monitor saw, all of it or nothing, and rolls up what has become old by then.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add_passes(&mut self, passes: &[Pass]) -> Result<(), StoreError> {
        let Some(now) = passes.iter().map(|pass| pass.at).max() else { return Ok(()) };
        self.write(|connection| {
            // One that reads first and writes later fails at once where another wrote in between.
            let all = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            for pass in passes {
                note_events(&all, pass)?;
                let key = volume_key(&all, pass)?;
                insert_single(&all, key, pass)?;
            }
            roll_up(&all, seconds(now))?;
            all.commit()
        })
    }

    /// The volumes that were monitored, by host and name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn monitored(&self) -> Result<Vec<Monitored>, StoreError> {
        self.run(|connection| {
            if !has(connection, "canary_volumes")? {
                return Ok(Vec::new());
            }
            let mut statement = connection.prepare(
                "SELECT key, id, name, host, last, counted,
                     (SELECT count(*) FROM canary_points WHERE volume = key) AS passes
                 FROM canary_volumes ORDER BY host, name, id",
            )?;
            let rows = statement.query_map([], |row| {
                Ok(Monitored {
                    volume: Watched { id: row.get("id")?, name: row.get("name")?, host: row.get("host")? },
                    last_unix: row.get::<_, Option<u64>>("last")?.map(UnixTime::from_secs),
                    passes: row.get("passes")?,
                    counted: row.get("counted")?,
                    key: row.get("key")?,
                })
            })?;
            rows.collect()
        })
    }

    /// What happened to a volume, the earliest first.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn events(&self, of: &Monitored) -> Result<Vec<Event>, StoreError> {
        self.run(|connection| {
            if !has(connection, "canary_events")? {
                return Ok(Vec::new());
            }
            let mut statement = connection
                .prepare_cached("SELECT data FROM canary_events WHERE volume = ?1 ORDER BY at, key")?;
            let mut rows = statement.query([of.key])?;
            let mut events = Vec::new();
            while let Some(row) = rows.next()? {
                events.push(encoding::parse(&row.get::<_, String>(0)?)?);
            }
            Ok(events)
        })
    }

    /// The newest single value of each measure of a volume, and when it was measured: of a volume that was left alone, the canary's is older
    /// than the host's load.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn newest(&self, of: &Monitored) -> Result<BTreeMap<Measure, (UnixTime, f64)>, StoreError> {
        self.run(|connection| {
            let mut newest = BTreeMap::new();
            let mut statement = connection
                .prepare_cached("SELECT at, data FROM canary_points WHERE volume = ?1 ORDER BY at DESC")?;
            let mut rows = statement.query([of.key])?;
            let mut looked = 0;
            let volume_is_known = |newest: &BTreeMap<Measure, _>| {
                [Measure::Seeks, Measure::Throughput].iter().all(|measure| newest.contains_key(measure))
            };
            while (looked < NEWEST || !volume_is_known(&newest))
                && let Some(row) = rows.next()?
            {
                looked += 1;
                let (at, data): (u64, Vec<u8>) = (row.get(0)?, row.get(1)?);
                for (number, value) in pack::single(&data) {
                    let measure = Measure::numbered(number);
                    measure.map(|m| newest.entry(m).or_insert((UnixTime::from_secs(at), value)));
                }
            }
            Ok(newest)
        })
    }

    /// What is known of `measure` of a volume, the earliest first: days where only they are kept, then hours, then single values.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn values(&self, of: &Monitored, measure: Measure) -> Result<Vec<Value>, StoreError> {
        self.run(|connection| {
            let mut values = Vec::new();
            for span in [DAY, HOUR] {
                let mut statement = connection.prepare_cached(
                    "SELECT chunk, data FROM canary_rolled WHERE volume = ?1 AND measure = ?2 AND span = ?3 ORDER BY chunk",
                )?;
                let mut rows = statement.query(params![of.key, measure.number(), span.seconds])?;
                while let Some(row) = rows.next()? {
                    let (chunk, data): (u64, Vec<u8>) = (row.get(0)?, row.get(1)?);
                    let cells = pack::unpack(&data).map_err(encoding::damaged)?;
                    let value = |cell: &Cell| value_of(cell, chunk.saturating_mul(span.chunk), span);
                    values.extend(cells.iter().map(value));
                }
            }
            let mut statement =
                connection.prepare_cached("SELECT at, data FROM canary_points WHERE volume = ?1 ORDER BY at")?;
            let mut rows = statement.query([of.key])?;
            while let Some(row) = rows.next()? {
                let (at, data): (u64, Vec<u8>) = (row.get(0)?, row.get(1)?);
                let single = pack::single(&data).find(|(number, _)| *number == measure.number());
                values.extend(single.map(|(_, value)| Value {
                    at: UnixTime::from_secs(at),
                    span: Nanos(0),
                    median: value,
                    min: value,
                    max: value,
                    count: 1,
                }));
            }
            Ok(values)
        })
    }
}

fn seconds(at: UnixTime) -> u64 {
    at.0 / Nanos::PER_SECOND
}

fn value_of(cell: &Cell, first: u64, span: Span) -> Value {
    Value {
        at: UnixTime::from_secs((first + u64::from(cell.place)).saturating_mul(span.seconds)),
        span: Nanos::from_secs(span.seconds),
        median: cell.median,
        min: cell.min,
        max: cell.max,
        count: cell.count,
    }
}

/// Whether the store is of a version that has this table: one that cannot be written stays as it is.
fn has(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = ?1";
    connection.query_row(sql, [table], |_| Ok(())).optional().map(|found| found.is_some())
}

/// Writes down what happened to the volume of `pass` since its last one.
fn note_events(connection: &Connection, pass: &Pass) -> rusqlite::Result<()> {
    let Some(now) = &pass.found else { return Ok(()) };
    let sql = "SELECT key, last, found FROM canary_volumes WHERE id = ?1 AND found IS NOT NULL";
    let last: Option<(i64, u64, String)> = connection
        .prepare_cached(sql)?
        .query_row([&pass.volume.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((key, last, before)) = last else { return Ok(()) };
    let before: VolumeContext = encoding::parse(&before)?;
    let mut statement =
        connection.prepare_cached("INSERT INTO canary_events (volume, at, data) VALUES (?1, ?2, ?3)")?;
    for event in events((UnixTime::from_secs(last), &before), (pass.at, now)) {
        statement.execute(params![key, seconds(event.at), encoding::json(&event)?])?;
    }
    Ok(())
}

/// The key of the volume of `pass`, which is written down as it is now.
fn volume_key(connection: &Connection, pass: &Pass) -> rusqlite::Result<i64> {
    let counted = pass.counted.as_ref().map(encoding::json).transpose()?;
    let found = pass.found.as_ref().map(encoding::json).transpose()?;
    let Watched { id, name, host } = &pass.volume;
    let mut statement = connection.prepare_cached(
        "INSERT INTO canary_volumes (id, name, host, last, counted, found) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (id) DO UPDATE SET name = ?2, host = ?3, last = ?4, counted = ?5, found = coalesce(?6, found)
         RETURNING key",
    )?;
    statement.query_row(params![id, name, host, seconds(pass.at), counted, found], |row| row.get(0))
}

fn insert_single(connection: &Connection, key: i64, pass: &Pass) -> rusqlite::Result<()> {
    let data = pack::singles(&pass.values);
    let mut statement = connection
        .prepare_cached("INSERT OR IGNORE INTO canary_points (volume, at, data) VALUES (?1, ?2, ?3)")?;
    let mut at = seconds(pass.at);
    // Of two passes in one second the later one is kept as that of the next second.
    while statement.execute(params![key, at, data])? == 0 {
        at += 1;
    }
    Ok(())
}

/// Rolls up what is too old at `now`, in seconds, to be kept as it is: whole days of single values, and whole rows of hours.
fn roll_up(connection: &Connection, now: u64) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT key FROM canary_volumes")?;
    let keys: Vec<i64> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for key in keys {
        roll_up_singles(connection, key, now)?;
        roll_up_hours(connection, key, now)?;
    }
    Ok(())
}

fn roll_up_singles(connection: &Connection, key: i64, now: u64) -> rusqlite::Result<()> {
    let end = now.saturating_sub(SINGLE_DAYS * DAY_S) / DAY_S * DAY_S;
    let mut statement = connection
        .prepare_cached("SELECT at, data FROM canary_points WHERE volume = ?1 AND at < ?2 ORDER BY at")?;
    let mut rows = statement.query(params![key, end])?;
    let mut of_hours: BTreeMap<(u8, u64), Vec<f64>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (at, data): (u64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        for (measure, value) in pack::single(&data) {
            of_hours.entry((measure, at / HOUR.seconds)).or_default().push(value);
        }
    }
    if of_hours.is_empty() {
        return Ok(());
    }
    let mut rolled: BTreeMap<u8, Vec<(u64, Cell)>> = BTreeMap::new();
    for ((measure, hour), values) in of_hours {
        rolled
            .entry(measure)
            .or_default()
            .extend(cell(&values, values.len() as u32).map(|cell| (hour, cell)));
    }
    for (measure, cells) in rolled {
        merge(connection, key, measure, HOUR, &cells)?;
    }
    connection.execute("DELETE FROM canary_points WHERE volume = ?1 AND at < ?2", params![key, end]).map(drop)
}

fn roll_up_hours(connection: &Connection, key: i64, now: u64) -> rusqlite::Result<()> {
    let end = now.saturating_sub(HOURS_DAYS * DAY_S) / (HOUR.seconds * HOUR.chunk);
    let mut statement = connection.prepare_cached(
        "SELECT measure, chunk, data FROM canary_rolled WHERE volume = ?1 AND span = ?2 AND chunk < ?3",
    )?;
    let old: Vec<(u8, u64, Vec<u8>)> = statement
        .query_map(params![key, HOUR.seconds, end], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    for (measure, chunk, data) in old {
        let hours = pack::unpack(&data).map_err(encoding::damaged)?;
        let day = |hour: &Cell| (chunk * HOUR.chunk + u64::from(hour.place)) / 24;
        let days: Vec<(u64, Cell)> = hours
            .chunk_by(|one, next| day(one) == day(next))
            .filter_map(|of_day| Some((day(&of_day[0]), of_several(of_day)?)))
            .collect();
        merge(connection, key, measure, DAY, &days)?;
        connection.execute(
            "DELETE FROM canary_rolled WHERE volume = ?1 AND measure = ?2 AND span = ?3 AND chunk = ?4",
            params![key, measure, HOUR.seconds, chunk],
        )?;
    }
    Ok(())
}

/// What `values`, which stand for `count` of them, come to.
fn cell(values: &[f64], count: u32) -> Option<Cell> {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(0.0, f64::max);
    Some(Cell { place: 0, median: median(values)?, min, max, count })
}

/// The median of medians, the extremes of extremes, and all values counted.
fn of_several(cells: &[Cell]) -> Option<Cell> {
    let medians: Vec<f64> = cells.iter().map(|cell| cell.median).collect();
    let all = cell(&medians, cells.iter().fold(0, |sum, cell| sum.saturating_add(cell.count)))?;
    let min = cells.iter().map(|cell| cell.min).fold(f64::INFINITY, f64::min);
    Some(Cell { min, max: cells.iter().map(|cell| cell.max).fold(0.0, f64::max), ..all })
}

/// Adds `cells`, by the numbers of their spans since the epoch, to what is stored; what is there of the same span is replaced.
fn merge(
    connection: &Connection,
    key: i64,
    measure: u8,
    span: Span,
    cells: &[(u64, Cell)],
) -> rusqlite::Result<()> {
    for of_chunk in cells.chunk_by(|one, next| one.0 / span.chunk == next.0 / span.chunk) {
        let chunk = of_chunk[0].0 / span.chunk;
        let sql =
            "SELECT data FROM canary_rolled WHERE volume = ?1 AND measure = ?2 AND span = ?3 AND chunk = ?4";
        let here = params![key, measure, span.seconds, chunk];
        let stored: Option<Vec<u8>> =
            connection.prepare_cached(sql)?.query_row(here, |row| row.get(0)).optional()?;
        let stored = stored.map(|data| pack::unpack(&data).map_err(encoding::damaged)).transpose()?;
        let mut by_place: BTreeMap<u16, Cell> =
            stored.unwrap_or_default().into_iter().map(|cell| (cell.place, cell)).collect();
        by_place.extend(of_chunk.iter().map(|(number, cell)| {
            let place = (number % span.chunk) as u16;
            (place, Cell { place, ..*cell })
        }));
        let all: Vec<Cell> = by_place.into_values().collect();
        let mut insert = connection.prepare_cached(
            "INSERT OR REPLACE INTO canary_rolled (volume, measure, span, chunk, data) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        insert.execute(params![key, measure, span.seconds, chunk, pack::pack(&all)])?;
    }
    Ok(())
}

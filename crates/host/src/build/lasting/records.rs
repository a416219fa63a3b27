//! Records on disk: each is replaced as a whole, durably.

use super::{Failure, Keeper};
use crate::{at_work, kept, sys};
use ebbtide_door::own::Locked;
use ebbtide_door::{Directory, own};
use ebbtide_provision::Record;
use std::path::PathBuf;

/// Longest record: a design has at most some hundred members.
const LONGEST: u64 = 16 << 20;

/// A record that says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Path of the record.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

impl Keeper<'_> {
    /// Holds off every other `ebb` that would change what stays on this host, until it is dropped; `command` is at work on `name`.
    ///
    /// # Errors
    /// When another one is at it, or there can be no records.
    pub(super) fn lock(&self, command: &str, name: &str) -> Result<Locked, Failure> {
        let place = self.place();
        kept::is_trusted_place(&self.sys, &place).map_err(Failure::Refused)?;
        Directory::make_all(&place).map_err(|error| Failure::file(&place, error))?;
        let taken = at_work::take(&self.sys, &place, command, name);
        let taken = taken.and_then(|taken| taken.map(|lock| lock.inherit().map(|()| lock)).transpose());
        taken
            .map_err(|error| Failure::file(&place, error))?
            .ok_or_else(|| Failure::Refused(at_work::refusal(&self.sys, &place, "`ebb apply` or `ebb undo`")))
    }

    /// Every record of this host, by name.
    pub fn records(&self) -> Vec<Result<Record, Unreadable>> {
        let place = self.place();
        let names = sys::names(&place);
        let names =
            names.iter().filter_map(|name| name.strip_suffix(".json")).filter(|name| !name.starts_with('.'));
        names.filter_map(|name| self.record(name).transpose()).collect()
    }

    /// The record of `name`; nothing where there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn record(&self, name: &str) -> Result<Option<Record>, Unreadable> {
        let path = self.place().join(format!("{name}.json"));
        let fail = |what: String| Unreadable { path: path.clone(), what };
        let record: Option<Record> = kept::record(&self.sys, &path, Record::SCHEMA, LONGEST).map_err(fail)?;
        match record.as_ref().map(|record| &record.desired.name).filter(|found| *found != name) {
            Some(found) => Err(fail(format!("it is a record of {found}"))),
            None => Ok(record),
        }
    }

    /// Puts `record` on disk.
    pub(super) fn write(&self, record: &Record) -> Result<(), Failure> {
        let path = self.path_of(record);
        let mut text = serde_json::to_vec_pretty(record).map_err(|error| Failure::file(&path, error))?;
        text.push(b'\n');
        own::replace(&path, &text).map_err(|error| Failure::file(&path, error))?;
        (self.boundary)();
        Ok(())
    }

    /// Takes `record` away: there is nothing any more that it is of.
    pub(super) fn forget(&self, record: &Record) -> Result<(), Failure> {
        let path = self.path_of(record);
        own::remove(&path).map_err(|error| Failure::file(&path, error))?;
        (self.boundary)();
        Ok(())
    }
}

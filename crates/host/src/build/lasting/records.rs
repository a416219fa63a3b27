//! Records on disk: each is replaced as a whole, durably.

use super::{Failure, Keeper, RECORDS};
use crate::kept;
use crate::made::records::{LONGEST, names};
use ebbtide_door::own::Locked;
use ebbtide_model::made::Kind;
use ebbtide_provision::Record;
use std::time::Duration;

impl Keeper<'_> {
    /// Holds off every other `ebb` that would change what stays on this host, until it and what it has started end; `command` is at work on `name`.
    ///
    /// # Errors
    /// When another one is at it, or there can be no records.
    pub(super) fn lock(&self, command: &str, name: &str) -> Result<Locked, Failure> {
        let locked = self.lock_records(RECORDS, Kind::Array, (command, name), Duration::ZERO)?;
        locked.inherit().map_err(|error| Failure::file(&self.place(), error))?;
        Ok(locked)
    }

    /// Every record of this host, by name.
    pub fn records(&self) -> Vec<Result<Record, Failure>> {
        let names = names(&self.sys, RECORDS);
        names.iter().filter_map(|name| self.record(name).transpose()).collect()
    }

    /// The record of `name`; nothing where there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn record(&self, name: &str) -> Result<Option<Record>, Failure> {
        let path = self.path_of(name);
        let fail = |what: String| Failure::file(&path, what);
        let record: Option<Record> = kept::record(&self.sys, &path, Record::SCHEMA, LONGEST).map_err(fail)?;
        match record.as_ref().map(|record| &record.desired.name).filter(|found| *found != name) {
            Some(found) => Err(fail(format!("it is a record of {found}"))),
            None => Ok(record),
        }
    }

    /// Puts `record` on disk.
    pub(super) fn write(&self, record: &Record) -> Result<(), Failure> {
        self.put_record(&self.path_of(&record.desired.name), record)?;
        (self.boundary)();
        Ok(())
    }

    /// Takes `record` away.
    pub(super) fn forget(&self, record: &Record) -> Result<(), Failure> {
        self.forget_record(&self.path_of(&record.desired.name))
    }
}

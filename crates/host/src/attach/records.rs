//! Records on disk, and what is known of volumes that were formatted here once.

use super::{Attacher, Failure, RECORDS};
use crate::{at_work, kept, sys};
use ebbtide_door::own::Locked;
use ebbtide_door::{Directory, own};
use ebbtide_model::shown::Shown;
use ebbtide_provision::attached::{Place, Record, Step};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Longest record.
const LONGEST: u64 = 1 << 20;

/// What has to be known of a volume after it was detached. One that carried a LUKS header is never formatted again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    /// Where it is.
    pub place: Place,
    /// UUID in the LUKS header, where it had one.
    pub uuid: Option<String>,
    /// UUID of whatever else it carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carries: Option<String>,
    /// Where the copy of its header is.
    pub backup: Option<PathBuf>,
}

impl Known {
    /// UUID of what it carries.
    pub(super) fn carries(self) -> Option<String> {
        self.carries.or(self.uuid)
    }
}

impl Attacher<'_> {
    /// Directory of the records.
    pub(super) fn place(&self) -> PathBuf {
        self.sys.root().join(RECORDS)
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.place().join(format!("{name}.json"))
    }

    fn known_path(&self, name: &str) -> PathBuf {
        self.place().join(format!("{name}.known"))
    }

    /// Holds off every other `ebb` that would attach or detach on this host, until it is dropped; `command` is at work on `name`.
    pub(super) fn lock(&self, command: &str, name: &str) -> Result<Locked, Failure> {
        let place = self.place();
        kept::is_trusted_place(&self.sys, &place).map_err(Failure::Refused)?;
        Directory::make_all(&place).map_err(|error| Failure::file(&place, error))?;
        let taken = at_work::take(&self.sys, &place, command, name);
        taken.map_err(|error| Failure::file(&place, error))?.ok_or_else(|| {
            Failure::Refused(at_work::refusal(&self.sys, &place, "`ebb attach` or `ebb undo`"))
        })
    }

    /// Every record of this host, by name; those that cannot be read with why.
    pub fn records(&self) -> Vec<Result<Record, Failure>> {
        let names = sys::names(&self.place());
        let names =
            names.iter().filter_map(|name| name.strip_suffix(".json")).filter(|name| !name.starts_with('.'));
        names.filter_map(|name| self.record(name).transpose()).collect()
    }

    /// The record of `name`; nothing where there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn record(&self, name: &str) -> Result<Option<Record>, Failure> {
        let path = self.path_of(name);
        let fail = |what: String| Failure::file(&path, what);
        let record: Option<Record> = kept::record(&self.sys, &path, Record::SCHEMA, LONGEST).map_err(fail)?;
        match record.as_ref().map(|record| &record.name).filter(|found| *found != name) {
            Some(found) => Err(fail(format!("it is a record of {found}"))),
            None => Ok(record),
        }
    }

    /// Puts `record` on disk.
    pub(super) fn write(&self, record: &Record) -> Result<(), Failure> {
        self.put(record)?;
        (self.boundary)();
        Ok(())
    }

    /// The same where nothing more is to be made: who is killed after this has ended.
    pub(super) fn put(&self, record: &Record) -> Result<(), Failure> {
        let path = self.path_of(&record.name);
        let mut text = serde_json::to_vec_pretty(record).map_err(|error| Failure::file(&path, error))?;
        text.push(b'\n');
        own::replace(&path, &text).map_err(|error| Failure::file(&path, error))
    }

    /// Notes that `step` is about to be done.
    pub(super) fn begin(&self, record: &mut Record, step: Step) -> Result<(), Failure> {
        if record.begun.insert(step) {
            self.write(record)?;
        }
        self.next()
    }

    /// Takes `record` away.
    pub(super) fn forget(&self, record: &Record) -> Result<(), Failure> {
        let path = self.path_of(&record.name);
        own::remove(&path).map_err(|error| Failure::file(&path, error))?;
        (self.boundary)();
        Ok(())
    }

    /// What is known of the volume at `place`, under whatever name it was attached, and the file that says so.
    pub(super) fn known(&self, place: &Place) -> Option<(Known, PathBuf)> {
        let names = sys::names(&self.place());
        let paths =
            names.iter().filter_map(|name| name.strip_suffix(".known")).map(|name| self.known_path(name));
        let mut known = paths.filter_map(|path| {
            let known: Known = serde_json::from_slice(&kept::bytes(&self.sys, &path, LONGEST).ok()??).ok()?;
            Some((known, path))
        });
        known.find(|(known, _)| known.place == *place)
    }

    /// Keeps what has to be known of the volume of `record` after it is detached.
    pub(super) fn keep_known(&self, record: &Record) -> Result<(), Failure> {
        let before = self.known(&record.place);
        let opened = record.encryption.as_ref().filter(|_| record.begun.contains(&Step::Open));
        // A header that was there once is not forgotten where the volume is attached without it.
        let (uuid, backup) = match (opened, &before) {
            (Some(encrypted), _) => {
                (Some(encrypted.uuid.clone()), encrypted.backup.as_ref().map(|backup| backup.path.clone()))
            }
            (None, Some((before, _))) => (before.uuid.clone(), before.backup.clone()),
            (None, None) => (None, None),
        };
        let known = Known { place: record.place.clone(), uuid, carries: record.carries.clone(), backup };
        if known.uuid.is_none() && known.carries.is_none() {
            return Ok(());
        }
        let path = self.known_path(&record.name);
        let text = serde_json::to_vec_pretty(&known).map_err(|error| Failure::file(&path, error))?;
        own::replace(&path, &text).map_err(|error| Failure::file(&path, error))?;
        // Under another name it is not what it was any more.
        match before.filter(|(_, old)| *old != path) {
            Some((_, old)) => own::remove(&old).map_err(|error| Failure::file(&old, error)),
            None => Ok(()),
        }
    }

    /// That a volume which carried a LUKS header once is not formatted again; nothing where nothing is known of it.
    pub(super) fn never_again(&self, record: &Record) -> Option<Failure> {
        let (known, path) = self.known(&record.place)?;
        let uuid = known.uuid?;
        let backup = known.backup.map_or_else(
            || "if its data may be lost".to_owned(),
            |backup| format!("attach it with --header-backup {}; if its data may be lost", backup.shown()),
        );
        Some(Failure::Refused(format!(
            "{} carried a LUKS header with uuid {} when it was attached last, and has none now: it is not formatted a second time; {backup}, remove {}",
            record.place,
            uuid,
            path.shown()
        )))
    }
}

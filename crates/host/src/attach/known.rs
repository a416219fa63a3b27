//! What is known of volumes that were attached here once.

use super::Attachments;
use crate::made::Failure;
use crate::{kept, sys};
use ebbtide_door::own;
use ebbtide_model::shown::Shown;
use ebbtide_provision::attached::{Place, Record};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Longest file of it.
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

impl Attachments<'_> {
    fn known_path(&self, name: &str) -> PathBuf {
        self.place().join(format!("{name}.known"))
    }

    /// What is known of the volume at `place`, under whatever name it was attached, and the file that says so.
    pub(super) fn remembered(&self, place: &Place) -> Option<(Known, PathBuf)> {
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
        let before = self.remembered(&record.place);
        let opened = record.encryption.as_ref().filter(|_| record.has_begun("mapping"));
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
        let (known, path) = self.remembered(&record.place)?;
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

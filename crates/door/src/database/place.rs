//! The directory of a database: who may make files in it decides what SQLite works on, whatever was judged before.

use crate::directory::Directory;
use crate::door::DoorError;
use ebbtide_model::guard::RefusalKind;
use ebbtide_model::shown::Shown;
use rustix::fs::Mode;
use rustix::process::{getegid, geteuid};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Judges the directory that the database `path` is in; says so where another user than root may make files in it.
///
/// # Errors
/// When everybody may, a sticky directory like /tmp included: a journal that is not there yet is anybody's to make.
pub(super) fn judge(directory: &Directory, path: &Path) -> Result<(), DoorError> {
    let failed =
        |error: io::Error| DoorError::System { what: "look at", path: path.to_owned(), source: error };
    let found = directory.metadata().map_err(failed)?;
    let shown = directory.path().shown();
    if Mode::from_raw_mode(found.mode()).contains(Mode::WOTH) {
        return Err(DoorError::reason(
            path,
            RefusalKind::Own,
            format!("everybody may make files beside it in {shown}"),
            "choose a directory that is yours alone",
        ));
    }
    if let Some(who) = others(&found) {
        tracing::warn!("{}: {who} may make files beside it in {shown}", path.shown());
    }
    Ok(())
}

/// Who else may make files in the directory `found`, in words; not a group that this user is in first, which on many hosts is
/// the user's alone.
fn others(found: &Metadata) -> Option<&'static str> {
    let theirs = |id: u32, own: u32| id != 0 && id != own;
    if theirs(found.uid(), geteuid().as_raw()) {
        return Some("another user, whose directory it is,");
    }
    let group = Mode::from_raw_mode(found.mode()).contains(Mode::WGRP);
    (group && theirs(found.gid(), getegid().as_raw())).then_some("another group")
}

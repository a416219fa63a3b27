//! Records of exports: what was made, for whom, and what brings it back.

use super::error::ExportError;
use crate::kept;
use crate::sys::{self, Sys};
use ebbtide_door::Directory;
use ebbtide_door::own::{self, Locked};
use ebbtide_model::export::Export;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Directory of the records, one file for each export; it outlives a boot.
pub const RECORDS: &str = "/var/lib/ebbtide/exports";
/// Longest record.
const LONGEST: u64 = 1 << 20;
/// How long another `ebb` that changes exports is waited for: several clients may come at once.
pub(super) const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });
/// The same at boot, when all persistent ones come back at once.
pub(super) const PATIENCE_AT_BOOT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 150 });
/// What tells this host's exports from those of others, made with the first of them.
const HOST: &str = "host";

fn place(sys: &Sys) -> PathBuf {
    sys.at(Path::new(RECORDS))
}

fn path(sys: &Sys, name: &str) -> PathBuf {
    place(sys).join(format!("{name}.json"))
}

/// Holds off every other `ebb` that would change exports, until it is dropped; one that is at work is waited for.
pub(super) fn lock(sys: &Sys, patience: Duration) -> Result<Locked, ExportError> {
    let place = place(sys);
    kept::is_trusted_place(sys, &place).map_err(|what| ExportError::File { path: place.clone(), what })?;
    let fail = |error| ExportError::file(&place, error);
    Directory::make_all(&place).map_err(fail)?;
    let until = Instant::now() + patience;
    loop {
        match own::try_lock(&place.join("lock")).map_err(fail)? {
            Some(locked) => return Ok(locked),
            None if Instant::now() >= until => return Err(ExportError::AtWork),
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The record of the export `name`; nothing where there is none.
pub(super) fn of(sys: &Sys, name: &str) -> Result<Option<Export>, ExportError> {
    let path = path(sys, name);
    let fail = |what: String| ExportError::File { path: path.clone(), what };
    let export: Option<Export> = kept::record(sys, &path, Export::SCHEMA, LONGEST).map_err(fail)?;
    match export.as_ref().map(|export| &export.name).filter(|found| *found != name) {
        Some(found) => Err(fail(format!("it is a record of {found}"))),
        None => Ok(export),
    }
}

/// All records, by name.
pub(super) fn all(sys: &Sys) -> Result<Vec<Export>, ExportError> {
    let names = sys::names(&place(sys));
    let names = names.iter().filter_map(|name| name.strip_suffix(".json"));
    let found = names.filter(|name| !name.starts_with('.')).filter_map(|name| of(sys, name).transpose());
    found.collect()
}

/// Puts `export` on disk.
pub(super) fn write(sys: &Sys, export: &Export) -> Result<(), ExportError> {
    let path = path(sys, &export.name);
    let mut text = serde_json::to_vec_pretty(export).map_err(|error| ExportError::file(&path, error))?;
    text.push(b'\n');
    own::replace(&path, &text).map_err(|error| ExportError::file(&path, error))
}

/// Takes the record of `name` away.
pub(super) fn forget(sys: &Sys, name: &str) -> Result<(), ExportError> {
    let path = path(sys, name);
    own::remove(&path).map_err(|error| ExportError::file(&path, error))
}

/// What targets of this host are called after, as far as it is known by now.
pub(super) fn known_host(sys: &Sys) -> String {
    sys::word(&place(sys).join(HOST)).unwrap_or_else(|| "HOST".to_owned())
}

/// What targets of this host are called after: its name, and signs that no other host has.
pub(super) fn host(sys: &Sys) -> Result<String, ExportError> {
    let path = place(sys).join(HOST);
    if let Some(host) = sys::word(&path) {
        return Ok(host);
    }
    let random = sys::word(&sys.proc.join("sys/kernel/random/uuid")).unwrap_or_default();
    let random = random.split('-').next().filter(|random| !random.is_empty()).unwrap_or("0").to_owned();
    let name = sys::word(&sys.proc.join("sys/kernel/hostname")).unwrap_or_default().to_ascii_lowercase();
    let name: String = name.split('.').next().unwrap_or_default().chars().take(40).collect();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let host = format!("{name}-{random}");
    let host = host.trim_start_matches('-').to_owned();
    own::replace(&path, format!("{host}\n").as_bytes()).map_err(|error| ExportError::file(&path, error))?;
    Ok(host)
}

/// The boot that a record is of: what tells it from others, empty where the host does not say.
pub(super) fn boot(sys: &Sys) -> String {
    sys.boot().unwrap_or_default()
}

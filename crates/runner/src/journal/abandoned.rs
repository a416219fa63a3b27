//! What runs that ended left behind, as their journals say.

use super::file::parse;
use crate::RunnerError;
use ebbtide_door::{Directory, Log};
use ebbtide_host::judge::{self, Program};
use ebbtide_host::sys::Sys;
use ebbtide_model::journal::{Entry, Leftover, leftovers};
use ebbtide_model::plan::build::{BuildUndo, Mounted};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a run that ended left behind.
#[derive(Debug)]
pub struct Abandoned {
    /// Name of the run: its session id.
    pub run: String,
    /// What to put back, in this order.
    pub left: Vec<Leftover>,
    /// Labels of the file systems and swap spaces that it made, whether they were wiped or not.
    pub(super) labels: Vec<String>,
    /// Locked, so that only one cleanup works on it.
    pub(super) log: Log,
}

/// What runs that ended left behind.
#[derive(Debug, Default)]
pub struct LeftBehind {
    /// Those whose journals say what is to be put back.
    pub abandoned: Vec<Abandoned>,
    /// Runs whose journals somebody holds: they live, or what they started does.
    pub held: Vec<Held>,
    /// Journals that could not be read: their path, and why with what to do.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// A run whose journal is locked.
#[derive(Debug)]
pub struct Held {
    /// Name of the run: its session id.
    pub run: String,
    /// Device and inode number of its journal.
    journal: (u64, u64),
}

impl Held {
    /// Who holds it; nobody where they ended meanwhile, or may not be seen.
    pub fn by(&self) -> Vec<Program> {
        judge::programs_with(&Sys::host(), self.journal)
    }
}

/// The journal at `path`, where it is still there.
fn held(place: &Directory, path: &Path, run: String) -> Option<Held> {
    let found = place.look(path.file_name()?).ok()??;
    Some(Held { run, journal: (found.dev(), found.ino()) })
}

/// All runs below `directory` that no longer live. One journal that cannot be read keeps no other from being found.
///
/// # Errors
/// When the directory cannot be read.
pub fn abandoned(directory: &Path) -> Result<LeftBehind, RunnerError> {
    let fail = |error| RunnerError::Journals { directory: directory.to_owned(), error };
    let place = match Directory::open(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(LeftBehind::default()),
        other => other.map_err(fail)?,
    };
    let mut names: Vec<OsString> =
        std::fs::read_dir(directory).map_err(fail)?.flatten().map(|entry| entry.file_name()).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "jsonl"));
    names.sort();
    let mut found = LeftBehind::default();
    for name in names {
        let path = directory.join(&name);
        let run = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let named = run.clone();
        let read = Log::of_the_dead(&place, name).and_then(|log| {
            let Some(mut log) = log else { return Ok(None) };
            log.check_writers()?;
            let entries = parse(&log.lines()?)?;
            let left = name_mounted(leftovers(&entries));
            Ok(Some(Abandoned { run: named, left, labels: labels(&entries), log }))
        });
        match read {
            Ok(None) => found.held.extend(held(&place, &path, run)),
            Ok(Some(abandoned)) => found.abandoned.push(abandoned),
            Err(error) => {
                let remedy = "see what it says was made, put it back by hand, and remove the journal";
                found.unreadable.push((path, format!("{error}; {remedy}")));
            }
        }
    }
    Ok(found)
}

/// Labels of what a run with these entries made.
fn labels(entries: &[Entry]) -> Vec<String> {
    let given = entries.iter().filter_map(|entry| match entry {
        Entry::Step { undo: BuildUndo::WipeContent { label, .. }, .. } => Some(label),
        _ => None,
    });
    given.cloned().collect()
}

/// Fills in what was mounted where a journal of an earlier version does not say: the file system that was made last
/// before.
pub(super) fn name_mounted(mut left: Vec<Leftover>) -> Vec<Leftover> {
    let mut made = None;
    for leftover in left.iter_mut().rev() {
        match leftover {
            Leftover::Step { undo: BuildUndo::WipeContent { device, .. }, .. } => made = Some(device.clone()),
            Leftover::Step { undo: BuildUndo::Unmount { from: from @ None, .. }, .. } => {
                *from = made.clone().map(|device| Mounted { device, fstype: None, number: None });
            }
            _ => {}
        }
    }
    left
}

//! Where passes are kept, and where their figures go.

use crate::cli::globals::Globals;
use crate::error::CliError;
use ebbtide_door::read;
use ebbtide_host::build::lasting::monitor::is_installed;
use ebbtide_host::judge;
use ebbtide_host::sys::Sys;
use ebbtide_model::shown::Shown;
use ebbtide_provision::monitor::{PAUSE, STORE};
use ebbtide_runner::places;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The store that passes are read from: the one that is named, else that of the service that `ebb monitor install` installed, where this
/// user may read it; nothing for the user's own.
pub fn store(globals: &Globals) -> Option<PathBuf> {
    let of_service = || {
        let store = Path::new(STORE);
        (is_installed(&Sys::host()) && store.is_file()).then(|| store.to_owned())
    };
    globals.store.clone().or_else(of_service)
}

/// What pauses the passes that are kept in `store`: the service's has one of its own.
pub fn pause_file(store: Option<&Path>) -> Option<PathBuf> {
    match store {
        Some(store) if store == Path::new(STORE) => Some(PathBuf::from(PAUSE)),
        _ => places::pause_file(),
    }
}

/// What every file of figures begins with.
const FIGURES: &[u8] = b"# HELP ebbtide_";

/// That figures may replace `file`: it is named as node_exporter reads it, and has figures already, or nothing, or is not there.
///
/// # Errors
/// Wrong usage, with what to name instead.
pub fn can_hold_figures(file: &Path) -> Result<(), CliError> {
    let wrong = |what: &str| CliError::Usage(format!("--metrics {}: {what}", file.shown()));
    judge::door().output(file).map(drop).map_err(|error| CliError::Usage(error.to_string()))?;
    if file.extension().is_none_or(|extension| extension != "prom") {
        return Err(wrong("node_exporter reads names that end with .prom: name such a file"));
    }
    let mut start = Vec::new();
    let read = read::open(file).and_then(|file| file.take(FIGURES.len() as u64).read_to_end(&mut start));
    match read {
        Ok(_) if start.is_empty() || start == FIGURES => Ok(()),
        Ok(_) => {
            Err(wrong("something else is in it, which would be lost: name another file, or move it away"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(wrong(&format!("what is in it cannot be read ({error}): name another file"))),
    }
}

//! Where passes are kept, and where their figures go.

use crate::cli::globals::Globals;
use crate::error::CliError;
use ebbtide_door::configuration::{self, Configured};
use ebbtide_door::read::{self, ReadError};
use ebbtide_host::monitor::is_installed;
use ebbtide_host::sys::Sys;
use ebbtide_model::shown::Shown;
use ebbtide_provision::monitor::{PAUSE, STORE};
use ebbtide_runner::places;
use std::io::ErrorKind;
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

/// Bytes of the longest file of figures.
const LONGEST: u64 = 64 << 20;

/// Whether every line of `text` is of figures of ebb's.
fn is_figures(text: &str) -> bool {
    let begins = ["# HELP ebbtide_", "# TYPE ebbtide_", "# UNIT ebbtide_", "# EOF", "ebbtide_"];
    text.lines().all(|line| line.is_empty() || begins.iter().any(|begin| line.starts_with(begin)))
}

/// The figures in `file`; nothing where there is no such file.
fn figures_in(file: &Path) -> Result<Option<String>, CliError> {
    let wrong = |what: &str| CliError::Usage(format!("--metrics {}: {what}", file.shown()));
    match read::text(file, LONGEST) {
        Ok(text) if is_figures(&text) => Ok(Some(text)),
        Ok(_) => {
            Err(wrong("something else is in it, which would be lost: name another file, or move it away"))
        }
        Err(ReadError::System(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(&format!("what is in it is not known ({error}): name another file"))),
    }
}

/// That figures may replace `file`: it is named as node_exporter reads it, and has nothing but figures, or is not there.
///
/// # Errors
/// Wrong usage, with what to name instead.
pub fn can_hold_figures(file: &Path) -> Result<(), CliError> {
    configuration::may_replace(file).map_err(|error| CliError::Usage(error.to_string()))?;
    if file.extension().is_none_or(|extension| extension != "prom") {
        let what = "node_exporter reads names that end with .prom: name such a file";
        return Err(CliError::Usage(format!("--metrics {}: {what}", file.shown())));
    }
    figures_in(file).map(drop)
}

/// Gives `file` these figures. Who collects them is another user, and may read them.
///
/// # Errors
/// As [`can_hold_figures`], or when it cannot be written.
pub fn write_figures(file: &Path, text: &str) -> Result<(), CliError> {
    for _ in 0..10 {
        let now = figures_in(file)?;
        let now = now.as_ref().map(String::as_bytes);
        let done = configuration::replace(file, now, text.as_bytes(), 0o644).map_err(CliError::failed)?;
        if done == Configured::Written {
            return Ok(());
        }
    }
    Err(CliError::Failed(format!(
        "{}: other programs write it all the time; name another file",
        file.shown()
    )))
}

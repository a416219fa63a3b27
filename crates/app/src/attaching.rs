//! What `ebb attach`, `ebb undo` and `ebb status` share: this host's keeper of what is attached.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::{keeping, views};
use ebbtide_host::attach::{Attacher, Failure, Real};
use ebbtide_host::sys::Sys;
use ebbtide_runner::journal::JournalFile;
use ebbtide_runner::kernel::telling::Telling;
use ebbtide_runner::{clock, places};
use std::sync::atomic::AtomicBool;

/// Does `what` with the keeper of this host, in the surroundings `real`. What changes something has a journal of its own.
///
/// # Errors
/// As `what`, and when there is no place for a journal.
pub fn with<T>(
    globals: &Globals,
    real: &Real<'_>,
    stop: &AtomicBool,
    changes: bool,
    what: impl FnOnce(&Attacher<'_>) -> Result<T, Failure>,
) -> Result<T, CliError> {
    let quiet = globals.quiet || globals.json;
    let runner = Telling(if globals.quiet { |_| {} } else { |line| views::say(&format!("ebb: {line}")) });
    let boundary = keeping::boundary();
    let tell = |line: &str| {
        if !quiet {
            views::say(&format!("ebb: {line}"));
        }
    };
    // The process that keeps an SSH connection outlives this one, and must not hold its journal.
    let journal = match changes {
        true => Some(JournalFile::alone(&places::journals()?, &clock::session_id())),
        false => None,
    };
    let keeper = Attacher {
        sys: Sys::host(),
        runner: &runner,
        around: real,
        tell: &tell,
        stop,
        boundary: &boundary,
        journal: journal.as_ref().map(|journal| journal as _),
    };
    what(&keeper).map_err(failed)
}

/// How a command ends that failed so.
pub fn failed(error: Failure) -> CliError {
    match error {
        Failure::Stopped => CliError::Interrupted("what was made was taken away".to_owned()),
        other => CliError::Failed(other.to_string()),
    }
}

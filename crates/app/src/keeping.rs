//! What all commands share that make something to stay, look at it or take it away: this host.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views;
use ebbtide_host::build::BuildError;
use ebbtide_host::build::lasting::{Keeper, Planned};
use ebbtide_host::command::Remembering;
use ebbtide_host::made::{Context, Failure, Host, ThisHost};
use ebbtide_host::mounting;
use ebbtide_host::sys::Sys;
use ebbtide_model::shown::Shown;
use ebbtide_runner::journal::JournalFile;
use ebbtide_runner::kernel::telling::Telling;
use ebbtide_runner::{clock, places};
use std::cell::Cell;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// For tests: kills this process at that boundary between two changes.
const VARIABLE: &str = "EBB_TEST_HALT";

/// Fails unless this user may ask and change the devices of the host.
///
/// # Errors
/// That root is needed for `command`.
pub fn needs_root(command: &str) -> Result<(), CliError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(CliError::Failed(format!(
        "`{command}` works on the devices of this host and needs root: run it with sudo"
    )))
}

/// What is called between any two changes.
pub fn boundary() -> impl Fn() {
    let left: Cell<Option<u64>> = Cell::new(std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()));
    move || match left.get() {
        Some(0) => {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        Some(count) => left.set(Some(count - 1)),
        None => {}
    }
}

/// Where `path` leads on this host: what is written down and mounted has no symbolic link in it.
///
/// # Errors
/// When it cannot be a directory.
pub fn mount_point(path: &Path, quiet: bool) -> Result<PathBuf, CliError> {
    let real = mounting::followed(&Sys::host(), path).map_err(CliError::failed)?;
    if !quiet && real.components().ne(path.components()) {
        views::say(&format!("ebb: {} leads to {}: that is the mount point", path.shown(), real.shown()));
    }
    Ok(real)
}

/// Runs programs, and says what is waited for unless nothing is to be said.
pub fn telling(globals: &Globals) -> Telling {
    Telling(if globals.quiet { |_| {} } else { |line| views::say(&format!("ebb: {line}")) })
}

/// Does `what` on this host; with `notes`, what is under way is written down in a journal of its own.
///
/// # Errors
/// As `what`, and when there is no place for a journal.
pub fn on_host<T>(
    globals: &Globals,
    host: &dyn Host,
    stop: &AtomicBool,
    notes: bool,
    what: impl FnOnce(&Context<'_>) -> Result<T, Failure>,
) -> Result<T, CliError> {
    let quiet = globals.quiet || globals.json();
    let runner = Remembering::new(telling(globals));
    let boundary = boundary();
    let tell = |line: &str| {
        if !quiet {
            views::say(&format!("ebb: {line}"));
        }
    };
    // A process that keeps an SSH connection outlives this one, and must not hold its journal.
    let journal = match notes {
        true => Some(JournalFile::alone(&places::journals()?, &clock::session_id())),
        false => None,
    };
    let journal = journal.as_ref().map(|journal| journal as _);
    what(&Context {
        sys: Sys::host(),
        runner: &runner,
        host,
        journal,
        tell: &tell,
        stop,
        boundary: &boundary,
    })
    .map_err(failed)
}

/// Does `what` with this host's keeper of the arrays that stay.
///
/// # Errors
/// As `what`.
pub fn with<T>(
    globals: &Globals,
    stop: &AtomicBool,
    what: impl FnOnce(&Keeper<'_>) -> Result<T, Failure>,
) -> Result<T, CliError> {
    on_host(globals, &ThisHost, stop, false, |context| {
        // What stands of an array stays when it is stopped.
        what(&Keeper(context)).map_err(|error| match error {
            Failure::Stopped => BuildError::Stopped.into(),
            other => other,
        })
    })
}

/// How a command ends that failed so.
pub fn failed(error: Failure) -> CliError {
    match error {
        Failure::Stopped => CliError::Interrupted("what was made was taken away".to_owned()),
        Failure::Usage(what) => CliError::Usage(what),
        other => CliError::Failed(other.to_string()),
    }
}

/// Steps, as a dry run prints them.
pub fn numbered<S: Display>(steps: &[S]) -> String {
    (1..).zip(steps).map(|(number, step)| format!("{number:>4}. {step}\n")).collect()
}

/// Steps, changes of files, and the commands that follow, as a dry run prints them.
pub fn changes(planned: &Planned) -> String {
    let mut text = numbered(&planned.steps);
    text.extend(planned.files.iter().map(String::as_str));
    for command in &planned.after {
        text += &format!("then {command}\n");
    }
    text
}

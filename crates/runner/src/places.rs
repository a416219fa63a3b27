//! Where a user's files go.

use crate::RunnerError;
use ebbtide_lab::places::Places;
use std::env;
use std::path::{Path, PathBuf};

/// The program's directory below the one that `variable` names, or below `fallback` in the home directory
/// (XDG base directories; a relative path in the variable does not count). `None` when neither is known.
pub fn user_directory(variable: &str, fallback: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(fallback)))
        .map(|base| base.join("ebbtide"))
}

/// Where journals are: `$XDG_STATE_HOME/ebbtide/journals`, `~/.local/state` where that is not set.
///
/// # Errors
/// When the environment does not say.
pub fn journals() -> Result<PathBuf, RunnerError> {
    user_directory("XDG_STATE_HOME", ".local/state")
        .map(|directory| directory.join("journals"))
        .ok_or(RunnerError::NoPlace { what: "the journal of changes", variable: "XDG_STATE_HOME" })
}

/// The file that keeps monitors from reading volumes while it exists: `$XDG_STATE_HOME/ebbtide/monitor.pause`, `~/.local/state` where
/// that is not set. `None` where neither is known.
pub fn pause_file() -> Option<PathBuf> {
    user_directory("XDG_STATE_HOME", ".local/state").map(|directory| directory.join("monitor.pause"))
}

/// Where the lab's files are: below the user's cache directory.
///
/// # Errors
/// When the environment does not say.
pub fn lab() -> Result<Places, RunnerError> {
    user_directory("XDG_CACHE_HOME", ".cache")
        .map(|directory| Places::new(directory.join("lab")))
        .ok_or(RunnerError::NoPlace { what: "the lab's files", variable: "XDG_CACHE_HOME" })
}

/// Directories for volumes of experiments that name none, the best first: where the user keeps temporary files,
/// where they outlive a reboot and are rarely kept in memory, the user's cache, and here.
pub fn for_volumes() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = env::var_os("TMPDIR").map(PathBuf::from).into_iter().collect();
    places.push("/var/tmp".into());
    places.extend(
        user_directory("XDG_CACHE_HOME", ".cache").and_then(|ours| ours.parent().map(Path::to_owned)),
    );
    places.push(".".into());
    places
}

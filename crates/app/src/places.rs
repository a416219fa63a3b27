//! Where a user's files go.

use std::env;
use std::path::PathBuf;

/// The program's directory below the one that `variable` names, or below `fallback` in the home directory
/// (XDG base directories; a relative path in the variable does not count). `None` when neither is known.
pub fn user_directory(variable: &str, fallback: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(fallback)))
        .map(|base| base.join("ebbtide"))
}

//! The catalogue as this user has it: the built-in records, the user's file, and the one of the command line.

use ebbtide_model::catalog::Catalog;
use ebbtide_model::shown::Shown;
use std::path::{Path, PathBuf};

/// Largest file that is read; the output of `describe-instance-types` for all types is a few megabytes.
const LONGEST: u64 = 64 << 20;

/// The user's own catalogue: `$XDG_CONFIG_HOME/ebbtide/catalog.toml`, `~/.config` where that is not set.
pub fn user_file() -> Option<PathBuf> {
    crate::places::user_directory("XDG_CONFIG_HOME", ".config")
        .map(|directory| directory.join("catalog.toml"))
}

/// The built-in catalogue with the user's file, where there is one, and with `file`.
///
/// # Errors
/// A file that cannot be read or is no catalogue: names it, says what is wrong.
pub fn load(file: Option<&Path>) -> Result<Catalog, String> {
    let mut catalog = Catalog::builtin().clone();
    let user = user_file().filter(|path| path.exists());
    for path in user.iter().map(PathBuf::as_path).chain(file) {
        let text = read(path)?;
        catalog.add_file(&text, &path.to_string_lossy()).map_err(|error| error.to_string())?;
    }
    Ok(catalog)
}

/// The text of a file.
///
/// # Errors
/// When it cannot be read, is no file or is too long: names it.
pub fn read(path: &Path) -> Result<String, String> {
    ebbtide_door::read::text(path, LONGEST).map_err(|error| format!("{}: {error}", path.shown()))
}

//! Where the store is.

use super::StoreError;
use ebbtide_door::{Database, Directory, DoorError};
use ebbtide_model::shown::Shown;
use std::path::{Path, PathBuf};

/// Where the user's own store is: `$XDG_DATA_HOME/ebbtide/store.sqlite`, `~/.local/share` where that is not set
/// (XDG base directories; a relative path in the variable does not count).
///
/// # Errors
/// When the environment does not say.
pub fn default_path() -> Result<PathBuf, StoreError> {
    let directory =
        crate::places::user_directory("XDG_DATA_HOME", ".local/share").ok_or(StoreError::NoHome)?;
    Ok(directory.join("store.sqlite"))
}

/// [`default_path`], after making the directories above it, for this user only.
pub(super) fn make_default() -> Result<PathBuf, StoreError> {
    let path = default_path()?;
    if let Some(directory) = path.parent() {
        Directory::make_all(directory)
            .map_err(|error| StoreError::Directory { path: directory.to_owned(), what: error.to_string() })?;
    }
    Ok(path)
}

/// The file of the store at `path`, made where there is none and it is to be made.
pub(super) fn claim(path: &Path, make: bool) -> Result<Option<Database>, StoreError> {
    let open = |what: String| StoreError::Open { path: path.to_owned(), what };
    if make
        && let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
        && !parent.exists()
    {
        return Err(open(format!("the directory {} does not exist", parent.shown())));
    }
    let file = Database::at(path, make).map_err(|error| match error {
        DoorError::Refused(refusal) => open(refusal.reasons_in_words()),
        DoorError::NoVolume { what, .. } => open(format!("it is {what}")),
        DoorError::System { source, .. } => open(source.to_string()),
    })?;
    match file.as_ref().and_then(Database::foreign) {
        Some(what) => Err(StoreError::NotAStore { path: path.to_owned(), what: what.to_owned() }),
        None => Ok(file),
    }
}

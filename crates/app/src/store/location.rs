//! Where the store is.

use super::StoreError;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
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
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| StoreError::Directory { path: directory.to_owned(), what: error.to_string() })?;
    }
    Ok(path)
}

/// What every database begins with (SQLite's file format, 1.3.1).
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Says what SQLite cannot: that the directory is missing, that the path is no regular file, or that it is some file of
/// less than a page, which SQLite takes for an empty database.
pub(super) fn check(path: &Path) -> Result<(), StoreError> {
    let fail = |what: &str| Err(StoreError::Open { path: path.to_owned(), what: what.to_owned() });
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => fail("it is a directory"),
        Ok(found) if !found.is_file() => fail("it is not a regular file"),
        Ok(found) if found.len() == 0 => Ok(()),
        Ok(_) => {
            let mut begin = Vec::new();
            let read =
                File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut begin));
            match read {
                Ok(_) if begin == MAGIC => Ok(()),
                Ok(_) => Err(StoreError::NotAStore {
                    path: path.to_owned(),
                    what: "it is not an SQLite database".to_owned(),
                }),
                Err(error) => fail(&error.to_string()),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() && !parent.exists() => {
                fail(&format!("the directory {} does not exist", parent.display()))
            }
            _ => Ok(()),
        },
        Err(error) => fail(&error.to_string()),
    }
}

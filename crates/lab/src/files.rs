//! Small help with files and directories of the laboratory's own, with errors that name them.

use super::LabError;
use ebbtide_door::own::Locked;
use ebbtide_door::{Directory, own};
use std::path::Path;

/// Makes a directory for this user only, and those above it, where they are missing.
pub fn make_directory(path: &Path) -> Result<(), LabError> {
    Directory::make_all(path).map(drop).map_err(LabError::file("make", path))
}

/// A path as an argument among others.
pub fn path(path: &Path) -> Result<&str, LabError> {
    path.to_str().ok_or_else(|| LabError::NotUtf8 { path: path.to_owned() })
}

/// Writes a whole file.
pub fn write(path: &Path, content: &[u8]) -> Result<(), LabError> {
    own::write(path, content).map_err(LabError::file("write", path))
}

/// Removes a directory in one that was just made, with everything in it; already gone is success.
pub fn remove_directory(path: &Path) -> Result<(), LabError> {
    own::remove_tree(path).map_err(LabError::file("remove", path))
}

/// Gives what is at `from` the name `to`.
pub fn rename(from: &Path, to: &Path) -> Result<(), LabError> {
    own::rename(from, to).map_err(LabError::file("move", from))
}

/// Waits for the lock `path` and takes it; the kernel drops it when the process ends, in whatever way.
pub fn lock(path: &Path) -> Result<Locked, LabError> {
    own::lock(path).map_err(LabError::file("lock", path))
}

/// Makes the lock `name` in `directory`, which was just made, and takes it.
pub fn lock_in(directory: &Directory, name: &str) -> Result<Locked, LabError> {
    let path = directory.path().join(name);
    match own::try_lock(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(LabError::Held { path }),
        Err(error) => Err(LabError::file("lock", &path)(error)),
    }
}

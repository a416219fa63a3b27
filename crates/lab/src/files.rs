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

/// Gives what is at `from` the name `to`.
pub fn rename(from: &Path, to: &Path) -> Result<(), LabError> {
    own::rename(from, to).map_err(LabError::file("move", from))
}

/// Waits for the lock `path` and takes it; the kernel drops it when the process ends, in whatever way.
pub fn lock(path: &Path) -> Result<Locked, LabError> {
    own::lock(path).map_err(LabError::file("lock", path))
}

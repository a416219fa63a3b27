//! Small help with files and directories.

use super::LabError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a directory for this user only, and those above it, where they are missing.
pub fn make_directory(path: &Path) -> Result<(), LabError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(LabError::file("make", path))
}

/// Writes a whole file.
pub fn write(path: &Path, content: &[u8]) -> Result<(), LabError> {
    std::fs::write(path, content).map_err(LabError::file("write", path))
}

/// Removes a directory with everything in it; already gone is success.
pub fn remove_directory(path: &Path) -> Result<(), LabError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(LabError::file("remove", path)),
    }
}

/// A lock file, made where it is missing; the kernel drops the lock when the file is closed, in whatever way.
fn lock_file(path: &Path) -> Result<File, LabError> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(LabError::file("open", path))
}

/// Waits for the lock `path` and takes it.
pub fn lock(path: &Path) -> Result<File, LabError> {
    let file = lock_file(path)?;
    flock(&file, FlockOperation::LockExclusive).map_err(|e| LabError::file("lock", path)(e.into()))?;
    Ok(file)
}

/// Takes the lock `path`; nothing while somebody has it.
pub fn try_lock(path: &Path) -> Result<Option<File>, LabError> {
    let file = lock_file(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(LabError::file("lock", path)(error.into())),
    }
}

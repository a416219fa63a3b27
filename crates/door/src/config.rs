//! The kernel's objects that are made as directories: configfs (Documentation/filesystems/configfs.rst).

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Magic number of configfs (linux/magic.h).
const CONFIGFS: u64 = 0x6265_6570;

/// The directory that `path` is in, which has to be one of configfs; links on the way are followed.
fn above(path: &Path) -> io::Result<File> {
    let parent = path.parent().ok_or_else(|| io::Error::other("it is in no directory"))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    checked(File::from(rustix::fs::openat(CWD, parent, flags, Mode::empty())?))
}

fn checked(file: File) -> io::Result<File> {
    match rustix::fs::fstatfs(&file)?.f_type as u64 & 0xFFFF_FFFF {
        CONFIGFS => Ok(file),
        _ => Err(io::Error::other("it is not in configfs")),
    }
}

fn name(path: &Path) -> io::Result<&std::ffi::OsStr> {
    path.file_name().ok_or_else(|| io::Error::other("it has no name"))
}

/// Whether configfs is mounted at `path`.
pub fn is_config(path: &Path) -> bool {
    above(&path.join("x")).is_ok()
}

/// Makes the kernel's object `path` in one that is there.
///
/// # Errors
/// When the one above is none of configfs, there is one of this name, or the kernel refuses it.
pub fn make(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(above(path)?, name(path)?, Mode::from_raw_mode(0o755))?)
}

/// Links the object `path` to the object `target`.
///
/// # Errors
/// As [`make`].
pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    Ok(rustix::fs::symlinkat(target, above(path)?, name(path)?)?)
}

/// Removes the object or the link `path`; what it has of the kernel's goes with it.
///
/// # Errors
/// When it is none of configfs, others stand on it (`ResourceBusy`, `DirectoryNotEmpty`), or it is not there (`NotFound`).
pub fn remove(path: &Path) -> io::Result<()> {
    let above = above(path)?;
    let name = name(path)?;
    let found = rustix::fs::statat(&above, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
    let flags = if kind.is_dir() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    Ok(rustix::fs::unlinkat(&above, name, flags)?)
}

/// Writes `value` to the attribute `path` of an object, in one piece.
///
/// # Errors
/// When there is no such attribute, or the kernel refuses the value.
pub fn write(path: &Path, value: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = checked(File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?))?;
    file.write_all(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_of_configfs_is_touched() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, made, other) =
            (directory.path().join("file"), directory.path().join("made"), directory.path().join("other"));
        std::fs::write(&file, "a user's own").expect("writes");
        std::fs::create_dir(&made).expect("makes");
        assert!(write(&file, b"1").is_err() && remove(&file).is_err() && remove(&made).is_err());
        assert!(make(&other).is_err() && link(&file, &other).is_err() && !is_config(directory.path()));
        assert_eq!(std::fs::read(&file).expect("reads"), b"a user's own");
        assert!(made.exists() && !other.exists());
    }
}

//! What the kernel offers to be written that is no storage: attributes, terminals, ports, /dev/null.

use crate::claim::Handle;
use rustix::fs::{CWD, Mode, OFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Magic number of sysfs (linux/magic.h).
const SYSFS: u64 = 0x6265_6572;

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
}

/// Writes `value` to the attribute of the kernel's at `path`. Where it is `recorded`, a copy of a host, it is a plain file.
///
/// # Errors
/// When there is no such attribute, or the kernel refuses the value.
pub fn write_attribute(path: &Path, value: &str, recorded: bool) -> io::Result<()> {
    let mut flags = OFlags::WRONLY | OFlags::NOFOLLOW;
    flags.set(OFlags::TRUNC, recorded);
    let mut file = open(path, flags)?;
    let is_attribute = rustix::fs::fstatfs(&file)?.f_type as u64 & 0xFFFF_FFFF == SYSFS;
    if !is_attribute && !recorded {
        return Err(io::Error::other("it is no attribute of the kernel's"));
    }
    file.write_all(value.as_bytes())
}

/// This process's terminal.
///
/// # Errors
/// When it has none.
pub fn terminal() -> io::Result<File> {
    open(Path::new("/dev/tty"), OFlags::RDWR)
}

/// A character device to talk through, as a guest's port to its host is.
///
/// # Errors
/// When it is no character device, or cannot be opened.
pub fn port(path: &Path) -> io::Result<File> {
    let file = open(path, OFlags::RDWR)?;
    match file.metadata()?.file_type().is_char_device() {
        true => Ok(file),
        false => Err(io::Error::other("it is no character device")),
    }
}

/// /dev/null, which takes everything and keeps nothing.
///
/// # Errors
/// When there is none, or something else has its name.
pub fn null() -> io::Result<Handle> {
    let file = open(Path::new("/dev/null"), OFlags::RDWR)?;
    let found = file.metadata()?;
    let number = std::os::unix::fs::MetadataExt::rdev(&found);
    match found.file_type().is_char_device() && number == rustix::fs::makedev(1, 3) {
        true => Ok(Handle::new(file)),
        false => Err(io::Error::other("/dev/null is something else here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_they_are_for_is_opened() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "a user's own").expect("writes");
        assert!(write_attribute(file.path(), "none", false).is_err());
        assert!(port(file.path()).is_err());
        assert_eq!(std::fs::read(file.path()).expect("reads"), b"a user's own");
        write_attribute(file.path(), "none", true).expect("a recorded one");
        assert_eq!(std::fs::read(file.path()).expect("reads"), b"none");
        assert!(null().is_ok() && port(Path::new("/dev/null")).is_ok());
    }
}

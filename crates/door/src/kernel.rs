//! What the kernel offers to be written that is no storage: attributes, terminals, ports, /dev/null.

use crate::claim::{Claim, Handle};
use rustix::fs::{CWD, Mode, OFlags};
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Magic numbers of sysfs and of control groups of version 1 and 2 (linux/magic.h).
const SYSFS: u64 = 0x6265_6572;
const GROUPS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];

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
    let system = magic(&file)?;
    if system != SYSFS && !GROUPS.contains(&system) && !recorded {
        return Err(io::Error::other("it is no attribute of the kernel's"));
    }
    file.write_all(value.as_bytes())
}

/// What kind of file system `file` is on (`f_type` of statfs(2)).
fn magic(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u64 & 0xFFFF_FFFF)
}

/// Whether `path` is a control group.
///
/// # Errors
/// When nothing is there, or it may not be looked at.
fn is_group(path: &Path) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    Ok(GROUPS.contains(&magic(&open(path, flags)?)?))
}

/// Removes the control group `path`, which nobody is in.
///
/// # Errors
/// When it is no control group, somebody is in it, or this user may not.
pub fn remove_group(path: &Path) -> io::Result<()> {
    match is_group(path)? {
        true => std::fs::remove_dir(path),
        false => Err(io::Error::other("it is no control group")),
    }
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

/// The number of the character device that takes everything and that of the one that gives zeros without end
/// (the kernel's Documentation/admin-guide/devices.txt).
const NULL: (u32, u32) = (1, 3);
const ZERO: (u32, u32) = (1, 5);

/// Whether `found` is a device that takes any number of bytes and keeps none: /dev/null or /dev/zero, whatever it is called
/// here; and whether it gives any.
pub fn endless(found: &Metadata) -> Option<Endless> {
    let number = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let is_one = found.file_type().is_char_device() && (number == NULL || number == ZERO);
    is_one.then_some(Endless { gives: number == ZERO })
}

/// A device that takes any number of bytes and keeps none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endless {
    /// Whether it can be read, without end; else reads find nothing.
    pub gives: bool,
}

/// The device at `path` as a volume. Nothing is lost by writing to it, and nothing is held back from others.
///
/// # Errors
/// When it is not [`endless`], or cannot be opened.
pub fn claim_endless(path: &Path) -> io::Result<Claim> {
    let file = open(path, OFlags::RDWR)?;
    match endless(&file.metadata()?) {
        Some(_) => Claim::endless(file, path),
        None => Err(io::Error::other("it is neither /dev/null nor /dev/zero")),
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

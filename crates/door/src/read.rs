//! Reading what somebody named: a regular file and nothing else, no longer than expected. Opening a pipe would wait for its
//! other end, and a device may have no end.

use crate::door::kind_name;
use rustix::fs::{CWD, Mode, OFlags};
use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of the longest secret.
const SECRET_MAX: u64 = 4096;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused to open or read it.
    #[error("cannot be read: {0}")]
    System(#[from] io::Error),
    /// It is something else.
    #[error("is {0} and not a regular file")]
    NoFile(&'static str),
    /// It cannot be what it was named as.
    #[error("has {length} bytes; at most {most} are read")]
    TooLong {
        /// Its bytes, as far as they were counted.
        length: u64,
        /// Bytes that are read of such a file.
        most: u64,
    },
    /// It is to be a secret, and is none.
    #[error("may be read by others than its owner; `chmod 600` it first")]
    NotSecret,
    /// Its content is not UTF-8.
    #[error("line {line} is not UTF-8 text; save the file as UTF-8")]
    NotText {
        /// The line, from 1.
        line: usize,
    },
}

impl ReadError {
    /// As a sentence about the file that was named before: "it cannot be read".
    pub fn of_it(&self) -> String {
        match self {
            ReadError::NotText { .. } => format!("its {self}"),
            _ => format!("it {self}"),
        }
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> io::Error {
        match error {
            ReadError::System(error) => error,
            other => io::Error::other(other.to_string()),
        }
    }
}

/// Opens what `path` leads to, to be read; never waits for the other end of a pipe.
///
/// # Errors
/// When it cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
}

/// Opens the regular file `path` to be read. Nothing else is opened: opening some devices does something.
///
/// # Errors
/// When it is something else or cannot be opened.
pub fn regular(path: &Path) -> Result<File, ReadError> {
    let is_file =
        |kind: FileType| if kind.is_file() { Ok(()) } else { Err(ReadError::NoFile(kind_name(kind))) };
    is_file(std::fs::metadata(path)?.file_type())?;
    let file = open(path)?;
    is_file(file.metadata()?.file_type())?;
    Ok(file)
}

/// The content of the regular file `path` of at most `most` bytes.
///
/// # Errors
/// See [`ReadError`].
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    up_to(&mut regular(path)?, most)
}

/// The content of the regular file `path` of at most `most` bytes, which its owner alone may read: a key or another secret.
///
/// # Errors
/// See [`ReadError`].
pub fn secret(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    let mut file = regular(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        return Err(ReadError::NotSecret);
    }
    up_to(&mut file, most)
}

/// What is left of `file`, at most `most` bytes.
///
/// # Errors
/// See [`ReadError`].
pub fn up_to(file: &mut File, most: u64) -> Result<Vec<u8>, ReadError> {
    // Files of the kernel's have no length, and others grow.
    let length = file.metadata()?.len();
    let too_long = |length| Err(ReadError::TooLong { length, most });
    if length > most {
        return too_long(length);
    }
    let mut content = Vec::new();
    Read::take(file, most.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > most { too_long(content.len() as u64) } else { Ok(content) }
}

/// The text of the regular file `path` of at most `most` bytes.
///
/// # Errors
/// See [`ReadError`].
pub fn text(path: &Path, most: u64) -> Result<String, ReadError> {
    as_text(bytes(path, most)?)
}

/// The text of a [`secret`], which is a line.
///
/// # Errors
/// See [`ReadError`].
pub fn secret_text(path: &Path) -> Result<String, ReadError> {
    as_text(secret(path, SECRET_MAX)?)
}

fn as_text(content: Vec<u8>) -> Result<String, ReadError> {
    String::from_utf8(content).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        ReadError::NotText { line: good.iter().filter(|byte| **byte == b'\n').count() + 1 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_its_owner_s_alone() {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = place.path().join("key");
        std::fs::write(&path, "one").expect("writes");
        for (mode, may) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o601, false)] {
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode))
                .expect("sets");
            assert_eq!(secret(&path, 3).ok(), may.then(|| b"one".to_vec()), "{mode:o}");
        }
    }

    #[test]
    fn what_is_no_file_or_too_long_is_refused_at_once() {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let at = |name: &str| place.path().join(name);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, at("pipe"), fifo, Mode::RWXU, 0).expect("makes");
        std::os::unix::fs::symlink("/dev/zero", at("zero")).expect("links");
        std::fs::write(at("text"), "one\ntwo\n").expect("writes");
        std::fs::write(at("bad"), b"one\n\xff\n").expect("writes");
        let told = |name: &str, most: u64| text(&at(name), most).map_err(|error| error.to_string());
        assert_eq!(told("text", 8).as_deref(), Ok("one\ntwo\n"));
        assert_eq!(told("text", 7), Err("has 8 bytes; at most 7 are read".into()));
        assert_eq!(told("bad", 7), Err("line 2 is not UTF-8 text; save the file as UTF-8".into()));
        for (name, kind) in [("pipe", "a pipe"), ("zero", "a character device"), (".", "a directory")] {
            let expected = format!("is {kind} and not a regular file");
            assert_eq!(told(name, u64::MAX), Err(expected), "{name}");
        }
        open(&at("pipe")).expect("does not wait");
        assert!(text(Path::new("/proc/self/mountinfo"), 1 << 20).is_ok_and(|text| !text.is_empty()));
        assert!(matches!(text(Path::new("/proc/self/mountinfo"), 3), Err(ReadError::TooLong { .. })));
    }
}

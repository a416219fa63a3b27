//! A file that grows by whole lines, locked while its writer lives.

use crate::directory::{Directory, id_of};
use crate::own;
use crate::pause::pause_at;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;

/// Longer ones are not ours: a session of thousands of trials journals some hundred bytes for each.
const READ_MAX: u64 = 256 << 20;

/// Permission to write for the group and for everybody (stat(2)).
const OTHERS_WRITE: u32 = 0o022;

/// A log of lines in a directory of `ebb`'s own. The kernel drops its lock when its writer ends in whatever way.
#[derive(Debug)]
pub struct Log {
    directory: Directory,
    name: OsString,
    file: File,
}

impl Log {
    /// Makes the log `name` in `directory`, where nothing may be, and locks it.
    ///
    /// # Errors
    /// When there is something of this name, or it cannot be made.
    pub fn create(directory: Directory, name: OsString) -> io::Result<Log> {
        let file = directory.create(&name, 0o600)?;
        pause_at("log.created");
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let log = Log { directory, name, file };
        // Who cleans up may have found it before it was locked, and taken it for abandoned.
        if !log.is_named()? {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "it was removed as soon as it was made; try again",
            ));
        }
        log.directory.sync()?;
        Ok(log)
    }

    /// The log `name` in `directory` of a writer that ended; nothing where its writer lives, or it is gone.
    ///
    /// # Errors
    /// When it is no regular file or cannot be opened.
    pub fn of_the_dead(directory: &Directory, name: OsString) -> io::Result<Option<Log>> {
        let file = match directory.open_file(&name, OFlags::RDWR | OFlags::APPEND) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        pause_at("log.locked");
        let log = Log { directory: Directory::open(directory.path())?, name, file };
        Ok(log.is_named()?.then_some(log))
    }

    /// Fails unless this user and root are the only ones who can have written it: it and its directory are theirs, and
    /// nobody else may write there.
    ///
    /// # Errors
    /// Who could have, and what to do about it.
    pub fn check_writers(&self) -> io::Result<()> {
        let me = rustix::process::geteuid().as_raw();
        let both = [(self.file.metadata()?, "it"), (self.directory.fd().metadata()?, "its directory")];
        for (found, what) in both {
            let owner = found.uid();
            if owner != me && owner != 0 {
                return Err(io::Error::other(format!(
                    "{what} belongs to user {owner}, who may have written anything into it; if it is right, give it to user {me} (chown)"
                )));
            }
            if found.mode() & OTHERS_WRITE != 0 {
                return Err(io::Error::other(format!(
                    "others may write to {what} (mode {:o}); if it is right, take that from them (chmod go-w)",
                    found.mode() & 0o7777
                )));
            }
        }
        Ok(())
    }

    /// Whether its name still leads to it.
    fn is_named(&self) -> io::Result<bool> {
        let named = self.directory.look(&self.name)?.map(|found| id_of(&found));
        Ok(named == Some(id_of(&self.file.metadata()?)))
    }

    /// Programs that are started from now on inherit it, and with it the lock: after a kill of this program, who cleans
    /// up waits for the one that is still at work.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn inherit(&self) -> io::Result<()> {
        own::inherit(&self.file)
    }

    /// Programs that are started from now on do not inherit it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn withhold(&self) -> io::Result<()> {
        own::withhold(&self.file)
    }

    /// Adds `line` and its end, durably; all of it or nothing.
    ///
    /// # Errors
    /// When it cannot be written; what was there before is whole.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let before = self.file.seek(io::SeekFrom::End(0))?;
        let whole = [line, b"\n"].concat();
        self.file.write_all(&whole).and_then(|()| self.file.sync_data()).inspect_err(|_| {
            // A torn line would hide those that come after it. Where cutting fails too, readers leave out the last line.
            let _ = self.file.set_len(before);
        })
    }

    /// Its whole lines. What follows the last of them was torn by a kill, and is cut off.
    ///
    /// # Errors
    /// When it cannot be read, or is too long to be a log.
    pub fn lines(&mut self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        self.file.rewind()?;
        Read::take(&mut self.file, READ_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > READ_MAX {
            return Err(io::Error::other(format!("it has more than {READ_MAX} bytes")));
        }
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            self.file.set_len(whole as u64)?;
            text.truncate(whole);
        }
        Ok(text)
    }

    /// Removes it, unless something else has its name.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        let id = id_of(&self.file.metadata()?);
        self.directory.remove(&self.name, &id).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> (tempfile::TempDir, impl Fn() -> Directory) {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = place.path().to_owned();
        (place, move || Directory::open(&path).expect("opens"))
    }

    #[test]
    fn a_log_belongs_to_its_writer_while_it_lives() {
        let (place, directory) = here();
        let mut log = Log::create(directory(), "run".into()).expect("makes");
        log.append(b"one").expect("writes");
        assert!(Log::of_the_dead(&directory(), "run".into()).expect("looks").is_none());
        drop(log);
        std::fs::write(place.path().join("run"), b"one\ntwo\nto").expect("writes");
        let mut dead = Log::of_the_dead(&directory(), "run".into()).expect("looks").expect("is there");
        assert_eq!(dead.lines().expect("reads"), b"one\ntwo\n");
        dead.append(b"three").expect("writes");
        assert_eq!(dead.lines().expect("reads"), b"one\ntwo\nthree\n");
        dead.remove().expect("removes");
        assert!(Log::of_the_dead(&directory(), "run".into()).expect("looks").is_none());
    }

    #[test]
    fn a_log_that_others_may_write_to_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let (place, directory) = here();
        let path = place.path().join("run");
        std::fs::write(&path, b"one\n").expect("writes");
        let mode = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("sets");
        };
        let said = || {
            let log = Log::of_the_dead(&directory(), "run".into()).expect("looks").expect("is there");
            log.check_writers().map_err(|error| error.to_string())
        };
        assert_eq!(said(), Ok(()));
        mode(&path, 0o664);
        assert!(said().is_err_and(|said| said.contains("others may write to it (mode 664)")));
        mode(&path, 0o600);
        mode(place.path(), 0o777);
        assert!(said().is_err_and(|said| said.contains("its directory (mode 777)")));
        mode(place.path(), 0o755);
        assert_eq!(said(), Ok(()));
    }

    #[test]
    fn what_is_no_file_is_an_error_and_not_waited_for() {
        let (place, directory) = here();
        std::fs::create_dir(place.path().join("d")).expect("makes");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            place.path().join("p"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .expect("makes");
        for name in ["d", "p"] {
            assert!(Log::of_the_dead(&directory(), name.into()).is_err(), "{name}");
        }
    }
}

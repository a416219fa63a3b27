//! A directory as a handle: what is made and removed in it is found by name in this very directory, and removed only
//! where it is still what was made.

use crate::pause::pause_at;
use ebbtide_model::journal::FileId;
use ebbtide_model::shown::Shown;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Identity of the file or directory that `found` is of.
pub fn id_of(found: &Metadata) -> FileId {
    FileId::new(found.dev(), found.ino(), found.created().ok())
}

/// A name that nobody can have foreseen, for a file that is on its way to `name`.
pub(crate) fn unguessable(name: &OsStr) -> io::Result<OsString> {
    let mut random = [0; 16];
    let mut drawn = 0;
    while drawn < random.len() {
        drawn += rustix::rand::getrandom(&mut random[drawn..], rustix::rand::GetRandomFlags::empty())?;
    }
    let mut hidden = OsString::from(".");
    // A name may have 255 bytes; what is cut off is only for people.
    let bytes = name.as_encoded_bytes();
    hidden.push(String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).as_ref());
    hidden.push(format!(".{:032x}.part", u128::from_ne_bytes(random)));
    Ok(hidden)
}

/// Whether `path` has a name that a file has on its way to another.
pub fn is_hidden_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parts = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part"));
    parts.and_then(|name| name.rsplit_once('.')).is_some_and(|(name, random)| {
        !name.is_empty() && random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Fails with the reason where the file that was opened may not be removed.
type May<'a> = &'a dyn Fn(&File) -> io::Result<()>;

/// What became of a file that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It was there and is gone.
    Now,
    /// It was gone already.
    Before,
}

/// A directory held open, so that what is made in it is made in this very directory.
#[derive(Debug)]
pub struct Directory {
    fd: File,
    path: PathBuf,
}

impl Directory {
    /// The directory at `path`, which a user named: links on the way are followed.
    ///
    /// # Errors
    /// When it is not there, is none, or may not be searched.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let shown = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let fd = rustix::fs::open(shown, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Directory { fd: File::from(fd), path: shown.to_owned() })
    }

    /// The directory that `path` is in, and its name there.
    ///
    /// # Errors
    /// When `path` ends with no name, or as [`open`](Self::open).
    pub fn of(path: &Path) -> io::Result<(Directory, OsString)> {
        let name = path.file_name().filter(|_| !path.as_os_str().as_encoded_bytes().ends_with(b"/"));
        let name = name.ok_or_else(|| io::Error::new(io::ErrorKind::IsADirectory, "it names no file"))?;
        Ok((Directory::open(path.parent().unwrap_or(Path::new("")))?, name.to_owned()))
    }

    /// Makes the directory `path` and those above it that are missing, for this user only.
    ///
    /// # Errors
    /// When one of them cannot be made, or is no directory.
    pub fn make_all(path: &Path) -> io::Result<Directory> {
        match Directory::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Directory::make_all(parent)?;
        }
        match rustix::fs::mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Directory::open(path),
            Err(errno) => Err(errno.into()),
        }
    }

    /// What it is held by, which can be looked at and not read.
    pub fn handle(&self) -> &File {
        &self.fd
    }

    /// The directory that `fd` is open on.
    pub(crate) fn held(fd: File, path: PathBuf) -> Directory {
        Directory { fd, path }
    }

    pub(crate) fn fd(&self) -> &File {
        &self.fd
    }

    /// Its path as it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its own identity.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn id(&self) -> io::Result<FileId> {
        Ok(id_of(&self.fd.metadata()?))
    }

    /// What the system says of it now.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.fd.metadata()
    }

    /// Makes the directory `name` in it, for this user only.
    ///
    /// # Errors
    /// When there is something of this name, or it cannot be made, or somebody put something else in its place at once.
    pub fn make(&self, name: impl AsRef<Path>) -> io::Result<Directory> {
        let name = name.as_ref();
        rustix::fs::mkdirat(&self.fd, name, Mode::RWXU)?;
        pause_at("directory.made");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?);
        let found = made.metadata()?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o077 != 0 {
            return Err(io::Error::other("somebody put another directory in its place"));
        }
        Ok(Directory { fd: made, path: self.path.join(name) })
    }

    /// Makes the file `name` in it, where nothing may be, opened for reading and writing. `mode` is cut by the umask.
    ///
    /// # Errors
    /// When there is something of this name, a link included, or it cannot be made.
    pub fn create(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.fd, name.as_ref(), flags, Mode::from_raw_mode(mode))?))
    }

    /// A file in it without a name, which goes with its last descriptor; nothing where the file system has no such
    /// files.
    ///
    /// # Errors
    /// When it cannot be made for another reason.
    pub(crate) fn unnamed(&self, mode: u32) -> io::Result<Option<File>> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, ".", flags, Mode::from_raw_mode(mode)) {
            Ok(fd) => Ok(Some(File::from(fd))),
            // A kernel or file system without them takes the flags for those of a directory.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives the unnamed `file` the name `name`.
    ///
    /// # Errors
    /// `AlreadyExists` where there is something of this name.
    pub(crate) fn link(&self, file: &File, name: &OsStr) -> io::Result<()> {
        let this = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(rustix::fs::linkat(CWD, this, &self.fd, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// What has the name `name`, itself and not what a link leads to; nothing where there is nothing.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn look(&self, name: impl AsRef<Path>) -> io::Result<Option<Metadata>> {
        self.pin(name.as_ref())?.map(|found| found.metadata()).transpose()
    }

    /// Holds on to what has the name `name`, a link itself, without opening it.
    pub(crate) fn pin(&self, name: impl AsRef<Path>) -> io::Result<Option<File>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name.as_ref(), flags, Mode::empty()) {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens the regular file `name` in it, no link, with `flags`.
    pub(crate) fn open_file(&self, name: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.fd, name.as_ref(), flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        Ok(file)
    }

    /// Opens the directory `name` in it, no link.
    fn enter(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?))
    }

    /// Gives what is called `from` the name `to`, where nothing may be.
    pub(crate) fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE)?)
    }

    /// Lets `from` and `to` change names.
    pub(crate) fn exchange(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(&self.fd, from, &self.fd, to, RenameFlags::EXCHANGE)?)
    }

    /// Gives what is called `from` the name `to`, and removes what had it.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Makes what was made, removed and renamed in it durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, ".", flags, Mode::empty()) {
            Ok(fd) => File::from(fd).sync_all(),
            // A directory that may be written but not read: its user's choice.
            Err(Errno::ACCESS) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes the file or directory `name` if it is `id`; what else has the name by now stays.
    ///
    /// It is first moved to a name of its own and looked at there, so that nothing that takes its place meanwhile is
    /// removed for it. What a kill leaves under that name the next call removes.
    ///
    /// # Errors
    /// When something else has the name, or it cannot be removed.
    pub fn remove(&self, name: impl AsRef<Path>, id: &FileId) -> io::Result<Removed> {
        self.remove_if(name, id, None)
    }

    /// The same where `may` allows it, which is asked of a file as it is opened: before it is moved, and once more when
    /// nobody can open it by its name any more.
    pub(crate) fn remove_if(
        &self,
        name: impl AsRef<Path>,
        id: &FileId,
        may: Option<May<'_>>,
    ) -> io::Result<Removed> {
        let name = name.as_ref().as_os_str();
        let aside = OsString::from(format!(
            ".ebb-{:x}-{:x}.removed",
            id.ino,
            id.born_unix_ns.map_or(0, |born| born.0)
        ));
        let left = self.take_away(&aside, id, may)?;
        match self.look(name)? {
            None => return Ok(if left { Removed::Now } else { Removed::Before }),
            Some(found) if id_of(&found) != *id => return Err(replaced()),
            Some(found) => self.ask(name, &found, may)?,
        }
        pause_at("remove.looked");
        match self.rename_new(name, &aside) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Removed::Before),
            // A file system without this kind of renaming, or one that is full: one more look is all there is.
            Err(_) => {
                return match self.take_away(name, id, may)? {
                    true => Ok(Removed::Now),
                    false => Err(replaced()),
                };
            }
        }
        match self.take_away(&aside, id, may) {
            Ok(true) => Ok(Removed::Now),
            Ok(false) => {
                self.rename_new(&aside, name)?;
                Err(replaced())
            }
            Err(error) => {
                self.rename_new(&aside, name)?;
                Err(name_content(&self.path.join(name), error))
            }
        }
    }

    /// Asks `may` of the file `name` if it is `id`.
    pub(crate) fn ask_if(&self, name: impl AsRef<Path>, id: &FileId, may: May<'_>) -> io::Result<()> {
        match self.look(name.as_ref())? {
            Some(found) if id_of(&found) == *id => self.ask(name.as_ref().as_os_str(), &found, Some(may)),
            _ => Ok(()),
        }
    }

    /// Asks `may` of the file or directory `name`, which `found` is of, as it is opened.
    fn ask(&self, name: &OsStr, found: &Metadata, may: Option<May<'_>>) -> io::Result<()> {
        let Some(may) = may.filter(|_| found.is_file() || found.is_dir()) else { return Ok(()) };
        let opened = match found.is_dir() {
            true => self.enter(name),
            false => self.open_file(name, OFlags::RDONLY),
        };
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "a program holds a lease on it (`/proc/locks` lists leases); end the program first",
                ));
            }
            opened => opened?,
        };
        match id_of(&file.metadata()?) == id_of(found) {
            true => may(&file),
            false => Err(replaced()),
        }
    }

    /// Unlinks `name` if it is `id` and `may` allows it; whether it was.
    fn take_away(&self, name: &OsStr, id: &FileId, may: Option<May<'_>>) -> io::Result<bool> {
        match self.look(name)? {
            Some(found) if id_of(&found) == *id => {
                self.ask(name, &found, may)?;
                let flags = if found.is_dir() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                rustix::fs::unlinkat(&self.fd, name, flags)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// `error` of removing the directory `path`, with what is in it where it was that.
pub(crate) fn name_content(path: &Path, error: io::Error) -> io::Error {
    let content = match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => foreign_content(path, |_| false).ok().flatten(),
        _ => None,
    };
    content.map_or(error, |what| io::Error::new(io::ErrorKind::DirectoryNotEmpty, what))
}

/// What is in the directory `path` but what `ours` knows, in words; nothing where there is nothing else.
///
/// # Errors
/// When it cannot be read.
pub fn foreign_content(path: &Path, ours: impl Fn(&Path) -> bool) -> io::Result<Option<String>> {
    let entries = std::fs::read_dir(path)?.flatten().map(|entry| entry.path());
    let mut others: Vec<PathBuf> = entries.filter(|entry| !ours(entry)).collect();
    others.sort();
    let more = match others.len() {
        0 | 1 => " is".to_owned(),
        all => format!(" and {} more are", all - 1),
    };
    Ok(others
        .first()
        .map(|first| format!("{}{more} in it, which no run made: move or remove that", first.shown())))
}

fn replaced() -> io::Error {
    io::Error::other("something else has its name now; it is left alone")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> (tempfile::TempDir, Directory) {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let open = Directory::open(directory.path()).expect("opens");
        (directory, open)
    }

    #[test]
    fn only_what_was_made_is_removed() {
        let (place, directory) = here();
        let id = id_of(&directory.create("mine", 0o600).expect("makes").metadata().expect("is there"));
        assert_eq!(directory.remove("mine", &id).expect("removes"), Removed::Now);
        assert_eq!(directory.remove("mine", &id).expect("is gone"), Removed::Before);
        let id = id_of(&directory.create("mine", 0o600).expect("makes").metadata().expect("is there"));
        std::fs::write(place.path().join("other"), "a user's own").expect("writes");
        std::fs::rename(place.path().join("other"), place.path().join("mine")).expect("replaces");
        let error = directory.remove("mine", &id).expect_err("is another").to_string();
        assert!(error.contains("left alone"), "{error}");
        assert_eq!(std::fs::read_to_string(place.path().join("mine")).expect("stays"), "a user's own");
        assert_eq!(std::fs::read_dir(place.path()).expect("reads").count(), 1);
    }

    #[test]
    fn what_a_kill_left_on_its_way_out_is_removed() {
        let (place, directory) = here();
        let id = id_of(&directory.create("mine", 0o600).expect("makes").metadata().expect("is there"));
        let aside = format!(".ebb-{:x}-{:x}.removed", id.ino, id.born_unix_ns.map_or(0, |born| born.0));
        std::fs::rename(place.path().join("mine"), place.path().join(aside)).expect("moves");
        assert_eq!(directory.remove("mine", &id).expect("removes"), Removed::Now);
        assert_eq!(std::fs::read_dir(place.path()).expect("reads").count(), 0);
    }

    #[test]
    fn a_directory_with_something_in_it_keeps_its_name() {
        let (place, directory) = here();
        let made = directory.make("d").expect("makes");
        made.create("f", 0o600).expect("makes");
        let why = |directory: &Directory| {
            let error = directory.remove("d", &made.id().expect("is there")).expect_err("is not empty");
            assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
            error.to_string()
        };
        let file = place.path().join("d/f").shown();
        assert_eq!(why(&directory), format!("{file} is in it, which no run made: move or remove that"));
        made.create("g", 0o600).expect("makes");
        assert!(why(&directory).starts_with(&format!("{file} and 1 more are in it")));
        assert!(place.path().join("d/f").exists());
    }

    #[test]
    fn a_new_file_is_never_an_existing_one_nor_behind_a_link() {
        let (place, directory) = here();
        std::os::unix::fs::symlink("victim", place.path().join("link")).expect("links");
        for name in ["link", "."] {
            assert!(directory.create(name, 0o600).is_err(), "{name}");
        }
        assert!(!place.path().join("victim").exists());
        let name = unguessable(OsStr::new("report.html")).expect("draws");
        assert_ne!(name, unguessable(OsStr::new("report.html")).expect("draws"));
        assert!(is_hidden_name(&Path::new("/v").join(name)));
        for other in ["/v/.report.html", "/v/report.part", "/v/.a.0123.part", "/v/..part", "/"] {
            assert!(!is_hidden_name(Path::new(other)), "{other}");
        }
    }
}

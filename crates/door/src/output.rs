//! Where a report goes: a regular file that is replaced as a whole, or a stream.

use crate::claim::reopen;
use crate::directory::{Directory, id_of, unguessable};
use crate::door::{Door, DoorError, kind_name};
use crate::footprint::{Footprint, Identity};
use crate::held::Held;
use crate::own;
use crate::pause::pause_at;
use ebbtide_model::guard::{Reason, RefusalKind};
use ebbtide_model::journal::FileId;
use ebbtide_model::shown::Shown;
use rustix::fs::{CWD, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{File, FileType, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The most that others may do with a report: read it.
const MODE: u32 = 0o644;
/// Character devices that take text: /dev/null and /dev/full (major 1), and terminals (Linux' devices.txt).
const NULL: (u32, [u32; 2]) = (1, [3, 7]);
const TERMINALS: [u32; 3] = [4, 5, 136];

/// Where a report goes, looked at and not yet touched.
#[derive(Debug)]
pub struct Output<'a> {
    door: &'a Door,
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A name in a directory: of a regular file, or of nothing.
    Name(Directory, OsString),
    /// A pipe, a terminal or /dev/null, to be opened.
    Stream(File),
    /// Standard output or standard error, as it is open.
    Standard(File),
}

impl Door {
    /// Looks at where a report would go, and touches nothing.
    ///
    /// # Errors
    /// When nothing may be written there: a device, a link, a file that somebody uses or that is a store of `ebb`'s; when
    /// there is no such directory, or it may not be written.
    pub fn output(&self, path: &Path) -> Result<Output<'_>, DoorError> {
        let output = |kind| Output { door: self, path: path.to_owned(), kind };
        if let Some(number) = descriptor(path) {
            return inherited(path, number).map(output);
        }
        let (directory, name) = Directory::of(path).map_err(DoorError::system("write", path))?;
        let pin = directory.pin(&name).map_err(DoorError::system("look at", path))?;
        if let Some(pin) = pin {
            let found = pin.metadata().map_err(DoorError::system("look at", path))?;
            if is_text_stream(&found) {
                return Ok(output(Kind::Stream(pin)));
            }
            if found.file_type().is_symlink() {
                return Err(link(path));
            }
            if !found.is_file() {
                return Err(no_report(path, found.file_type()));
            }
            self.may_replace(path, pin)?;
        }
        may_make(&directory).map_err(DoorError::system("write", path))?;
        Ok(output(Kind::Name(directory, name)))
    }

    /// Whether the regular file `pin` may lose its name to a report.
    fn may_replace(&self, path: &Path, pin: File) -> Result<(), DoorError> {
        let identity = Identity::of(&pin.metadata().map_err(DoorError::system("look at", path))?);
        if let Some(what) = Held::overlapping(&Footprint::alone(identity)) {
            let what = format!("it is {what}, which is in use here");
            return Err(DoorError::reason(path, RefusalKind::Twice, what, "choose another file"));
        }
        let file = reopen(&pin, OFlags::RDONLY)
            .map_err(|error| self.name_holders(DoorError::system("read", path)(error), &pin))?;
        drop(pin);
        let owner = file.metadata().map_err(DoorError::system("look at", path))?.uid();
        let user = rustix::process::geteuid();
        if !user.is_root() && owner != user.as_raw() {
            let what = "it belongs to another user, and what replaces it would not".to_owned();
            return Err(DoorError::reason(path, RefusalKind::Own, what, "choose another file"));
        }
        if let Some(own) = own::recognise(&file) {
            let what = format!("it is {own} of ebb's");
            return Err(DoorError::reason(path, RefusalKind::Own, what, "choose another file"));
        }
        let reasons: Vec<Reason> = self.look().users(&file);
        if reasons.is_empty() { Ok(()) } else { Err(DoorError::refused(path, reasons)) }
    }
}

impl Output<'_> {
    /// Writes `content`: a regular file is replaced as a whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written, or may not by now; what was there then is whole.
    pub fn write(self, content: &[u8]) -> Result<(), DoorError> {
        let Output { door, path, kind } = self;
        match kind {
            Kind::Stream(pin) => write_stream(&pin, content).map_err(DoorError::system("write", &path)),
            Kind::Standard(mut stream) => {
                stream.write_all(content).map_err(DoorError::system("write", &path))
            }
            Kind::Name(directory, name) => replace(door, &path, &directory, name, content),
        }
    }
}

/// The number of the descriptor of this process that `path` names.
fn descriptor(path: &Path) -> Option<i32> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        path => path.strip_prefix("/dev/fd/").or_else(|| path.strip_prefix("/proc/self/fd/"))?.parse().ok(),
    }
}

/// The stream that is open as the descriptor `number`, which `path` names. A regular file is one only where the shell made it
/// standard output or standard error: any other descriptor would be a way to it past everything that is asked of a name.
fn inherited(path: &Path, number: i32) -> Result<Kind, DoorError> {
    let failed = |error: io::Error| DoorError::system("write", path)(error);
    let standard = match number {
        1 => Some(rustix::io::dup(rustix::stdio::stdout())),
        2 => Some(rustix::io::dup(rustix::stdio::stderr())),
        _ => None,
    };
    if let Some(stream) = standard {
        let stream = File::from(stream.map_err(|errno| failed(errno.into()))?);
        let found = stream.metadata().map_err(failed)?;
        if !(is_text_stream(&found) || found.is_file() || found.file_type().is_socket()) {
            return Err(no_report(path, found.file_type()));
        }
        let mode = rustix::fs::fcntl_getfl(&stream).map_err(|errno| failed(errno.into()))?;
        return match mode & OFlags::RWMODE == OFlags::RDONLY {
            true => Err(failed(io::Error::new(ErrorKind::PermissionDenied, "it is open to be read only"))),
            false => Ok(Kind::Standard(stream)),
        };
    }
    // Held on to through its link: no name is looked up by that.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let pin = rustix::fs::open(format!("/proc/self/fd/{number}"), flags, Mode::empty());
    let pin = File::from(pin.map_err(|errno| failed(errno.into()))?);
    let found = pin.metadata().map_err(failed)?;
    if is_text_stream(&found) {
        return Ok(Kind::Stream(pin));
    }
    if !found.is_file() {
        return Err(no_report(path, found.file_type()));
    }
    let what = format!("it is descriptor {number} of this process, which is open on a file");
    Err(DoorError::reason(path, RefusalKind::NotADevice, what, "name the file itself"))
}

/// Whether text can be written to it without harm to what it holds.
fn is_text_stream(found: &Metadata) -> bool {
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let kind = found.file_type();
    let text = || (major == NULL.0 && NULL.1.contains(&minor)) || TERMINALS.contains(&major);
    kind.is_fifo() || (kind.is_char_device() && text())
}

/// Writes to a pipe or terminal. Nobody is waited for: a pipe that nobody reads may never be read.
fn write_stream(pin: &File, content: &[u8]) -> io::Result<()> {
    match reopen(pin, OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK) {
        Ok(mut stream) => {
            // Its reader is there, and may take its time.
            rustix::fs::fcntl_setfl(&stream, OFlags::APPEND)?;
            stream.write_all(content)
        }
        Err(error)
            if Errno::from_io_error(&error) == Some(Errno::NXIO) && pin.metadata()?.file_type().is_fifo() =>
        {
            Err(io::Error::other(
                "nobody reads this pipe: start its reader first, or leave out -o and redirect standard output",
            ))
        }
        Err(error) => Err(error),
    }
}

fn link(path: &Path) -> DoorError {
    let to = std::fs::read_link(path).map_or_else(|_| "elsewhere".to_owned(), |to| to.shown());
    DoorError::reason(
        path,
        RefusalKind::NotADevice,
        format!("it is a symbolic link to {to}, and a report replaces files, not what links lead to"),
        "name a file, or remove the link",
    )
}

fn no_report(path: &Path, kind: FileType) -> DoorError {
    let what = format!("it is {}", kind_name(kind));
    let remedy = if kind.is_dir() { "name a file in it" } else { "a report goes to a file" };
    DoorError::reason(path, RefusalKind::NotADevice, what, remedy)
}

/// Whether files can be made in `directory`, as far as that can be told without making one.
pub(crate) fn may_make(directory: &Directory) -> io::Result<()> {
    use rustix::fs::{Access, AtFlags, accessat};
    let path = directory.path();
    Ok(accessat(CWD, path, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
}

fn replace(
    door: &Door,
    path: &Path,
    directory: &Directory,
    name: OsString,
    content: &[u8],
) -> Result<(), DoorError> {
    let failed = DoorError::system("write", path);
    let hidden = match unguessable(&name) {
        Ok(hidden) => hidden,
        Err(error) => return Err(failed(error)),
    };
    let before = directory.look(&name).map_err(DoorError::system("look at", path))?;
    // What others may not read now they may not read afterwards.
    let mode = AtMost(before.as_ref().map_or(MODE, |found| found.mode() & MODE));
    let written =
        make(directory, &hidden, mode, before.as_ref(), content).map_err(DoorError::system("write", path))?;
    let put = put(door, path, directory, &hidden, &name);
    if put.is_ok()
        && let Err(error) = directory.sync()
    {
        tracing::warn!("{} is written, but a power cut may take its name: {error}", path.shown());
    }
    // The old report has the hidden name now, or the new one still has it.
    let left = match &put {
        Ok(old) => *old,
        Err(_) => Some(written),
    };
    if let Some(id) = left
        && let Err(error) = directory.remove(&hidden, &id)
    {
        tracing::warn!("{} is left beside {}: {error}", hidden.shown(), path.shown());
    }
    put.map(drop)
}

/// Who may do what with a file that is made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    /// What the umask leaves of it.
    AtMost(u32),
    /// These permission bits, whatever the umask says.
    Exactly(u32),
}
use Access::AtMost;
pub(crate) use Access::Exactly;

/// Makes the file `hidden` with `content`, durably, for whom the file `before` is whose place it takes.
pub(crate) fn make(
    directory: &Directory,
    hidden: &OsString,
    access: Access,
    before: Option<&Metadata>,
    content: &[u8],
) -> io::Result<FileId> {
    // Until it is what it is to be, it is nobody else's to read.
    let (AtMost(mode) | Exactly(mode)) = access;
    let mode = if matches!(access, Exactly(_)) { mode & 0o600 } else { mode };
    let unnamed = directory.unnamed(mode)?;
    let file = match &unnamed {
        Some(file) => file,
        None => &directory.create(hidden, mode)?,
    };
    let id = id_of(&file.metadata()?);
    let given = |()| before.map_or(Ok(()), |before| give(file, before));
    let opened = |()| match access {
        Exactly(mode) => Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?),
        AtMost(_) => Ok(()),
    };
    let written = (&*file).write_all(content).and_then(given).and_then(opened).and_then(|()| file.sync_all());
    match (written, unnamed) {
        (Ok(()), Some(unnamed)) => directory.link(&unnamed, hidden).map(|()| id),
        (Ok(()), None) => Ok(id),
        (Err(error), None) => {
            // The first error is the one to tell.
            let _ = directory.remove(hidden, &id);
            Err(error)
        }
        (Err(error), Some(_)) => Err(error),
    }
}

/// Gives `file` the owner and group of `before`. A group that it cannot have may not read it either.
fn give(file: &File, before: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    let (user, group) = (Uid::from_raw(before.uid()), Gid::from_raw(before.gid()));
    if now.uid() != before.uid() {
        return Ok(rustix::fs::fchown(file, Some(user), Some(group))?);
    }
    if now.gid() != before.gid() && rustix::fs::fchown(file, None, Some(group)).is_err() {
        let mode = Mode::from_raw_mode(now.mode()) - Mode::RWXG;
        return Ok(rustix::fs::fchmod(file, mode)?);
    }
    Ok(())
}

/// Gives what is called `hidden` the name `name`. The file that had it, which is judged again and then has the hidden
/// name, is returned.
fn put(
    door: &Door,
    path: &Path,
    directory: &Directory,
    hidden: &OsString,
    name: &OsString,
) -> Result<Option<FileId>, DoorError> {
    let system = |error: io::Error| DoorError::System { what: "write", path: path.to_owned(), source: error };
    let Some(old) = directory.pin(name).map_err(system)? else {
        pause_at("output.free");
        return match directory.rename_new(hidden, name) {
            Ok(()) => Ok(None),
            // A file system without this kind of renaming; a second name is refused where there is one.
            Err(error) if is_unknown(&error) => directory
                .open_file(hidden, OFlags::RDONLY)
                .and_then(|file| {
                    directory.link(&file, name)?;
                    Ok(Some(id_of(&file.metadata()?)))
                })
                .map_err(system),
            Err(error) => Err(system(error)),
        };
    };
    let found = old.metadata().map_err(system)?;
    if found.file_type().is_symlink() {
        return Err(link(path));
    }
    if !found.is_file() {
        return Err(no_report(path, found.file_type()));
    }
    let id = id_of(&found);
    door.may_replace(path, old)?;
    pause_at("output.judged");
    match directory.exchange(hidden, name) {
        Ok(()) => {}
        Err(error) if is_unknown(&error) => {
            return match directory.look(name).map_err(system)?.map(|found| id_of(&found)) == Some(id) {
                true => directory.rename(hidden, name).map_err(system).map(|()| None),
                false => Err(system(io::Error::other("something else has its name now; it is left alone"))),
            };
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return directory.rename_new(hidden, name).map_err(system).map(|()| None);
        }
        Err(error) => return Err(system(error)),
    }
    // Now what had the name can be looked at in peace: nobody else knows where it is.
    match directory.look(hidden).map_err(system)?.map(|found| id_of(&found)) == Some(id) {
        true => Ok(Some(id)),
        false => {
            directory.exchange(hidden, name).map_err(system)?;
            Err(system(io::Error::other("something else has its name now; it is left alone")))
        }
    }
}

fn is_unknown(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests;

//! Where a report goes: a regular file that is replaced as a whole, or a stream.

use crate::claim::reopen;
use crate::directory::{Directory, id_of, unguessable};
use crate::door::{Door, DoorError, Footprint, Identity, kind_name};
use crate::held::Held;
use crate::own;
use crate::pause::pause_at;
use ebbtide_core::guard::{Reason, RefusalKind};
use ebbtide_core::journal::FileId;
use ebbtide_core::shown::Shown;
use rustix::fs::{CWD, Mode, OFlags};
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
    /// A pipe, a terminal or /dev/null.
    Stream(File),
}

impl Door {
    /// Looks at where a report would go, and touches nothing.
    ///
    /// # Errors
    /// When nothing may be written there: a device, a link, a file that somebody uses or that is a store of `ebb`'s; when
    /// there is no such directory, or it may not be written.
    pub fn output(&self, path: &Path) -> Result<Output<'_>, DoorError> {
        let output = |kind| Output { door: self, path: path.to_owned(), kind };
        if let Some(stream) = inherited(path).map_err(DoorError::system("write", path))? {
            let found = stream.metadata().map_err(DoorError::system("look at", path))?;
            if !(is_text_stream(&found) || found.is_file() || found.file_type().is_socket()) {
                return Err(no_report(path, found.file_type()));
            }
            return Ok(output(Kind::Stream(stream)));
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
        let file =
            reopen(&pin, OFlags::RDONLY | OFlags::NONBLOCK).map_err(DoorError::system("read", path))?;
        drop(pin);
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
            Kind::Name(directory, name) => replace(door, &path, &directory, name, content),
        }
    }
}

/// The descriptor that `path` names, as the shell gave it to this process.
fn inherited(path: &Path) -> io::Result<Option<File>> {
    let text = path.to_str().unwrap_or_default();
    let number = match text {
        "/dev/stdout" => Some("1"),
        "/dev/stderr" => Some("2"),
        _ => text.strip_prefix("/dev/fd/").or_else(|| text.strip_prefix("/proc/self/fd/")),
    };
    let Some(number) = number.and_then(|number| number.parse::<i32>().ok()) else { return Ok(None) };
    // Held on to through its link: no name is looked up by that.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(Some(File::from(rustix::fs::open(format!("/proc/self/fd/{number}"), flags, Mode::empty())?)))
}

/// Whether text can be written to it without harm to what it holds.
fn is_text_stream(found: &Metadata) -> bool {
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let kind = found.file_type();
    let text = || (major == NULL.0 && NULL.1.contains(&minor)) || TERMINALS.contains(&major);
    kind.is_fifo() || (kind.is_char_device() && text())
}

fn write_stream(pin: &File, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::APPEND;
    match reopen(pin, flags) {
        Ok(mut stream) => stream.write_all(content),
        // A socket cannot be opened again; there is only the descriptor itself.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => Err(io::Error::other(
            "it is a socket, or a pipe that nobody reads; use -o - and redirect standard output",
        )),
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
fn may_make(directory: &Directory) -> io::Result<()> {
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
    let mode = before.as_ref().map_or(MODE, |found| found.mode() & MODE);
    let written = make(directory, &hidden, mode, content).map_err(DoorError::system("write", path))?;
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

/// Makes the file `hidden` with `content`, durably.
fn make(directory: &Directory, hidden: &OsString, mode: u32, content: &[u8]) -> io::Result<FileId> {
    let unnamed = directory.unnamed(mode)?;
    let mut file = match &unnamed {
        Some(file) => file,
        None => &directory.create(hidden, mode)?,
    };
    let id = id_of(&file.metadata()?);
    let written = file.write_all(content).and_then(|()| file.sync_all());
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

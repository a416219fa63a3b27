//! A file of the host's that others edit too (/etc/fstab): replaced as a whole, and only while it still is what the new text was made of.
//!
//! Who has it open to read does not matter: a reader keeps what it opened. Who writes to it does: after the exchange of names
//! the old file is waited for until nobody has it open to write, and read again. If it is not what it was, the names are exchanged back.

use crate::claim::reopen;
use crate::directory::{Directory, id_of, is_hidden_name, unguessable};
use crate::door::{DoorError, kind_name};
use crate::output::{Exactly, make, may_make};
use crate::own;
use crate::pause::pause_at;
use ebbtide_model::guard::RefusalKind;
use ebbtide_model::shown::Shown;
use ebbtide_sys::lease::has_writers;
use rustix::fs::OFlags;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a program that has the file open to write is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long is watched for programs that had looked up the name before the exchange.
const WATCHED: Duration = Duration::from_millis(10);

/// What became of a file that was to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Configured {
    /// It has the new text.
    Written,
    /// It was not the text that was expected, by another program's edit, and has that now: read it and try again.
    Edited,
}

/// Whether the file `path` of the host's could be replaced by [`replace`]; nothing is touched.
///
/// # Errors
/// When it is something other than a regular file, is `ebb`'s store or journal, cannot be changed (immutable, append only, mounted by itself)
/// or its directory cannot be written.
pub fn may_replace(path: &Path) -> Result<(), DoorError> {
    let (directory, name) = Directory::of(path).map_err(DoorError::system("write", path))?;
    look_at(&directory, &name, path)?;
    may_make(&directory).map_err(DoorError::system("write", path))
}

/// Gives the file `path` of the host's the content `text`, where it has the content `now` (`None`: where there is none). Owner, group, mode, extended
/// attributes and access lists stay; a new file gets `mode`.
///
/// # Errors
/// As [`may_replace`]; when it cannot be written, and when another program keeps it open to write.
pub fn replace(path: &Path, now: Option<&[u8]>, text: &[u8], mode: u32) -> Result<Configured, DoorError> {
    let failed = |error: io::Error| DoorError::System { what: "write", path: path.to_owned(), source: error };
    let (directory, name) = Directory::of(path).map_err(failed)?;
    let old = look_at(&directory, &name, path)?;
    let Some(old) = old else {
        return if now.is_some() {
            Ok(Configured::Edited)
        } else {
            make_new(&directory, &name, text, mode).map_err(failed)
        };
    };
    exchange(&directory, &name, old, now, text).map_err(failed)
}

/// Removes what a killed [`replace`] of `path` left beside it, where `is_known` says of its content that nothing is lost by that.
///
/// # Errors
/// When the directory cannot be read.
pub fn forget_unfinished(path: &Path, is_known: &dyn Fn(&[u8]) -> bool) -> io::Result<()> {
    let (directory, name) = Directory::of(path)?;
    let prefix = format!(".{}.", name.to_string_lossy());
    for entry in std::fs::read_dir(directory.path())? {
        let left = entry?.file_name();
        if !(is_hidden_name(Path::new(&left)) && left.to_string_lossy().starts_with(&prefix)) {
            continue;
        }
        let Some(found) = directory.look(&left)?.filter(std::fs::Metadata::is_file) else { continue };
        let mut content = Vec::new();
        directory.open_file(&left, OFlags::RDONLY)?.read_to_end(&mut content)?;
        if is_known(&content) {
            directory.remove(&left, &id_of(&found))?;
        }
    }
    Ok(())
}
/// The file `name`, open to read; nothing where there is none.
fn look_at(directory: &Directory, name: &OsStr, path: &Path) -> Result<Option<File>, DoorError> {
    let Some(pin) = directory.pin(name).map_err(DoorError::system("look at", path))? else { return Ok(None) };
    let found = pin.metadata().map_err(DoorError::system("look at", path))?;
    let refuse =
        |what: String, remedy: &str| Err(DoorError::reason(path, RefusalKind::NotADevice, what, remedy));
    if found.file_type().is_symlink() {
        let to = std::fs::read_link(path).map_or_else(|_| "elsewhere".to_owned(), |to| to.shown());
        return refuse(
            format!("it is a symbolic link to {to}, and ebb monitor changes the file of this name itself"),
            "put the file in the place of the link",
        );
    }
    if !found.is_file() {
        return refuse(
            format!("it is {}, and a file of settings is a regular file", kind_name(found.file_type())),
            "move it away",
        );
    }
    if let Some(why) = unchangeable(&pin, directory) {
        return refuse(why.0, why.1);
    }
    let file = reopen(&pin, OFlags::RDONLY).map_err(DoorError::system("read", path))?;
    match own::recognise(&file) {
        Some(own) => refuse(format!("it is {own} of ebb's"), "choose another file"),
        None => Ok(Some(file)),
    }
}

/// Why the file cannot lose its name, and what to do.
fn unchangeable(pin: &File, directory: &Directory) -> Option<(String, &'static str)> {
    use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
    let of =
        |fd: &File| statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).ok();
    let file = of(pin)?;
    let set = file.stx_attributes;
    if set.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND) {
        return Some(("it is immutable or append only".to_owned(), "chattr -i -a it first"));
    }
    let around = of(directory.fd())?;
    if file.stx_mnt_id != around.stx_mnt_id {
        return Some(("something is mounted on it by itself".to_owned(), "unmount that first"));
    }
    None
}

fn make_new(directory: &Directory, name: &OsStr, text: &[u8], mode: u32) -> io::Result<Configured> {
    let hidden = unguessable(name)?;
    let id = make(directory, &hidden, Exactly(mode), None, text)?;
    match directory.rename_new(&hidden, name) {
        Ok(()) => {
            let _ = directory.sync();
            Ok(Configured::Written)
        }
        Err(error) => {
            // The first error is the one to tell.
            let _ = directory.remove(&hidden, &id);
            if error.kind() == io::ErrorKind::AlreadyExists { Ok(Configured::Edited) } else { Err(error) }
        }
    }
}

fn content(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(content)
}

/// Waits until nobody has `file` open to write, for [`PATIENCE`]; whether that came.
fn is_left_alone(file: &File) -> bool {
    let begin = Instant::now();
    loop {
        match has_writers(file, WATCHED) {
            Some(false) => return true,
            // Who writes is not told here: what is seen after a while is what there is.
            None => {
                std::thread::sleep(WATCHED);
                return true;
            }
            Some(true) if begin.elapsed() > PATIENCE => return false,
            Some(true) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn exchange(
    directory: &Directory,
    name: &OsStr,
    mut old: File,
    now: Option<&[u8]>,
    text: &[u8],
) -> io::Result<Configured> {
    if now != Some(content(&mut old)?.as_slice()) {
        return Ok(Configured::Edited);
    }
    let before = old.metadata()?;
    let hidden = unguessable(name)?;
    let ours = make(directory, &hidden, Exactly(mode_of(&before)), Some(&before), text)?;
    let mut new = directory.open_file(&hidden, OFlags::RDONLY)?;
    let put = keep_attributes(&old, directory, &hidden).and_then(|()| {
        pause_at("output.judged");
        directory.exchange(&hidden, name)
    });
    if let Err(error) = put {
        let _ = directory.remove(&hidden, &ours);
        return Err(error);
    }
    // Which file had the name is seen now that nobody else knows where it is; who held it open may still write to it.
    let is_same = directory.look(&hidden)?.is_some_and(|found| id_of(&found) == id_of(&before));
    let is_quiet = is_same && is_left_alone(&old);
    if is_quiet && now == Some(content(&mut old)?.as_slice()) {
        directory.sync()?;
        directory.remove(&hidden, &id_of(&before))?;
        return Ok(Configured::Written);
    }
    give_back(directory, name, &hidden, &mut new, text)?;
    let _ = directory.remove(&hidden, &ours);
    match is_same && !is_quiet {
        true => Err(io::Error::other("another program keeps it open to write; end it, and try again")),
        false => Ok(Configured::Edited),
    }
}

/// Gives the file that is called `hidden` the name `name` again. What others appended to the file `new`, which had it for a moment, follows it.
fn give_back(
    directory: &Directory,
    name: &OsStr,
    hidden: &OsString,
    new: &mut File,
    text: &[u8],
) -> io::Result<()> {
    directory.exchange(hidden, name)?;
    is_left_alone(new);
    let found = content(new)?;
    match found.strip_prefix(text) {
        Some([]) => Ok(()),
        Some(appended) => directory.open_file(name, OFlags::WRONLY | OFlags::APPEND)?.write_all(appended),
        None => Err(io::Error::other(format!(
            "another program rewrote it while it was replaced; its text is in {}",
            directory.path().join(hidden).shown()
        ))),
    }
}

fn mode_of(found: &std::fs::Metadata) -> u32 {
    use std::os::unix::fs::MetadataExt;
    found.mode() & 0o7777
}

/// Gives the file `hidden` the extended attributes of `old`, access lists among them.
fn keep_attributes(old: &File, directory: &Directory, hidden: &OsStr) -> io::Result<()> {
    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
    use rustix::io::Errno;
    let mut names = vec![0; 1 << 16];
    let length = match flistxattr(old, &mut names) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    let file = directory.open_file(hidden, OFlags::RDONLY)?;
    let mut value = vec![0; 1 << 16];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let size = fgetxattr(old, name, &mut value)?;
        fsetxattr(&file, name, &value[..size], XattrFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

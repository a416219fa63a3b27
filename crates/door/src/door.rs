//! Opens, then judges what was opened, then hands out a claim.

use crate::claim::{Claim, Lent, reopen};
use crate::directory::{Directory, Removed};
use crate::footprint::Footprint;
use crate::held::Held;
use crate::pause::pause_at;
use ebbtide_model::blank::windows;
use ebbtide_model::guard::{Permission, Reason, Refusal, RefusalKind, WriteRequest};
use ebbtide_model::journal::FileId;
use ebbtide_model::shown::Shown;
use rustix::fs::{Access as FileAccess, AtFlags, CWD, FlockOperation, Mode, OFlags, SeekFrom, flock};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a lock on a device is waited for: udev takes one while it looks at a device that has just changed.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// What is to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Opened<'a> {
    /// The file or device, open to be read at least.
    pub file: &'a File,
    /// Whether the kernel refused an exclusive claim: something in it has one.
    pub busy: bool,
    /// What is to be written, and what was said about it.
    pub request: &'a WriteRequest<'a>,
}

/// Knows what may be written: the host crate's room.
pub trait Judge: Send + Sync {
    /// Looks at the host as it is now.
    fn look(&self) -> Box<dyn Look + '_>;

    /// The device that `path` means by now where it is no path but a name that this host gives devices; nothing where it is a path.
    ///
    /// # Errors
    /// In words, where no device has the name.
    fn named(&self, _path: &Path) -> Result<Option<NamedDevice>, String> {
        Ok(None)
    }
}

/// A device that is named by something else than its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedDevice {
    /// The kernel's own node for it.
    pub node: PathBuf,
    /// Its number as `stat` gives it.
    pub number: u64,
}

/// The host at one instant, which what was opened before is judged by.
pub trait Look {
    /// What `file` stands on.
    ///
    /// # Errors
    /// When it cannot be found out.
    fn footprint(&self, file: &File) -> io::Result<Footprint>;

    /// Every reason against writing what was opened, the ones that no option lifts first; none when it may be written.
    fn reasons(&self, opened: &Opened<'_>) -> Vec<Reason>;

    /// Who uses the regular file or directory that `file` is open on: reasons against taking its name away.
    fn users(&self, file: &File) -> Vec<Reason>;

    /// What the regular file that `file` is open on carries that no run leaves on a file of its own, but for what has one of
    /// the run's `labels`: reasons against removing it as a run's.
    fn foreign(&self, file: &File, labels: &[String]) -> Vec<Reason>;
}

/// Something to be claimed.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// What, and who allows that it is written.
    pub request: WriteRequest<'a>,
    /// What the path is taken for.
    pub expected: Expected,
    /// Whether it is to be written, or read only.
    pub write: bool,
}

/// What the caller takes a path for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// A regular file, addressed by device and inode.
    File,
    /// A block device.
    Device,
    /// A regular file or a block device.
    Any,
}

/// Why something was not opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// It must not be written.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// It is nothing that can be a volume.
    #[error("{} is {what}", path.shown())]
    NoVolume {
        /// As it was given.
        path: PathBuf,
        /// What it is instead, and what to write.
        what: String,
    },
    /// It is the name of no device of this host.
    #[error("{0}")]
    Unnamed(String),
    /// A system call failed.
    #[error("cannot {what} {}: {source}", path.shown())]
    System {
        /// What was tried: "open".
        what: &'static str,
        /// As it was given.
        path: PathBuf,
        /// As the kernel says it.
        source: io::Error,
    },
}

impl DoorError {
    pub(crate) fn system<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> DoorError + use<'a> {
        move |source| DoorError::System { what, path: path.to_owned(), source }
    }

    pub(crate) fn refused(path: &Path, reasons: Vec<Reason>) -> DoorError {
        DoorError::Refused(Refusal { path: path.shown(), reasons })
    }

    pub(crate) fn reason(path: &Path, kind: RefusalKind, what: String, remedy: &str) -> DoorError {
        DoorError::refused(path, vec![Reason { kind, what, remedy: remedy.to_owned() }])
    }
}

/// What becomes of a file that is to be removed, when not all of its users could be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// It stays: somebody may have begun to use it since the run that made it was killed.
    Keeps,
    /// It goes: the run that made it is ending and had it in a place of its own until now.
    Removes,
}

/// The door with the rules of this host.
#[derive(Clone)]
pub struct Door {
    judge: Arc<dyn Judge>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Door")
    }
}

impl Door {
    /// A door at which `judge` decides.
    pub fn new(judge: Arc<dyn Judge>) -> Door {
        Door { judge }
    }

    pub(crate) fn look(&self) -> Box<dyn Look + '_> {
        self.judge.look()
    }

    /// Claims existing files and devices.
    ///
    /// Each path is looked up once; what it leads to is then held, opened (a device that is to be written exclusively) and
    /// judged, and nothing else is ever written through its claim. All are opened before the host is looked at, once for
    /// all of them.
    ///
    /// # Errors
    /// The first that must not be written, with every reason, or cannot be opened, by its position in `wanted`. None is
    /// claimed then.
    pub fn claim(&self, wanted: &[Wanted<'_>]) -> Result<Vec<Claim>, (usize, DoorError)> {
        let opened = self.open_all(wanted, Use::Writes)?;
        if opened.is_empty() {
            return Ok(Vec::new());
        }
        pause_at("volume.opened");
        let look = self.look();
        let held = hold_all(&opened, look.as_ref())?;
        let claims = opened.into_iter().zip(held);
        claims
            .map(|(candidate, held)| candidate.claim(look.as_ref(), held))
            .enumerate()
            .map(numbered)
            .collect()
    }

    /// Whether [`claim`](Self::claim) would find a reason against these as they are now; opens nothing to be written.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub fn may_claim(&self, wanted: &[Wanted<'_>]) -> Result<(), (usize, DoorError)> {
        let opened = self.open_all(wanted, Use::Asks)?;
        if opened.is_empty() {
            return Ok(());
        }
        let look = self.look();
        let _held = hold_all(&opened, look.as_ref())?;
        opened.iter().map(|candidate| candidate.judge(look.as_ref())).enumerate().try_for_each(numbered)
    }
}

impl Door {
    /// Opens all, for `writing` those that are to be written.
    fn open_all<'a>(
        &self,
        wanted: &'a [Wanted<'a>],
        writing: Use,
    ) -> Result<Vec<Candidate<'a>>, (usize, DoorError)> {
        let to = |one: &Wanted<'_>| if one.write { writing } else { Use::Reads };
        wanted.iter().map(|one| self.open(one, to(one))).enumerate().map(numbered).collect()
    }

    fn open<'a>(&self, wanted: &'a Wanted<'a>, to: Use) -> Result<Candidate<'a>, DoorError> {
        let path = wanted.request.path;
        let named = self.judge.named(path).map_err(DoorError::Unnamed)?;
        let at = named.as_ref().map_or(path, |named| named.node.as_path());
        let pin = pin(at, wanted.expected)?;
        pause_at("volume.pinned");
        let candidate =
            Candidate::of(&pin, &wanted.request, to).map_err(|error| self.name_holders(error, &pin))?;
        let Some(named) = named else { return Ok(candidate) };
        // What is open keeps its number, which may have been another device's a moment ago.
        let number = candidate.file.metadata().map_err(DoorError::system("look at", path))?.rdev();
        match self.judge.named(path).map_err(DoorError::Unnamed)? {
            Some(now) if now == named && now.number == number => {
                Ok(Candidate { node: Some(named.node), ..candidate })
            }
            _ => {
                let what = "another device by now than a moment ago; try again".to_owned();
                Err(DoorError::NoVolume { path: path.to_owned(), what })
            }
        }
    }

    /// `error` of opening what `pin` holds on to, with who holds a lease on it where it was that.
    pub(crate) fn name_holders(&self, error: DoorError, pin: &File) -> DoorError {
        match error {
            DoorError::System { what, path, source }
                if Errno::from_io_error(&source) == Some(Errno::WOULDBLOCK) =>
            {
                let users = self.look().users(pin).into_iter().filter(|reason| reason.kind.is_absolute());
                let users: Vec<String> = users.map(|reason| reason.what).collect();
                let who = if users.is_empty() { String::new() } else { format!(": {}", users.join(", ")) };
                let said = format!(
                    "somebody holds a lease on it and does not give it up{who}; end the program, or wait until it does \
                     (`/proc/locks` lists leases)"
                );
                DoorError::System { what, path, source: io::Error::new(source.kind(), said) }
            }
            other => other,
        }
    }

    /// Judges again what was lent, before a program is let at it.
    ///
    /// # Errors
    /// The first that must not be written by now, by its position.
    pub fn recheck(&self, lent: &[(&Lent, WriteRequest<'_>)]) -> Result<(), (usize, DoorError)> {
        let opened: Vec<Candidate<'_>> = lent
            .iter()
            .map(|(lent, request)| Candidate::of(&lent.pin, request, Use::Writes))
            .enumerate()
            .map(numbered)
            .collect::<Result<_, _>>()?;
        let look = self.look();
        opened.iter().map(|candidate| candidate.judge(look.as_ref())).enumerate().try_for_each(numbered)
    }

    /// Removes the file or directory `name` in `directory` that a run made, if it is still `id` and nobody uses it or put
    /// something of their own on it. What carries one of `labels` is the run's.
    ///
    /// # Errors
    /// Who uses it and what is on it, with what to do: `ResourceBusy` where that is only programs that have it open. When
    /// something else has the name, or it cannot be removed.
    pub fn remove(
        &self,
        directory: &Directory,
        name: impl AsRef<Path>,
        id: &FileId,
        doubt: Doubt,
        labels: &[String],
    ) -> io::Result<Removed> {
        directory.remove_if(name, id, Some(&|file| self.may_go(file, doubt, labels)))
    }

    /// Whether [`remove`](Self::remove) would find a reason against it; touches nothing.
    ///
    /// # Errors
    /// The reasons.
    pub fn may_remove(
        &self,
        directory: &Directory,
        name: impl AsRef<Path>,
        id: &FileId,
        labels: &[String],
    ) -> io::Result<()> {
        directory.ask_if(name, id, &|file| self.may_go(file, Doubt::Keeps, labels))
    }

    fn may_go(&self, file: &File, doubt: Doubt, labels: &[String]) -> io::Result<()> {
        let look = self.look();
        let mut reasons = look.users(file);
        if doubt == Doubt::Removes {
            reasons.retain(|reason| reason.kind != RefusalKind::Untold);
        }
        if reasons.is_empty() && file.metadata()?.is_file() {
            reasons = look.foreign(file, labels);
        }
        if reasons.is_empty() {
            return Ok(());
        }
        let kind = match reasons.iter().all(|reason| reason.kind == RefusalKind::Open) {
            true => io::ErrorKind::ResourceBusy,
            false => io::ErrorKind::Other,
        };
        Err(io::Error::new(kind, Refusal { path: String::new(), reasons }.reasons_in_words()))
    }

    /// Makes what was lent look as blank as it was before this run: zeros where a device is looked at.
    ///
    /// # Errors
    /// When it may not be written by now, or cannot be.
    pub fn erase(&self, lent: &Lent, request: &WriteRequest<'_>) -> Result<(), DoorError> {
        let candidate = Candidate::of(&lent.pin, request, Use::Writes)?;
        candidate.judge(self.look().as_ref())?;
        let failed = |error: io::Error| DoorError::system("erase", request.path)(error);
        let size =
            rustix::fs::seek(&candidate.file, SeekFrom::End(0)).map_err(|errno| failed(errno.into()))?;
        for (offset, length) in windows(size) {
            candidate.file.write_all_at(&vec![0; length as usize], offset).map_err(failed)?;
        }
        candidate.file.sync_all().map_err(failed)
    }
}

/// An error with its position.
fn numbered<T>((index, result): (usize, Result<T, DoorError>)) -> Result<T, (usize, DoorError)> {
    result.map_err(|error| (index, error))
}

/// Holds all of these. What is named twice is told so, before it would seem to be somebody else's that has it open.
fn hold_all(opened: &[Candidate<'_>], look: &dyn Look) -> Result<Vec<Option<Held>>, (usize, DoorError)> {
    opened.iter().map(|candidate| candidate.hold(look)).enumerate().map(numbered).collect()
}

/// What something is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// To be read only: nothing is a reason against it.
    Reads,
    /// To be written.
    Writes,
    /// To be judged as what is to be written, and not touched.
    Asks,
}

/// What was opened to be claimed, and is not yet judged.
struct Candidate<'a> {
    request: &'a WriteRequest<'a>,
    /// The path of a device that was named by something else.
    node: Option<PathBuf>,
    write: bool,
    file: File,
    device: bool,
    /// Why it could not be opened to be written: the judge may know better.
    refused: Option<io::Error>,
    lock: Lock,
}

impl<'a> Candidate<'a> {
    /// Opens what `pin` holds on to.
    fn of(pin: &File, request: &'a WriteRequest<'a>, to: Use) -> Result<Candidate<'a>, DoorError> {
        let path = request.path;
        let found = pin.metadata().map_err(DoorError::system("look at", path))?;
        let device = found.file_type().is_block_device();
        let write = to != Use::Reads;
        if !write {
            let file = reopen(pin, OFlags::RDONLY).map_err(DoorError::system("open", path))?;
            return Ok(Candidate {
                request,
                node: None,
                write,
                file,
                device,
                refused: None,
                lock: Lock(None),
            });
        }
        let exclusive = if device { OFlags::EXCL } else { OFlags::empty() };
        let opened = match request.permission {
            // What may not be destroyed is looked at without the traces that opening it to be written leaves.
            Permission::User { destroy: false, .. } if !device => Err(Errno::PERM.into()),
            Permission::User { destroy: false, .. } => {
                reopen(pin, OFlags::RDONLY | exclusive).and(Err(Errno::PERM.into()))
            }
            // Nothing is written here, and udev looks at a device anew when somebody closes it who might have.
            Permission::Exported { .. } => reopen(pin, OFlags::RDONLY | exclusive),
            _ if to == Use::Asks => {
                reopen(pin, OFlags::RDONLY | exclusive).and_then(|file| is_writable(pin).map(|()| file))
            }
            _ => reopen(pin, OFlags::RDWR | exclusive),
        };
        let (file, refused) = match opened {
            Ok(file) => (file, None),
            Err(error) => {
                (reopen(pin, OFlags::RDONLY).map_err(DoorError::system("open", path))?, Some(error))
            }
        };
        let lock = if device { Lock::take(&file, path)? } else { Lock(None) };
        Ok(Candidate { request, node: None, write, file, device, refused, lock })
    }

    fn judge(&self, look: &dyn Look) -> Result<(), DoorError> {
        let path = self.request.path;
        let refused = self.refused.as_ref().and_then(Errno::from_io_error);
        let opened = Opened { file: &self.file, busy: refused == Some(Errno::BUSY), request: self.request };
        let reasons = if self.write { look.reasons(&opened) } else { Vec::new() };
        if !reasons.is_empty() {
            return Err(DoorError::refused(path, reasons));
        }
        match refused {
            None => Ok(()),
            Some(Errno::TXTBSY) => Err(DoorError::reason(
                path,
                RefusalKind::Open,
                "it is swap in use, or a program that runs".to_owned(),
                "end what uses it first",
            )),
            Some(errno) => Err(DoorError::system("open", path)(errno.into())),
        }
    }

    /// Holds it against a second claim of this program. What was built stands on what this program holds already.
    fn hold(&self, look: &dyn Look) -> Result<Option<Held>, DoorError> {
        let path = self.request.path;
        if self.request.permission == Permission::Built {
            return Ok(None);
        }
        let footprint = look.footprint(&self.file).map_err(DoorError::system("look at", path))?;
        Held::claim(path.shown(), footprint).map(Some).map_err(|other| {
            DoorError::reason(
                path,
                RefusalKind::Twice,
                format!("it shares its blocks with {other}, which is in use here already"),
                "name each file or device once",
            )
        })
    }

    fn claim(self, look: &dyn Look, held: Option<Held>) -> Result<Claim, DoorError> {
        self.judge(look)?;
        let Candidate { request, node, write, file, device, lock, .. } = self;
        let path = request.path;
        if write && !device {
            lock_file(&file, path)?;
        }
        drop(lock);
        pause_at("volume.judged");
        Claim::new(file, node.as_deref().unwrap_or(path), write, held)
            .map_err(DoorError::system("look at", path))
    }
}

/// Whether the kernel uses the block device `number`, whose node is at `path`, or a program has claimed it: a claim of
/// one's own cannot be had. Another device at `path` counts as used.
///
/// # Errors
/// When it cannot be opened.
pub fn is_claimed(path: &Path, number: u64) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(fd) => {
            let found = File::from(fd).metadata()?;
            Ok(!(found.file_type().is_block_device() && found.rdev() == number))
        }
        Err(Errno::BUSY) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether what `pin` holds on to may be opened to be written, as far as its mode and its file system say.
fn is_writable(pin: &File) -> io::Result<()> {
    let this = format!("/proc/self/fd/{}", pin.as_raw_fd());
    Ok(rustix::fs::accessat(CWD, this, FileAccess::WRITE_OK, AtFlags::EACCESS)?)
}

/// Holds on to what `path` leads to, without opening it: opening a pipe waits for its other end, opening a tape winds
/// it back.
fn pin(path: &Path, expected: Expected) -> Result<File, DoorError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(|errno| DoorError::system("use", path)(errno.into()))?;
    let pin = File::from(fd);
    let kind = pin.metadata().map_err(DoorError::system("look at", path))?.file_type();
    let wrong = |what| Err(DoorError::NoVolume { path: path.to_owned(), what });
    if !kind.is_file() && !kind.is_block_device() {
        let kind = kind_name(kind);
        return wrong(format!(
            "{kind}, neither a regular file nor a block device; a volume is one of these (`ebb volumes` lists devices)"
        ));
    }
    if expected == Expected::File && kind.is_block_device() {
        return wrong("a block device and not a file; write `device = ` for a device".to_owned());
    }
    if expected == Expected::Device && kind.is_file() {
        return wrong("a regular file and not a device; write `file = ` for a file".to_owned());
    }
    Ok(pin)
}

/// A lock on a device while it is judged: who locks devices (udev, partitioning tools) is at work on it.
struct Lock(Option<File>);

impl Lock {
    fn take(file: &File, path: &Path) -> Result<Lock, DoorError> {
        let failed = |errno: Errno| DoorError::system("lock", path)(errno.into());
        let begin = Instant::now();
        loop {
            match flock(file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if begin.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(Errno::WOULDBLOCK) => return Err(locked(path)),
                Err(errno) => return Err(failed(errno)),
            }
        }
        // Of the same description, which has the lock.
        Ok(Lock(Some(file.try_clone().map_err(DoorError::system("lock", path))?)))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // It would go with the descriptor anyway.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// Locks a file for as long as it is claimed, against other programs that ask.
fn lock_file(file: &File, path: &Path) -> Result<(), DoorError> {
    match ebbtide_sys::lock::try_lock(file) {
        // A file system without locks (some network ones): nobody else has one either.
        Ok(true) | Err(_) => {}
        Ok(false) => return Err(locked(path)),
    }
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(locked(path)),
        _ => Ok(()),
    }
}

fn locked(path: &Path) -> DoorError {
    DoorError::reason(
        path,
        RefusalKind::Open,
        "another program holds a lock on it".to_owned(),
        "end the program (`lslocks` lists them)",
    )
}

/// What something that is no volume is, in words.
pub(crate) fn kind_name(kind: std::fs::FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_block_device() {
        "a block device"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else {
        "a regular file"
    }
}

//! A file or device that was claimed as a volume, and the handles on it.

use crate::directory::id_of;
use crate::held::Held;
use ebbtide_model::journal::FileId;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use rustix::fs::{Mode, OFlags, SeekFrom, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How a volume is to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Access {
    /// Written too, not only read.
    pub write: bool,
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Each write durable before it completes (`O_SYNC`).
    pub sync: bool,
}

/// A file or device that is open for I/O. Only a [`Claim`] makes one that may be written.
#[derive(Debug)]
pub struct Handle(File);

impl Handle {
    /// A handle on whatever a test opened.
    #[cfg(feature = "testing")]
    pub fn unjudged(file: File) -> Handle {
        Handle(file)
    }

    pub(crate) fn new(file: File) -> Handle {
        Handle(file)
    }
}

impl Deref for Handle {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A file or device claimed as a volume, until it is dropped. A device that may be written is opened exclusively:
/// neither a mount nor an array nor another claim takes it meanwhile.
#[derive(Debug)]
pub struct Claim {
    file: File,
    path: PathBuf,
    id: FileId,
    device: Option<u64>,
    writable: bool,
    /// See [`crate::kernel::endless`].
    endless: bool,
    held: Option<Held>,
}

impl Claim {
    pub(crate) fn endless(file: File, path: &Path) -> io::Result<Claim> {
        Ok(Claim { endless: true, ..Claim::new(file, path, true, None)? })
    }

    pub(crate) fn new(file: File, path: &Path, writable: bool, held: Option<Held>) -> io::Result<Claim> {
        let found = file.metadata()?;
        let device = found.file_type().is_block_device().then(|| found.rdev());
        Ok(Claim { id: id_of(&found), file, path: path.to_owned(), device, writable, endless: false, held })
    }

    /// A file that was made at `path` a moment ago, which nobody else can have named as a volume.
    ///
    /// # Errors
    /// When the system cannot tell what it is.
    pub fn of_new(file: File, path: &Path) -> io::Result<Claim> {
        Claim::new(file, path, true, None)
    }

    /// Its path, as it was asked for, or the kernel's own where it was asked for by another name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was opened: by number, not by name.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Its device number as `stat` gives it, where it is a block device.
    pub fn device(&self) -> Option<u64> {
        self.device
    }

    /// What the system says of it now.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Its bytes now.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn length(&self) -> io::Result<u64> {
        if self.endless {
            return Ok(i64::MAX as u64);
        }
        Ok(rustix::fs::seek(&self.file, SeekFrom::End(0))?)
    }

    /// Bytes below `end` of a file that were never written: holes, and blocks that are only reserved. They read as zeros
    /// without touching a disk. Of a file in very many pieces at least as many; 0 where the file system does not tell.
    pub fn unwritten(&self, end: u64) -> u64 {
        /// A file of 1 GiB in which every other block is written has some more.
        const PIECES: usize = 100_000;
        let (mut sum, mut at) = (0, 0);
        for _ in 0..PIECES {
            if self.device.is_some() || self.endless || at >= end {
                break;
            }
            // A file system that knows of no holes says that the only one is at the end.
            let Ok(hole) = rustix::fs::seek(&self.file, SeekFrom::Hole(at)) else { break };
            if hole >= end {
                break;
            }
            at = match rustix::fs::seek(&self.file, SeekFrom::Data(hole)) {
                Ok(data) => data.min(end),
                // No data after it.
                Err(_) => end,
            };
            sum += at - hole;
        }
        sum
    }

    /// Opens what was claimed once more, for `access`: the very file or device, whatever its path leads to by now.
    ///
    /// # Errors
    /// `InvalidInput` where it cannot be accessed like that (no O_DIRECT), `PermissionDenied` where it is to be written
    /// and was claimed to be read.
    pub fn open(&self, access: Access) -> io::Result<Handle> {
        if access.write && !self.writable {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it was opened to be read only"));
        }
        let mut flags = if access.write { OFlags::RDWR } else { OFlags::RDONLY };
        flags.set(OFlags::DIRECT, access.direct);
        flags.set(OFlags::SYNC, access.sync);
        let file = reopen(&self.file, flags)?;
        match id_of(&file.metadata()?) == self.id {
            true => Ok(Handle(file)),
            false => Err(io::Error::other("/proc does not lead to what was opened")),
        }
    }

    /// Lets go of an exclusive claim so that the kernel or a program can take the device, and holds on to the device
    /// itself: its number cannot come to mean another one, and a loop device keeps its file. A file stays locked.
    ///
    /// # Errors
    /// When it cannot be opened once more.
    pub fn lend(self) -> io::Result<Lent> {
        let Claim { file, path, device, held, .. } = self;
        let pin = if device.is_some() { reopen(&file, OFlags::RDONLY)? } else { file };
        Ok(Lent { pin, path, device, _held: held })
    }
}

/// A file or device that programs and the kernel work on, which claim it themselves.
#[derive(Debug)]
pub struct Lent {
    pub(crate) pin: File,
    path: PathBuf,
    device: Option<u64>,
    _held: Option<Held>,
}

impl Lent {
    /// Its path, as it was asked for, or the kernel's own where it was asked for by another name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its device number as `stat` gives it, where it is a block device.
    pub fn device(&self) -> Option<u64> {
        self.device
    }

    /// The path that the kernel knows it by now, without links.
    ///
    /// # Errors
    /// When /proc does not tell, or it has none any more.
    pub fn current_path(&self) -> io::Result<PathBuf> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.pin.as_raw_fd()))?;
        match self.is_at(&path) {
            true => Ok(path),
            false => Err(io::Error::other("it was renamed or removed")),
        }
    }

    /// Whether the loop device at `path` stands on it.
    pub fn is_behind(&self, path: &Path) -> bool {
        let behind = File::open(path).and_then(|device| ebbtide_sys::loops::behind(&device));
        match (behind, self.pin.metadata()) {
            (Ok(Some(behind)), Ok(found)) => (behind.dev, behind.ino) == (found.dev(), found.ino()),
            _ => false,
        }
    }

    /// Whether `path`, which a program is about to be given, leads to it.
    pub fn is_at(&self, path: &Path) -> bool {
        let number = |found: Metadata| found.file_type().is_block_device().then(|| found.rdev());
        match (std::fs::metadata(path), self.pin.metadata()) {
            (Ok(there), Ok(here)) => match self.device {
                Some(device) => number(there) == Some(device),
                None => id_of(&there) == id_of(&here),
            },
            _ => false,
        }
    }
}

/// How long somebody's lease on a file is waited for: who holds one is told by the kernel to give it up, which takes a
/// file server less than a second, and is given 45 seconds by default (`/proc/sys/fs/lease-break-time`).
const LEASE_PATIENCE: Duration = Duration::from_secs(3);

/// Opens what `file` is open on once more: by its descriptor, so that no name is looked up. A lease that is not given up
/// is the error `EWOULDBLOCK`.
pub(crate) fn reopen(file: &File, flags: OFlags) -> io::Result<File> {
    let this = format!("/proc/self/fd/{}", file.as_raw_fd());
    // Only files have leases; some devices are opened differently without waiting.
    let regular = file.metadata()?.is_file();
    let mut all = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    if regular {
        all |= OFlags::NONBLOCK;
    }
    let begin = Instant::now();
    loop {
        match rustix::fs::open(&this, all, Mode::empty()) {
            Ok(fd) => {
                if regular {
                    // io_uring would give back what it cannot do at once.
                    fcntl_setfl(&fd, fcntl_getfl(&fd)? - OFlags::NONBLOCK)?;
                }
                return Ok(File::from(fd));
            }
            Err(Errno::WOULDBLOCK) if regular && begin.elapsed() < LEASE_PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(Errno::NOENT) => {
                return Err(io::Error::other(
                    "/proc is not mounted, through which an open file is opened again",
                ));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

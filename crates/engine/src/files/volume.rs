//! A volume that is open for a session.

use super::made::id_of;
use crate::target::Shaper;
use ebbtide_core::backend::BackendError;
use ebbtide_core::journal::FileId;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A volume that is open for a session.
#[derive(Debug)]
pub(super) struct OpenVolume {
    /// Index into the experiment's volumes.
    pub(super) index: usize,
    /// The volume's name.
    pub(super) name: String,
    /// Its file or device.
    pub(super) path: PathBuf,
    /// Usable bytes.
    pub(super) size: u64,
    /// Whether O_DIRECT is possible.
    pub(super) direct: bool,
    /// The speed that it is given.
    pub(super) shaper: Option<Arc<Shaper>>,
    /// Keeps the file or device for the whole session; exclusive where it is a device that is written.
    claim: File,
    id: FileId,
    device: bool,
}

impl OpenVolume {
    /// Takes `claim`, which is open at `path`, as a volume. Its usable size is `size` where that is given, else
    /// its own, rounded down to whole blocks of 4096 bytes.
    pub(super) fn new(
        index: usize,
        name: &str,
        path: &Path,
        size: Option<u64>,
        claim: File,
    ) -> Result<Self, BackendError> {
        let fail = |what: String| BackendError::Volume { volume: name.to_owned(), what };
        let shown = path.display();
        let found = claim.metadata().map_err(|error| fail(format!("cannot look at {shown}: {error}")))?;
        let device = found.file_type().is_block_device();
        if !device && !found.is_file() {
            return Err(fail(format!(
                "{shown} is {}; a volume is a regular file or a block device",
                kind_name(&found)
            )));
        }
        let own = length(&claim).map_err(|error| fail(format!("cannot ask the size of {shown}: {error}")))?;
        let size = match size {
            Some(size) if size > own => {
                return Err(fail(format!("{shown} has {own} bytes, less than its `size` of {size} bytes")));
            }
            Some(size) => size,
            None => own / super::fill::ALIGN as u64 * super::fill::ALIGN as u64,
        };
        if size == 0 {
            return Err(fail(format!("{shown} is smaller than one block of 4096 bytes")));
        }
        let found = claim.metadata().map_err(|error| fail(format!("cannot look at {shown}: {error}")))?;
        let mut volume = OpenVolume {
            id: id_of(&found),
            index,
            name: name.to_owned(),
            path: path.to_owned(),
            size,
            direct: true,
            shaper: None,
            claim,
            device,
        };
        volume.direct = volume.takes_direct()?;
        Ok(volume)
    }

    /// An error that names this volume.
    pub(super) fn error(&self, what: String) -> BackendError {
        BackendError::Volume { volume: self.name.clone(), what }
    }

    /// Whether it is a block device.
    pub(super) fn is_device(&self) -> bool {
        self.device
    }

    /// Bytes allocated below its usable size, where it is a file with holes.
    pub(super) fn holes(&self) -> Option<u64> {
        let found = self.claim.metadata().ok()?;
        let allocated = found.blocks().saturating_mul(512);
        (!self.device && allocated < self.size).then(|| self.size - allocated)
    }

    /// `O_DIRECT` where it is possible.
    pub(super) fn direct_flag(&self) -> OFlags {
        if self.direct { OFlags::DIRECT } else { OFlags::empty() }
    }

    /// Opens it once more, after making sure that its path still leads to it.
    pub(super) fn open(&self, flags: OFlags) -> Result<File, BackendError> {
        let file = rustix::fs::open(&self.path, flags | OFlags::CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(|errno| match errno {
                Errno::NOENT => self.error(format!("{} is gone: it was removed", self.path.display())),
                errno => self.error(format!("cannot open {}: {errno}", self.path.display())),
            })?;
        match file.metadata() {
            Ok(found) if id_of(&found) == self.id => Ok(file),
            Ok(_) => Err(self.error(format!("{} is another file now: it was replaced", self.path.display()))),
            Err(error) => Err(self.error(format!("cannot look at {}: {error}", self.path.display()))),
        }
    }

    /// Whether it is still there in full. An open file outlives its name, so reads alone would not show it.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        let shown = self.path.display();
        let found =
            self.claim.metadata().map_err(|error| self.error(format!("cannot look at {shown}: {error}")))?;
        if !self.device && found.nlink() == 0 {
            return Err(self.error(format!("{shown} is gone: it was removed")));
        }
        match length(&self.claim) {
            Ok(own) if own < self.size => Err(self.error(format!(
                "{shown} has shrunk to {own} bytes, it had {} bytes when the session began",
                self.size
            ))),
            Ok(_) => Ok(()),
            Err(errno) => Err(self.error(format!("cannot ask the size of {shown}: {errno}"))),
        }
    }

    /// Opens and reads with O_DIRECT once: some file systems refuse the one, some the other.
    fn takes_direct(&self) -> Result<bool, BackendError> {
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::INVAL) => return Ok(false),
            Err(errno) => return Err(self.error(format!("cannot open {}: {errno}", self.path.display()))),
        };
        let mut space = vec![0; 2 * super::fill::ALIGN];
        let start = space.as_ptr().align_offset(super::fill::ALIGN);
        match file.read_at(&mut space[start..start + super::fill::ALIGN], 0) {
            Ok(_) => Ok(true),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => Ok(false),
            Err(error) => Err(self.error(format!("cannot read {}: {error}", self.path.display()))),
        }
    }
}

/// Bytes of a file or block device.
fn length(file: &File) -> rustix::io::Result<u64> {
    rustix::fs::seek(file, SeekFrom::End(0))
}

fn kind_name(found: &std::fs::Metadata) -> &'static str {
    match FileType::from_raw_mode(found.mode()) {
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        _ => "neither a regular file nor a block device",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A new file of `size` bytes as a volume.
    pub(in crate::files) fn volume_at(path: &Path, index: usize, size: u64) -> OpenVolume {
        let file = File::create_new(path).expect("makes a file");
        file.set_len(size).expect("sets its length");
        drop(file);
        let claim = File::open(path).expect("opens it");
        OpenVolume::new(index, &format!("vol{index}"), path, Some(size), claim).expect("is a volume")
    }

    #[test]
    fn a_file_that_goes_away_is_noticed() {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = directory.path().join("v");
        let volume = volume_at(&path, 3, 8192);
        assert_eq!(volume.check(), Ok(()));
        assert_eq!(volume.holes(), Some(8192));

        File::options().write(true).open(&path).expect("opens").set_len(4096).expect("cuts");
        let error = volume.check().expect_err("has shrunk").to_string();
        assert!(error.contains("vol3") && error.contains("shrunk to 4096 bytes"), "{error}");

        std::fs::write(directory.path().join("other"), [0; 8192]).expect("writes");
        std::fs::rename(directory.path().join("other"), &path).expect("renames");
        assert!(volume.check().expect_err("is gone").to_string().contains("removed"));
        let error = volume.open(OFlags::RDONLY).expect_err("is another").to_string();
        assert!(error.contains("replaced"), "{error}");
    }

    #[test]
    fn only_files_and_devices_are_volumes() {
        for (path, words) in [("/tmp", "a directory"), ("/dev/null", "a character device")] {
            let claim = File::open(path).expect("opens");
            let error = OpenVolume::new(0, "v", Path::new(path), None, claim).expect_err("is refused");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}

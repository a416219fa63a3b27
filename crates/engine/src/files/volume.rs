//! A volume that is open for a session.

use crate::target::Shaper;
use ebbtide_door::{Access, Claim, Handle};
use ebbtide_model::backend::BackendError;
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use rustix::io::Errno;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// Memory and offsets for O_DIRECT are multiples of this, the largest logical block size in use.
pub(super) const ALIGN: usize = 4096;
/// The same as a size: volumes are whole blocks.
pub(super) const BLOCK: Bytes = Bytes(ALIGN as u64);

/// A volume that is open for a session.
#[derive(Debug)]
pub(super) struct OpenVolume {
    /// Index into the experiment's volumes.
    pub(super) index: usize,
    pub(super) name: String,
    /// What of it is used.
    pub(super) size: Bytes,
    /// Whether O_DIRECT is possible.
    pub(super) direct: bool,
    /// The speed that it is given.
    pub(super) shaper: Option<Arc<Shaper>>,
    /// Keeps the file or device for the whole session; exclusive where it is a device that is written.
    claim: Claim,
}

impl OpenVolume {
    /// Takes `claim` as a volume. Its usable size is `size` where that is given, else its own, rounded down to whole blocks
    /// of 4096 bytes.
    pub(super) fn new(
        index: usize,
        name: &str,
        size: Option<Bytes>,
        claim: Claim,
    ) -> Result<Self, BackendError> {
        let fail = |what: String| BackendError::Volume { volume: name.to_owned(), what };
        let shown = claim.path().shown();
        let own = claim
            .length()
            .map(Bytes)
            .map_err(|error| fail(format!("cannot ask the size of {shown}: {error}")))?;
        let size = match size {
            Some(size) if size > own => {
                return Err(fail(format!(
                    "{shown} has {} bytes, less than its `size` of {} bytes",
                    own.0, size.0
                )));
            }
            Some(size) => size,
            None => own - own % BLOCK,
        };
        if size == Bytes(0) {
            return Err(fail(format!("{shown} is smaller than one block of 4096 bytes")));
        }
        let mut volume = OpenVolume { index, name: name.to_owned(), size, direct: true, shaper: None, claim };
        volume.direct = volume.takes_direct()?;
        Ok(volume)
    }

    /// An error that names this volume.
    pub(super) fn error(&self, what: String) -> BackendError {
        BackendError::Volume { volume: self.name.clone(), what }
    }

    /// The path that it was opened at.
    pub(super) fn path(&self) -> &Path {
        self.claim.path()
    }

    /// Whether it is a block device.
    pub(super) fn is_device(&self) -> bool {
        self.claim.device().is_some()
    }

    /// What of it was never written, where it is a file.
    pub(super) fn unwritten(&self) -> Bytes {
        Bytes(self.claim.unwritten(self.size.0))
    }

    /// Opens it once more for `access`, past the page cache only where that is possible.
    pub(super) fn open(&self, access: Access) -> Result<Handle, BackendError> {
        let access = Access { direct: access.direct && self.direct, ..access };
        self.claim
            .open(access)
            .map_err(|error| self.error(format!("cannot open {}: {error}", self.path().shown())))
    }

    /// Lets go of it, so that the kernel can take it.
    pub(super) fn lend(self) -> Result<ebbtide_door::Lent, BackendError> {
        let name = self.name;
        self.claim.lend().map_err(|error| BackendError::Volume {
            volume: name,
            what: format!("cannot hold on to it: {error}"),
        })
    }

    /// Whether it is still there in full. An open file outlives its name, so reads alone would not show it.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        let shown = self.path().shown();
        let found =
            self.claim.metadata().map_err(|error| self.error(format!("cannot look at {shown}: {error}")))?;
        if !self.is_device() && found.nlink() == 0 {
            return Err(self.error(format!("{shown} is gone: it was removed or replaced")));
        }
        match self.claim.length() {
            Ok(own) if own < self.size.0 => Err(self.error(format!(
                "{shown} has shrunk to {own} bytes, it had {} bytes when the session began",
                self.size.0
            ))),
            Ok(_) => Ok(()),
            Err(error) => Err(self.error(format!("cannot ask the size of {shown}: {error}"))),
        }
    }

    /// Opens and reads with O_DIRECT once: some file systems refuse the one, some the other.
    fn takes_direct(&self) -> Result<bool, BackendError> {
        let is_invalid = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::INVAL);
        let shown = self.path().shown();
        let file = match self.claim.open(Access { direct: true, ..Access::default() }) {
            Ok(file) => file,
            Err(error) if is_invalid(&error) => return Ok(false),
            Err(error) => return Err(self.error(format!("cannot open {shown}: {error}"))),
        };
        let mut space = vec![0; 2 * ALIGN];
        let start = space.as_ptr().align_offset(ALIGN);
        match file.read_at(&mut space[start..start + ALIGN], 0) {
            Ok(_) => Ok(true),
            Err(error) if is_invalid(&error) => Ok(false),
            Err(error) => Err(self.error(format!("cannot read {shown}: {error}"))),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ebbtide_door::Draft;
    use std::fs::File;

    /// A new file of this `size` as a volume.
    pub(in crate::files) fn volume_at(path: &Path, index: usize, size: Bytes) -> OpenVolume {
        let draft = Draft::begin(path, 0o600, None).expect("makes a file");
        draft.file().set_len(size.0).expect("sets its length");
        let claim = draft.claim().expect("is ours");
        let volume = OpenVolume::new(index, &format!("vol{index}"), Some(size), claim).expect("is a volume");
        draft.publish().expect("gets its name");
        volume
    }

    #[test]
    fn a_file_that_goes_away_is_noticed() {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = directory.path().join("v");
        let volume = volume_at(&path, 3, Bytes(8192));
        assert_eq!(volume.check(), Ok(()));
        assert_eq!(volume.unwritten(), Bytes(8192));

        File::options().write(true).open(&path).expect("opens").set_len(4096).expect("cuts");
        let error = volume.check().expect_err("has shrunk").to_string();
        assert!(error.contains("vol3") && error.contains("shrunk to 4096 bytes"), "{error}");

        std::fs::write(directory.path().join("other"), [0; 8192]).expect("writes");
        std::fs::rename(directory.path().join("other"), &path).expect("renames");
        assert!(volume.check().expect_err("is gone").to_string().contains("replaced"));
        let still = volume.open(Access { write: true, ..Access::default() }).expect("what was claimed");
        still.write_all_at(&[7; 512], 0).expect("writes");
        assert_eq!(std::fs::read(&path).expect("reads"), [0; 8192], "the other file is not touched");
    }

    #[test]
    fn blocks_that_are_only_reserved_are_unwritten() {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let volume = volume_at(&directory.path().join("v"), 0, Bytes(1 << 20));
        let file = volume.open(Access { write: true, ..Access::default() }).expect("opens");
        super::super::made::allocate(&file, Bytes(1 << 20)).expect("reserves");
        assert_eq!(volume.unwritten(), Bytes(1 << 20));
        file.write_all_at(&[7; 65536], 65536).expect("writes");
        file.sync_all().expect("syncs");
        assert_eq!(volume.unwritten(), Bytes((1 << 20) - 65536));
    }
}

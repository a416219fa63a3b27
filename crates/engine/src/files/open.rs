//! Opens one volume, new or existing.

use super::made::Made;
use super::volume::OpenVolume;
use super::{Surroundings, fill};
use ebbtide_core::backend::BackendError;
use ebbtide_core::experiment::{Volume, VolumeSource};
use ebbtide_core::guard::WriteRequest;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Name of a volume's file: the index keeps names apart that differ only in what a file name cannot hold.
pub(super) fn file_name(index: usize, name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' })
        .take(64)
        .collect();
    format!("{index:03}-{plain}.img")
}

/// Makes the file of `volume` at `path`.
pub(super) fn new_file(
    index: usize,
    volume: &Volume,
    path: &Path,
    made: &mut Made,
) -> Result<OpenVolume, BackendError> {
    let fail = |what: String| BackendError::Volume { volume: volume.name.clone(), what };
    let size = volume.size.map_or(0, |size| size.0);
    if size == 0 || !size.is_multiple_of(fill::ALIGN as u64) {
        return Err(fail(format!(
            "its size of {size} bytes is not a multiple of 4096; write for example 256MiB"
        )));
    }
    let claim = made.file(path, size).map_err(fail)?;
    OpenVolume::new(index, &volume.name, path, Some(size), claim)
}

/// Opens the file or device of `volume`, after asking the guard when it is to be written.
pub(super) fn existing(
    index: usize,
    volume: &Volume,
    write: bool,
    destroy: bool,
    surroundings: &Surroundings,
) -> Result<OpenVolume, BackendError> {
    let fail = |what: String| BackendError::Volume { volume: volume.name.clone(), what };
    let (path, id) = match &volume.source {
        VolumeSource::ExistingFile { path } => (path, None),
        VolumeSource::Device { path, id } => (path, id.as_deref()),
        VolumeSource::NewFile { .. } => return Err(fail("is a new file".to_owned())),
    };
    let shown = path.display();
    // Looked at before it is opened: opening a pipe would wait for its other end.
    let found = std::fs::metadata(path).map_err(|error| {
        fail(format!("cannot use {shown}: {error}; `file` and `device` name what exists already; without either, a new file is made"))
    })?;
    let device = found.file_type().is_block_device();
    if !device && !found.is_file() {
        return Err(fail(format!(
            "{shown} is neither a regular file nor a block device; a volume is one of these"
        )));
    }
    if write && !destroy {
        // A device that is in use is not to be had with --destroy either: the guard says so.
        if device {
            let request = WriteRequest { path, id, destroy };
            surroundings.guard.may_write(&request).map_err(|refusal| fail(refusal.to_string()))?;
        }
        return Err(fail(format!(
            "the workloads write, and would overwrite {shown}; say --destroy if its content may be lost"
        )));
    }
    if write {
        let request = WriteRequest { path, id, destroy };
        surroundings.guard.may_write(&request).map_err(|refusal| fail(refusal.to_string()))?;
    }
    // O_EXCL without O_CREAT claims a block device: a mount or an array cannot take it meanwhile.
    let mut flags = OFlags::CLOEXEC | if write { OFlags::RDWR } else { OFlags::RDONLY };
    if write && device {
        flags |= OFlags::EXCL;
    }
    let claim =
        rustix::fs::open(path, flags, Mode::empty()).map(File::from).map_err(|errno| match errno {
            Errno::BUSY => fail(format!("{shown} is in use: mounted, or part of an array")),
            Errno::ACCESS | Errno::PERM => fail(format!("{shown} may not be opened by this user: {errno}")),
            errno => fail(format!("cannot open {shown}: {errno}")),
        })?;
    OpenVolume::new(index, &volume.name, path, volume.size.map(|size| size.0), claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_gives_a_file_name() {
        assert_eq!(file_name(3, "vol 3/ä"), "003-vol_3__.img");
        assert_eq!(file_name(0, "../../etc"), "000-______etc.img");
        assert!(file_name(1, &"x".repeat(1000)).len() < 100);
    }
}

//! What `ebb bench` is pointed at: a file, a device, a directory, or a design of an experiment.

use crate::cli::CliError;
use crate::experiment_file;
use crate::session::fit;
use ebbtide_core::backend::BackendKind;
use ebbtide_core::catalog::Catalog;
use ebbtide_core::experiment::{Answer, Experiment, Volume, VolumeSource};
use ebbtide_core::units::Bytes;
use ebbtide_core::workload::Workload;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Size of the file that is made in a directory when nothing else is said.
pub const SIZE_DEFAULT: Bytes = Bytes(Bytes::GIB);

/// What the caller wants to do with a path.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Bytes of it to use; of what is made: its size.
    pub size: Option<Bytes>,
    /// Whether any job writes.
    pub writes: bool,
    /// Whether its content may be lost.
    pub destroy: bool,
}

/// A file that was made at a name of the user's choice. It is removed again unless [`keep`](Self::keep) is called.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    kept: bool,
}

impl NewFile {
    /// A file of `size` bytes at `path`, where nothing may be.
    fn make(path: &Path, size: u64) -> Result<NewFile, CliError> {
        let failed = |what: String| CliError::Failed(format!("cannot make {}: {what}", path.display()));
        let file: File = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(path)
            .map_err(|error| failed(error.to_string()))?;
        let made = NewFile { path: path.to_owned(), kept: false };
        loop {
            match fallocate(&file, FallocateFlags::empty(), 0, size) {
                Ok(()) => return Ok(made),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP) => {
                    file.set_len(size).map_err(|error| failed(error.to_string()))?;
                    return Ok(made);
                }
                Err(errno) => {
                    let advice = match errno {
                        Errno::NOSPC | Errno::DQUOT => "; free some space or lower --size",
                        Errno::FBIG => "; the file system or `ulimit -f` allows no file of that --size",
                        _ => "",
                    };
                    return Err(failed(format!("{errno}{advice}")));
                }
            }
        }
    }

    /// Leaves it to the user.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for NewFile {
    /// What was not filled to its end would pass for a finished file the next time.
    fn drop(&mut self) {
        if !self.kept {
            // Nothing depends on it: a file that stays is seen by its owner.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A path as a volume.
#[derive(Debug)]
pub struct Resolved {
    /// The volume.
    pub volume: Volume,
    /// The file, where there was none.
    pub made: Option<NewFile>,
}

/// Finds out what `path` is, and makes the file where there is none.
///
/// # Errors
/// Wrong usage when it cannot be used as wanted, saying what to write instead.
pub fn resolve(path: &Path, wanted: Wanted) -> Result<Resolved, CliError> {
    let shown = path.display().to_string();
    let usage = |what: String| Err(CliError::Usage(what));
    let volume = |source, size: Option<Bytes>| Volume { name: shown.clone(), source, size, shape: None };
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let Some(size) = wanted.size else {
                return usage(format!(
                    "{shown} does not exist; give --size, for example --size 1g, to have it made"
                ));
            };
            check_size(size)?;
            let made = NewFile::make(path, size.0)?;
            let source = VolumeSource::ExistingFile { path: path.to_owned() };
            return Ok(Resolved { volume: volume(source, Some(size)), made: Some(made) });
        }
        Err(error) => return usage(format!("cannot look at {shown}: {error}")),
    };
    let kind = found.file_type();
    if kind.is_dir() {
        let size = wanted.size.unwrap_or(SIZE_DEFAULT);
        check_size(size)?;
        let source = VolumeSource::NewFile { directory: Some(path.to_owned()) };
        return Ok(Resolved { volume: volume(source, Some(size)), made: None });
    }
    if !kind.is_file() && !kind.is_block_device() {
        return usage(format!("{shown} is neither a file nor a block device nor a directory"));
    }
    if wanted.writes && !wanted.destroy {
        let what = if kind.is_file() { "an existing file" } else { "a device" };
        return usage(format!(
            "{shown} is {what} and the workload writes: say --destroy if its content may be lost"
        ));
    }
    if let Some(size) = wanted.size.filter(|size| kind.is_file() && size.0 > found.len()) {
        return usage(format!(
            "{shown} has {} and --size {size} is more; give a smaller --size, or another name to have a file made",
            Bytes(found.len())
        ));
    }
    let source = if kind.is_file() {
        VolumeSource::ExistingFile { path: path.to_owned() }
    } else {
        VolumeSource::Device { path: path.to_owned(), id: stable_id(path) }
    };
    Ok(Resolved { volume: volume(source, wanted.size), made: None })
}

/// Bytes of the file or device at `path`, where it can be told.
pub fn length(path: &Path) -> Option<Bytes> {
    let file = File::open(path).ok().filter(|file| {
        file.metadata().is_ok_and(|found| found.is_file() || found.file_type().is_block_device())
    })?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).ok().filter(|end| *end > 0).map(Bytes)
}

fn check_size(size: Bytes) -> Result<(), CliError> {
    if size.0 == 0 || !size.0.is_multiple_of(4096) {
        return Err(CliError::Usage(format!(
            "a size of {size} is no multiple of 4096 bytes, which a file needs for O_DIRECT; write for example 1g"
        )));
    }
    Ok(())
}

/// A device that is named by a link below /dev/disk/by-id is named by its stable id.
fn stable_id(path: &Path) -> Option<String> {
    path.parent().filter(|parent| parent.ends_with("disk/by-id"))?;
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// The volumes and the one design `name` of the experiment in `file`, for `workload`.
///
/// # Errors
/// Wrong usage when the file is wrong, has no such design, or one that takes the kernel.
pub fn design(
    file: &Path,
    name: &str,
    workload: &Workload,
    catalog: &Catalog,
) -> Result<Experiment, CliError> {
    let shown = file.display().to_string();
    let (_, mut experiment) = experiment_file::load(file, catalog)?;
    let names: Vec<&str> = experiment.designs.iter().map(|design| design.name.as_str()).collect();
    if !names.contains(&name) {
        let names = names.join(", ");
        return Err(CliError::Usage(format!("{shown} has no design `{name}`; it has {names}")));
    }
    experiment.designs.retain(|design| design.name == name);
    experiment.control = 0;
    experiment.workloads = vec![workload.clone()];
    experiment.answer = Answer::once();
    fit::check(&experiment, BackendKind::Files).map_err(|what| {
        CliError::Usage(format!("{shown}: {what} (`ebb bench` computes layouts in user space)"))
    })?;
    Ok(experiment)
}

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
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Size of the file that is made in a directory when nothing else is said.
pub const SIZE_DEFAULT: Bytes = Bytes(Bytes::GIB);

/// How the options that an error speaks of are written where the user wrote them.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The size, up to its value.
    pub size: &'static str,
}

impl Words {
    /// On the command line.
    pub const COMMAND: Words = Words { size: "--size " };
    /// In a fio job file.
    pub const JOB_FILE: Words = Words { size: "size=" };
}

/// What the caller wants to do with a path.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Bytes of it to use; of what is made: its size.
    pub size: Option<Bytes>,
    /// Where the used part begins.
    pub offset: Bytes,
    /// Whether any job reads what it finds.
    pub reads: bool,
    /// Whether any job writes.
    pub writes: bool,
    /// Whether its content may be lost.
    pub destroy: bool,
    /// How errors name the options.
    pub words: Words,
}

impl Wanted {
    /// Bytes of the target up to the end of the used part.
    fn end(&self) -> Option<Bytes> {
        self.size.map(|size| Bytes(size.0.saturating_add(self.offset.0)))
    }
}

/// A file that was made at a name of the user's choice. It is removed again unless [`keep`](Self::keep) is called.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    kept: bool,
}

impl NewFile {
    /// A file of `size` bytes at `path`, where nothing may be.
    fn make(path: &Path, size: u64, words: Words) -> Result<NewFile, CliError> {
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
                    let size = words.size.trim_end_matches([' ', '=']);
                    let advice = match errno {
                        Errno::NOSPC | Errno::DQUOT => format!("; free some space or lower {size}"),
                        Errno::FBIG => {
                            format!("; the file system or `ulimit -f` allows no file of that {size}")
                        }
                        _ => String::new(),
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
    /// Whether it has to be filled before it is read: it holds nothing yet, or holes that may be overwritten.
    pub fill: bool,
}

/// Finds out what `path` is, and makes the file where there is none.
///
/// # Errors
/// Wrong usage when it cannot be used as wanted, saying what to write instead.
pub fn resolve(path: &Path, wanted: Wanted) -> Result<Resolved, CliError> {
    let shown = path.display().to_string();
    let usage = |what: String| Err(CliError::Usage(what));
    let volume = |source, size: Option<Bytes>| Volume { name: shown.clone(), source, size, shape: None };
    let word = wanted.words.size;
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if is_for_devices(path) {
                return usage(format!(
                    "there is no device {shown}, and no file is made among devices; `ebb volumes` lists those there are"
                ));
            }
            let Some(size) = wanted.end() else {
                return usage(format!("{shown} does not exist; give {word}1g, for example, to have it made"));
            };
            check_size(size, wanted)?;
            let made = NewFile::make(path, size.0, wanted.words)?;
            let source = VolumeSource::ExistingFile { path: path.to_owned() };
            return Ok(Resolved { volume: volume(source, Some(size)), made: Some(made), fill: wanted.reads });
        }
        Err(error) => return usage(format!("cannot look at {shown}: {error}")),
    };
    let kind = found.file_type();
    if kind.is_dir() {
        let size = wanted.end().unwrap_or(SIZE_DEFAULT);
        check_size(size, wanted)?;
        let source = VolumeSource::NewFile { directory: Some(path.to_owned()) };
        return Ok(Resolved { volume: volume(source, Some(size)), made: None, fill: wanted.reads });
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
    let own = if kind.is_file() { Some(Bytes(found.len())) } else { length(path) };
    if let (Some(size), Some(own)) = (wanted.size, own)
        && wanted.end().is_some_and(|end| end > own)
    {
        let asked = match wanted.offset {
            Bytes(0) => format!("{word}{size} is more"),
            offset => format!("{word}{size} from offset {offset} on reaches beyond that"),
        };
        let else_make = if kind.is_file() { ", or another name to have a file made" } else { "" };
        return usage(format!(
            "{shown} has {own} and {asked}; give a smaller {}{else_make}",
            word.trim_end_matches([' ', '='])
        ));
    }
    if let Some(own) = own.filter(|own| wanted.offset.0 > 0 && wanted.offset >= *own) {
        return usage(format!("{shown} has {own}, and offset {} is beyond that", wanted.offset));
    }
    let source = if kind.is_file() {
        VolumeSource::ExistingFile { path: path.to_owned() }
    } else {
        VolumeSource::Device { path: path.to_owned(), id: stable_id(path) }
    };
    // Holes read as zeros without touching the disk.
    let holes = kind.is_file() && found.blocks().saturating_mul(512) < found.len();
    let fill = wanted.reads && wanted.destroy && holes;
    Ok(Resolved { volume: volume(source, wanted.end()), made: None, fill })
}

/// Whether `path`, which does not exist, would be made among device nodes: below /dev, but not in /dev/shm, which is
/// for files.
fn is_for_devices(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A directory that is not there is looked at as it is written: nothing can be made in it anyway.
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    parent.starts_with("/dev") && !parent.starts_with("/dev/shm")
}

/// Bytes of the file or device at `path`, where it can be told.
pub fn length(path: &Path) -> Option<Bytes> {
    let file = File::open(path).ok().filter(|file| {
        file.metadata().is_ok_and(|found| found.is_file() || found.file_type().is_block_device())
    })?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).ok().filter(|end| *end > 0).map(Bytes)
}

fn check_size(end: Bytes, wanted: Wanted) -> Result<(), CliError> {
    if end.0 == 0 || !end.0.is_multiple_of(4096) {
        let with =
            if wanted.offset.0 > 0 { format!(" with offset {}", wanted.offset) } else { String::new() };
        return Err(CliError::Usage(format!(
            "a size of {}{with} is no multiple of 4096 bytes, which a file needs for O_DIRECT; write for example \
             {}1g",
            wanted.size.unwrap_or(end),
            wanted.words.size
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

//! What `ebb bench` is pointed at: a file, a device, a directory, or a design of an experiment.

use super::experiment;
use crate::error::CliError;
use crate::experiment_file::{DesignName, NamedDesign, wrong};
use ebbtide_door::kernel;
use ebbtide_engine::files::{Fill, Options};
use ebbtide_host::probe::tables;
use ebbtide_host::rbd;
use ebbtide_host::sys::{DevNum, Sys};
use ebbtide_model::catalog::Catalog;
use ebbtide_model::experiment::{Answer, Experiment, Volume, VolumeSource};
use ebbtide_model::layout::{ArrayKind, LayoutNode};
use ebbtide_model::rbd::Image;
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Workload;
use ebbtide_runner::bench::{Job, Spec};
use ebbtide_runner::ways::in_user_space;
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
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

/// A path as a volume.
#[derive(Debug)]
pub struct Resolved {
    pub volume: Volume,
    /// Whether there is no such file yet: it is made when the benchmark begins.
    pub new: bool,
    /// Whether it has to be filled before it is read: it holds nothing yet, or not in all places, and may be overwritten.
    pub fill: bool,
    /// Whether it is a device that takes and gives any number of bytes.
    pub endless: bool,
}

impl Resolved {
    /// `jobs` on it, which is at `path`; whether they or those that follow them write.
    pub fn spec(self, path: &Path, jobs: Vec<Job>, writes: bool, destroy: bool, seed: u64) -> Spec {
        let design = (path.to_string_lossy().into_owned(), LayoutNode::Volume(0));
        Spec {
            experiment: experiment(vec![self.volume], vec![design]),
            jobs,
            ladder: true,
            options: Options {
                seed,
                destroy: destroy && (self.fill || writes),
                written: Some(if writes { vec![0] } else { Vec::new() }),
                named: if self.new { vec![(0, path.to_owned())] } else { Vec::new() },
                fill: Fill::Only(if self.fill { vec![0] } else { Vec::new() }),
                endless: if self.endless { vec![0] } else { Vec::new() },
                ..Options::default()
            },
        }
    }
}

/// `job` on so many new files of one size in `directory`, which are removed again; `chunk` bytes go to one before the next has its
/// turn, or one is finished before the next.
pub fn files(
    directory: &Path,
    (number, each, chunk): (u64, Bytes, Option<Bytes>),
    job: Job,
    wanted: Wanted,
    seed: u64,
) -> Spec {
    let source = VolumeSource::NewFile { directory: Some(directory.to_owned()) };
    let volumes: Vec<Volume> =
        (0..number).map(|index| Volume::new(format!("file{index}"), source.clone(), Some(each))).collect();
    let kind = chunk.map_or(ArrayKind::Linear, |chunk| ArrayKind::Stripe { chunk });
    let members: Vec<LayoutNode> = (0..volumes.len()).map(LayoutNode::Volume).collect();
    let every: Vec<usize> = (0..volumes.len()).collect();
    let design = (directory.to_string_lossy().into_owned(), LayoutNode::Array { kind, members });
    Spec {
        options: Options {
            seed,
            written: Some(if wanted.writes { every.clone() } else { Vec::new() }),
            fill: Fill::Only(if wanted.reads { every } else { Vec::new() }),
            ..Options::default()
        },
        experiment: experiment(volumes, vec![design]),
        jobs: vec![job],
        ladder: true,
    }
}

/// Finds out what `path` is; touches nothing.
///
/// # Errors
/// Wrong usage when it cannot be used as wanted, saying what to write instead.
pub fn resolve(path: &Path, wanted: Wanted) -> Result<Resolved, CliError> {
    let shown = path.shown();
    let usage = |what: String| Err(CliError::Usage(what));
    let volume = |source, size: Option<Bytes>| Volume::new(shown.clone(), source, size);
    let word = wanted.words.size;
    let at = rbd::path_of(&Sys::host(), path).map_err(CliError::usage)?;
    let found = match std::fs::metadata(&at) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if is_for_devices(path) {
                return usage(format!(
                    "there is no device {shown}, and no file is made among devices; `ebb volumes` lists those there are"
                ));
            }
            let Some(size) = wanted.end() else {
                if let Some(device) = device_called(path) {
                    return usage(format!("{shown} does not exist here; the device is {}", device.shown()));
                }
                return usage(format!("{shown} does not exist; give {word}1g, for example, to have it made"));
            };
            check_size(size, wanted)?;
            let source = VolumeSource::ExistingFile { path: path.to_owned() };
            return Ok(Resolved {
                volume: volume(source, Some(size)),
                new: true,
                fill: wanted.reads,
                endless: false,
            });
        }
        Err(error) => return usage(format!("cannot look at {shown}: {error}")),
    };
    let kind = found.file_type();
    if at != path && !kind.is_block_device() {
        return usage(format!("{shown} has no device node at {}: is udev at work?", at.shown()));
    }
    if kind.is_dir() {
        let size = wanted.end().unwrap_or(SIZE_DEFAULT);
        check_size(size, wanted)?;
        let source = VolumeSource::NewFile { directory: Some(path.to_owned()) };
        return Ok(Resolved {
            volume: volume(source, Some(size)),
            new: false,
            fill: wanted.reads,
            endless: false,
        });
    }
    if let Some(endless) = kernel::endless(&found) {
        if wanted.reads && !endless.gives {
            return usage(format!("{shown} gives nothing to read; write to it, or read /dev/zero"));
        }
        let Some(size) = wanted.end() else {
            return usage(format!(
                "{shown} has no size; give {word}1g, for example, as the part that is used"
            ));
        };
        let source = VolumeSource::ExistingFile { path: path.to_owned() };
        return Ok(Resolved { volume: volume(source, Some(size)), new: false, fill: false, endless: true });
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
    // What was never written reads as zeros without touching the disk.
    let fill = wanted.reads && wanted.destroy && kind.is_file() && has_holes(path, found.len());
    Ok(Resolved { volume: volume(source, wanted.end()), new: false, fill, endless: false })
}

/// The device that a bare name, which does not exist, is that of: `loop9` of /dev/loop9.
fn device_called(name: &Path) -> Option<PathBuf> {
    let is_bare = name.components().count() == 1 && !name.is_absolute();
    let device = Path::new("/dev").join(name);
    let is_device = |found: std::fs::Metadata| found.file_type().is_block_device();
    (is_bare && std::fs::metadata(&device).is_ok_and(is_device)).then_some(device)
}

/// Whether `path`, which does not exist, would be made among device nodes: below /dev or where else these are mounted, but
/// not in /dev/shm, which is for files.
fn is_for_devices(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A directory that is not there is looked at as it is written: nothing can be made in it anyway.
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    let shared_memory = parent.starts_with("/dev/shm");
    !shared_memory && (parent.starts_with("/dev") || is_on_devtmpfs(&parent))
}

/// Whether `directory` is in the kernel's file system of device nodes, wherever that is mounted.
fn is_on_devtmpfs(directory: &Path) -> bool {
    let Ok(found) = std::fs::metadata(directory) else { return false };
    let dev = DevNum::from_raw(found.dev());
    tables::mounts_of(&Sys::host()).iter().any(|mount| mount.fstype == "devtmpfs" && mount.dev == dev)
}

/// Opens the file or device at `path` to be read, and nothing else: a pipe would wait for its other end.
pub fn open_storage(path: &Path) -> Option<File> {
    let is_storage = |found: std::fs::Metadata| found.is_file() || found.file_type().is_block_device();
    std::fs::metadata(path).is_ok_and(is_storage).then(|| ebbtide_door::read::open(path).ok())?
}

/// Bytes of the file or device at `path`, where it can be told.
pub fn length(path: &Path) -> Option<Bytes> {
    let file = open_storage(&rbd::path_of(&Sys::host(), path).ok()?)?;
    rustix::fs::seek(&file, SeekFrom::End(0)).ok().filter(|end| *end > 0).map(Bytes)
}

/// Whether the file at `path`, of `length` bytes, was not written in all places.
fn has_holes(path: &Path, length: u64) -> bool {
    let hole = |file| rustix::fs::seek(&file, SeekFrom::Hole(0)).ok();
    open_storage(path).and_then(hole).is_some_and(|hole| hole < length)
}

fn check_size(end: Bytes, wanted: Wanted) -> Result<(), CliError> {
    if end.0 == 0 || !end.0.is_multiple_of(4096) {
        let with =
            if wanted.offset.0 > 0 { format!(" with offset {}", wanted.offset) } else { String::new() };
        return Err(CliError::Usage(format!(
            "a size of {}{with} is no multiple of 4096 bytes, which a file needs for O_DIRECT; write for example \
             {}{}",
            wanted.size.unwrap_or(end),
            wanted.words.size,
            Bytes(end.0.next_multiple_of(4096).saturating_sub(wanted.offset.0).max(4096))
        )));
    }
    Ok(())
}

/// A device that is named by a link below /dev/disk/by-id is named by its stable id, and so is an image of Ceph.
fn stable_id(path: &Path) -> Option<String> {
    if let Ok(Some(image)) = Image::named_by(path) {
        return Some(image.to_string());
    }
    path.parent().filter(|parent| parent.ends_with("disk/by-id"))?;
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// The volumes and the one design that `named` names, for `workload`.
///
/// # Errors
/// Wrong usage when the file is wrong, has no such design, or one that takes the kernel.
pub fn design(named: &DesignName, workload: &Workload, catalog: &Catalog) -> Result<Experiment, CliError> {
    let NamedDesign { file, mut experiment, design, .. } = named.load(catalog)?;
    experiment.designs = vec![experiment.designs.swap_remove(design)];
    experiment.control = 0;
    experiment.workloads = vec![workload.clone()];
    experiment.answer = Answer::once();
    in_user_space(&experiment)
        .map_err(|what| wrong(&file, format!("{what} (`ebb bench` computes layouts in user space)")))?;
    Ok(experiment)
}

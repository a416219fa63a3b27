//! One trial on a design that is built: on its device, or on a file in its file system.

use super::{Result, and_then, other};
use ebbtide_engine::files::{FilesBackend, Fill, Options, Surroundings};
use ebbtide_host::hostinfo;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::{Backend, Control};
use ebbtide_model::experiment::{Experiment, Volume, VolumeSource};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::plan::build::Build;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Workload;
use std::path::Path;

/// The largest part of a file system that a trial's file takes by itself.
const SHARE: (u64, u64) = (3, 4);
/// Least size of such a file where the file system has the room.
const FILE_MIN: u64 = Bytes::GIB;
/// Sizes of files and offsets are multiples of this.
const BLOCK: u64 = 4096;

/// Runs `workload` on what `build` made.
pub(super) fn run(
    build: &Build,
    workload: &Workload,
    trial: &Trial,
    options: &Options,
    surroundings: &Surroundings,
    control: &Control,
) -> Result<TrialSamples> {
    let mut ready = Ready::new(build, workload, options, surroundings, control)?;
    let ran = ready.run(workload, trial, control);
    let finished = ready.finish();
    let samples = ran.map_err(|error| and_then(error, finished.clone()))?;
    finished.map(|()| samples)
}

/// A design that is built, with its file laid out where it has a file system.
pub(super) struct Ready {
    files: FilesBackend,
    experiment: Experiment,
}

impl Ready {
    /// For workloads much like `workload`.
    pub(super) fn new(
        build: &Build,
        workload: &Workload,
        options: &Options,
        surroundings: &Surroundings,
        control: &Control,
    ) -> Result<Ready> {
        let (source, size, fill) = match &build.mountpoint {
            Some(directory) => {
                let source = VolumeSource::NewFile { directory: Some(directory.clone()) };
                (source, Some(Bytes(file_size(directory, workload)?)), Fill::Destroyable)
            }
            // What it holds was written to the members before they became an array.
            None => {
                let source = VolumeSource::Device { path: build.device.clone().into(), id: None };
                (source, None, Fill::Only(Vec::new()))
            }
        };
        // The array was built by this very run: it may be written.
        let options = Options { destroy: true, built: true, places: Vec::new(), fill, ..options.clone() };
        let mut files = FilesBackend::new(options, surroundings.clone());
        let experiment = alone(source, size, workload);
        // What it made is gone again when it fails.
        files.prepare(&experiment, control)?;
        Ok(Ready { files, experiment })
    }

    /// Runs `workload` on it.
    pub(super) fn run(
        &mut self,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples> {
        let trial = Trial { design: 0, workload: 0, ..*trial };
        self.files.run_trial(&self.experiment.designs[0], workload, &trial, control)
    }

    /// Closes it and removes the file.
    pub(super) fn finish(mut self) -> Result<()> {
        self.files.finish(false)
    }
}

/// An experiment of one volume and one workload.
fn alone(source: VolumeSource, size: Option<Bytes>, workload: &Workload) -> Experiment {
    let volume = Volume::new("array", source, size);
    let designs = vec![("array".to_owned(), LayoutNode::Volume(0))];
    Experiment { workloads: vec![workload.clone()], ..Experiment::once("trial", vec![volume], designs) }
}

/// The workload's span, or three quarters of what is free but at most twice the memory: more tells nothing new
/// about an array whose file no cache can hold, and every trial lays it out anew.
fn file_size(directory: &Path, workload: &Workload) -> Result<u64> {
    let found = rustix::fs::statvfs(directory).map_err(other)?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if let Some(span) = workload.span {
        return Ok(span.0.div_ceil(BLOCK) * BLOCK);
    }
    let memory = hostinfo::host_info(&Sys::host()).memory_bytes;
    let room = free / SHARE.1 * SHARE.0;
    Ok(room.min(memory.saturating_mul(2).max(FILE_MIN)) / BLOCK * BLOCK)
}

//! Trials at the same time on a design that is built: on its device, or each on a file in its file system.

use super::{Result, and_then, other};
use ebbtide_engine::files::{FilesBackend, Fill, Options, Surroundings};
use ebbtide_host::hostinfo;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::{Backend, Control, TrialFailure, TrialRun};
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

/// What came of trials, of each.
pub(super) type Ran = Vec<std::result::Result<TrialSamples, TrialFailure>>;

/// Runs `runs` at the same time on what `build` made.
pub(super) fn run(
    build: &Build,
    runs: &[TrialRun<'_>],
    options: &Options,
    surroundings: &Surroundings,
    control: &Control,
) -> Result<Ran> {
    let workloads: Vec<Workload> = runs.iter().map(|run| run.workload.clone()).collect();
    let mut ready = Ready::new(build, workloads, options, surroundings, control)?;
    let mut ran = ready.run(runs, control);
    match (ready.finish(), ran.iter_mut().find_map(|result| result.as_mut().err())) {
        (Ok(()), _) => Ok(ran),
        (Err(left), None) => Err(left),
        (Err(left), Some(failure)) => {
            failure.error = and_then(failure.error.clone(), Err(left));
            Ok(ran)
        }
    }
}

/// A design that is built, with its files laid out where it has a file system.
pub(super) struct Ready {
    files: FilesBackend,
    experiment: Experiment,
}

impl Ready {
    /// For workloads much like `workloads`, which run at the same time: each has a file of its own where there is a file system.
    pub(super) fn new(
        build: &Build,
        mut workloads: Vec<Workload>,
        options: &Options,
        surroundings: &Surroundings,
        control: &Control,
    ) -> Result<Ready> {
        let (volumes, fill) = match &build.mountpoint {
            Some(directory) => {
                let sizes = file_sizes(directory, &mut workloads)?;
                let volume = |(job, size): (usize, u64)| {
                    let source = VolumeSource::NewFile { directory: Some(directory.clone()) };
                    let name = if job == 0 { "array".to_owned() } else { format!("array-{job}") };
                    Volume::new(name, source, Some(Bytes(size)))
                };
                (sizes.into_iter().enumerate().map(volume).collect(), Fill::Destroyable)
            }
            // What it holds was written to the members before they became an array.
            None => {
                let source = VolumeSource::Device { path: build.device.clone().into(), id: None };
                (vec![Volume::new("array", source, None)], Fill::Only(Vec::new()))
            }
        };
        // The array was built by this very run: it may be written.
        let options = Options { destroy: true, built: true, places: Vec::new(), fill, ..options.clone() };
        let mut files = FilesBackend::new(options, surroundings.clone());
        let designs = (0..volumes.len()).map(|volume| ("array".to_owned(), LayoutNode::Volume(volume)));
        let designs = designs.collect();
        let experiment = Experiment { workloads, ..Experiment::once("trial", volumes, designs) };
        // What it made is gone again when it fails.
        files.prepare(&experiment, control)?;
        Ok(Ready { files, experiment })
    }

    /// Runs `runs` on it at the same time.
    pub(super) fn run(&mut self, runs: &[TrialRun<'_>], control: &Control) -> Ran {
        let Experiment { designs, workloads, .. } = &self.experiment;
        let one_file = designs.len() == 1;
        let trials: Vec<Trial> = runs
            .iter()
            .enumerate()
            .map(|(job, run)| Trial { design: if one_file { 0 } else { job }, workload: 0, ..*run.trial })
            .collect();
        let mut here = Vec::new();
        for (job, (run, trial)) in runs.iter().zip(&trials).enumerate() {
            // Those of several are as they were made ready.
            let ready = workloads.get(job).filter(|_| runs.len() > 1);
            here.push(TrialRun {
                design: &designs[trial.design],
                workload: ready.unwrap_or(run.workload),
                trial,
            });
        }
        self.files.run_together(&here, control)
    }

    /// Closes it and removes the files.
    pub(super) fn finish(mut self) -> Result<()> {
        self.files.finish(false)
    }
}

/// Of each workload its span, or its part of three quarters of what is free beside those but at most twice the memory: more tells nothing
/// new about an array whose file no cache can hold, and every trial lays it out anew. Jobs that have a file each begin at its start: an
/// offset keeps them apart where they share an array.
fn file_sizes(directory: &Path, workloads: &mut [Workload]) -> Result<Vec<u64>> {
    let found = rustix::fs::statvfs(directory).map_err(other)?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if workloads.len() > 1 {
        workloads.iter_mut().for_each(|workload| workload.details.offset = Bytes(0));
    }
    let given = |workload: &Workload| {
        let begin = workload.details.last_offset(workload.numjobs);
        workload.span.map(|span| begin.0.saturating_add(span.0).div_ceil(BLOCK).saturating_mul(BLOCK))
    };
    let all_given = workloads.iter().filter_map(given).fold(0, u64::saturating_add);
    let others = workloads.iter().filter(|workload| workload.span.is_none()).count().max(1) as u64;
    let memory = hostinfo::host_info(&Sys::host()).memory_bytes;
    let room = free.saturating_sub(all_given) / SHARE.1 * SHARE.0 / others;
    let rest = room.min(memory.saturating_mul(2).max(FILE_MIN)) / BLOCK * BLOCK;
    Ok(workloads.iter().map(|workload| given(workload).unwrap_or(rest)).collect())
}

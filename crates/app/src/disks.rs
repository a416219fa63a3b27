//! The machine's own disks in the place of a design's volumes: `ebb apply --members`.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::keeping;
use ebbtide_host::build::lasting::free_disks;
use ebbtide_host::probe;
use ebbtide_host::sys::Sys;
use ebbtide_model::experiment::{Experiment, VolumeSource};
use ebbtide_provision::boot::{Members, WAIT};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at the disks that are there.
const LOOK: Duration = Duration::from_millis(500);

/// Makes the volumes of `design` the disks of the kinds `words`: those that what is called `name` has already, or exactly as many as
/// it takes that nobody uses.
///
/// # Errors
/// When there are fewer or more.
pub fn choose(
    experiment: &mut Experiment,
    design: usize,
    name: &str,
    words: &[String],
    stop: &AtomicBool,
    globals: &Globals,
) -> Result<(), CliError> {
    let members = Members::kind(words).map_err(|error| CliError::Usage(error.to_string()))?;
    let volumes = experiment.designs[design].volumes();
    let record = keeping::with(globals, stop, |keeper| keeper.record(name))?;
    let paths: Vec<String> = match record {
        Some(record) => record.desired.members.into_iter().map(|member| member.path).collect(),
        None => wait_for(&members, volumes.len(), stop),
    };
    if paths.len() != volumes.len() {
        let seen = if paths.is_empty() { "none".to_owned() } else { paths.join(", ") };
        return Err(CliError::Failed(format!(
            "the design takes {} disks, and those of {} that nobody uses are {}: {seen}",
            volumes.len(),
            words.join(","),
            paths.len()
        )));
    }
    for (volume, path) in volumes.into_iter().zip(paths) {
        experiment.volumes[volume].source = VolumeSource::Device { path: PathBuf::from(path), id: None };
    }
    Ok(())
}

fn wait_for(members: &Members, wanted: usize, stop: &AtomicBool) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(WAIT.into());
    let sys = Sys::host();
    loop {
        let found = free_disks(&sys, &probe::devices(&sys), members);
        if found.len() >= wanted || Instant::now() >= end || stop.load(Ordering::Relaxed) {
            return found;
        }
        std::thread::sleep(LOOK);
    }
}

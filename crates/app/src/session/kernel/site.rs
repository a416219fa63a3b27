//! Where designs are built: the volumes' block devices and free device numbers.

use ebbtide_host::build::{free_loops, free_md_numbers, missing, missing_in_kernel};
use ebbtide_host::sys::Sys;
use ebbtide_model::experiment::{Design, Experiment, VolumeSource};
use ebbtide_model::plan::build::{self, Build, BuildPlanError, Site};
use ebbtide_model::shown::Shown;
use std::collections::BTreeSet;

/// What the kernel backend would do for an experiment.
#[derive(Debug, Clone)]
pub struct KernelPlan {
    /// Volumes that are files, with the loop device that each gets.
    pub loops: Vec<(usize, String)>,
    /// Block device of each volume, empty for those that no design uses.
    pub devices: Vec<String>,
    /// The build of each design, as its first trial would make it.
    pub builds: Vec<Build>,
    /// Programs that are needed, sorted.
    pub programs: Vec<String>,
    /// Things the reader must know.
    pub notes: Vec<String>,
}

impl KernelPlan {
    /// Makes sure that this host has what builds.
    ///
    /// # Errors
    /// What it lacks, and where that may be had.
    pub fn check_host(&self) -> Result<(), String> {
        let programs = || self.programs.iter().map(String::as_str);
        missing(programs()).map_err(|missing| missing.to_string())?;
        missing_in_kernel(&Sys::host(), programs()).map_or(Ok(()), Err)
    }
}

/// Plans all designs of `experiment` for the run `name`; touches nothing.
///
/// # Errors
/// When a design cannot be built.
pub fn plan(experiment: &Experiment, name: &str) -> Result<KernelPlan, BuildPlanError> {
    let used = experiment.used_volumes();
    let is_device = |index: &usize| {
        matches!(experiment.volumes.get(*index).map(|v| &v.source), Some(VolumeSource::Device { .. }))
    };
    let files: Vec<usize> = used.iter().copied().filter(|index| !is_device(index)).collect();
    let loops: Vec<(usize, String)> =
        files.iter().copied().zip(free_loops(&Sys::host(), files.len())).collect();
    let mut devices = vec![String::new(); experiment.volumes.len()];
    for (index, device) in &loops {
        devices[*index].clone_from(device);
    }
    for index in used {
        if let Some(VolumeSource::Device { path, .. }) = experiment.volumes.get(index).map(|v| &v.source) {
            let text = path.to_str();
            devices[index] = text.ok_or_else(|| BuildPlanError::Path { path: path.shown() })?.to_owned();
        }
    }
    let builds = experiment
        .designs
        .iter()
        .map(|design| build(design, name, 0, &devices))
        .collect::<Result<Vec<Build>, _>>()?;
    let mut programs: BTreeSet<String> =
        builds.iter().flat_map(|build| build.programs.iter().cloned()).collect();
    if !loops.is_empty() {
        programs.insert("losetup".to_owned());
    }
    let notes: BTreeSet<String> = builds.iter().flat_map(|build| build.notes.iter().cloned()).collect();
    let mut notes: Vec<String> = notes.into_iter().collect();
    notes.push(
        "members: requests and bytes are the kernel's counters of each device; their latencies are not known"
            .to_owned(),
    );
    for volume in &experiment.volumes {
        if matches!(volume.source, VolumeSource::Device { .. }) && volume.size.is_some() {
            notes.push(format!(
                "volume {}: the kernel uses all of the device, whatever its `size`",
                volume.name
            ));
        }
    }
    Ok(KernelPlan { loops, devices, builds, programs: programs.into_iter().collect(), notes })
}

/// The build of `design` as number `number` of the run `name`.
pub(super) fn build(
    design: &Design,
    name: &str,
    number: u32,
    devices: &[String],
) -> Result<Build, BuildPlanError> {
    let md_numbers = free_md_numbers(&Sys::host(), build::md_devices(design));
    build::build(design, &Site { run: name, build: number, devices, md_numbers: &md_numbers })
}

/// When the designs of a session are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Built {
    /// For each trial.
    EachTrial,
    /// For the first trial, to stay.
    Once,
    /// Where another design was there in between: they share volumes.
    InTurn,
}

/// The builds as text: the exact commands of each design.
pub fn show(experiment: &Experiment, plan: &KernelPlan, built: Built) -> String {
    let mut text = String::new();
    for (index, device) in &plan.loops {
        if let Some(volume) = experiment.volumes.get(*index) {
            let step = build::attach_loop(device, &format!("FILE-OF-{}", volume.name));
            text.push_str(&format!("volume {}: {}\n", volume.name, step.action));
        }
    }
    for (design, build) in experiment.designs.iter().zip(&plan.builds) {
        let name = &design.name;
        text.push_str(&match built {
            Built::EachTrial => {
                format!("each trial of {name} builds it, and undoes it from the last step up:\n")
            }
            Built::Once => {
                format!("the first trial of {name} builds it; it stays, and goes with the guest:\n")
            }
            Built::InTurn => format!(
                "a trial of {name} builds it where another design was there, and that undoes it from the last step up:\n"
            ),
        });
        text.push_str(&build.to_string());
    }
    text
}

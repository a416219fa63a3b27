//! Where designs are built: the volumes' block devices and free device numbers.

use ebbtide_host::build::{Missing, free_loops, free_md_numbers, missing, missing_in_kernel};
use ebbtide_host::rbd;
use ebbtide_host::sys::Sys;
use ebbtide_model::experiment::{Design, Experiment, VolumeSource};
use ebbtide_model::plan::build::{self, Build, BuildPlanError, Purpose, Site};
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

/// What this host lacks to build designs, and where that may be had.
#[derive(Debug, thiserror::Error)]
pub enum HostLacks {
    #[error(transparent)]
    Programs(#[from] Missing),
    #[error("{0}")]
    KernelParts(String),
}

impl KernelPlan {
    /// Makes sure that this host has what builds.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check_host(&self) -> Result<(), HostLacks> {
        let programs = || self.programs.iter().map(String::as_str);
        missing(programs())?;
        missing_in_kernel(&Sys::host(), programs()).map_or(Ok(()), |parts| Err(HostLacks::KernelParts(parts)))
    }
}

/// Plans all designs of `experiment` for the run `name`; touches nothing.
///
/// # Errors
/// When a design cannot be built.
pub fn plan(experiment: &Experiment, name: &str) -> Result<KernelPlan, BuildPlanError> {
    let used = experiment.without_directories().used_volumes();
    let mut free = free_loops(&Sys::host(), used.len()).into_iter();
    let mut loops = Vec::new();
    let mut devices = vec![String::new(); experiment.volumes.len()];
    for index in used {
        devices[index] = match &experiment.volumes[index].source {
            VolumeSource::Device { path, .. } => {
                // The door says why, where it is not there when it is opened.
                let node = rbd::path_of(&Sys::host(), path).unwrap_or_else(|_| path.clone());
                let text = node.to_str();
                text.ok_or_else(|| BuildPlanError::Path { path: path.shown() })?.to_owned()
            }
            VolumeSource::NewFile { .. } | VolumeSource::ExistingFile { .. } => {
                let device = free.next().unwrap_or_default();
                loops.push((index, device.clone()));
                device
            }
        };
    }
    let builds = experiment
        .designs
        .iter()
        .map(|design| build_at(design, name, 0, &devices, &md_numbers(design)))
        .collect::<Result<Vec<Build>, _>>()?;
    let losetup = (!loops.is_empty()).then(|| "losetup".to_owned());
    let programs = sorted(builds.iter().flat_map(|build| build.programs.iter().cloned()).chain(losetup));
    let mut notes = sorted(builds.iter().flat_map(|build| build.notes.iter().cloned()));
    notes.push(
        "members: requests and bytes are the kernel's counters of each device; their latencies are not known"
            .to_owned(),
    );
    for volume in &experiment.volumes {
        if matches!(volume.source, VolumeSource::Device { .. }) && volume.size.is_some() {
            notes.push(format!(
                "volume {}: the kernel backend uses the whole device and ignores `size`",
                volume.name
            ));
        }
    }
    Ok(KernelPlan { loops, devices, builds, programs, notes })
}

/// Each once, in order.
fn sorted(texts: impl Iterator<Item = String>) -> Vec<String> {
    texts.collect::<BTreeSet<String>>().into_iter().collect()
}

/// Numbers of md devices that are free, as many as `design` takes.
pub(super) fn md_numbers(design: &Design) -> Vec<u32> {
    free_md_numbers(&Sys::host(), build::md_devices(design))
}

/// The build of `design` as number `number` of the run `name`.
pub(super) fn build_at(
    design: &Design,
    name: &str,
    number: u32,
    devices: &[String],
    md_numbers: &[u32],
) -> Result<Build, BuildPlanError> {
    build::build(design, &Site { run: name, build: number, devices, md_numbers, purpose: Purpose::Trial })
}

/// When the designs of a session are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Built {
    /// Built before each trial and taken away after it.
    EachTrial,
    /// In each round for all designs that can stand on one build.
    Shared,
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
    let builds = experiment.builds();
    for (index, (design, build)) in experiment.designs.iter().zip(&plan.builds).enumerate() {
        let name = &design.name;
        // The design of the same build that is told first.
        let first = builds.iter().position(|other| builds.get(index) == Some(other)).unwrap_or(index);
        let bears = builds.iter().filter(|other| builds.get(index) == Some(*other)).count();
        text.push_str(&match built {
            Built::EachTrial => {
                format!("each trial of {name} builds it, and undoes it from the last step up:\n")
            }
            Built::Shared if first < index => format!(
                "a trial of {name} stands on the build of {} (steps 1 to {}), and sets and mounts the rest:\n",
                experiment.designs[first].name, build.shared
            ),
            Built::Shared => format!(
                "a round builds {name} once (steps 1 to {}) for {}, sets and mounts the rest for each trial, and undoes all from the last \
                 step up:\n",
                build.shared,
                if bears == 1 { "this design alone".to_owned() } else { format!("the {bears} designs that can stand on it") }
            ),
            Built::Once if build.shared < build.steps.len() => format!(
                "the first trial of {name} builds it; it stays, and goes with the guest, but for steps {} and on, which are done for a trial and \
                 undone after it:\n",
                build.shared + 1
            ),
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

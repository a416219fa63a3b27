//! From a profile to a benchmark whose jobs follow one another.

use super::experiment;
use super::target::{self, Wanted, Words};
use crate::error::CliError;
use crate::experiment_file;
use ebbtide_analysis::course::{Point, Progress};
use ebbtide_engine::files::{Fill, Options};
use ebbtide_experiment::own_profile;
use ebbtide_model::experiment::{Volume, VolumeSource};
use ebbtide_model::layout::{ArrayKind, LayoutNode};
use ebbtide_model::profile::{Files, Profile, ProfileRequest, Step};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::{Workload, options};
use ebbtide_runner::bench::{Done, Job, Spec};
use std::path::Path;

/// A profile on its way.
pub struct Running {
    course: Progress,
    group: u32,
}

impl Running {
    /// The jobs after those that are `done`.
    pub fn next_jobs(&mut self, done: &[Done]) -> Option<Vec<Job>> {
        let steps = self.course.next_group(&points(done))?;
        let group = self.group;
        self.group += 1;
        Some(steps.into_iter().map(|step| job(step, group)).collect())
    }

    /// What they show together.
    pub fn conclusions(&self, done: &[Done]) -> Vec<String> {
        self.course.conclusions(&points(done))
    }
}

fn points(done: &[Done]) -> Vec<Point> {
    done.iter().map(|done| Point::new(&done.job.name, &done.job.workload, &done.samples)).collect()
}

fn job(step: Step, group: u32) -> Job {
    let options = options::said(&step.workload);
    let notes = step.note.into_iter().collect();
    Job { name: step.name, group, design: step.files, options, workload: step.workload, notes }
}

/// `profile` on `path`: its first jobs, and the rest of its course.
///
/// # Errors
/// Wrong usage when `path` cannot be used for it.
pub fn spec(
    profile: &Profile,
    path: &Path,
    mut request: ProfileRequest,
    destroy: bool,
    seed: u64,
) -> Result<(Spec, Running), CliError> {
    let directory = path.is_dir();
    if !directory && request.size.is_none() {
        // An existing file or device is used whole.
        request.size = target::length(path);
    }
    let (files, course) = profile.course(&request);
    let mut running = Running { course: Progress::new(course), group: 0 };
    let jobs = running.next_jobs(&[]).unwrap_or_default();
    // Later steps may write where the first only read.
    let writes = profile.writes;
    let spec = match files.as_slice() {
        files if directory => in_directory(path, files, jobs, destroy && writes, seed),
        [one] if one.count == 1 => {
            let wanted = Wanted {
                // A file with the size that a profile has by default is made in directories only.
                size: request.size.map(|_| one.size),
                offset: Bytes(0),
                reads: one.fill,
                writes,
                destroy,
                words: Words::COMMAND,
            };
            target::resolve(path, wanted)?.spec(path, jobs, writes, destroy, seed)
        }
        _ => {
            let what = format!("profile {} makes several files: give a directory", profile.name);
            return Err(CliError::Usage(what));
        }
    };
    Ok((Spec { ladder: false, ..spec }, running))
}

/// `jobs` on new files below `path`; each set of files is one target.
fn in_directory(path: &Path, files: &[Files], jobs: Vec<Job>, destroy: bool, seed: u64) -> Spec {
    let mut volumes = Vec::new();
    let mut designs = Vec::new();
    let mut fill = Vec::new();
    for set in files {
        let indices = volumes.len()..volumes.len() + set.count as usize;
        volumes.extend(indices.clone().map(|index| {
            let source = VolumeSource::NewFile { directory: Some(path.to_owned()) };
            Volume::new(format!("file{index}"), source, Some(set.size))
        }));
        fill.extend(indices.clone().filter(|_| set.fill));
        let members: Vec<LayoutNode> = indices.map(LayoutNode::Volume).collect();
        let layout = match members.as_slice() {
            [one] => one.clone(),
            _ => LayoutNode::Array { kind: ArrayKind::Linear, members },
        };
        designs.push((path.to_string_lossy().into_owned(), layout));
    }
    Spec {
        experiment: experiment(volumes, designs),
        jobs,
        ladder: false,
        options: Options { seed, destroy, fill: Fill::Only(fill), ..Options::default() },
    }
}

/// The workloads of a profile of the user's own: a TOML file with `name` and `[workloads.NAME]` tables as in an
/// experiment file, run one after the other.
///
/// # Errors
/// What is wrong with the file, with its line.
pub fn own(file: &Path) -> Result<Vec<Workload>, CliError> {
    let shown = file.shown();
    let text = experiment_file::named(file)?;
    own_profile(&text, &shown).map_err(|errors| CliError::Usage(errors.to_string()))
}

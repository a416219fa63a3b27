//! From the jobs of a fio job file to a benchmark.

use super::experiment;
use super::target::{self, Resolved, Wanted, Words};
use crate::error::CliError;
use crate::experiment_file;
use ebbtide_engine::files::{Fill, Options};
use ebbtide_experiment::FileJob as ExperimentJob;
use ebbtide_formats::fio::jobfile::{self, FileJob, JobFile, JobFileContext, Place, Target};
use ebbtide_model::layout::{ArrayKind, LayoutNode};
use ebbtide_model::shown::{Shown, one_line};
use ebbtide_model::units::Bytes;
use ebbtide_runner::bench::{Job, Spec};
use ebbtide_runner::verify;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Files beside the job file and below the directory for its targets, and this process's environment.
struct FioContext {
    directory: PathBuf,
    base: Option<PathBuf>,
}

impl JobFileContext for FioContext {
    fn include(&self, name: &str, _from: &str) -> io::Result<String> {
        // fio looks beside the job file first, then in the working directory.
        let beside = self.directory.join(name);
        let path = if beside.exists() { beside } else { PathBuf::from(name) };
        experiment_file::read(&path).map_err(io::Error::other)
    }

    fn variable(&self, name: &str) -> String {
        std::env::var(name).unwrap_or_default()
    }

    fn length(&self, name: &str) -> Option<Bytes> {
        target::length(&below(self.base.as_deref(), name))
    }
}

/// Bytes in which the first line of a job file is looked for.
const HEAD: u64 = 4096;

/// Whether `path` is a job file: its name ends in .fio, or it is a file whose first line but for empty ones and comments is `[NAME]`.
pub fn is_job_file(path: &Path) -> bool {
    if path.extension().is_some_and(|extension| extension == "fio") {
        return true;
    }
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let Some(file) = target::open_storage(path).filter(|_| is_file) else { return false };
    let mut head = Vec::new();
    if file.take(HEAD).read_to_end(&mut head).is_err() {
        return false;
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines =
        head.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    lines.next().is_some_and(|line| line.starts_with('[') && line.ends_with(']'))
}

/// What a job file asks for.
pub struct FromFile {
    pub spec: Spec,
    /// Options of its [global] sections.
    pub global: Vec<(String, String)>,
    /// Whether what its one job writes is to be verified.
    pub verified: bool,
}

/// The benchmark that the job file at `path` describes, and its global options; `beside` it stand options for jobs that do not
/// have them themselves. Relative names are below `base`, where
/// that is given.
///
/// # Errors
/// Wrong usage where the file asks for something that is not done, or for existing files to be overwritten without
/// `destroy`.
pub fn spec(
    path: &Path,
    base: Option<&Path>,
    beside: &[(String, String)],
    destroy: bool,
    seed: u64,
) -> Result<FromFile, CliError> {
    let shown = path.shown();
    let text = experiment_file::named(path)?;
    let around = FioContext {
        directory: path.parent().unwrap_or(Path::new("")).to_owned(),
        base: base.map(Path::to_owned),
    };
    let JobFile { global, jobs } =
        jobfile::parse(&text, &shown, beside, &around).map_err(|error| CliError::Usage(error.to_string()))?;
    searches_run_alone(&jobs)?;
    let verified = is_verified(&jobs)?;
    let files = Files::of(&jobs, base);
    let mut volumes = Vec::new();
    let mut named = Vec::new();
    let mut fill = Vec::new();
    let mut endless = Vec::new();
    let mut refused = Vec::new();
    for (index, file) in files.0.iter().enumerate() {
        let wanted = Wanted {
            size: file.size,
            // The size of a job's file has the offset in it.
            offset: Bytes(0),
            reads: file.read,
            writes: file.written,
            destroy,
            words: Words::JOB_FILE,
        };
        let resolved = target::resolve(&file.path, wanted).map_err(|error| file.at_its_place(error));
        let Resolved { volume, new, fill: fill_it, endless: endless_it } = match resolved {
            Ok(resolved) => resolved,
            Err(error) => {
                refused.push(error);
                continue;
            }
        };
        if matches!(volume.source, ebbtide_model::experiment::VolumeSource::NewFile { .. }) {
            refused.push(CliError::Usage(format!(
                "{}: filename={} is a directory; name a file in it",
                file.place,
                file.path.shown()
            )));
        }
        if endless_it {
            endless.push(index);
        }
        if fill_it {
            fill.push(index);
        }
        if new {
            named.push((index, file.path.clone()));
        }
        volumes.push(volume);
    }
    if let Some(refused) = all_of(refused) {
        return Err(refused);
    }
    let mut designs = Vec::new();
    let mut list = Vec::new();
    for (index, job) in jobs.into_iter().enumerate() {
        designs.push((job.name.clone(), files.layout(&job.target, base)));
        list.push(Job {
            name: job.name,
            group: job.group,
            design: index,
            workload: job.workload,
            options: job.options,
            notes: job.notes,
        });
    }
    let written: Vec<usize> =
        files.0.iter().enumerate().filter(|(_, file)| file.written).map(|(index, _)| index).collect();
    let spec = Spec {
        experiment: experiment(volumes, designs),
        jobs: list,
        ladder: true,
        options: Options {
            seed,
            // Every existing file that is written was named by somebody who said so; see `target::resolve`.
            destroy: destroy && !(written.is_empty() && fill.is_empty()),
            written: Some(written),
            named,
            fill: Fill::Only(fill),
            endless,
            ..Options::default()
        },
    };
    Ok(FromFile { spec, global, verified })
}

/// The jobs of the job file at `path` as those of an experiment, whose designs take the place of the files that it names; `beside` it stand
/// options for jobs that do not have them themselves.
///
/// # Errors
/// Everything that is wrong with it, with its line.
pub fn jobs(path: &Path, beside: &[(String, String)]) -> Result<Vec<ExperimentJob>, Vec<String>> {
    let shown = path.shown().to_string();
    let text = experiment_file::read(path)
        .map_err(|what| vec![format!("the job file `{shown}` cannot be read: it {what}")])?;
    let around = FioContext { directory: path.parent().unwrap_or(Path::new("")).to_owned(), base: None };
    let file = jobfile::parse(&text, &shown, beside, &around)
        .map_err(|errors| errors.0.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    if let Some(job) = file.jobs.iter().find(|job| job.verified) {
        let what = "a run that is verified has a ledger and is no measurement: remove it, or say `ebb bench` with the file";
        return Err(vec![format!("{}: verify: {what}", job.place)]);
    }
    let job = |job: FileJob| ExperimentJob {
        name: job.name,
        place: job.place.to_string(),
        group: job.group,
        workload: job.workload,
    };
    Ok(file.jobs.into_iter().map(job).collect())
}

/// Errors as one: where all are wrong usage, all of them.
fn all_of(mut errors: Vec<CliError>) -> Option<CliError> {
    let usage = |error: &CliError| if let CliError::Usage(what) = error { Some(what.clone()) } else { None };
    if errors.len() > 1
        && let Some(all) = errors.iter().map(usage).collect::<Option<Vec<String>>>()
    {
        return Some(CliError::Usage(all.join("\n")));
    }
    (!errors.is_empty()).then(|| errors.swap_remove(0))
}

/// Refuses jobs that look for a load while others make theirs.
fn searches_run_alone(jobs: &[FileJob]) -> Result<(), CliError> {
    let others = |job: &FileJob| jobs.iter().filter(|other| other.group == job.group).count() > 1;
    match jobs.iter().find(|job| job.workload.conditions.latency.is_some() && others(job)) {
        None => Ok(()),
        Some(job) => Err(CliError::Usage(format!(
            "{}: latency_target: job {} runs at the same time as others, whose load would be part of what it finds; write stonewall \
             in it and in the job that follows",
            job.place,
            one_line(&job.name)
        ))),
    }
}

/// Whether the job is to be verified; refuses others beside it, whose figures no verification has.
fn is_verified(jobs: &[FileJob]) -> Result<bool, CliError> {
    let Some(job) = jobs.iter().find(|job| job.verified) else { return Ok(false) };
    let place = &job.place;
    if jobs.len() > 1 {
        let what =
            "a run that is verified has a ledger and is no measurement; write a file for this job alone";
        return Err(CliError::Usage(format!("{place}: verify: {what}")));
    }
    verify::fits(&job.workload).map_err(|error| CliError::Usage(format!("{place}: verify: {error}")))?;
    Ok(true)
}

/// One file or device that jobs use.
struct Used {
    path: PathBuf,
    /// Where the job stands that asks the most of it.
    place: Place,
    size: Option<Bytes>,
    read: bool,
    written: bool,
}

impl Used {
    /// `error` with the place in the job file.
    fn at_its_place(&self, error: CliError) -> CliError {
        let placed = |what: String| format!("{}: {what}", self.place);
        match error {
            CliError::Usage(what) => CliError::Usage(placed(what)),
            CliError::Failed(what) => CliError::Failed(placed(what)),
            other => other,
        }
    }
}

/// The files of a job file, each once, however many jobs use it.
struct Files(Vec<Used>);

impl Files {
    fn of(jobs: &[FileJob], base: Option<&Path>) -> Files {
        let mut files = Files(Vec::new());
        for job in jobs {
            for path in paths(&job.target, base) {
                let index = files.0.iter().position(|used| used.path == path).unwrap_or_else(|| {
                    files.0.push(Used {
                        path,
                        place: job.place.clone(),
                        size: None,
                        read: false,
                        written: false,
                    });
                    files.0.len() - 1
                });
                let used = &mut files.0[index];
                if job.file_size > used.size || (job.workload.writes() && !used.written) {
                    used.place = job.place.clone();
                }
                used.size = used.size.max(job.file_size);
                used.read |= job.workload.reads();
                used.written |= job.workload.writes();
            }
        }
        files
    }

    /// The volumes of `target`, one after the other where there are several, or in turn those of a clone.
    fn layout(&self, target: &Target, base: Option<&Path>) -> LayoutNode {
        let volume = |file: &String| {
            let path = below(base, file);
            self.0.iter().position(|used| used.path == path).map(LayoutNode::Volume)
        };
        let array = |kind: ArrayKind, mut members: Vec<LayoutNode>| match members.len() {
            1 => members.remove(0),
            _ => LayoutNode::Array { kind, members },
        };
        let members = match target {
            Target::Shared(file) => volume(file).into_iter().collect(),
            Target::Each(files) => files.iter().filter_map(volume).collect(),
            Target::Several { clones, in_turn } => {
                let kind = in_turn.map_or(ArrayKind::Linear, |chunk| ArrayKind::Stripe { chunk });
                let clone = |files: &Vec<String>| array(kind, files.iter().filter_map(volume).collect());
                clones.iter().map(clone).collect()
            }
        };
        array(ArrayKind::Linear, members)
    }
}

fn paths(target: &Target, base: Option<&Path>) -> Vec<PathBuf> {
    match target {
        Target::Shared(file) => vec![below(base, file)],
        Target::Each(files) => files.iter().map(|file| below(base, file)).collect(),
        Target::Several { clones, .. } => clones.iter().flatten().map(|file| below(base, file)).collect(),
    }
}

fn below(base: Option<&Path>, file: &str) -> PathBuf {
    base.map_or_else(|| PathBuf::from(file), |base| base.join(file))
}

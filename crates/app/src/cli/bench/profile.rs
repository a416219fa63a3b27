//! `ebb bench --profile`: the field's workloads by name.

use super::jobs::{self, Kept, Told};
use super::shown;
use crate::bench::{describe, profile, target};
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views;
use ebbtide_engine::files::direct_unit;
use ebbtide_experiment::is_profile_file;
use ebbtide_formats::bonnie::{self, BonnieHost};
use ebbtide_host::hostinfo::host_info;
use ebbtide_host::sys::Sys;
use ebbtide_model::profile::{DIRECT_UNIT, PROFILES, Profile, ProfileRequest};
use ebbtide_model::shown::Styled;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Mix, Stop, Workload, options};
use ebbtide_report::{ProfileStep, steps};
use ebbtide_runner::bench::{Done, Job, Results, Spec};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Which profile, and what is said of its steps.
pub(super) struct Course<'a> {
    pub(super) name: &'a str,
    pub(super) size: Option<Bytes>,
    pub(super) runtime: Option<Nanos>,
    pub(super) seed: u64,
    pub(super) destroy: bool,
}

impl Course<'_> {
    fn request(&self, memory: u64) -> ProfileRequest {
        let Course { size, runtime, seed, .. } = *self;
        ProfileRequest { size, runtime, memory: Bytes(memory), seed, direct_unit: DIRECT_UNIT }
    }
}

/// Lists the profiles.
pub(super) fn list(globals: &Globals) -> Result<ExitCode, CliError> {
    let (value, text) = shown::list();
    views::answer(globals.json(), &value, &text)
}

/// Runs one on the file, device or directory at `path`.
pub(super) fn run(
    course: &Course<'_>,
    path: &Path,
    kept: &Kept,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let Course { name, seed, destroy, .. } = *course;
    let places = kept.open(globals)?;
    let host = host_info(&Sys::host());
    let (spec, mut running) = if is_profile_file(name) {
        (own(course, path)?, None)
    } else {
        let profile = built_in(name)?;
        let mut request = course.request(host.memory_bytes);
        if name == "efs" && path.is_dir() {
            request.direct_unit = direct_unit(path).unwrap_or(DIRECT_UNIT);
        }
        takes(profile, &request)?;
        let (spec, running) = profile::spec(profile, path, request, destroy, seed)?;
        (spec, Some(running))
    };
    let small = (name == "bonnie").then(|| warning(&spec, host.memory_bytes)).flatten();
    let mut next = |done: &[Done]| running.as_mut().and_then(|running| running.next_jobs(done));
    let mut results = jobs::measured(spec, &mut next, small.as_deref(), globals)?;
    results.notes.extend(small);
    let conclusions = match (running, &results.ended_early) {
        (Some(running), None) => running.conclusions(&results.done),
        // What a course shows, it shows at its end.
        (Some(_), Some(_)) => vec!["it ended before its last step: nothing is concluded".to_owned()],
        (None, _) => Vec::new(),
    };
    // bonnie++'s own, for bon_csv2html and bon_csv2txt.
    let csv = || {
        let size = match results.done.first().map(|first| &first.job.workload.stop) {
            Some(Stop::Size(size)) => *size,
            _ => Bytes::default(),
        };
        let version = concat!("ebb-", env!("CARGO_PKG_VERSION"));
        let host = BonnieHost { name: &host.hostname, version, seed, size };
        // A test that was cut short has no result.
        let early = results.ended_early.is_some();
        let whole = results.done.iter().filter(|done| !early || is_complete(done));
        let whole: Vec<_> = whole.map(|done| (done.job.name.as_str(), &done.samples)).collect();
        bonnie::csv(&host, &whole)
    };
    let json = || {
        let mut value = describe::json(&results, seed);
        value["ebbtide"] = json!({ "profile": name, "conclusions": conclusions });
        value
    };
    let text = |columns, color| text(name, &results, &conclusions, seed, (columns, color));
    let own: &dyn Fn() -> String = &csv;
    let told = Told { text: &text, json: &json, csv: (name == "bonnie").then_some(own) };
    places.take(&results, &told, globals)?;
    jobs::ending(&results)
}

/// Whether a job that ends by size has come to its end.
fn is_complete(done: &Done) -> bool {
    let Stop::Size(size) = done.job.workload.stop else { return true };
    let (read, write) = (done.samples.array.read.count.bytes, done.samples.array.write.count.bytes);
    match done.job.workload.mix {
        Mix::Rewrite => write >= size.0,
        _ => read + write >= size.0,
    }
}

fn text(
    name: &str,
    results: &Results,
    conclusions: &[String],
    seed: u64,
    (columns, color): (usize, bool),
) -> Styled {
    let Some(first) = results.done.first() else { return Styled::default() };
    let mut remarks = conclusions.to_vec();
    remarks.extend(notes(results).into_iter().map(|note| format!("note: {note}")));
    remarks.push(format!("seed {seed}"));
    let title = format!("profile {name} on {}", first.target);
    let in_order: Vec<ProfileStep<'_>> = results
        .done
        .iter()
        .map(|Done { job, samples, verdicts, .. }| ProfileStep { name: &job.name, samples, verdicts })
        .collect();
    steps(&title, &in_order, &remarks, columns, color)
}

/// Every note once; one that only some steps have, with their names.
fn notes(results: &Results) -> Vec<String> {
    let mut noted: Vec<(&String, Vec<&str>)> = Vec::new();
    for done in &results.done {
        for note in done.job.notes.iter().chain(&done.samples.notes) {
            match noted.iter_mut().find(|(known, _)| *known == note) {
                Some((_, steps)) => steps.push(&done.job.name),
                None => noted.push((note, vec![&done.job.name])),
            }
        }
    }
    let told = noted.into_iter().map(|(note, steps)| {
        if steps.len() == results.done.len() && steps.len() > 1 {
            note.clone()
        } else {
            format!("{}: {note}", steps.join(", "))
        }
    });
    told.chain(results.notes.iter().cloned()).collect()
}

/// Says what one is and does.
pub(super) fn explain(course: &Course<'_>, globals: &Globals) -> Result<ExitCode, CliError> {
    let name = course.name;
    let (value, text) = if is_profile_file(name) {
        shown::own(name, &profile::own(Path::new(name))?)
    } else {
        shown::built_in(built_in(name)?, &course.request(host_info(&Sys::host()).memory_bytes))
    };
    views::answer(globals.json(), &value, &text)
}

fn names() -> String {
    let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
    names.join(", ")
}

/// bonnie++ itself refuses a file that memory could hold.
fn warning(spec: &Spec, memory: u64) -> Option<String> {
    let size = spec.experiment.volumes.first()?.size?;
    (size.0 < memory.saturating_mul(2)).then(|| {
        format!(
            "the file of {} is smaller than twice the memory ({}): much of what is measured is the page \
             cache",
            size.short(),
            Bytes(memory).short()
        )
    })
}

/// The workloads of a file of the user's own, one after the other.
fn own(course: &Course<'_>, path: &Path) -> Result<Spec, CliError> {
    let Course { name, size, runtime, seed, destroy } = *course;
    let workloads = profile::own(Path::new(name))?;
    let wanted = target::Wanted {
        size,
        offset: Bytes(0),
        reads: workloads.iter().any(Workload::reads),
        writes: workloads.iter().any(Workload::writes),
        destroy,
        words: target::Words::COMMAND,
    };
    let jobs = (0u32..).zip(workloads).map(|(group, mut workload)| {
        if let Some(runtime) = runtime {
            workload.stop = Stop::Runtime(runtime);
        }
        let (name, options, notes) = (workload.name.clone(), options::said(&workload), Vec::new());
        Job { name, group, design: 0, workload, options, notes }
    });
    jobs::on_path(path, wanted, jobs.collect(), seed)
}

/// Looks whether there is a profile of that name, where it names no file.
pub(super) fn exists(name: &str) -> Result<(), CliError> {
    if is_profile_file(name) { Ok(()) } else { built_in(name).map(|_| ()) }
}

fn built_in(name: &str) -> Result<&'static Profile, CliError> {
    Profile::get(name).ok_or_else(|| {
        CliError::Usage(format!(
            "there is no profile `{name}`; there are {}, and files of your own (NAME.toml)",
            names()
        ))
    })
}

/// Refuses an option that would change nothing.
fn takes(profile: &Profile, request: &ProfileRequest) -> Result<(), CliError> {
    let (what, why) = match (request, profile) {
        (ProfileRequest { size: Some(_), .. }, Profile { takes_size: false, .. }) => {
            ("--size", "its files have a size of their own")
        }
        (ProfileRequest { runtime: Some(_), .. }, Profile { takes_runtime: false, .. }) => {
            ("--runtime", "its steps end when they have read or written the whole; say --size")
        }
        _ => return Ok(()),
    };
    Err(CliError::Usage(format!("{what} means nothing to profile {}: {why}", profile.name)))
}

//! `profile = "NAME"`: workloads by name instead of one that is written out, and the files that hold a user's own.

use super::error::{ExperimentErrors, Mistake};
use super::jobs::{self, FileJob};
use super::read::{Entry, FromToml, Named, entries, section};
use super::workloads::{self, RawWorkload};
use super::{names, syntax};
use crate::problems::{Problems, Span};
use ebbtide_model::profile::{DIRECT_UNIT, PROFILES, Profile, ProfileRequest, Step};
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::{Generator, Workload};
use std::io;

/// What reads the files that an experiment names.
pub trait ProfileFiles {
    /// The text of the profile file called `name`.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&self, name: &str) -> io::Result<String>;

    /// The jobs of the job file called `name`; options `beside` it are those of jobs that do not have them themselves.
    ///
    /// # Errors
    /// Everything that is wrong with it, with its place.
    fn jobs(&self, name: &str, beside: &[(String, String)]) -> Result<Vec<FileJob>, Vec<String>>;
}

/// Where there are no files: only the profiles that come with the program can be named.
#[derive(Debug, Clone, Copy)]
pub struct NoFiles;

impl ProfileFiles for NoFiles {
    fn read(&self, _name: &str) -> io::Result<String> {
        Err(io::Error::other("no files are read here"))
    }

    fn jobs(&self, name: &str, _beside: &[(String, String)]) -> Result<Vec<FileJob>, Vec<String>> {
        Err(vec![format!("the job file `{name}` cannot be read: no files are read here")])
    }
}

section! {
    /// A profile of the user's own.
    "a profile"
    struct RawProfile {
        /// Name of the profile.
        name: String,
        /// What it is for.
        description: String,
        /// Its workloads, in the order in which they run.
        workloads: Named<RawWorkload>,
    }
}

/// Whether `name` is that of a file rather than of a profile that comes with the program.
pub fn is_file(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/')
}

/// The workloads of the profile file `text`, in their order. `file_name` is for messages only.
///
/// # Errors
/// Everything that is wrong with the text, as [`parse`](crate::parse()) has it.
pub fn own(text: &str, file_name: &str) -> Result<Vec<Workload>, ExperimentErrors> {
    let mut problems = Problems::default();
    let start = 0..0;
    let table = syntax::table(text, &mut problems);
    let raw = table.and_then(|table| RawProfile::from_toml(&table, &start, &mut problems));
    let nested = |_: &Entry<RawWorkload>, (_, place): (&str, &Span), problems: &mut Problems| {
        let remedy = "write its workloads out: a profile file names no other profile";
        problems.pointless(place, "profile", "this is one", remedy);
        Vec::new()
    };
    let entries = raw.as_ref().map_or(&[][..], |raw| entries(&raw.workloads));
    for jobs in entries.iter().filter_map(|entry| entry.value.as_ref()?.jobs.as_ref()) {
        let remedy = "write an experiment, or a job file of fio's for `ebb bench FILE.fio`";
        problems.pointless(&jobs.span, "jobs", "the workloads of a profile run one after the other", remedy);
    }
    if !problems.is_empty() {
        return Err(problems.into_errors(text, file_name));
    }
    let workloads = raw.map_or_else(Vec::new, |raw| {
        workloads::resolve(&raw.workloads, ("the profile", &start), None, (&nested, &None), &mut problems)
    });
    if problems.is_empty() { Ok(workloads) } else { Err(problems.into_errors(text, file_name)) }
}

/// What profiles are made for.
pub(super) struct ProfileContext<'a> {
    /// The design of least capacity, where that is known.
    pub(super) smallest: Option<(&'a str, Bytes)>,
    /// Memory of the host that a simulation has.
    pub(super) memory: Option<Bytes>,
    pub(super) files: &'a dyn ProfileFiles,
}

/// The workloads that `entry` stands for, each called `NAME-STEP`.
pub(super) fn expand(
    entry: &Entry<RawWorkload>,
    (name, place): (&str, &Span),
    around: &ProfileContext<'_>,
    problems: &mut Problems,
) -> Vec<Workload> {
    let Some(raw) = &entry.value else { return Vec::new() };
    if raw.jobs.is_some() {
        return jobs::of_file(entry, (name, place), raw, around, problems);
    }
    let made = match is_file(name) {
        true => of_file(name, place, raw, entry, around.files, problems),
        false => built_in(name, place, raw, entry, around, problems),
    };
    let mut made = made.unwrap_or_default();
    for workload in &mut made {
        workload.name = format!("{}-{}", entry.name, workload.name);
        names::check(&workload.name, "a workload", &entry.span, problems);
        if raw.at("ramp_time").is_some() {
            workload.warm_up = raw.draft.workload.warm_up;
        }
        fits(workload, around.smallest, raw.at("size").unwrap_or(place), problems);
    }
    made
}

/// A profile of the user's own, whose workloads say everything that is not overridden.
fn of_file(
    name: &str,
    place: &Span,
    raw: &RawWorkload,
    entry: &Entry<RawWorkload>,
    files: &dyn ProfileFiles,
    problems: &mut Problems,
) -> Option<Vec<Workload>> {
    let mut wrong = |what: String, remedy: String| problems.report(place, Mistake::Workload(what), remedy);
    let text = match files.read(name) {
        Ok(text) => text,
        Err(error) => {
            let remedy = "write the path of a profile file, from the experiment file's directory".to_owned();
            wrong(format!("the profile file `{name}` cannot be read: {error}"), remedy);
            return None;
        }
    };
    let mut made = match own(&text, name) {
        Ok(made) => made,
        Err(errors) => {
            for record in errors.records() {
                let what = format!("{}:{}:{}: {}", record.file, record.line, record.column, record.message);
                wrong(what, record.help);
            }
            return None;
        }
    };
    let given = raw.at("runtime").or(raw.at("io_size")).is_some();
    let stop = if given { raw.stop(entry, problems) } else { None };
    for workload in &mut made {
        workload.stop = stop.unwrap_or(workload.stop);
        workload.span = raw.span().or(workload.span);
    }
    Some(made)
}

/// A profile that comes with the program, over `span` of the array.
fn built_in(
    name: &str,
    place: &Span,
    raw: &RawWorkload,
    entry: &Entry<RawWorkload>,
    around: &ProfileContext<'_>,
    problems: &mut Problems,
) -> Option<Vec<Workload>> {
    let Some(profile) = Profile::get(name) else {
        let known: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
        let remedy =
            format!("{}, or a file of your own, for example \"nightly.toml\"", names::choose(name, &known));
        problems.report(place, Mistake::UnknownChoice { what: "profile", found: name.to_owned() }, remedy);
        return None;
    };
    let mut pointless = |key, at: &Span, why: &str, remedy: &str| {
        problems.pointless(at, key, format!("{why} profile `{name}`"), remedy);
    };
    if let Some(at) = raw.at("io_size") {
        let remedy = if profile.takes_size { "write `span`, which they range over" } else { "remove it" };
        pointless("size", at, "it is not what ends the steps of", remedy);
    }
    if let (Some(at), false) = (raw.at("size"), profile.takes_size) {
        pointless("span", at, "files of a size of their own belong to", "remove it");
    }
    if let (Some(at), false) = (raw.at("runtime"), profile.takes_runtime) {
        pointless("runtime", at, "no time ends the steps of", "write `span`, which they read and write once");
    }
    let capacity = around.smallest.map(|(_, capacity)| capacity);
    let (runtime, span) = (raw.draft.runtime, raw.span());
    if raw.at("size").is_none() && around.memory.is_none() && profile.sized_by_memory {
        let example = "span = \"32GiB\"` (bonnie++ takes twice the memory), or to a simulation `[host]` with `memory = \
                       \"16GiB\"";
        problems.missing(&entry.span, "span", format!("workload `{}`", entry.name), example);
        return None;
    }
    let mut wish = ProfileRequest {
        size: span,
        runtime,
        memory: around.memory.unwrap_or_default(),
        seed: 0,
        direct_unit: DIRECT_UNIT,
    };
    let (files, _) = profile.course(&wish);
    if let (None, Some(capacity), false) = (span, capacity, profile.sized_by_memory)
        && files.iter().any(|files| files.all() > capacity)
    {
        wish.size = Some(capacity);
    }
    let (files, course) = profile.course(&wish);
    let groups = match course.fixed() {
        Ok(groups) => groups,
        Err(why) => {
            let what = format!("profile `{name}` does not fit into an experiment: {why}");
            let remedy = format!("run `ebb bench --profile {name}`, or write the workloads out");
            problems.report(place, Mistake::Workload(what), remedy);
            return None;
        }
    };
    let whole = |Step { workload, files: set, .. }: Step| {
        let span = workload.span.or(files.get(set).map(|files| files.all()));
        Workload { span, ..workload }
    };
    let groups = groups.into_iter().map(|steps| steps.into_iter().map(whole).collect());
    Some(jobs::grouped(groups.collect(), &entry.name, place, problems))
}

/// Reports a workload without room on the smallest design.
pub(super) fn fits(
    workload: &Workload,
    smallest: Option<(&str, Bytes)>,
    place: &Span,
    problems: &mut Problems,
) {
    let Some((design, capacity)) = smallest else { return };
    let what = match workload.span.filter(|span| *span > capacity) {
        Some(span) => {
            format!("workload `{}` needs {span}, and design `{design}` holds {capacity}", workload.name)
        }
        None => match Generator::new(workload, capacity, 0, 0) {
            Err(error) => format!("workload `{}` on design `{design}`: {error}", workload.name),
            Ok(_) => return,
        },
    };
    let remedy = format!("write a `span` of at most \"{capacity}\", or larger volumes");
    problems.report(place, Mistake::Workload(what), remedy);
}

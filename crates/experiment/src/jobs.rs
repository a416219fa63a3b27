//! `jobs` of a workload: several workloads that run at the same time, written out or in a job file of fio's.

use super::error::Mistake;
use super::names;
use super::problems::{Problems, Span};
use super::profiles::{ProfileContext, fits};
use super::read::{At, Entry, FromToml, Named};
use super::workloads::{self, Expand, RawWorkload};
use ebbtide_model::experiment::unfair;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Workload;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::DeValue;

const DOC: &str = "Workloads that run at the same time, by name, each a result NAME.JOB; or the name of a job file of fio's, relative to \
                   this file. Beside it only runtime and ramp_time may stand, which jobs without their own take.";

/// One job of a file of fio's.
#[derive(Debug, Clone, PartialEq)]
pub struct FileJob {
    /// Heading of its section.
    pub name: String,
    /// File and line of that.
    pub place: String,
    /// Jobs of one group run at the same time, groups one after the other.
    pub group: u32,
    /// What its options ask for.
    pub workload: Workload,
}

/// The jobs as they are written.
#[derive(Debug)]
pub(super) enum RawJobs {
    WrittenOut(Named<RawWorkload>),
    File(String),
}

impl FromToml for RawJobs {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        match value {
            DeValue::String(name) => Some(RawJobs::File(name.to_string())),
            DeValue::Table(_) => Named::from_toml(value, span, problems).map(RawJobs::WrittenOut),
            _ => {
                let remedy = "write a table `[workloads.NAME.jobs.JOB]` for each, or `jobs = \"FILE.fio\"`";
                problems.wrong_type(
                    span,
                    "a table of jobs or the name of a job file",
                    value,
                    remedy.to_owned(),
                );
                None
            }
        }
    }
}

impl JsonSchema for RawJobs {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Jobs".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let written_out = Named::<RawWorkload>::json_schema(generator).to_value();
        json_schema!({ "description": DOC, "anyOf": [{ "type": "string" }, written_out] })
    }
}

/// The workloads of `entry`, which has jobs; `expand` knows those of files.
pub(super) fn resolve(
    raw: &RawWorkload,
    entry: &Entry<RawWorkload>,
    smallest: Option<(&str, Bytes)>,
    expand: &Expand<'_>,
    problems: &mut Problems,
) -> Vec<Workload> {
    raw.refuse_beside_jobs(problems);
    match &raw.jobs {
        Some(At { value: Some(RawJobs::File(name)), span }) => expand(entry, (name, span), problems),
        Some(At { value: Some(RawJobs::WrittenOut(Named(jobs))), span }) => {
            written_out(raw, (&entry.name, span), jobs, smallest, problems)
        }
        _ => Vec::new(),
    }
}

fn written_out(
    raw: &RawWorkload,
    (group, place): (&str, &Span),
    jobs: &[Entry<RawWorkload>],
    smallest: Option<(&str, Bytes)>,
    problems: &mut Problems,
) -> Vec<Workload> {
    if jobs.is_empty() {
        let remedy = format!("write a table `[workloads.{group}.jobs.JOB]` with `rw` for each");
        problems.report(place, Mistake::Nothing(format!("workload `{group}` has no jobs")), remedy);
    }
    let mut made = Vec::new();
    for job in jobs {
        let name = format!("{group}.{}", job.name);
        names::check(&name, "a workload", &job.span, problems);
        let Some(own) = &job.value else { continue };
        if own.program.is_some() {
            let what = format!("job `{name}` is a program, which runs alone");
            let remedy = "make it a workload of its own: `[workloads.NAME]` with `command`";
            problems.report(&job.span, Mistake::Workload(what), remedy);
            continue;
        }
        let within = [
            ("profile", own.profile.as_ref().map(|at| &at.span)),
            ("jobs", own.jobs.as_ref().map(|at| &at.span)),
        ];
        let mut nested = within.iter().filter_map(|(key, at)| Some((*key, (*at)?)));
        if let Some((key, at)) = nested.next() {
            let remedy = "write the job out, with `rw`, or make it a workload of its own";
            problems.pointless(at, key, "a job is one workload", remedy);
            continue;
        }
        made.extend(workloads::workload(&own.in_group(raw), (&name, &job.span), smallest, problems));
    }
    if made.len() == jobs.len() {
        group_them(&mut made, group, &|at| jobs[at].span.clone(), problems);
    }
    made
}

/// Has `jobs` run at the same time as the group `name`; `place` is that of each.
fn group_them(jobs: &mut [Workload], name: &str, place: &dyn Fn(usize) -> Span, problems: &mut Problems) {
    if let Some((at, what, remedy)) = unfair(jobs) {
        let what = format!("job `{}` {what}", jobs[at].name);
        problems.report(&place(at), Mistake::Workload(what), remedy);
    }
    if jobs.len() > 1 {
        jobs.iter_mut().for_each(|job| job.group = Some(name.to_owned()));
    }
}

/// Has the workloads of each of `groups` run at the same time, groups one after the other, as those of the entry `name` at `place`.
pub(super) fn grouped(
    groups: Vec<Vec<Workload>>,
    name: &str,
    place: &Span,
    problems: &mut Problems,
) -> Vec<Workload> {
    let only = groups.len() == 1;
    let each = (1..).zip(groups).flat_map(|(number, mut group)| {
        let name = if only { name.to_owned() } else { format!("{name}.{number}") };
        group_them(&mut group, &name, &|_| place.clone(), problems);
        group
    });
    each.collect()
}

/// The workloads of the job file `file`, which `entry` names at `place`.
pub(super) fn of_file(
    entry: &Entry<RawWorkload>,
    (file, place): (&str, &Span),
    raw: &RawWorkload,
    around: &ProfileContext<'_>,
    problems: &mut Problems,
) -> Vec<Workload> {
    let given = [("runtime", raw.draft.runtime), ("ramp_time", Some(raw.draft.workload.warm_up))];
    let beside = given.into_iter().filter(|(name, _)| raw.at(name).is_some());
    let beside = beside.filter_map(|(name, time)| Some((name.to_owned(), format!("{}us", time?.0 / 1000))));
    let jobs = match around.files.jobs(file, &beside.collect::<Vec<_>>()) {
        Ok(jobs) => jobs,
        Err(wrong) => {
            for what in wrong {
                let remedy = "correct the job file, or write the path of another one, from the experiment file's directory";
                problems.report(place, Mistake::Workload(what), remedy);
            }
            return Vec::new();
        }
    };
    let groups = jobs.chunk_by(|one, next| one.group == next.group).map(|group| {
        let job = |job: &FileJob| {
            let name = format!("{}.{}", entry.name, job.name);
            Workload { name, ..job.workload.clone() }
        };
        group.iter().map(job).collect()
    });
    let made = grouped(groups.collect(), &entry.name, place, problems);
    for (workload, job) in made.iter().zip(&jobs) {
        names::check(&workload.name, "a workload", place, problems);
        let mut found = Problems::default();
        fits(workload, around.smallest, place, &mut found);
        // Its span is written in the job file.
        for (span, problem) in found.into_list() {
            let what = format!("{}: {}", job.place, problem.mistake);
            problems.report(
                &span,
                Mistake::Workload(what),
                "write a `size` there that fits, or larger volumes",
            );
        }
    }
    made
}

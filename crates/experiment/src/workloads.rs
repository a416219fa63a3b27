//! `[workloads.NAME]`: what is asked of every design, in fio's words.

use super::error::{Mistake, Problem};
use super::jobs::{self, RawJobs};
use super::names;
use super::problems::{Problems, Span};
use super::read::{At, Entry, FromToml, Given, Headed, Named, Throughput, expect_table, required};
use crate::program::{self, COMMAND, RawProgram, RawSetup};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::options::{
    Draft, Grammar, Kind, OPTIONS, Read, Refusal, WorkloadOption, Written,
};
use ebbtide_model::workload::{Access, Stop, Workload};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::DeValue;

/// Memory for the buffers of a workload beyond which it is a mistake.
const BUFFERS_MAX: u64 = 4 * Bytes::GIB;
/// A section's name in messages.
const TITLE: &str = "a workload";
/// The keys that are no options.
const PROFILE: &str = "profile";
const JOBS: &str = "jobs";
const PROFILE_DOC: &str = "Workloads by name instead of one that is written out: dd, bonnie, efs, seek, database or ladder, or a \
                           profile file of your own, its path relative to this file. Beside it only runtime, size, span \
                           and ramp_time may stand.";
/// Options that may stand beside a profile, which decides the others.
const BESIDE_A_PROFILE: &[&str] = &["runtime", "io_size", "size", "ramp_time"];
/// Options that may stand beside jobs, which take them where they have none of their own.
const BESIDE_JOBS: &[&str] = &["runtime", "ramp_time"];

/// A workload as it is written.
#[derive(Debug)]
pub(super) struct RawWorkload {
    /// A program instead of options.
    pub(super) program: Option<Box<RawProgram>>,
    pub(super) profile: Given<String>,
    pub(super) jobs: Given<RawJobs>,
    pub(super) draft: Draft,
    given: Vec<(&'static WorkloadOption, Span)>,
}

fn options() -> impl Iterator<Item = &'static WorkloadOption> {
    OPTIONS.iter().filter(|option| option.is_in(Grammar::Experiment))
}

fn key(option: &WorkloadOption) -> &'static str {
    option.key(Grammar::Experiment)
}

impl Headed for RawWorkload {
    const HEADING: &'static str = "workloads";
}

/// A value of an option; what is wrong with it is reported by its reader.
struct TomlValue<'a, 'i> {
    value: &'a DeValue<'i>,
    span: &'a Span,
    problems: &'a mut Problems,
}

impl TomlValue<'_, '_> {
    fn read<T: FromToml>(&mut self) -> Read<T> {
        T::from_toml(self.value, self.span, self.problems).ok_or(None)
    }
}

impl Written for TomlValue<'_, '_> {
    fn text(&mut self) -> Read<String> {
        self.read()
    }
    fn size(&mut self) -> Read<Bytes> {
        self.read()
    }
    fn time(&mut self, _bare: Nanos) -> Read<Nanos> {
        self.read()
    }
    fn throughput(&mut self) -> Read<Bytes> {
        self.read().map(|Throughput(rate)| Bytes(rate as u64))
    }
    fn whole(&mut self) -> Read<i64> {
        self.read()
    }
    fn number(&mut self) -> Read<f64> {
        self.read()
    }
    fn switch(&mut self, _words: &[(&str, bool)]) -> Read<bool> {
        self.read()
    }
}

impl FromToml for RawWorkload {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::Table(table) = value
            && table.contains_key(COMMAND)
        {
            let program = RawProgram::from_toml(value, span, problems)?;
            return Some(RawWorkload { program: Some(Box::new(program)), ..RawWorkload::empty() });
        }
        let keys: Vec<&str> = [PROFILE, JOBS].into_iter().chain(options().map(key)).collect();
        let table = expect_table(value, TITLE, &keys, span, problems)?;
        let mut raw = RawWorkload::empty();
        for (name, at) in table {
            let (found, place) = (name.get_ref().as_ref(), name.span());
            let meant = if keys.contains(&found) { found } else { names::meant(found, &keys).unwrap_or("") };
            let option = options().find(|option| key(option) == meant);
            if meant != found {
                problems.add(&place, names::unknown_key(found, TITLE, &keys));
                // It has been reported: it is wrong, not missing.
                match meant {
                    PROFILE => {
                        raw.profile.get_or_insert(At { value: None, span: place.clone() });
                    }
                    JOBS => {
                        raw.jobs.get_or_insert(At { value: None, span: place.clone() });
                    }
                    _ => {}
                }
                if let Some(option) = option {
                    raw.draft.fail(option);
                    raw.given.push((option, place));
                }
            } else if let Some(option) = option {
                let span = at.span();
                let mut value = TomlValue { value: at.get_ref(), span: &span, problems };
                if let Err(Some(refusal)) = option.set(&mut raw.draft, &mut value) {
                    problems.add(&span, problem(refusal));
                }
                raw.given.push((option, span));
            } else if found == JOBS {
                raw.jobs = Some(At::read(at, problems));
            } else {
                raw.profile = Some(At::read(at, problems));
            }
        }
        Some(raw)
    }
}

impl JsonSchema for RawWorkload {
    fn schema_name() -> Cow<'static, str> {
        "Workload".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        let profile = json_schema!({ "type": "string", "description": PROFILE_DOC });
        properties.insert(PROFILE.to_owned(), profile.to_value());
        properties.insert(JOBS.to_owned(), RawJobs::json_schema(generator).to_value());
        for option in options() {
            let mut schema = match option.kind {
                Kind::Size { .. } | Kind::Amount { .. } => generator.subschema_for::<Option<Bytes>>(),
                Kind::Throughput { .. } => generator.subschema_for::<Option<Throughput>>(),
                Kind::Time { .. } => generator.subschema_for::<Option<Nanos>>(),
                Kind::Whole { least, most, .. } => {
                    json_schema!({ "type": "integer", "minimum": least, "maximum": most })
                }
                Kind::Number { most: f64::MAX, .. } => {
                    json_schema!({ "type": "number", "exclusiveMinimum": 0 })
                }
                Kind::Number { most, .. } => {
                    json_schema!({ "type": "number", "exclusiveMinimum": 0, "maximum": most })
                }
                Kind::Switch { .. } => json_schema!({ "type": "boolean" }),
                // Words that something may follow are no closed list.
                Kind::Choice(_) if option.after.is_some() => json_schema!({ "type": "string" }),
                Kind::Choice(words) => {
                    let words = words.iter().filter(|word| word.runs_as.is_none()).map(|word| word.name);
                    json_schema!({ "type": "string", "enum": words.collect::<Vec<_>>() })
                }
                Kind::Cpus { .. } | Kind::Text { .. } => json_schema!({ "type": "string" }),
            };
            let (meaning, default) =
                (option.meaning(Grammar::Experiment), option.default[Grammar::Experiment as usize]);
            schema.insert("description".to_owned(), format!("{meaning} [default: {default}].").into());
            properties.insert(key(option).to_owned(), schema.to_value());
        }
        let io = json_schema!({
            "type": "object",
            "description": "One workload. The keys that fio has are called as in fio.",
            "properties": properties,
            "additionalProperties": false,
            "anyOf": [{ "required": ["rw"] }, { "required": [PROFILE] }, { "required": [JOBS] }],
        });
        let program = generator.subschema_for::<RawProgram>();
        json_schema!({ "anyOf": [io, program] })
    }
}

fn problem(Refusal { what, remedy, .. }: Refusal) -> Problem {
    Mistake::Workload(what).with(remedy)
}

impl RawWorkload {
    fn empty() -> RawWorkload {
        RawWorkload {
            program: None,
            profile: None,
            jobs: None,
            draft: Draft::new(Grammar::Experiment),
            given: Vec::new(),
        }
    }

    /// Reports the keys that a profile decides.
    fn refuse_beside_a_profile(&self, problems: &mut Problems) {
        for (option, at) in &self.given {
            if !BESIDE_A_PROFILE.contains(&option.name) {
                let remedy = "remove it: the profile decides it; or write the workload out, with `rw` instead of \
                              `profile`";
                problems.report(at, Mistake::Conflict { first: PROFILE, second: key(option) }, remedy);
            }
        }
    }

    /// Reports the keys that each job has for itself.
    pub(super) fn refuse_beside_jobs(&self, problems: &mut Problems) {
        if let Some(profile) = &self.profile {
            let remedy = "keep one: `jobs` says what runs at the same time, `profile` names workloads";
            problems.report(&profile.span, Mistake::Conflict { first: JOBS, second: PROFILE }, remedy);
        }
        for (option, at) in &self.given {
            if !BESIDE_JOBS.contains(&option.name) {
                let remedy =
                    "write it in each of the jobs: only `runtime` and `ramp_time` may stand beside `jobs`";
                problems.pointless(at, key(option), "each job has its own", remedy);
            }
        }
    }

    /// The same with the time of `group` where it says nothing of its end, and with its warm-up where it has none.
    pub(super) fn in_group(&self, group: &RawWorkload) -> RawWorkload {
        let mut draft = self.draft.clone();
        if self.at("runtime").or(self.at("io_size")).or(self.at("latency_target")).is_none() {
            draft.runtime = group.draft.runtime;
        }
        if self.at("ramp_time").is_none() {
            draft.workload.warm_up = group.draft.workload.warm_up;
        }
        RawWorkload { draft, given: self.given.clone(), ..RawWorkload::empty() }
    }

    /// Where `name`, an option, is given.
    pub(super) fn at(&self, name: &str) -> Option<&Span> {
        self.given.iter().find(|(option, _)| option.name == name).map(|(_, span)| span)
    }

    /// Bytes of the array that it uses.
    pub(super) fn span(&self) -> Option<Bytes> {
        self.draft.region.and_then(|region| region.bytes())
    }

    /// When its trials end; `entry` is its name and place.
    pub(super) fn stop(&self, entry: &Entry<RawWorkload>, problems: &mut Problems) -> Option<Stop> {
        match self.draft.stop() {
            Ok((stop, _)) => Some(stop),
            Err(refusal) => {
                self.report(refusal, (&entry.name, &entry.span), problems);
                None
            }
        }
    }

    /// Reports each of `refusals` at the option's place, or at the workload's where it is not given.
    fn report(
        &self,
        refusals: impl IntoIterator<Item = Refusal>,
        (name, whole): (&str, &Span),
        problems: &mut Problems,
    ) {
        for mut refusal in refusals {
            let place = self.at(refusal.option.name).unwrap_or(whole);
            if place == whole {
                refusal.what = format!("workload `{name}`: {}", refusal.what);
            }
            problems.add(place, problem(refusal));
        }
    }
}

/// What makes the workloads that an entry with this `profile`, or this file of jobs, at its place, stands for.
pub(super) type Expand<'a> = dyn Fn(&Entry<RawWorkload>, (&str, &Span), &mut Problems) -> Vec<Workload> + 'a;

/// Checks the workloads of `section`; `smallest` is the design of least capacity, where that is known.
pub(super) fn resolve(
    raw: &Given<Named<RawWorkload>>,
    (section, file_start): (&str, &Span),
    smallest: Option<(&str, Bytes)>,
    (expand, setup): (&Expand<'_>, &Given<RawSetup>),
    problems: &mut Problems,
) -> Vec<Workload> {
    let example = "[workloads.randread]";
    let Some((Named(entries), span)) = required(raw, "workloads", example, (section, file_start), problems)
    else {
        return Vec::new();
    };
    if entries.is_empty() {
        let remedy = "write a table `[workloads.NAME]` with `rw` and `runtime`";
        problems.report(span, Mistake::Nothing("there are no workloads".to_owned()), remedy);
    }
    let mut workloads: Vec<Workload> = Vec::new();
    for entry in entries {
        names::check(&entry.name, "a workload", &entry.span, problems);
        let Some(raw) = &entry.value else { continue };
        let more = match &raw.profile {
            _ if raw.program.is_some() => {
                let program = raw.program.iter();
                let workload = program
                    .filter_map(|raw| program::workload(raw, (&entry.name, &entry.span), setup, problems));
                workload.collect()
            }
            _ if raw.jobs.is_some() => jobs::resolve(raw, entry, smallest, expand, problems),
            None => workload(raw, (&entry.name, &entry.span), smallest, problems).into_iter().collect(),
            Some(At { value: None, .. }) => Vec::new(),
            Some(At { value: Some(name), span }) => {
                raw.refuse_beside_a_profile(problems);
                expand(entry, (name, span), problems)
            }
        };
        for workload in more {
            if workloads.iter().any(|other| other.name == workload.name) {
                let name = workload.name.clone();
                let remedy =
                    "the steps of a profile are called NAME-STEP, jobs NAME.JOB: choose another name";
                problems.report(&entry.span, Mistake::Duplicate { what: "the workload", name }, remedy);
            }
            workloads.push(workload);
        }
    }
    workloads
}

/// Checks one workload that is written out, called `name` at `place`.
pub(super) fn workload(
    raw: &RawWorkload,
    (name, place): (&str, &Span),
    smallest: Option<(&str, Bytes)>,
    problems: &mut Problems,
) -> Option<Workload> {
    let workload = match raw.draft.clone().finish(name) {
        Ok(workload) => workload,
        Err(refusals) => {
            raw.report(refusals, (name, place), problems);
            return None;
        }
    };
    check_memory(&workload, place, problems);
    check_room(&workload, raw.at("size").unwrap_or(place), smallest, place, problems);
    Some(workload)
}

fn check_memory(workload: &Workload, span: &Span, problems: &mut Problems) {
    let slots = u64::from(workload.iodepth) * u64::from(workload.numjobs);
    let buffers = workload.bs.0.saturating_mul(slots);
    if buffers > BUFFERS_MAX {
        let what = format!("bs x iodepth x numjobs needs {} of memory for buffers", Bytes(buffers));
        let remedy = format!("keep the product below {}", Bytes(BUFFERS_MAX));
        problems.report(span, Mistake::Geometry(what), remedy);
    }
}

/// Reports a span or an array without room for `least` bytes, one block for each region, and a span beyond the
/// end of an array.
fn check_room(
    workload: &Workload,
    span_place: &Span,
    smallest: Option<(&str, Bytes)>,
    place: &Span,
    problems: &mut Problems,
) {
    let regions = if workload.access == Access::Sequential { u64::from(workload.numjobs) } else { 1 };
    let least = Bytes(workload.bs.0.saturating_mul(regions));
    let offset = workload.details.last_offset(workload.numjobs);
    let room = |capacity: Bytes| Bytes(capacity.0.saturating_sub(offset.0));
    let behind = if offset > Bytes(0) { " behind the offset" } else { "" };
    match (workload.span, smallest) {
        (Some(span), _) if span < least => {
            let range = format!("at least {least}, a block for each job");
            problems.out_of_range(span_place, "span", span, range, format!("write at least \"{least}\""));
        }
        (Some(span), Some((design, capacity))) if span > room(capacity) => {
            let capacity = room(capacity);
            let range = format!("at most {capacity}, the capacity of design `{design}`{behind}");
            let remedy = format!("write \"{capacity}\", or remove it to use all of each design{behind}");
            problems.out_of_range(span_place, "span", span, range, remedy);
        }
        (None, Some((design, capacity))) if room(capacity) < least => {
            let capacity = room(capacity);
            let what =
                format!("design `{design}` holds {capacity}{behind}, and a block for each job needs {least}");
            let remedy = "write a smaller `bs`, fewer jobs, or larger volumes";
            problems.report(place, Mistake::Geometry(what), remedy);
        }
        _ => {}
    }
}

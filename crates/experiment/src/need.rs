//! Need files: what `ebb plan` is asked, as TOML, read by the same reader as experiments.

use super::error::{ExperimentErrors, Mistake};
use super::read::{At, Duration, Fraction, FromToml, Given, Size, Throughput, required, section, valid};
use super::syntax;
use super::typed::{Day, from_catalog};
use crate::problems::{Problems, Span};
use ebbtide_model::catalog::Catalog;
use ebbtide_model::need::{Need, OverHosts, Recorded, is_meant};
use ebbtide_model::units::{Bytes, format_number};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::DeValue;

section! {
    /// What storage has to give, for `ebb plan`. Only `capacity` is required, or a `trace`.
    #[schemars(rename = "Need")]
    "the need"
    struct RawNeed {
        /// Name of the need [default: the file's].
        name: String,
        /// Free text, shown with the plans.
        description: String,
        /// Bytes that must fit, after what redundancy takes. Required, unless a `trace` says how far it reaches.
        capacity: Size,
        /// Bytes that are used again and again, where they are fewer than the capacity.
        working_set: Size,
        /// A recorded load, whose rates, sizes, reads and working set are those of the need where it does not say otherwise: fio's
        /// iolog (version 3) or a log of `iostat -x 1`.
        trace: String,
        /// The device that counts in a log of iostat.
        device: String,
        /// Random operations per second, each of `bs` bytes.
        iops: f64,
        /// Bytes per second of sequential access.
        throughput: Throughput,
        /// 99th percentile of latency while `iops` operations per second arrive; of one operation at a time without `iops`.
        lat_p99: Duration,
        /// Bytes of a random operation [default: 4KiB].
        bs: Size,
        /// Share of reads in percent, 0 to 100 [default: 70].
        rwmix: Percent,
        /// Volumes that may be lost, whichever they are, without loss of data, 0 to 3 [default: 0].
        #[schemars(range(min = 0, max = 3))]
        may_lose: u32,
        /// Storage hosts that copies are to be on, 2 to 100; a client makes one volume of their exports (`layout = "replicated"`). `instance` is then
        /// what each of them and the client is [default: the volumes are the instance's own].
        #[schemars(range(min = 2, max = 100))]
        hosts: u32,
        /// Copies of every byte with `hosts`, no two on one, 2 or 3 [default: 2]. All but one of them may be lost.
        #[schemars(range(min = 2, max = 3))]
        copies: u32,
        /// Clients that write to the same volume at one time, with `hosts` [default: 1].
        #[schemars(range(min = 1, max = 1000))]
        writers: u32,
        /// Whether copies of a lost host are to be made anew on the others by themselves, with `hosts` [default: false].
        self_healing: bool,
        /// Whether the data may be gone when the instance stops, so that its own disks are enough [default: false].
        ephemeral: bool,
        /// Most US dollars a month for the volumes.
        budget_month: f64,
        /// The instance type that the volumes are for, for example "m6i.2xlarge"; its limits count.
        instance: Words,
        /// Instance types that may be used, by name or by the beginning of names: ["m6i.*", "r6i.2xlarge"].
        instances: Words,
        /// Volume types that may be used, for example ["gp3", "io2"] [default: every block volume of AWS].
        types: Words,
        /// Region whose prices count [default: that of the catalogue].
        region: String,
        /// The day whose figures count [default: today's].
        as_of: Day,
        /// Hours of each day during which the rates are needed [default: 24]. Burst credits count for less than 24.
        hours_a_day: f64,
        /// What volumes must give beyond the need [default: 10%].
        headroom: Fraction,
    }
}

/// A share in percent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Percent(u8);

impl FromToml for Percent {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let text = match value {
            DeValue::Integer(number) => number.to_string(),
            DeValue::String(text) => text.trim().trim_end_matches('%').trim_end().to_owned(),
            _ => String::new(),
        };
        let found = text.parse::<u8>().ok().filter(|share| *share <= 100);
        if found.is_none() {
            let remedy = "write the reads, for example `70` for 70% reads and 30% writes";
            problems.wrong_type(span, "a whole percentage from 0 to 100", value, remedy);
        }
        found.map(Percent)
    }
}

impl JsonSchema for Percent {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Percent".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": 100 },
            { "type": "string", "pattern": "^[0-9]+ *%$" }
        ] })
    }
}

/// A text, or a list of them.
#[derive(Debug, Clone)]
pub(crate) struct Words(Vec<At<String>>);

impl FromToml for Words {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::Array(values) = value {
            return Some(Words(values.iter().map(|value| At::read(value, problems)).collect()));
        }
        let value = String::from_toml(value, span, problems);
        Some(Words(vec![At { value, span: span.clone() }]))
    }
}

impl JsonSchema for Words {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Words".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" }, "minItems": 1 }
        ] })
    }
}

impl Words {
    fn valid(&self) -> impl Iterator<Item = (&String, &Span)> {
        self.0.iter().filter_map(|at| Some((at.value.as_ref()?, &at.span)))
    }
}

const READ_PERCENT: u8 = 70;
const BS: Bytes = Bytes(4096);
const BS_MOST: Bytes = Bytes(Bytes::MIB);
/// More copies than anybody pays for.
const MAY_LOSE_MOST: u32 = 3;
/// More storage hosts than a slip of the pen.
const HOSTS_MOST: u32 = 100;
/// Copies that `layout = "replicated"` is planned with.
const COPIES_MOST: u32 = 3;
/// The same of clients.
const WRITERS_MOST: u32 = 1000;
const HEADROOM: f64 = 0.1;
/// Beyond what any array of today has: a slip of the pen.
const CAPACITY_MOST: Bytes = Bytes(16 << 50);
/// The same of operations, or bytes, per second.
const RATE_MOST: f64 = 1e12;

/// The JSON Schema of need files.
pub fn need_schema() -> serde_json::Value {
    super::schema::of::<RawNeed>("Ebbtide need")
}

/// Why a recorded load cannot be used, as it is continued after "cannot be used: ".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTrace {
    /// Why the file itself cannot be read as one.
    File(String),
    /// It is of several devices or of others than the one that was named.
    Device(String),
}

/// Reads the recorded load of a name, of which a device may be named; says why not when it cannot.
pub type Traces<'t> = &'t dyn Fn(&str, Option<&str>) -> Result<Recorded, NoTrace>;

/// Reads a need file; names of instance and volume types are those of `catalog`, recorded loads come from `traces`. `file_name` is
/// for messages only.
///
/// # Errors
/// Everything that is wrong with the text, each mistake with its place and what to write instead.
pub fn parse_need(
    text: &str,
    file_name: &str,
    catalog: &Catalog,
    traces: Traces<'_>,
) -> Result<Need, ExperimentErrors> {
    let mut problems = Problems::default();
    let need = read(text, file_name, (catalog, traces), &mut problems);
    match need {
        Some(need) if problems.is_empty() => Ok(need),
        _ => Err(problems.into_errors(text, file_name)),
    }
}

fn read(
    text: &str,
    file_name: &str,
    (catalog, traces): (&Catalog, Traces<'_>),
    problems: &mut Problems,
) -> Option<Need> {
    let table = syntax::table(text, problems)?;
    if let Some(place) = syntax::is_other(&table, syntax::NEED, syntax::EXPERIMENT) {
        let what = Mistake::Nothing("this is an experiment, not a need".to_owned());
        problems.report(
            &place,
            what,
            format!("`ebb run {file_name}` runs it; a need says for example `capacity = \"2TiB\"`"),
        );
        return None;
    }
    let start = 0..0;
    let raw = RawNeed::from_toml(&table, &start, problems)?;
    let section = ("the need", &start);
    let recorded = recorded(&raw, traces, problems);
    let extent = recorded.as_ref().and_then(|load| load.extent);
    let capacity = match extent.filter(|_| raw.capacity.is_none()) {
        Some(_) => None,
        None => required(&raw.capacity, "capacity", "capacity = \"2TiB\"", section, problems),
    };
    let capacity = capacity.and_then(|(size, span)| {
        in_range("capacity", *size, (Bytes(1), CAPACITY_MOST), "2TiB", span, problems)
    });
    let working_set = valid(&raw.working_set).and_then(|(size, span)| {
        let most = capacity.unwrap_or(CAPACITY_MOST);
        in_range("working_set", *size, (Bytes(1), most), "64GiB", span, problems)
    });
    let bs = valid(&raw.bs).and_then(|(size, span)| block(*size, span, problems));
    let bs = bs.or_else(|| Some(recorded.as_ref()?.bs)).unwrap_or(BS);
    let may_lose = valid(&raw.may_lose).map_or(0, |(lost, span)| {
        if *lost > MAY_LOSE_MOST {
            let range = format!("from 0 to {MAY_LOSE_MOST}");
            problems.out_of_range(span, "may_lose", lost, range, "write for example `may_lose = 1`");
        }
        *lost
    });
    let over = over(&raw, problems);
    let hours_a_day = valid(&raw.hours_a_day).map_or(24.0, |(hours, span)| {
        if !(*hours > 0.0 && *hours <= 24.0) {
            let remedy = "write for example `hours_a_day = 8`";
            problems.out_of_range(span, "hours_a_day", hours, "more than 0, at most 24", remedy);
        }
        *hours
    });
    let as_of = valid(&raw.as_of).map(|(day, _)| day.date());
    if let (Some(_), Some(at)) = (&raw.instance, &raw.instances) {
        let mistake = Mistake::Conflict { first: "instance", second: "instances" };
        problems.report(&at.span, mistake, "write all of them in `instances`");
    }
    let words = |given: &Given<Words>| valid(given).map_or(Vec::new(), |(words, _)| words.0.clone());
    let instances = [words(&raw.instance), words(&raw.instances)].concat();
    for at in &instances {
        if let Some(name) = &at.value {
            check_instance(name, &at.span, catalog, problems);
        }
    }
    let types: Vec<String> = valid(&raw.types).map_or(Vec::new(), |(words, _)| {
        words.valid().filter_map(|(name, span)| check_type(name, span, catalog, problems)).collect()
    });
    Some(Need {
        name: valid(&raw.name).map_or_else(|| stem(file_name), |(name, _)| name.clone()),
        description: valid(&raw.description).map(|(text, _)| text.clone()),
        capacity: capacity.or(extent)?,
        working_set: working_set.or_else(|| recorded.as_ref()?.working_set),
        iops: rate("iops", valid(&raw.iops).map(|(rate, span)| (*rate, span)), "20000", problems)
            .or_else(|| recorded.as_ref()?.iops),
        throughput: rate(
            "throughput",
            valid(&raw.throughput).map(|(rate, span)| (rate.0, span)),
            "\"500MB/s\"",
            problems,
        )
        .or_else(|| recorded.as_ref()?.throughput),
        lat_p99: valid(&raw.lat_p99).and_then(|(time, span)| {
            if time.0 == 0 {
                let remedy = "write for example `lat_p99 = \"2ms\"`";
                problems.out_of_range(span, "lat_p99", time, "more than 0", remedy);
            }
            Some(*time).filter(|time| time.0 > 0)
        }),
        bs,
        read_percent: valid(&raw.rwmix)
            .map(|(share, _)| share.0)
            .or_else(|| Some(recorded.as_ref()?.read_percent))
            .unwrap_or(READ_PERCENT),
        may_lose: over.map_or(may_lose, |over| over.copies - 1),
        over,
        ephemeral: valid(&raw.ephemeral).is_some_and(|(ephemeral, _)| *ephemeral),
        budget_month: valid(&raw.budget_month).map(|(dollars, _)| *dollars),
        instances: instances.into_iter().filter_map(|at| at.value).collect(),
        types,
        region: valid(&raw.region).map(|(region, _)| region.clone()),
        as_of,
        hours_a_day,
        headroom: valid(&raw.headroom).map_or(HEADROOM, |(Fraction(share), _)| *share),
    })
}

/// The hosts that copies are to be on.
fn over(raw: &RawNeed, problems: &mut Problems) -> Option<OverHosts> {
    let number = |given: &Given<u32>, key, default, (least, most): (u32, u32), problems: &mut Problems| {
        let Some((number, span)) = valid(given) else { return default };
        if !(least..=most).contains(number) {
            let range = format!("from {least} to {most}");
            problems.out_of_range(
                span,
                key,
                number,
                range,
                format!("write for example `{key} = {}`", least.max(default)),
            );
        }
        (*number).clamp(least, most)
    };
    if raw.hosts.is_none() {
        let given = [
            ("copies", raw.copies.as_ref().map(|at| &at.span)),
            ("writers", raw.writers.as_ref().map(|at| &at.span)),
            ("self_healing", raw.self_healing.as_ref().map(|at| &at.span)),
        ];
        for (key, span) in given.into_iter().filter_map(|(key, span)| Some((key, span?))) {
            let why = "it is asked of copies on several hosts";
            problems.pointless(span, key, why, "write `hosts = 3` with it, or remove it");
        }
        return None;
    }
    let hosts = number(&raw.hosts, "hosts", 3, (2, HOSTS_MOST), problems);
    let copies = number(&raw.copies, "copies", 2, (2, COPIES_MOST), problems);
    if let (Some((_, span)), true) = (valid(&raw.copies), copies > hosts) {
        let range = format!("at most the {hosts} `hosts`: no two copies are on one");
        problems.out_of_range(span, "copies", copies, range, "write `copies = 2`, or more hosts");
    }
    if let Some(at) = &raw.may_lose {
        let why = "with `hosts` all copies but one may be lost";
        problems.pointless(
            &at.span,
            "may_lose",
            why,
            "write `copies = 3` for two that may be lost, and remove it",
        );
    }
    Some(OverHosts {
        hosts,
        copies,
        writers: number(&raw.writers, "writers", 1, (1, WRITERS_MOST), problems),
        self_healing: valid(&raw.self_healing).is_some_and(|(healing, _)| *healing),
    })
}

/// The recorded load that the need names.
fn recorded(raw: &RawNeed, traces: Traces<'_>, problems: &mut Problems) -> Option<Recorded> {
    let device = valid(&raw.device);
    let Some((name, span)) = valid(&raw.trace) else {
        if let (Some((_, span)), None) = (device, &raw.trace) {
            let why = "it names the device of a log of iostat";
            problems.pointless(span, "device", why, "write `trace = \"iostat.log\"` with it, or remove it");
        }
        return None;
    };
    match traces(name, device.map(|(device, _)| device.as_str())) {
        Ok(recorded) => Some(recorded),
        Err(error) => {
            let (why, place, remedy) = match (&error, device) {
                (NoTrace::Device(why), Some((_, span))) => (why, span, "write one of these as `device`"),
                (NoTrace::Device(why), None) => (why, span, "write for example `device = \"md0\"`"),
                (NoTrace::File(why), _) => {
                    (why, span, "write the path of one, relative to this file, or remove `trace`")
                }
            };
            let what = Mistake::Nothing(format!("the recorded load {name:?} cannot be used: {why}"));
            problems.report(place, what, remedy);
            None
        }
    }
}

/// The file's name without directory and extension.
fn stem(file_name: &str) -> String {
    let name = file_name.rsplit('/').next().unwrap_or(file_name);
    name.strip_suffix(".toml").unwrap_or(name).to_owned()
}

fn in_range(
    key: &'static str,
    size: Bytes,
    (least, most): (Bytes, Bytes),
    example: &str,
    span: &Span,
    problems: &mut Problems,
) -> Option<Bytes> {
    if (least..=most).contains(&size) {
        return Some(size);
    }
    let remedy = format!("write for example `{key} = \"{example}\"`");
    problems.out_of_range(span, key, size, format!("from {} to {}", least, most.short()), remedy);
    None
}

fn block(size: Bytes, span: &Span, problems: &mut Problems) -> Option<Bytes> {
    if (512..=BS_MOST.0).contains(&size.0) && size.0.is_multiple_of(512) {
        return Some(size);
    }
    let range = format!("a multiple of 512B, at most {BS_MOST}");
    let remedy = "write for example `bs = \"16KiB\"`; sequential access is what `throughput` asks for";
    problems.out_of_range(span, "bs", size, range, remedy);
    None
}

fn rate(
    key: &'static str,
    given: Option<(f64, &Span)>,
    example: &str,
    problems: &mut Problems,
) -> Option<f64> {
    let (rate, span) = given?;
    if (1.0..=RATE_MOST).contains(&rate) {
        return Some(rate);
    }
    let range = format!("at least 1, at most {}", format_number(RATE_MOST));
    problems.out_of_range(
        span,
        key,
        format_number(rate),
        range,
        format!("write for example `{key} = {example}`"),
    );
    None
}

fn check_instance(name: &str, span: &Span, catalog: &Catalog, problems: &mut Problems) {
    if catalog.instances().iter().any(|instance| is_meant(name, &instance.id)) {
        return;
    }
    if name.ends_with('*') {
        let unknown = Mistake::UnknownName { what: "instance type", name: name.to_owned() };
        let remedy = "write for example `\"m6i.*\"`: `ebb catalog list --instances m6i` shows what there is";
        return problems.report(span, unknown, remedy);
    }
    if let Err(error) = catalog.instance(name) {
        problems.add(span, from_catalog("instance type", name, &error));
    }
}

/// The full name of a volume type.
fn check_type(name: &str, span: &Span, catalog: &Catalog, problems: &mut Problems) -> Option<String> {
    match catalog.volume_type(name, None) {
        Ok(record) if record.media == "nfs" => {
            let what = format!("`{name}` is no block volume");
            problems.report(span, Mistake::Nothing(what), "write for example `types = [\"gp3\", \"io2\"]`");
            None
        }
        Ok(record) => Some(record.full_name()),
        Err(error) => {
            problems.add(span, from_catalog("volume type", name, &error));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Need, String> {
        let traces = |name: &str, device: Option<&str>| match (name, device) {
            ("log", device) => Ok(Recorded {
                iops: Some(123.0),
                throughput: None,
                bs: Bytes(8192),
                read_percent: 40,
                working_set: Some(Bytes(1 << 20)),
                extent: device.is_none().then_some(Bytes(1 << 30)),
                seconds: 10.0,
            }),
            _ => Err(NoTrace::File("it is not there".to_owned())),
        };
        parse_need(text, "needs/db.toml", Catalog::builtin(), &traces).map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_recorded_load_says_what_the_need_does_not() {
        let need = of("trace = \"log\"").expect("is one");
        assert_eq!(
            (need.capacity, need.iops, need.bs, need.read_percent),
            (Bytes(1 << 30), Some(123.0), Bytes(8192), 40)
        );
        let need = of("trace = \"log\"\niops = 500\ncapacity = \"2TiB\"\nrwmix = 10").expect("is one");
        assert_eq!((need.capacity, need.iops, need.read_percent), (Bytes(2 << 40), Some(500.0), 10));
        assert!(
            of("trace = \"log\"\ndevice = \"md0\"").expect_err("no extent").contains("has no `capacity`")
        );
        assert!(
            of("trace = \"none\"").expect_err("absent").contains("db.toml:1:9: error: the recorded load")
        );
        assert!(
            of("capacity = 1\ndevice = \"md0\"").expect_err("without a trace").contains("means nothing here")
        );
    }

    #[test]
    fn a_need_says_the_least_and_the_rest_has_defaults() {
        let need = of("capacity = \"2TiB\"").expect("is one");
        assert_eq!((need.name.as_str(), need.bs, need.read_percent), ("db", Bytes(4096), 70));
        assert_eq!((need.hours_a_day, need.headroom, need.may_lose), (24.0, 0.1, 0));
        assert!(need.instances.is_empty() && need.iops.is_none() && need.over.is_none());
        let need = of("capacity = \"2TiB\"\nhosts = 4\ncopies = 3\nwriters = 2").expect("is one");
        let over = OverHosts { hosts: 4, copies: 3, writers: 2, self_healing: false };
        assert_eq!((need.over, need.may_lose), (Some(over), 2));
        let need = of(
            "capacity = \"10GB\"\ninstances = [\"m6i.*\", \"r5.large\"]\ntypes = \"gp3\"\nrwmix = \"30%\"\n\
                       as_of = 2025-01-01\nheadroom = 0\nthroughput = \"100MB/s\"\nlat_p99 = \"2ms\"",
        )
        .expect("is one");
        assert!(need.may_use("m6i.large") && need.may_use("r5.large") && !need.may_use("r5.xlarge"));
        assert_eq!((need.types, need.read_percent), (vec!["aws:gp3".to_owned()], 30));
        assert_eq!(need.as_of.map(|day| day.to_string()).as_deref(), Some("2025-01-01"));
    }

    #[test]
    fn the_shipped_schema_is_the_one_of_the_code() {
        let shipped = include_str!("../../../experiments/need.schema.json");
        let shipped: serde_json::Value = serde_json::from_str(shipped).unwrap_or_default();
        assert!(
            shipped == need_schema(),
            "run: cargo run -q -p ebbtide -- plan --need-schema > experiments/need.schema.json"
        );
    }

    #[test]
    fn a_mistake_has_its_line_and_what_to_write() {
        for (text, said) in [
            ("iops = 3", "has no `capacity`"),
            ("capacity = 0", "`capacity` is 0B"),
            ("capacity = \"1TiB\"\nworking_set = \"2TiB\"", "db.toml:2:15: error: `working_set` is 2TiB"),
            ("capacity = \"1TiB\"\niops = \"20k\"", "write it without quotes: `20000`"),
            ("capacity = \"1TiB\"\nthroughput = 500", "write its unit"),
            ("capacity = \"1TiB\"\nrwmix = 0.7", "a whole percentage"),
            ("capacity = \"1TiB\"\nrwmix = 170", "a whole percentage"),
            ("capacity = \"1TiB\"\nbs = \"1000\"", "a multiple of 512B"),
            ("capacity = \"1TiB\"\nmay_lose = 9", "from 0 to 3"),
            ("capacity = \"1TiB\"\nhours_a_day = 25", "at most 24"),
            ("capacity = \"1TiB\"\nlat_p99 = \"0s\"", "more than 0"),
            ("capacity = \"1TiB\"\nlat_p99 = 2", "has no unit"),
            ("capacity = \"1TiB\"\ninstance = \"m6i.lrge\"", "m6i.large"),
            ("capacity = \"1TiB\"\ninstances = [\"zz.*\"]", "there is no instance type `zz.*`"),
            ("capacity = \"1TiB\"\ninstance = \"m6i.large\"\ninstances = \"m6i.*\"", "exclude each other"),
            ("capacity = \"1TiB\"\ntypes = [\"gp4\"]", "gp"),
            ("capacity = \"1TiB\"\ntypes = [\"aws:efs\"]", "is no block volume"),
            ("capacity = \"1TiB\"\nbudget = 10", "write `budget_month`"),
            ("capacity = \"1TiB\"\nbudget_month = -1", "write 0 or more"),
            ("capacity = \"1TiB\"\nbudget_month = nan", "leave the key out"),
            ("capacity = \"1TiB\"\nbudget_month = inf", "leave the key out"),
            ("capacity = \"1TiB\"\niops = inf", "leave the key out"),
            ("capacity = \"1TiB\"\nas_of = 2019-13-41", "there is no such day"),
            ("capacity = \"1TiB\"\nas_of = \"2019-02-30\"", "expected a day of the calendar"),
            ("capacity = \"1TiB\"\nthroughput = \"100Mb/s\"", "write \"12.5MB/s\""),
            ("capacity = \"1TiB\"\nhosts = 1", "from 2 to 100"),
            ("capacity = \"1TiB\"\nhosts = 3\ncopies = 4", "from 2 to 3"),
            ("capacity = \"1TiB\"\nhosts = 2\ncopies = 3", "at most the 2 `hosts`"),
            ("capacity = \"1TiB\"\nhosts = 3\nwriters = 0", "from 1 to 1000"),
            ("capacity = \"1TiB\"\ncopies = 2", "write `hosts = 3` with it"),
            ("capacity = \"1TiB\"\nself_healing = true", "write `hosts = 3` with it"),
            ("capacity = \"1TiB\"\nhosts = 3\nmay_lose = 1", "all copies but one may be lost"),
            ("[volumes.vol]\nsize = \"1GiB\"", "db.toml:1:2: error: this is an experiment"),
            ("capacity = ", "valid TOML"),
        ] {
            let error = of(text).expect_err(text);
            assert!(error.contains(said), "{text}\n{error}");
        }
    }
}

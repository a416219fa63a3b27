//! `[volumes.NAME.shape]` and `[links.NAME]`: the speed that volumes are given.

use super::error::Problem;
use super::names;
use super::read::{
    Duration, Fraction, FromToml, Given, Headed, Named, Problems, Size, Span, Throughput, required, section,
    valid,
};
use super::traits::{
    self, RawBirth, RawCache, RawCosts, RawDrift, RawFailure, RawFirstTouch, RawMood, RawSeek,
};
use ebbtide_model::samples::PerOp;
use ebbtide_model::units::{Bytes, format_number};
use ebbtide_model::volume::{Latency, Limit, LinkShape, OneWay, Shape};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::DeValue;

section! {
    /// The speed that a volume is given.
    #[schemars(rename = "Shape")]
    "a shape"
    struct RawShape {
        /// Limit of operations per second, or `{ rate, burst, credits }`.
        iops: LimitOf<f64>,
        /// Limit of bytes per second, or `{ rate, burst, credits }`.
        throughput: LimitOf<Throughput>,
        /// An operation of more bytes than this counts as several against `iops` (EBS on SSD: 256KiB)
        /// [default: every operation counts once].
        io_unit: Size,
        /// Latency of reads and writes beside the limits, or `{ median, p99 }` for a lognormal one [default: 0].
        latency: LatencySpec,
        /// Latency of reads, where it differs.
        read_latency: LatencySpec,
        /// Latency of writes, where it differs.
        write_latency: LatencySpec,
        /// Name of the link that the volume shares with others.
        link: String,
        /// Operations that continue each other share one `io_unit`, as EBS merges sequential I/O [default: false].
        merge_sequential: bool,
        /// Share of its burst credits that it starts with [default: 100%].
        credits_at_start: Fraction,
        /// Limits that only reads count against, beside those of both.
        reads: RawOneWay,
        /// Limits that only writes count against, beside those of both.
        writes: RawOneWay,
        /// What reads and writes count against the limits, where they differ.
        costs: RawCosts,
        /// A spindle: its seek curve and rotation.
        seek: RawSeek,
        /// A cache at the far end.
        cache: RawCache,
        /// A penalty on the first access to each block.
        first_touch: RawFirstTouch,
        /// States between which it wanders, by name.
        moods: Named<RawMood>,
        /// A slow change on top of the moods.
        drift: RawDrift,
        /// How unlike its siblings it is made.
        birth: RawBirth,
        /// A failure during every trial; the simulator only.
        failure: RawFailure,
    }
}

section! {
    /// A link that several volumes share, as an instance's network to its volumes.
    #[schemars(rename = "Link")]
    "a link"
    struct RawLink {
        /// Limit of operations per second over all its volumes, or `{ rate, burst, credits }`.
        iops: LimitOf<f64>,
        /// Limit of bytes per second over all its volumes, or `{ rate, burst, credits }`.
        throughput: LimitOf<Throughput>,
        /// Limits that only reads count against, beside those of both.
        reads: RawOneWay,
        /// Limits that only writes count against, beside those of both.
        writes: RawOneWay,
    }
}

section! {
    /// Limits of one direction.
    #[schemars(rename = "OneWay")]
    "limits of one direction"
    struct RawOneWay {
        /// Limit of operations per second, or `{ rate, burst, credits }`.
        iops: LimitOf<f64>,
        /// Limit of bytes per second, or `{ rate, burst, credits }`.
        throughput: LimitOf<Throughput>,
    }
}

/// The limits of each direction.
pub(super) fn one_way(reads: &Given<RawOneWay>, writes: &Given<RawOneWay>) -> PerOp<OneWay> {
    let of = |raw: &Given<RawOneWay>| {
        valid(raw).map_or_else(OneWay::default, |(raw, _)| OneWay {
            iops: valid(&raw.iops).map(|(limit, _)| limit.limit),
            throughput: valid(&raw.throughput).map(|(limit, _)| limit.limit),
        })
    };
    PerOp { read: of(reads), write: of(writes) }
}

impl Headed for RawLink {
    const HEADING: &'static str = "links";
}

section! {
    /// A limit of operations with burst credits.
    #[schemars(rename = "IopsBurst")]
    "a limit of operations"
    struct RawIopsBurst {
        /// Sustained operations per second.
        #[schemars(required)]
        rate: f64,
        /// Operations per second while credits last.
        #[schemars(required)]
        burst: f64,
        /// Operations that can be saved up; a fresh volume starts with all of them.
        #[schemars(required)]
        credits: f64,
    }
}

section! {
    /// A limit of bytes with burst credits.
    #[schemars(rename = "ThroughputBurst")]
    "a limit of bytes"
    struct RawThroughputBurst {
        /// Sustained bytes per second.
        #[schemars(required)]
        rate: Throughput,
        /// Bytes per second while credits last.
        #[schemars(required)]
        burst: Throughput,
        /// Bytes that can be saved up; a fresh volume starts with all of them.
        #[schemars(required)]
        credits: Size,
    }
}

section! {
    /// A lognormal latency.
    #[schemars(rename = "Lognormal")]
    "a latency"
    struct RawLognormal {
        /// Median.
        #[schemars(required)]
        median: Duration,
        /// 99th percentile.
        #[schemars(required)]
        p99: Duration,
    }
}

/// A limit whose rate is written as a `T`: a plain rate, or a table with burst credits.
#[derive(Debug)]
pub(super) struct LimitOf<T> {
    limit: Limit,
    written: std::marker::PhantomData<T>,
}

/// A latency: a plain duration, or a table with median and 99th percentile.
#[derive(Debug)]
pub(super) struct LatencySpec(pub(super) Latency);

/// What a limit is written in.
trait LimitUnit: FromToml + Copy {
    /// The table with burst credits.
    type Table: FromToml + JsonSchema;
    /// Rates and credits of that table: (rate, burst, credits).
    fn parts(table: &Self::Table, span: &Span, problems: &mut Problems) -> Option<(f64, f64, f64)>;
    /// The number per second.
    fn per_second(self) -> f64;
    /// For "must be more than 0".
    const KEY: &'static str;
    /// Name of the schema.
    const SCHEMA: &'static str;
    /// An example of the key.
    const EXAMPLE: &'static str;
}

impl LimitUnit for f64 {
    type Table = RawIopsBurst;
    const KEY: &'static str = "iops";
    const SCHEMA: &'static str = "IopsLimit";
    const EXAMPLE: &'static str = "{ rate = 100, burst = 3000, credits = 5_400_000 }";

    fn parts(table: &RawIopsBurst, span: &Span, problems: &mut Problems) -> Option<(f64, f64, f64)> {
        let section = ("this limit", span);
        let rate = required(&table.rate, "rate", Self::EXAMPLE, section, problems);
        let burst = required(&table.burst, "burst", Self::EXAMPLE, section, problems);
        let credits = required(&table.credits, "credits", Self::EXAMPLE, section, problems);
        Some((*rate?.0, *burst?.0, *credits?.0))
    }
    fn per_second(self) -> f64 {
        self
    }
}

impl LimitUnit for Throughput {
    type Table = RawThroughputBurst;
    const KEY: &'static str = "throughput";
    const SCHEMA: &'static str = "ThroughputLimit";
    const EXAMPLE: &'static str = "{ rate = \"40MiB/s\", burst = \"250MiB/s\", credits = \"1TiB\" }";

    fn parts(table: &RawThroughputBurst, span: &Span, problems: &mut Problems) -> Option<(f64, f64, f64)> {
        let section = ("this limit", span);
        let rate = required(&table.rate, "rate", Self::EXAMPLE, section, problems);
        let burst = required(&table.burst, "burst", Self::EXAMPLE, section, problems);
        let credits = required(&table.credits, "credits", Self::EXAMPLE, section, problems);
        Some((rate?.0.0, burst?.0.0, credits?.0.0 as f64))
    }
    fn per_second(self) -> f64 {
        self.0
    }
}

impl<T: LimitUnit> FromToml for LimitOf<T> {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let (rate, burst) = match value {
            DeValue::Table(_) => {
                let table = T::Table::from_toml(value, span, problems)?;
                let (rate, burst, credits) = T::parts(&table, span, problems)?;
                (rate, Some((burst, credits)))
            }
            _ => (T::from_toml(value, span, problems)?.per_second(), None),
        };
        let out_of_range = |key: &'static str, found: f64, range: String| Problem::OutOfRange {
            key,
            found: format!("{} per second", format_number(found)),
            range,
            remedy: format!("write a rate, or for example `{} = {}`", T::KEY, T::EXAMPLE),
        };
        if rate <= 0.0 {
            problems.report(span, out_of_range(T::KEY, rate, "more than 0".to_owned()));
            return None;
        }
        if let Some((burst, credits)) = burst {
            if burst <= rate {
                problems.report(
                    span,
                    out_of_range(
                        "burst",
                        burst,
                        format!("more than the sustained rate, {}", format_number(rate)),
                    ),
                );
                return None;
            }
            if credits <= 0.0 {
                let (found, range) = (format_number(credits), "more than 0".to_owned());
                let remedy = format!("write for example `{} = {}`", T::KEY, T::EXAMPLE);
                problems.report(span, Problem::OutOfRange { key: "credits", found, range, remedy });
                return None;
            }
        }
        let (burst_rate, burst_credits) =
            burst.map_or((None, 0.0), |(burst, credits)| (Some(burst), credits));
        let limit = Limit { rate, burst_rate, burst_credits };
        Some(LimitOf { limit, written: std::marker::PhantomData })
    }
}

impl<T: LimitUnit + JsonSchema> JsonSchema for LimitOf<T> {
    fn schema_name() -> Cow<'static, str> {
        T::SCHEMA.into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let plain = generator.subschema_for::<T>();
        let table = generator.subschema_for::<T::Table>();
        json_schema!({ "anyOf": [plain, table] })
    }
}

impl FromToml for LatencySpec {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if !matches!(value, DeValue::Table(_)) {
            return Duration::from_toml(value, span, problems)
                .map(|latency| LatencySpec(Latency::Constant(latency)));
        }
        let table = RawLognormal::from_toml(value, span, problems)?;
        let example = "latency = { median = \"0.5ms\", p99 = \"2ms\" }";
        let section = ("this latency", span);
        let median = required(&table.median, "median", example, section, problems);
        let p99 = required(&table.p99, "p99", example, section, problems);
        let (median, p99) = (*median?.0, *p99?.0);
        if median.0 == 0 || p99 < median {
            problems.report(
                span,
                Problem::OutOfRange {
                    key: "p99",
                    found: format!("{p99} at a median of {median}"),
                    range: "at least the median, and the median more than 0".to_owned(),
                    remedy: format!("write for example `{example}`"),
                },
            );
            return None;
        }
        Some(LatencySpec(Latency::Lognormal { median, p99 }))
    }
}

impl JsonSchema for LatencySpec {
    fn schema_name() -> Cow<'static, str> {
        "Latency".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let plain = generator.subschema_for::<Duration>();
        let table = generator.subschema_for::<RawLognormal>();
        json_schema!({ "anyOf": [plain, table] })
    }
}

/// Checks a shape.
pub(super) fn resolve_shape(
    raw: &RawShape,
    span: &Span,
    links: &[LinkShape],
    size: Option<Bytes>,
    problems: &mut Problems,
) -> Option<Shape> {
    let latency = |own: &Given<LatencySpec>| {
        let spec = valid(own).or(valid(&raw.latency));
        spec.map_or(traits::NO_LATENCY, |(spec, _)| spec.0)
    };
    let link = valid(&raw.link).and_then(|(name, span)| find_link(name, span, links, problems));
    if let (Some(at), None) = (&raw.io_unit, &raw.iops) {
        let why = "it says how `iops` counts, and there is no such limit".to_owned();
        let remedy = "write an `iops` limit with it, or remove it".to_owned();
        problems.report(&at.span, Problem::Pointless { key: "io_unit", why, remedy });
    }
    let io_unit = valid(&raw.io_unit).and_then(|(unit, span)| positive("io_unit", *unit, span, problems));
    let nothing = raw.iops.is_none()
        && raw.throughput.is_none()
        && raw.latency.is_none()
        && raw.read_latency.is_none()
        && raw.write_latency.is_none()
        && raw.link.is_none()
        && !traits::given(raw);
    if nothing {
        let what = "this shape limits nothing".to_owned();
        let remedy =
            "write for example `iops = 3000` and `throughput = \"125MiB/s\"`, or remove the shape".to_owned();
        problems.report(span, Problem::Nothing { what, remedy });
    }
    Some(Shape {
        iops: valid(&raw.iops).map(|(limit, _)| limit.limit),
        throughput: valid(&raw.throughput).map(|(limit, _)| limit.limit),
        io_unit,
        read_latency: latency(&raw.read_latency),
        write_latency: latency(&raw.write_latency),
        link,
        character: traits::resolve(raw, size, problems),
    })
}

pub(super) fn positive(
    key: &'static str,
    size: Bytes,
    span: &Span,
    problems: &mut Problems,
) -> Option<Bytes> {
    if size.0 > 0 {
        return Some(size);
    }
    let (found, range) = (size.to_string(), "more than 0".to_owned());
    let remedy = "write for example \"256KiB\"".to_owned();
    problems.report(span, Problem::OutOfRange { key, found, range, remedy });
    None
}

fn find_link(name: &str, span: &Span, links: &[LinkShape], problems: &mut Problems) -> Option<usize> {
    let found = links.iter().position(|link| link.name == name);
    if found.is_none() {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        let remedy = match names.is_empty() {
            true => format!("write a table `[links.{name}]` with its limits"),
            false => names::choose(name, &names),
        };
        problems.report(span, Problem::UnknownName { what: "link", name: name.to_owned(), remedy });
    }
    found
}

fn limits_nothing(link: &RawLink) -> bool {
    link.iops.is_none() && link.throughput.is_none() && link.reads.is_none() && link.writes.is_none()
}

/// Checks the links.
pub(super) fn resolve_links(raw: &Given<Named<RawLink>>, problems: &mut Problems) -> Vec<LinkShape> {
    let mut links = Vec::new();
    for entry in valid(raw).map_or(&[][..], |(Named(entries), _)| entries) {
        names::check(&entry.name, "a link", &entry.span, problems);
        let section = entry.value.as_ref();
        if section.is_some_and(limits_nothing) {
            let what = format!("link `{}` limits nothing", entry.name);
            let remedy = "write for example `throughput = \"1GB/s\"`".to_owned();
            problems.report(&entry.span, Problem::Nothing { what, remedy });
        }
        // A link with a mistake keeps its name, so that the volumes on it are not reported as well.
        links.push(LinkShape {
            name: entry.name.clone(),
            iops: section.and_then(|link| valid(&link.iops)).map(|(limit, _)| limit.limit),
            throughput: section.and_then(|link| valid(&link.throughput)).map(|(limit, _)| limit.limit),
            one_way: section.map(|link| one_way(&link.reads, &link.writes)).unwrap_or_default(),
        });
    }
    links
}

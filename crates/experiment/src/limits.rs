//! Limits and latencies as they are written.

use super::problems::{Problems, Span};
use super::read::{Duration, FromToml, Size, Throughput, required, section};
use ebbtide_model::units::{Bytes, format_number};
use ebbtide_model::volume::{Latency, Limit};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::DeValue;

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
    /// A lognormal latency, by two of its percentiles.
    #[schemars(rename = "Lognormal")]
    "a latency"
    struct RawLognormal {
        /// Median latency of one operation.
        #[schemars(required)]
        median: Duration,
        /// 99th percentile of that latency, at least the median.
        #[schemars(required)]
        p99: Duration,
    }
}

/// A limit whose rate is written as a `T`: a plain rate, or a table with burst credits.
#[derive(Debug)]
pub(super) struct LimitOf<T> {
    pub(super) limit: Limit,
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
        let per_second = |rate: f64| format!("{} per second", format_number(rate));
        let (key, example) = (T::KEY, T::EXAMPLE);
        if rate <= 0.0 {
            let remedy = format!("write a rate, or for example `{key} = {example}`");
            problems.out_of_range(span, key, per_second(rate), "more than 0", remedy);
            return None;
        }
        if let Some((burst, credits)) = burst {
            if burst <= rate {
                let range = format!("more than the sustained rate, {}", format_number(rate));
                let remedy = format!("write a rate, or for example `{key} = {example}`");
                problems.out_of_range(span, "burst", per_second(burst), range, remedy);
                return None;
            }
            if credits <= 0.0 {
                let remedy = format!("write for example `{key} = {example}`");
                problems.out_of_range(span, "credits", format_number(credits), "more than 0", remedy);
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
            let range = "at least the median, and the median more than 0";
            let remedy = format!("write for example `{example}`");
            problems.out_of_range(span, "p99", format!("{p99} at a median of {median}"), range, remedy);
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

/// A size of more than nothing.
pub(super) fn positive(
    key: &'static str,
    size: Bytes,
    span: &Span,
    problems: &mut Problems,
) -> Option<Bytes> {
    if size.0 > 0 {
        return Some(size);
    }
    problems.out_of_range(span, key, size, "more than 0", "write for example \"256KiB\"");
    None
}

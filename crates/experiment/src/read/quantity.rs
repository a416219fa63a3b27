//! Sizes, durations, rates and fractions: numbers with a unit.

use super::FromToml;
use super::scalar::{describe, integer, number};
use crate::error::Problem;
use crate::problems::{Problems, Span};
use ebbtide_model::units::{Bytes, Nanos, UnitError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::DeValue;

/// A size.
pub(crate) type Size = Bytes;

/// A duration.
pub(crate) type Duration = Nanos;

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Throughput(pub f64);

/// A fraction of one, from `"5%"` or `0.05`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fraction(pub f64);

impl FromToml for Bytes {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let problem = match value {
            DeValue::String(text) => match text.parse::<Bytes>() {
                Ok(size) => return Some(size),
                Err(error) => Problem::Unit { error, remedy: size_remedy(text) },
            },
            DeValue::Integer(number) => match integer(number).and_then(|number| u64::try_from(number).ok()) {
                Some(size) => return Some(Bytes(size)),
                None => wrong_size(value),
            },
            _ => wrong_size(value),
        };
        problems.report(span, problem);
        None
    }
}

fn wrong_size(value: &DeValue<'_>) -> Problem {
    let remedy = "write for example `\"256MiB\"`, or a number of bytes".to_owned();
    Problem::WrongType { expected: "a size", found: describe(value), remedy }
}

/// What is meant by a text that is no size.
fn size_remedy(text: &str) -> String {
    let lower = text.trim().to_ascii_lowercase();
    if lower.ends_with("/s") {
        return "this is a size, not a rate: leave out the `/s`".to_owned();
    }
    if lower.ends_with("bit") || lower.ends_with("bits") {
        return "write bytes (8 bits each), for example \"4KiB\"".to_owned();
    }
    "write for example \"4k\" or \"256MiB\" (powers of 1024) or \"10GB\" (powers of 1000)".to_owned()
}

impl FromToml for Nanos {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let problem = match value {
            DeValue::String(text) => match text.parse::<Nanos>() {
                Ok(duration) => return Some(duration),
                Err(error) => {
                    let remedy = match &error {
                        UnitError::NoUnit(..) => format!("write \"{}s\" if seconds are meant", text.trim()),
                        _ => "write for example \"500us\", \"1.5ms\", \"10s\", \"2m\" or \"1h\"".to_owned(),
                    };
                    Problem::Unit { error, remedy }
                }
            },
            DeValue::Integer(number) => Problem::WrongUnit {
                found: number.to_string(),
                expected: "a duration: it has no unit",
                remedy: format!("write \"{number}s\" if seconds are meant"),
            },
            DeValue::Float(number) => Problem::WrongUnit {
                found: number.to_string(),
                expected: "a duration: it has no unit",
                remedy: format!("write \"{number}s\" if seconds are meant"),
            },
            _ => Problem::WrongType {
                expected: "a duration",
                found: describe(value),
                remedy: "write for example \"10s\"".to_owned(),
            },
        };
        problems.report(span, problem);
        None
    }
}

impl FromToml for Throughput {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        const EXPECTED: &str = "a rate of bytes";
        let DeValue::String(text) = value else {
            let remedy = match value {
                DeValue::Integer(number) => format!("write its unit: \"{number}MB/s\" or \"{number}MiB/s\""),
                _ => "write for example \"125MB/s\" or \"16MiB/s\"".to_owned(),
            };
            problems.report(span, Problem::WrongType { expected: EXPECTED, found: describe(value), remedy });
            return None;
        };
        let text = text.trim();
        let problem = match text.strip_suffix("/s").map(str::parse::<Bytes>) {
            Some(Ok(rate)) => return Some(Throughput(rate.0 as f64)),
            _ if bits_per_second(text).is_some() => Problem::WrongUnit {
                found: text.to_owned(),
                expected: "a rate of bytes: it counts bits",
                remedy: format!("write \"{}\"", plain_rate(bits_per_second(text).unwrap_or(0.0) / 8.0)),
            },
            None if text.parse::<Bytes>().is_ok() => Problem::WrongUnit {
                found: text.to_owned(),
                expected: EXPECTED,
                remedy: format!("write \"{text}/s\""),
            },
            None => Problem::WrongUnit {
                found: text.to_owned(),
                expected: EXPECTED,
                remedy: "write for example \"125MB/s\" or \"16MiB/s\"".to_owned(),
            },
            Some(Err(error)) => Problem::Unit {
                error,
                remedy: "write for example \"125MB/s\" (powers of 1000) or \"16MiB/s\" (powers of 1024)"
                    .to_owned(),
            },
        };
        problems.report(span, problem);
        None
    }
}

/// Bits per second meant by `10Gbps`, `10 Gbit/s` and the like.
fn bits_per_second(text: &str) -> Option<f64> {
    let number_end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (digits, unit) = text.split_at(number_end);
    // `Mb/s` with a small b is bits by convention, but people write it for bytes too: only the
    // unmistakable forms are read as bits.
    let unit = unit.trim().to_ascii_lowercase();
    let prefix = ["bit/s", "bits/s", "bps"].iter().find_map(|suffix| unit.strip_suffix(suffix))?;
    let factor = match prefix {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|number| number * factor)
}

/// A rate that [`Throughput`] reads back, in the largest power of 1000 that divides it.
fn plain_rate(bytes: f64) -> String {
    for (factor, unit) in [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")] {
        if bytes >= factor {
            return format!("{}{unit}", bytes / factor);
        }
    }
    format!("{bytes:.0}B/s")
}

impl FromToml for Fraction {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let found = match value {
            DeValue::String(text) => text
                .trim()
                .strip_suffix('%')
                .and_then(|percent| percent.trim().parse::<f64>().ok())
                .map(|percent| percent / 100.0),
            _ => number(value),
        };
        if let Some(fraction) = found
            && (0.0..=1.0).contains(&fraction)
        {
            return Some(Fraction(fraction));
        }
        let remedy = match number(value) {
            Some(number) if (1.0..=100.0).contains(&number) => {
                format!("write \"{number}%\" or {}", number / 100.0)
            }
            _ => "write for example \"5%\" or 0.05".to_owned(),
        };
        let expected = "a fraction: from 0 to 1, or from \"0%\" to \"100%\"";
        problems.report(span, Problem::WrongType { expected, found: describe(value), remedy });
        None
    }
}

impl JsonSchema for Throughput {
    fn schema_name() -> Cow<'static, str> {
        "Throughput".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Bytes per second: \"125MB/s\" (powers of 1000), \"16MiB/s\" (powers of 1024)",
            "type": "string",
            "pattern": "^[0-9][0-9_.]* *([kKmMgGtTpP]([iI]?[bB]?)|[bB])?/s$"
        })
    }
}

impl JsonSchema for Fraction {
    fn schema_name() -> Cow<'static, str> {
        "Fraction".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A fraction: \"5%\" or 0.05",
            "anyOf": [
                { "type": "number", "minimum": 0, "maximum": 1 },
                { "type": "string", "pattern": "^[0-9][0-9.]* *%$" }
            ]
        })
    }
}

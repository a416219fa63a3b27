//! Sizes, durations, rates and fractions: numbers with a unit.

use super::FromToml;
use super::scalar::{integer, number};
use crate::error::{Mistake, Problem};
use crate::problems::{Problems, Span, describe};
use ebbtide_model::units::{Bytes, Nanos, RateError, UnitError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::DeValue;

pub(crate) type Size = Bytes;

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
                Err(error) => Mistake::Unit(error).with(size_remedy(text)),
            },
            DeValue::Integer(number) => match integer(number).and_then(|number| u64::try_from(number).ok()) {
                Some(size) => return Some(Bytes(size)),
                None => wrong_size(value),
            },
            _ => wrong_size(value),
        };
        problems.add(span, problem);
        None
    }
}

fn wrong_size(value: &DeValue<'_>) -> Problem {
    let mistake = Mistake::WrongType { expected: "a size", found: describe(value) };
    mistake.with("write for example `\"256MiB\"`, or a number of bytes")
}

/// What is meant by a text that is no size.
fn size_remedy(text: &str) -> &'static str {
    let lower = text.trim().to_ascii_lowercase();
    if lower.ends_with("/s") {
        "this is a size, not a rate: leave out the `/s`"
    } else if lower.ends_with("bit") || lower.ends_with("bits") {
        "write bytes (8 bits each), for example \"4KiB\""
    } else {
        "write for example \"4k\" or \"256MiB\" (powers of 1024) or \"10GB\" (powers of 1000)"
    }
}

impl FromToml for Nanos {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let no_unit = |number: String| {
            let remedy = format!("write \"{number}s\" if seconds are meant");
            Mistake::WrongUnit { found: number, expected: "a duration: it has no unit" }.with(remedy)
        };
        let problem = match value {
            DeValue::String(text) => match text.parse::<Nanos>() {
                Ok(duration) => return Some(duration),
                Err(error) => {
                    let remedy = match &error {
                        UnitError::NoUnit(..) => format!("write \"{}s\" if seconds are meant", text.trim()),
                        _ => "write for example \"500us\", \"1.5ms\", \"10s\", \"2m\" or \"1h\"".to_owned(),
                    };
                    Mistake::Unit(error).with(remedy)
                }
            },
            DeValue::Integer(number) => no_unit(number.to_string()),
            DeValue::Float(number) => no_unit(number.to_string()),
            _ => Mistake::WrongType { expected: "a duration", found: describe(value) }
                .with("write for example \"10s\""),
        };
        problems.add(span, problem);
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
            problems.wrong_type(span, EXPECTED, value, remedy);
            return None;
        };
        let text = text.trim();
        let wrong_unit = |expected| Mistake::WrongUnit { found: text.to_owned(), expected };
        let problem = match Bytes::per_second(text) {
            Ok(rate) => return Some(Throughput(rate.0 as f64)),
            Err(RateError::Bits { remedy, .. }) => wrong_unit("a rate of bytes: it counts bits").with(remedy),
            Err(RateError::NoTime(_)) => wrong_unit(EXPECTED).with(format!("write \"{text}/s\"")),
            Err(RateError::Unit(error)) if text.ends_with("/s") => Mistake::Unit(error)
                .with("write for example \"125MB/s\" (powers of 1000) or \"16MiB/s\" (powers of 1024)"),
            Err(RateError::Unit(_)) => {
                wrong_unit(EXPECTED).with("write for example \"125MB/s\" or \"16MiB/s\"")
            }
        };
        problems.add(span, problem);
        None
    }
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
        problems.wrong_type(span, "a fraction: from 0 to 1, or from \"0%\" to \"100%\"", value, remedy);
        None
    }
}

impl JsonSchema for Throughput {
    fn schema_name() -> Cow<'static, str> {
        "Throughput".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Bytes per second: \"125MB/s\" (powers of 1000), \"16MiB/s\" (powers of 1024); a small b would be bits",
            "type": "string",
            "pattern": "^[0-9][0-9_.]* *([kKmMgGtTpP][iI]?)?(B?/s|Bps)$"
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

//! Texts, booleans and numbers.

use super::FromToml;
use crate::error::Problem;
use crate::problems::{Problems, Span};
use toml::de::{DeInteger, DeValue};

/// `value` in words, for "found ...".
pub(crate) fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {}", quoted(text)),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => format!("the boolean {value}"),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// `text` in double quotes, shortened when it is long, on one line.
fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    format!("\"{short}\"")
}

/// The value of a TOML integer, where it fits.
pub(super) fn integer(number: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

impl FromToml for String {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::String(text) = value {
            return Some(text.to_string());
        }
        let remedy = match value {
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => "write it in quotes: `\"...\"`",
            _ => "write one text in quotes: `\"...\"`",
        };
        let (expected, found) = ("a text", describe(value));
        problems.report(span, Problem::WrongType { expected, found, remedy: remedy.to_owned() });
        None
    }
}

impl FromToml for bool {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::Boolean(value) = value {
            return Some(*value);
        }
        let remedy = match value {
            DeValue::Integer(number) if integer(number) == Some(0) => "write `false`",
            DeValue::Integer(number) if integer(number) == Some(1) => "write `true`",
            _ => "write `true` or `false`, without quotes",
        };
        let (expected, found) = ("true or false", describe(value));
        problems.report(span, Problem::WrongType { expected, found, remedy: remedy.to_owned() });
        None
    }
}

impl FromToml for u32 {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::Integer(number) = value
            && let Some(number) = integer(number).and_then(|number| u32::try_from(number).ok())
        {
            return Some(number);
        }
        let remedy = match value {
            DeValue::String(text) if text.trim().parse::<u32>().is_ok() => {
                format!("write it without quotes: `{}`", text.trim())
            }
            _ => "write digits without quotes, for example `8`".to_owned(),
        };
        let (expected, found) = ("a whole number from 0 to 4294967295", describe(value));
        problems.report(span, Problem::WrongType { expected, found, remedy });
        None
    }
}

impl FromToml for i64 {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::Integer(number) = value
            && let Some(number) = integer(number).and_then(|number| i64::try_from(number).ok())
        {
            return Some(number);
        }
        let (expected, found) = ("a whole number", describe(value));
        let remedy = match value {
            DeValue::String(text) if text.trim().parse::<i64>().is_ok() => {
                format!("write it without quotes: `{}`", text.trim())
            }
            _ => "write digits without quotes, for example `10` or `-5`".to_owned(),
        };
        problems.report(span, Problem::WrongType { expected, found, remedy });
        None
    }
}

/// A finite number that is not negative, from an integer or a float.
pub(super) fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Integer(number) => integer(number)? as f64,
        DeValue::Float(number) => number.as_str().parse::<f64>().ok()?,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

impl FromToml for f64 {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let Some(number) = number(value) {
            return Some(number);
        }
        let remedy = match value {
            DeValue::String(text) => match counted(text) {
                Some(count) => format!("write it without quotes: `{count}`"),
                None => "write digits without quotes, for example `3000`".to_owned(),
            },
            _ => "write digits without quotes, for example `3000`".to_owned(),
        };
        let (expected, found) = ("a number that is not negative", describe(value));
        problems.report(span, Problem::WrongType { expected, found, remedy });
        None
    }
}

/// The number meant by a text such as `3k`, `3000 iops` or `16k/s`.
fn counted(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase().replace("iops", "").replace("/s", "").replace('_', "");
    let text = text.trim();
    let (digits, factor) = match text.strip_suffix('k') {
        Some(digits) => (digits.trim(), 1000.0),
        None => (text, 1.0),
    };
    let count = digits.parse::<f64>().ok()? * factor;
    ((0.0..1e15).contains(&count) && count.fract() == 0.0).then_some(count as u64)
}

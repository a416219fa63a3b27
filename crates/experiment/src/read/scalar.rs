//! Texts, booleans and numbers.

use super::FromToml;
use crate::problems::{Problems, Span};
use std::str::FromStr;
use toml::de::{DeInteger, DeValue};

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
        problems.wrong_type(span, "a text", value, remedy.to_owned());
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
        problems.wrong_type(span, "true or false", value, remedy.to_owned());
        None
    }
}

/// A whole number that fits into `T`; `example` is one or two as they are written.
fn whole<T: TryFrom<i128> + FromStr>(
    value: &DeValue<'_>,
    (expected, example): (&'static str, &str),
    span: &Span,
    problems: &mut Problems,
) -> Option<T> {
    if let DeValue::Integer(number) = value
        && let Some(number) = integer(number).and_then(|number| T::try_from(number).ok())
    {
        return Some(number);
    }
    let remedy = match value {
        DeValue::String(text) if text.trim().parse::<T>().is_ok() => {
            format!("write it without quotes: `{}`", text.trim())
        }
        _ => format!("write digits without quotes, for example {example}"),
    };
    problems.wrong_type(span, expected, value, remedy);
    None
}

impl FromToml for u32 {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        whole(value, ("a whole number from 0 to 4294967295", "`8`"), span, problems)
    }
}

impl FromToml for i64 {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        whole(value, ("a whole number", "`10` or `-5`"), span, problems)
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
        let percent = value.as_str().and_then(|text| text.trim().strip_suffix('%')).map(str::trim);
        let percent = percent.filter(|digits| digits.parse::<f64>().is_ok_and(|number| number >= 0.0));
        let meant = value.as_str().and_then(counted);
        let remedy = match (percent, meant) {
            (Some(digits), _) => format!("write it without quotes and sign: `{digits}`"),
            (None, Some(count)) => format!("write it without quotes: `{count}`"),
            (None, None) => match value {
                DeValue::Integer(_) | DeValue::Float(_) => {
                    "write 0 or more; where no limit is meant, leave the key out".to_owned()
                }
                _ => "write digits without quotes, for example `3000`".to_owned(),
            },
        };
        problems.wrong_type(span, "a number that is not negative", value, remedy);
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

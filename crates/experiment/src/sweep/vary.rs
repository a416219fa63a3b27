//! `vary`: what varies, over lists and ranges.

use super::value::{Kind, Value};
use crate::error::Mistake;
use crate::names;
use crate::problems::{Problems, Span};
use crate::read::FromToml;
use ebbtide_model::units::{Bytes, Nanos};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Most levels of one factor.
const LEVELS_MAX: usize = 1000;
/// Longest a level may be written in the name of a design.
const LABEL_MAX: usize = 100;
/// What a factor may be, as an example.
const EXAMPLE: &str = "write for example `chunk = [\"64KiB\", \"256KiB\"]` or `queue_depth = { from = 32, to = 256, times = 2 }`";

/// What varies, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Vary(pub Vec<Factor>);

/// A field and what it may be.
#[derive(Debug)]
pub(crate) struct Factor {
    /// Its dotted path in the design, or `workload.` and that in the workload.
    pub name: String,
    pub span: Span,
    pub levels: Vec<Level>,
}

#[derive(Debug)]
pub(crate) struct Level {
    /// As it stands in the names of designs.
    pub label: String,
    pub value: Value,
}

impl Factor {
    /// The level that is written so.
    pub fn level(&self, label: &str) -> Option<usize> {
        self.levels.iter().position(|level| level.label == label)
    }

    /// Its levels in words.
    pub fn written(&self) -> Vec<&str> {
        self.levels.iter().map(|level| level.label.as_str()).collect()
    }
}

impl FromToml for Vary {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let DeValue::Table(table) = value else {
            problems.wrong_type(span, "a table of what varies", value, EXAMPLE);
            return None;
        };
        let mut factors = Vec::new();
        let before = problems.count();
        collect("", table, &mut factors, problems);
        factors.sort_by_key(|factor| factor.span.start);
        if table.is_empty() {
            problems.report(span, Mistake::Nothing("nothing varies".to_owned()), EXAMPLE);
        }
        (problems.count() == before).then_some(Vary(factors))
    }
}

/// The factors below `table`, whose keys follow `prefix`.
fn collect(prefix: &str, table: &DeTable<'_>, factors: &mut Vec<Factor>, problems: &mut Problems) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        let span = key.span();
        let values = match value.get_ref() {
            DeValue::Array(values) => values.iter().map(Value::of).collect(),
            DeValue::Table(inner) if inner.contains_key("from") || inner.contains_key("to") => {
                match range(inner, &value.span(), problems) {
                    Some(values) => values,
                    None => continue,
                }
            }
            DeValue::Table(inner) => {
                collect(&format!("{name}."), inner, factors, problems);
                continue;
            }
            other => {
                problems.wrong_type(&value.span(), "a list of levels or a range", other, EXAMPLE);
                continue;
            }
        };
        let part_missing = name.split('.').any(str::is_empty);
        if part_missing || name.contains(char::is_control) {
            let remedy = "write the key of a design, or \"workload.KEY\" in quotes";
            problems.report(&span, Mistake::BadName { what: "a field", name: name.clone() }, remedy);
        }
        if factors.iter().any(|factor| factor.name == name) {
            let remedy = "write all its levels in one list";
            problems.report(&span, Mistake::Duplicate { what: "the field", name: name.clone() }, remedy);
        }
        let levels = levels(values, &value.span(), problems);
        factors.push(Factor { name, span, levels });
    }
}

fn levels(values: Vec<Value>, span: &Span, problems: &mut Problems) -> Vec<Level> {
    if values.is_empty() {
        problems.report(span, Mistake::Nothing("there are no levels".to_owned()), EXAMPLE);
    }
    if values.len() > LEVELS_MAX {
        let range = format!("at most {LEVELS_MAX}");
        problems.out_of_range(span, "number of levels", values.len(), range, "write fewer");
        return Vec::new();
    }
    let (mut levels, mut amounts): (Vec<Level>, Vec<Option<u64>>) = Default::default();
    for value in values {
        let label = value.label();
        if label.chars().count() > LABEL_MAX || label.is_empty() {
            let remedy = format!("write 1 to {LABEL_MAX} characters: the names of designs have them all");
            problems.report(&value.span, Mistake::BadName { what: "a level", name: label.clone() }, remedy);
        }
        // `64KiB`, `64k` and 65536 are one level.
        let amount = number(value.toml().get_ref()).map(|(number, _)| number);
        let same = |(level, other): &(&Level, &Option<u64>)| {
            level.label == label || amount.is_some() && amount == **other
        };
        if let Some((level, _)) = levels.iter().zip(&amounts).find(same) {
            let mistake = Mistake::Duplicate { what: "the level", name: label.clone() };
            let remedy = match level.label == label {
                true => "write each level once".to_owned(),
                false => format!("it is the same as {}; write each level once", level.label),
            };
            problems.report(&value.span, mistake, remedy);
        }
        levels.push(Level { label, value });
        amounts.push(amount);
    }
    levels
}

/// What the numbers of a range count.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Counts {
    Plain,
    Bytes,
    BytesPerSecond,
    Time,
}

impl Counts {
    fn written(self, number: u64) -> Kind {
        match self {
            Counts::Plain => Kind::Bare(number.to_string()),
            Counts::Bytes => Kind::Text(Bytes(number).to_string()),
            Counts::BytesPerSecond => Kind::Text(format!("{}/s", Bytes(number))),
            Counts::Time => Kind::Text(Nanos(number).to_string()),
        }
    }
}

/// A number and what it counts.
fn number(value: &DeValue<'_>) -> Option<(u64, Counts)> {
    match value {
        DeValue::Integer(number) => {
            u64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| (number, Counts::Plain))
        }
        DeValue::String(text) => {
            let bytes = |text: &str| text.parse::<Bytes>().ok().map(|bytes| bytes.0);
            let rate = text.trim().strip_suffix("/s").and_then(bytes);
            bytes(text)
                .map(|number| (number, Counts::Bytes))
                .or(rate.map(|number| (number, Counts::BytesPerSecond)))
                .or(text.parse::<Nanos>().ok().map(|time| (time.0, Counts::Time)))
        }
        _ => None,
    }
}

/// The levels of `{ from, to, times }` or `{ from, to, step }`.
fn range(table: &DeTable<'_>, span: &Span, problems: &mut Problems) -> Option<Vec<Value>> {
    const KEYS: &[&str] = &["from", "to", "times", "step"];
    const SECTION: &str = "a range";
    let before = problems.count();
    for (key, _) in table.iter().filter(|(key, _)| !KEYS.contains(&key.get_ref().as_ref())) {
        problems.add(&key.span(), names::unknown_key(key.get_ref(), SECTION, KEYS));
    }
    let mut end = |key: &'static str| {
        let Some(value) = table.get(key) else {
            problems.missing(span, key, SECTION, "{ from = 1, to = 64, times = 2 }");
            return None;
        };
        counted(value, problems)
    };
    let ends = (end("from"), end("to"));
    let times = table.get("times");
    let step = table.get("step").map(|value| (value.span(), counted(value, problems)));
    if let (Some(_), Some((at, _))) = (times, &step) {
        problems.report(at, Mistake::Conflict { first: "times", second: "step" }, "write one of them");
    }
    if times.is_none() && step.is_none() {
        problems.missing(span, "times", SECTION, "times = 2");
    }
    let factor = times.map(|value| {
        let factor = f64::from_toml(value.get_ref(), &value.span(), problems)?;
        if factor < 1.1 {
            let at = value.span();
            problems.out_of_range(&at, "times", factor, "at least 1.1", "write for example `times = 2`");
        }
        Some(factor)
    });
    let (Some((from, counts)), Some((to, other))) = ends else { return None };
    let step_counts = step.as_ref().and_then(|(_, step)| *step).map_or(counts, |(_, counts)| counts);
    let wrong = |found: String, expected, remedy, problems: &mut Problems| {
        problems.report(span, Mistake::WrongUnit { found, expected }, remedy);
    };
    if times.is_some() && step.is_some() {
        return None;
    }
    if counts != other || counts != step_counts {
        wrong("this".to_owned(), "a range of one unit", "write all its numbers in the same unit", problems);
        return None;
    }
    if from > to {
        wrong(
            format!("{from} to {to}"),
            "a range that ascends",
            "write the smaller number as `from`",
            problems,
        );
    }
    if let Some((at, Some((0, _)))) = &step {
        problems.out_of_range(at, "step", 0, "more than 0", "write for example `step = 8`");
    }
    if let (0, Some(_)) = (from, &factor) {
        problems.out_of_range(
            span,
            "from",
            0,
            "more than 0, which `times` leaves as it is",
            "write `step` instead",
        );
    }
    if problems.count() > before {
        return None;
    }
    let mut levels = Vec::new();
    let mut number = from;
    while number <= to && levels.len() <= LEVELS_MAX {
        levels.push(Value { kind: counts.written(number), span: span.clone() });
        let next = match (&step, factor.flatten()) {
            (Some((_, Some((step, _)))), _) => number.checked_add(*step),
            (_, Some(factor)) => {
                let next = (number as f64 * factor).round();
                (next < u64::MAX as f64).then_some((next as u64).max(number + 1))
            }
            _ => None,
        };
        let Some(next) = next else { break };
        number = next;
    }
    Some(levels)
}

fn counted(value: &Spanned<DeValue<'_>>, problems: &mut Problems) -> Option<(u64, Counts)> {
    let found = number(value.get_ref());
    if found.is_none() {
        let remedy = "write for example `8`, \"64KiB\", \"10MB/s\" or \"1ms\"";
        problems.wrong_type(&value.span(), "a whole number or a quantity", value.get_ref(), remedy);
    }
    found
}

impl JsonSchema for Vary {
    fn schema_name() -> Cow<'static, str> {
        "Vary".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What varies: a field of the design, or \"workload.FIELD\", over a list of levels or a range \
                            { from, to, times } or { from, to, step }",
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {
                "anyOf": [
                    { "type": "array", "minItems": 1 },
                    { "type": "object" }
                ]
            }
        })
    }
}

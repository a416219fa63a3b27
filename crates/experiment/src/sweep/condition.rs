//! `exclude`, `when` and `where`: levels that are meant, `{ FIELD = VALUE, FIELD = [VALUE, ..] }`.

use super::grid::Pattern;
use super::value::Value;
use super::vary::Factor;
use crate::error::Mistake;
use crate::names::choose;
use crate::problems::{Problems, Span};
use crate::read::{At, FromToml};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::{DeTable, DeValue};

const EXAMPLE: &str = "write for example `{ layout = \"stripe\", chunk = [\"64KiB\", \"256KiB\"] }`";

/// Fields, each with the values that are meant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Condition(pub Vec<Field>);

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub name: String,
    pub span: Span,
    /// As they are written in the names of designs.
    pub values: Vec<(String, Span)>,
}

impl FromToml for Condition {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let DeValue::Table(table) = value else {
            problems.wrong_type(span, "a table of fields", value, EXAMPLE);
            return None;
        };
        let mut fields = Vec::new();
        collect("", table, &mut fields);
        fields.sort_by_key(|field| field.span.start);
        if fields.is_empty() {
            let remedy = EXAMPLE;
            problems.report(span, Mistake::Nothing("no field is named".to_owned()), remedy);
            return None;
        }
        Some(Condition(fields))
    }
}

fn collect(prefix: &str, table: &DeTable<'_>, fields: &mut Vec<Field>) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        let one = |value| {
            let value = Value::of(value);
            (value.label(), value.span)
        };
        let values = match value.get_ref() {
            DeValue::Table(inner) => {
                collect(&format!("{name}."), inner, fields);
                continue;
            }
            DeValue::Array(values) => values.iter().map(one).collect(),
            _ => vec![one(value)],
        };
        fields.push(Field { name, span: key.span(), values });
    }
}

impl Condition {
    /// Whether a design is meant whose fields have the values that `value` says, as names of designs have them.
    pub(crate) fn holds(&self, value: impl Fn(&str) -> Option<String>) -> bool {
        self.0.iter().all(|field| {
            value(&field.name).is_some_and(|here| field.values.iter().any(|(value, _)| *value == here))
        })
    }

    /// By index of factors and levels; reports what is neither.
    pub(super) fn resolve(&self, factors: &[Factor], problems: &mut Problems) -> Option<Pattern> {
        let mut pattern = Vec::new();
        let mut complete = true;
        for field in &self.0 {
            let Some(index) = factors.iter().position(|factor| factor.name == field.name) else {
                let names: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
                let mistake =
                    Mistake::UnknownName { what: "field that varies called", name: field.name.clone() };
                problems.report(&field.span, mistake, choose(&field.name, &names));
                complete = false;
                continue;
            };
            let mut levels = Vec::new();
            for (label, span) in &field.values {
                match factors[index].level(label) {
                    Some(level) => levels.push(level),
                    None => {
                        complete = false;
                        let mistake = Mistake::UnknownName { what: "level", name: label.clone() };
                        let remedy = choose(label, &factors[index].written());
                        problems.report(span, mistake, format!("{remedy}, as `vary` has it"));
                    }
                }
            }
            pattern.push((index, levels));
        }
        complete.then_some(pattern)
    }
}

impl JsonSchema for Condition {
    fn schema_name() -> Cow<'static, str> {
        "Condition".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Fields, each with the value or the values that are meant",
            "type": "object",
            "minProperties": 1
        })
    }
}

impl FromToml for Vec<At<Condition>> {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::Array(values) = value {
            return Some(values.iter().map(|value| At::read(value, problems)).collect());
        }
        let remedy = "write a list of tables: `[{ layout = \"mirror\", members = 4 }]`";
        problems.wrong_type(span, "a list of combinations", value, remedy);
        None
    }
}

/// `when`: fields that apply only where others have certain levels.
#[derive(Debug, Default)]
pub(crate) struct When(pub Vec<(String, Span, Condition)>);

impl FromToml for When {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let DeValue::Table(table) = value else {
            let remedy = "write for example `when = { chunk = { layout = \"stripe\" } }`";
            problems.wrong_type(span, "a table of fields", value, remedy);
            return None;
        };
        let read = |(key, value): (&toml::Spanned<Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
            let condition = Condition::from_toml(value.get_ref(), &value.span(), problems)?;
            Some((key.get_ref().to_string(), key.span(), condition))
        };
        Some(When(table.iter().filter_map(read).collect()))
    }
}

impl JsonSchema for When {
    fn schema_name() -> Cow<'static, str> {
        "When".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let condition = generator.subschema_for::<Condition>();
        json_schema!({
            "description": "A field that varies, and where it applies",
            "type": "object",
            "additionalProperties": condition
        })
    }
}

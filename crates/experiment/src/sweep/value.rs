//! Values that are kept apart from the file they stand in, each with its place, so that they can be put into other tables.

use crate::problems::Span;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value with the places of all its parts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    pub kind: Kind,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Text(String),
    /// A number, a boolean or a date, as TOML writes it.
    Bare(String),
    List(Vec<Value>),
    /// Keys with their places.
    Table(Vec<(String, Span, Value)>),
}

impl Value {
    /// A copy of what stands in the file.
    pub fn of(value: &Spanned<DeValue<'_>>) -> Value {
        let kind = match value.get_ref() {
            DeValue::String(text) => Kind::Text(text.to_string()),
            DeValue::Integer(number) => Kind::Bare(number.to_string()),
            DeValue::Float(number) => Kind::Bare(number.as_str().to_owned()),
            DeValue::Boolean(value) => Kind::Bare(value.to_string()),
            DeValue::Datetime(date) => Kind::Bare(date.to_string()),
            DeValue::Array(values) => Kind::List(values.iter().map(Value::of).collect()),
            DeValue::Table(table) => Kind::Table(
                table
                    .iter()
                    .map(|(key, value)| (key.get_ref().to_string(), key.span(), Value::of(value)))
                    .collect(),
            ),
        };
        Value { kind, span: value.span() }
    }

    /// The same for the parser.
    pub fn toml(&self) -> Spanned<DeValue<'_>> {
        let value = match &self.kind {
            Kind::Text(text) => DeValue::String(text.as_str().into()),
            Kind::Bare(text) => match DeValue::parse(text) {
                Ok(value) => value.into_inner(),
                Err(_) => DeValue::String(text.as_str().into()),
            },
            Kind::List(values) => DeValue::Array(values.iter().map(Value::toml).collect()),
            Kind::Table(entries) => {
                let mut table = DeTable::new();
                for (key, span, value) in entries {
                    table.insert(Spanned::new(span.clone(), key.as_str().into()), value.toml());
                }
                DeValue::Table(table)
            }
        };
        Spanned::new(self.span.clone(), value)
    }

    /// As it is written in the names of designs: texts without quotes, the elements of a list with `+` between them.
    pub fn label(&self) -> String {
        match &self.kind {
            Kind::Text(text) => text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
            Kind::Bare(text) => text.clone(),
            Kind::List(values) => values.iter().map(Value::label).collect::<Vec<_>>().join("+"),
            Kind::Table(entries) => {
                let entries = entries.iter().map(|(key, _, value)| format!("{key}:{}", value.label()));
                format!("({})", entries.collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// `value` at the dotted `path` of `table`, in tables that are made where they are missing.
pub(super) fn put<'a>(table: &mut DeTable<'a>, path: &'a str, key: &Span, value: Spanned<DeValue<'a>>) {
    match path.split_once('.') {
        None => {
            table.remove(path);
            table.insert(Spanned::new(key.clone(), path.into()), value);
        }
        Some((first, rest)) => {
            if !table.get(first).is_some_and(|inner| inner.get_ref().is_table()) {
                table.remove(first);
                let inner = Spanned::new(value.span(), DeValue::Table(DeTable::new()));
                table.insert(Spanned::new(key.clone(), first.into()), inner);
            }
            if let Some(DeValue::Table(inner)) = table.get_mut(first).map(Spanned::get_mut) {
                put(inner, rest, key, value);
            }
        }
    }
}

/// Takes what is at the dotted `path` out of `table`.
pub(super) fn take_out(table: &mut DeTable<'_>, path: &str) {
    match path.split_once('.') {
        None => drop(table.remove(path)),
        Some((first, rest)) => {
            if let Some(DeValue::Table(inner)) = table.get_mut(first).map(Spanned::get_mut) {
                take_out(inner, rest);
            }
        }
    }
}

/// What is at the dotted `path` of `table`.
pub(crate) fn at<'v, 'a>(table: &'v DeTable<'a>, path: &str) -> Option<&'v Spanned<DeValue<'a>>> {
    match path.split_once('.') {
        None => table.get(path),
        Some((first, rest)) => at(table.get(first)?.get_ref().as_table()?, rest),
    }
}

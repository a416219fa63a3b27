//! From TOML values to typed ones that know their place in the file.
//!
//! A section of the language is declared once, with `section!`: the struct that results is read from
//! TOML here and described to editors by its JSON Schema, so that neither can know a key that the
//! other does not. Reading goes on after a mistake: whatever can be read is, and every mistake is
//! reported once.

mod choice;
mod quantity;
mod scalar;

pub(super) use choice::{Choice, KeySource};
pub(super) use quantity::{Duration, Fraction, Size, Throughput};

use super::problems::{Problems, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::DeValue;

/// What can be read from a TOML value.
pub(super) trait FromToml: Sized {
    /// Reads `value`; reports what is wrong and returns nothing when it cannot.
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self>;
}

/// A value and its place; no value when it was wrong, which has been reported then.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    /// The value, unless it was wrong.
    pub value: Option<T>,
    pub span: Span,
}

impl<T: FromToml> At<T> {
    pub fn read(value: &Spanned<DeValue<'_>>, problems: &mut Problems) -> Self {
        let span = value.span();
        At { value: T::from_toml(value.get_ref(), &span, problems), span }
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A key as it was given, or its absence.
pub(super) type Given<T> = Option<At<T>>;

/// The value of a key, with its place, when it was given and is right.
pub(super) fn valid<T>(given: &Given<T>) -> Option<(&T, &Span)> {
    given.as_ref().and_then(|at| at.value.as_ref().map(|value| (value, &at.span)))
}

/// The value of a key that must be given; reports its absence at `place`.
pub(super) fn required<'a, T>(
    given: &'a Given<T>,
    key: &'static str,
    example: &str,
    (section, place): (&str, &Span),
    problems: &mut Problems,
) -> Option<(&'a T, &'a Span)> {
    if given.is_none() {
        problems.missing(place, key, section, example);
    }
    valid(given)
}

/// A table whose keys are names that the user chooses, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Named<T>(pub Vec<Entry<T>>);

/// One entry of a [`Named`] table.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub name: String,
    /// Where the key stands in the text.
    pub span: Span,
    /// What stands below it, unless it was wrong.
    pub value: Option<T>,
}

/// The entries of a table of names; none where there is none, or it is wrong.
pub(super) fn entries<T>(given: &Given<Named<T>>) -> &[Entry<T>] {
    valid(given).map_or(&[], |(Named(entries), _)| entries)
}

/// What stands below the headings of a [`Named`] table.
pub(super) trait Headed {
    const HEADING: &'static str;
}

impl<T: FromToml + Headed> FromToml for Named<T> {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let DeValue::Table(table) = value else {
            let heading = T::HEADING;
            let remedy = match value {
                DeValue::Array(_) => {
                    format!("write `[{heading}.NAME]` instead of `[[{heading}]]` with a `name`")
                }
                _ => format!("write a table for each, with its name in the heading: `[{heading}.NAME]`"),
            };
            problems.wrong_type(span, "a table of names", value, remedy);
            return None;
        };
        let mut entries: Vec<Entry<T>> = table
            .iter()
            .map(|(key, value)| Entry {
                name: key.get_ref().to_string(),
                span: key.span(),
                value: At::read(value, problems).value,
            })
            .collect();
        entries.sort_by_key(|entry| entry.span.start);
        Some(Named(entries))
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Named{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = BTreeMap::<String, T>::json_schema(generator);
        schema.insert("minProperties".to_owned(), 1.into());
        schema.insert("propertyNames".to_owned(), serde_json::json!({ "pattern": super::names::PATTERN }));
        schema
    }
}

/// A field's name as a key: without the `r#` of names that are Rust's keywords.
pub(super) const fn plain(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// A section as it was read.
pub(super) trait Section {
    /// The keys that were given, each with its place.
    fn given(&self) -> impl Iterator<Item = (&'static str, &Span)>;
}

/// Declares a section of the language: its struct, its reader and its schema from one list of keys.
macro_rules! section {
    ($(#[$meta:meta])* $title:literal struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Debug, Default, schemars::JsonSchema)]
        $(#[$meta])*
        #[schemars(deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[$field_meta])* pub $field: $crate::read::Given<$type>,)*
        }

        impl $crate::read::Section for $name {
            fn given(&self) -> impl Iterator<Item = (&'static str, &$crate::problems::Span)> {
                [$(self.$field.as_ref().map(|at| ($crate::read::plain(stringify!($field)), &at.span))),*]
                    .into_iter()
                    .flatten()
            }
        }

        impl $crate::read::FromToml for $name {
            fn from_toml(
                value: &toml::de::DeValue<'_>,
                span: &$crate::problems::Span,
                problems: &mut $crate::problems::Problems,
            ) -> Option<Self> {
                const KEYS: &[&str] = &[$($crate::read::plain(stringify!($field))),*];
                let table = $crate::read::expect_table(value, $title, KEYS, span, problems)?;
                let mut section = Self::default();
                for (key, value) in table {
                    match key.get_ref().as_ref() {
                        $(found if found == $crate::read::plain(stringify!($field)) => {
                            section.$field = Some($crate::read::At::read(value, problems));
                        })*
                        other => problems.add(
                            &key.span(),
                            $crate::names::unknown_key(other, $title, KEYS),
                        ),
                    }
                }
                // A key that was meant has been reported already: it is wrong, not missing.
                for (key, _) in table.iter().filter(|(key, _)| !KEYS.contains(&key.get_ref().as_ref())) {
                    match $crate::names::meant(key.get_ref(), KEYS) {
                        $(Some(meant) if meant == $crate::read::plain(stringify!($field)) => {
                            section.$field.get_or_insert($crate::read::At { value: None, span: key.span() });
                        })*
                        _ => {}
                    }
                }
                Some(section)
            }
        }
    };
}
pub(super) use section;

/// The table in `value`, or a report of what is there instead.
pub(super) fn expect_table<'v, 'i>(
    value: &'v DeValue<'i>,
    section: &'static str,
    keys: &[&str],
    span: &Span,
    problems: &mut Problems,
) -> Option<&'v toml::de::DeTable<'i>> {
    if let DeValue::Table(table) = value {
        return Some(table);
    }
    let remedy = format!("{section} is a table with the keys {}", keys.join(", "));
    problems.wrong_type(span, "a table", value, remedy);
    None
}

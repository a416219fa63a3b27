//! Keys whose values are words of a list.

use super::FromToml;
use crate::error::Mistake;
use crate::layouts::{DesignLayout, Over};
use crate::names;
use crate::problems::{Problems, Span};
use ebbtide_model::layout::{Arrangement, LayoutName};
use ebbtide_model::stack::{
    Backing, Bitmap, CacheKind, CacheMode, ConsistencyPolicy, EncryptionFormat, Filesystem, Metadata,
};
use ebbtide_model::sweep::Builds;
use ebbtide_model::volume::FailureKind;
use ebbtide_model::workload::{Known, Reset};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::str::FromStr;
use strum::{EnumString, VariantNames};
use toml::de::DeValue;

/// A word of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice<T>(pub T);

/// What is chosen from a list of words.
pub(crate) trait Words: FromStr + VariantNames {
    /// What an unknown word is called in an error.
    const WHAT: &'static str;

    /// What to write instead of `found`, where people know it by another word.
    fn remedy(_found: &str) -> Option<String> {
        None
    }
}

impl Words for DesignLayout {
    const WHAT: &'static str = "layout";

    fn remedy(found: &str) -> Option<String> {
        let plain = found.to_ascii_lowercase().replace(['-', '_', ' '], "");
        let meant =
            LayoutName::ALL.iter().find(|layout| layout.facts().other_names.contains(&plain.as_str()))?;
        Some(format!("write \"{}\" for {}", meant.name(), meant.facts().what))
    }
}

impl Words for Over {
    const WHAT: &'static str = "way of making one array";
}

impl Words for Arrangement {
    const WHAT: &'static str = "arrangement";

    fn remedy(found: &str) -> Option<String> {
        let remedy = "write \"near\", \"far\" or \"offset\", and the number of copies in `copies`";
        matches!(found, "n2" | "n3" | "f2" | "f3" | "o2" | "o3").then(|| remedy.to_owned())
    }
}

impl Words for Backing {
    const WHAT: &'static str = "backing";
}

impl Words for Metadata {
    const WHAT: &'static str = "metadata version";
}

impl Words for Bitmap {
    const WHAT: &'static str = "bitmap";
}

impl Words for ConsistencyPolicy {
    const WHAT: &'static str = "consistency policy";
}

impl Words for CacheKind {
    const WHAT: &'static str = "kind of cache";
}

impl Words for CacheMode {
    const WHAT: &'static str = "mode of a cache";
}

impl Words for Filesystem {
    const WHAT: &'static str = "file system";
}

impl Words for Builds {
    const WHAT: &'static str = "way of building";
}

impl Words for Reset {
    const WHAT: &'static str = "way of putting data back";
}

impl Words for Known {
    const WHAT: &'static str = "benchmark";
}

impl Words for crate::program::Better {
    const WHAT: &'static str = "direction";
}

impl Words for EncryptionFormat {
    const WHAT: &'static str = "format";
}

/// Where the key of an encryption comes from, beside a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum KeySource {
    /// It is asked for at the terminal.
    Prompt,
}

impl Words for KeySource {
    const WHAT: &'static str = "key";
}

impl Words for FailureKind {
    const WHAT: &'static str = "kind of failure";
}

impl<T: Words> FromToml for Choice<T> {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let DeValue::String(text) = value else {
            let remedy = format!("write one of {}, in quotes", T::VARIANTS.join(", "));
            problems.wrong_type(span, "a word", value, remedy);
            return None;
        };
        text.parse().map(Choice).ok().or_else(|| {
            let remedy = T::remedy(text).unwrap_or_else(|| names::choose(text, T::VARIANTS));
            problems.report(span, Mistake::UnknownChoice { what: T::WHAT, found: text.to_string() }, remedy);
            None
        })
    }
}

impl<T: VariantNames> JsonSchema for Choice<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Choice".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": T::VARIANTS })
    }
}

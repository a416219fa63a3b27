//! `device`: one path, or several in a list, as ranges `/dev/nvme[1..24]n1`.
//!
//! No patterns: what they match is another device on another day, and devices are written to.

use super::error::{Mistake, Problem};
use super::read::FromToml;
use crate::problems::{Problems, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::DeValue;

/// Most paths of one range or list.
const MOST: usize = 1024;

/// One path, or the paths of several volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Paths {
    One(String),
    /// As many volumes as there are paths.
    Several(Vec<String>),
}

impl Paths {
    pub fn all(&self) -> &[String] {
        match self {
            Paths::One(path) => std::slice::from_ref(path),
            Paths::Several(paths) => paths,
        }
    }
}

impl FromToml for Paths {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        match value {
            DeValue::String(text) => match expanded(text) {
                Ok(None) => Some(Paths::One(text.to_string())),
                Ok(Some(paths)) => Some(Paths::Several(paths)),
                Err(problem) => {
                    problems.add(span, problem);
                    None
                }
            },
            DeValue::Array(list) if !list.is_empty() => {
                let mut paths = Vec::new();
                for value in list {
                    let text = String::from_toml(value.get_ref(), &value.span(), problems)?;
                    let more =
                        expanded(&text).map_err(|problem| problems.add(&value.span(), problem)).ok()?;
                    paths.extend(more.unwrap_or_else(|| vec![text]));
                    if paths.len() > MOST {
                        problems
                            .add(span, not_a_path("a longer list", format!("write at most {MOST} devices")));
                        return None;
                    }
                }
                Some(Paths::Several(paths))
            }
            other => {
                let remedy = "write \"/dev/disk/by-id/...\", or [\"/dev/...\", \"/dev/...\"] for several";
                problems.wrong_type(span, "a path or a list of paths", other, remedy);
                None
            }
        }
    }
}

fn not_a_path(found: &str, remedy: impl Into<String>) -> Problem {
    let expected = "the path of a device, or a range of them";
    Mistake::WrongUnit { expected, found: found.to_owned() }.with(remedy)
}

/// The paths of a range; nothing where `text` is a path.
fn expanded(text: &str) -> Result<Option<Vec<String>>, Problem> {
    let wrong = |remedy: String| Err(not_a_path(text, remedy));
    let example = "write a range as \"/dev/nvme[1..24]n1\" or \"/dev/sd[b..y]\", both ends included";
    let Some((before, rest)) = text.split_once('[') else {
        if text.contains(['*', '?']) {
            return wrong(format!("a pattern may match other devices another day: name each, or {example}"));
        }
        return Ok(None);
    };
    let parts = rest.split_once(']').and_then(|(inside, after)| Some((inside.split_once("..")?, after)));
    let Some(((first, last), after)) = parts.filter(|(_, after)| !after.contains(['[', '*', '?'])) else {
        return wrong(example.to_owned());
    };
    let whole = |middle: String| format!("{before}{middle}{after}");
    if let (Ok(from), Ok(to)) = (first.parse::<u32>(), last.parse::<u32>()) {
        let count = u64::from(to).checked_sub(u64::from(from)).map(|more| more as usize + 1);
        // `[01..24]` keeps its zeros.
        let width = if first.starts_with('0') { first.len() } else { 0 };
        return match count {
            Some(count) if count <= MOST => {
                Ok(Some((from..=to).map(|number| whole(format!("{number:0width$}"))).collect()))
            }
            _ => wrong(format!("write a range that ascends, of at most {MOST}")),
        };
    }
    match (first.as_bytes(), last.as_bytes()) {
        ([from @ b'a'..=b'z'], [to @ b'a'..=b'z']) if from <= to => {
            Ok(Some((*from..=*to).map(|letter| whole(char::from(letter).to_string())).collect()))
        }
        _ => wrong(example.to_owned()),
    }
}

impl JsonSchema for Paths {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Paths".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string", "description": "A path, rbd:POOL/IMAGE, or a range of them" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_numbers_or_letters_between_the_rest_of_the_path() {
        let of = |text: &str| expanded(text).unwrap().unwrap();
        assert_eq!(of("/dev/nvme[1..3]n1"), ["/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1"]);
        assert_eq!(of("/dev/sd[b..y]").len(), 24);
        assert_eq!(of("/dev/disk/by-path/slot[08..10]")[0], "/dev/disk/by-path/slot08");
        assert_eq!(expanded("/dev/sdb"), Ok(None));
        for text in
            ["/dev/sd*", "/dev/sd[b..", "/dev/sd[y..b]", "/dev/sd[0..4294967295]", "/dev/x[1..2][3..4]"]
        {
            assert!(expanded(text).is_err(), "{text}");
        }
    }
}

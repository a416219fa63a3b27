//! Mistakes of TOML itself, explained to people who write TOML once a year.

use super::error::{Mistake, Problem};
use crate::problems::{Problems, Span};
use toml::de::{DeTable, DeValue};

/// Errors of the TOML parser that are looked at.
const ERRORS_MAX: usize = 200;

/// The whole of `text` as one table; nothing, and a report of what is wrong, when it is not TOML.
pub(super) fn table<'a>(text: &'a str, problems: &mut Problems) -> Option<DeValue<'a>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Some(DeValue::Table(table.into_inner()));
    }
    let errors = errors.iter().map(|error| (error.message().to_owned(), error.span().unwrap_or(0..0)));
    report(text, errors.collect(), problems);
    None
}

/// Keys that only experiments have, one of which each has.
pub(super) const EXPERIMENT: &[&str] = &["volumes", "designs", "workloads"];
/// Keys that only needs have, one of which each has.
pub(super) const NEED: &[&str] = &["capacity", "trace"];

/// Where the first key stands that only the `other` kind of file has, when none is there that only this kind has.
pub(super) fn is_other(table: &DeValue<'_>, own: &[&str], other: &[&str]) -> Option<Span> {
    has(table, other).filter(|_| has(table, own).is_none())
}

fn has(table: &DeValue<'_>, keys: &[&str]) -> Option<Span> {
    let DeValue::Table(table) = table else { return None };
    table.iter().find(|(key, _)| keys.contains(&key.get_ref().as_ref())).map(|(key, _)| key.span())
}

/// Reports the TOML parser's `errors` as (message, place): the first of each line, without those that only follow
/// from an earlier one.
fn report(text: &str, mut errors: Vec<(String, Span)>, problems: &mut Problems) {
    errors.sort_by_key(|(_, span)| span.start);
    errors.truncate(ERRORS_MAX);
    let mut last_line = None;
    let mut repeated_heading = None;
    for (message, span) in errors {
        if message.contains("array") {
            // Whatever follows is read as elements of the list.
            let (span, problem) = list(text, &message, &span);
            problems.add(&span, problem);
            return;
        }
        let line = Line::at(text, span.start);
        let heading = Line::heading(text, span.start);
        if last_line == Some(line.start) || (repeated_heading.is_some() && repeated_heading == heading) {
            continue;
        }
        last_line = Some(line.start);
        let remedy = if message.contains("invalid date") || message.contains("invalid month") {
            "there is no such day: write one of the calendar, for example `2019-12-31`".to_owned()
        } else if message.contains("duplicate key") {
            if heading == Some(line.start) {
                repeated_heading = heading;
            }
            duplicate(text, &line)
        } else {
            remedy(line.code)
        };
        problems.report(&span, Mistake::Syntax { message: message.trim().replace('\n', "; ") }, remedy);
    }
}

/// One line of the text.
struct Line<'a> {
    /// Offset of its first byte in the text.
    start: usize,
    /// Its text without comment and surrounding blanks.
    code: &'a str,
}

impl<'a> Line<'a> {
    /// The line that holds byte `index`.
    fn at(text: &'a str, index: usize) -> Line<'a> {
        let index = (0..=index.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        let start = text[..index].rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[start..].lines().next().unwrap_or("");
        Line { start, code: line.split('#').next().unwrap_or("").trim() }
    }

    /// Start of the last heading at or before byte `index`.
    fn heading(text: &str, index: usize) -> Option<usize> {
        let line = Line::at(text, index);
        let mut start = 0;
        let mut found = None;
        for candidate in text[..line.start].split_inclusive('\n').chain([line.code]) {
            if candidate.trim_start().starts_with('[') {
                found = Some(start);
            }
            start += candidate.len();
        }
        found
    }
}

/// A list that is wrong: most often it is not closed, and the parser stumbles over the lines that follow.
fn list(text: &str, message: &str, span: &Span) -> (Span, Problem) {
    let line = Line::at(text, span.start);
    let own_list = line.code.split_once('=').is_some_and(|(_, value)| value.trim_start().starts_with('['));
    if !own_list || message.contains("unclosed") {
        let mut start = 0;
        let mut opened = None;
        for candidate in text[..line.start].split_inclusive('\n').chain([line.code]) {
            if let Some((key, value)) = candidate.split_once('=')
                && value.trim_start().starts_with('[')
            {
                let open = start + key.len() + 1 + (value.len() - value.trim_start().len());
                opened = (value.matches('[').count() > value.matches(']').count()).then_some(open);
            }
            start += candidate.len();
        }
        if let Some(open) = opened {
            let mistake = Mistake::Syntax { message: "this list is not closed".to_owned() };
            return (open..open + 1, mistake.with("write `]` after its last element"));
        }
    }
    let mistake = Mistake::Syntax { message: message.trim().replace('\n', "; ") };
    let remedy = "write commas between the elements, each of them in quotes: `[\"vol0\", \"vol1\"]`";
    (span.clone(), mistake.with(remedy))
}

fn duplicate(text: &str, line: &Line<'_>) -> String {
    let earlier = text[..line.start]
        .lines()
        .position(|other| other.split('#').next().unwrap_or("").trim() == line.code);
    match earlier.filter(|_| line.code.starts_with('[')) {
        Some(earlier) => format!("line {} has the same heading: remove or rename one of them", earlier + 1),
        None => "a key stands once in its table: remove one of them".to_owned(),
    }
}

fn remedy(code: &str) -> String {
    if code.starts_with('[') && !code.ends_with(']') && !code.contains('=') {
        return "close the heading: `[section.NAME]`".to_owned();
    }
    if let Some((key, value)) = code.split_once('=') {
        let (key, value) = (key.trim(), value.trim());
        if value.is_empty() {
            return format!("write a value after it: `{key} = ...`");
        }
        let bare = !value.starts_with(['"', '\'', '[', '{', '+', '-', '.']);
        if bare && value.chars().all(|c| c.is_ascii_alphanumeric() || "._/%*+- ".contains(c)) {
            return format!("text and numbers with a unit go in quotes: `{key} = \"{value}\"`");
        }
        if value.starts_with('"') && value.matches('"').count() % 2 == 1 {
            return format!("close the quotes: `{key} = {value}\"`");
        }
        return "text goes in quotes, lists in [ ], nested tables in { }".to_owned();
    }
    if let Some((key, value)) = code.split_once(':').filter(|_| !code.starts_with('[')) {
        return format!("write `{} = \"{}\"`", key.trim(), value.trim().trim_matches('"'));
    }
    "write `key = value` lines below `[section.NAME]` headings".to_owned()
}

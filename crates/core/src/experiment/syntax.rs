//! Mistakes of TOML itself, explained to people who write TOML once a year.

use super::error::Problem;
use super::read::Span;

/// The TOML parser's `message` about `span`, with what to write.
pub(super) fn problem(text: &str, message: &str, span: &Span) -> Problem {
    let start = (0..=span.start.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or("");
    let remedy = remedy(line, message);
    Problem::Syntax { message: message.trim().replace('\n', "; "), remedy }
}

fn remedy(line: &str, message: &str) -> String {
    let code = line.split('#').next().unwrap_or("").trim();
    if message.contains("duplicate key") {
        return "each key and each heading stands once in its table: remove or rename one of them".to_owned();
    }
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
        if value.starts_with('[') && !value.contains(']') {
            return "close the list with `]`, and put quotes around each name".to_owned();
        }
        return "text goes in quotes, lists in [ ], nested tables in { }".to_owned();
    }
    if !code.is_empty() && !code.starts_with('[') {
        if let Some((key, value)) = code.split_once(':') {
            let value = value.trim().trim_matches('"');
            return format!("write `{} = \"{value}\"`", key.trim());
        }
        return "write `key = value`".to_owned();
    }
    "write `key = value` lines below `[section.NAME]` headings".to_owned()
}

//! Text for a terminal. Names, file names, mount points and excerpts come from outside: no character of theirs drives the
//! terminal, and only [`Styled`] has a style.
//!
//! | what comes from outside and stands | passes through |
//! | --- | --- |
//! | in a text of several lines | [`escape`], which everything that is printed passes last |
//! | in a cell or a line | [`one_line`], so that it cannot forge lines |
//! | as a quotation in a sentence | [`excerpt`], so that it cannot fill a disk either |
//! | in a message, however it came there | [`shortened`], which every message passes |
//! | as the path of a file in a sentence | [`Shown`] |
//! | in JSON | [`json`] |
//! | in a line of a styled report | [`Styled`] |

mod columns;
mod exposition;
mod styled;
#[cfg(test)]
mod tests;

pub use columns::{aligned, columns};
pub use exposition::Exposition;
pub use styled::{Paint, Styled};

use serde_json::Value;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;
use unicode_width::UnicodeWidthStr;

/// Whether `c` drives a terminal or reorders what is beside it: C0, DEL, C1, the controls of bidirectional text
/// (Unicode Standard Annex 9, with the deprecated ones) and the separators of lines and paragraphs.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// `text` with every control written out (`\x1b`, `\u202e`), but for line breaks and tabs.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_but(text, &['\n', '\t'])
}

/// `text` with every control written out, line breaks and tabs too.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escape_but(text, &[])
}

/// Most characters of an [`excerpt`].
pub const EXCERPT_MOST: usize = 120;

/// The beginning of `text` on one line, for a sentence that quotes it: files have lines of any length.
pub fn excerpt(text: &str) -> String {
    one_line(&beginning(text)).into_owned()
}

/// Most characters of a line of a message, and those of its end that stay: there it says what to write instead.
pub const LINE_MOST: usize = 2000;
const END_KEPT: usize = 500;

/// `message` with lines of at most about [`LINE_MOST`] characters: what is quoted in it may have any length. Of a longer line each quotation
/// keeps its beginning, and else the middle is left out.
pub fn shortened(message: &str) -> Cow<'_, str> {
    let is_long = |line: &str| line.chars().nth(LINE_MOST).is_some();
    if !message.split('\n').any(is_long) {
        return Cow::Borrowed(message);
    }
    let lines =
        message.split('\n').map(|line| if is_long(line) { shortened_line(line) } else { line.into() });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

fn shortened_line(line: &str) -> Cow<'_, str> {
    // Every second part is between backticks.
    let parts = line.split('`').zip([false, true].into_iter().cycle());
    let parts = parts.map(|(part, is_quoted)| if is_quoted { beginning(part) } else { part.into() });
    let line = parts.collect::<Vec<_>>().join("`");
    let at = |number: usize| line.char_indices().nth(number).map(|(at, _)| at);
    let Some(begin) = at(LINE_MOST).and_then(|_| at(LINE_MOST - END_KEPT)) else { return Cow::Owned(line) };
    let end = line.char_indices().rev().nth(END_KEPT - 1).map_or(line.len(), |(at, _)| at);
    Cow::Owned(format!("{}… ({} bytes left out) …{}", &line[..begin], end - begin, &line[end..]))
}

fn beginning(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(EXCERPT_MOST) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}

/// What a sentence may name.
pub trait Shown {
    /// It on one line, every control written out.
    fn shown(&self) -> String;
}

impl Shown for Path {
    fn shown(&self) -> String {
        self.as_os_str().shown()
    }
}

impl Shown for OsStr {
    /// What is not UTF-8 in it is U+FFFD.
    fn shown(&self) -> String {
        one_line(&self.to_string_lossy()).into_owned()
    }
}

fn escape_but<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let written_out = |c: char| is_control(c) && !kept.contains(&c);
    if !text.contains(written_out) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _infallible = match c {
            c if !written_out(c) => escaped.write_char(c),
            '\n' => escaped.write_str("\\n"),
            '\r' => escaped.write_str("\\r"),
            '\t' => escaped.write_str("\\t"),
            c if c.is_ascii() => write!(escaped, "\\x{:02x}", u32::from(c)),
            c => write!(escaped, "\\u{:04x}", u32::from(c)),
        };
    }
    Cow::Owned(escaped)
}

/// `value` over several lines, the last with its end: the same value, in ASCII wherever a control stands.
pub fn json(value: &Value) -> String {
    escape_json(&format!("{value:#}\n"))
}

/// `value` on one line, with its end.
pub fn json_line(value: &Value) -> String {
    escape_json(&format!("{value}\n"))
}

/// JSON leaves DEL, C1 and the controls of bidirectional text as they are; they stand in texts only, where `\u` may
/// stand too.
fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) && c != '\n' {
            let _infallible = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Columns that `text` takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

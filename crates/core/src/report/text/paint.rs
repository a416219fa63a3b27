//! Text for a terminal: what may be printed, how wide it is, how it is coloured and wrapped.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What a piece of text means; the terminal's own palette gives it a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Caution,
}

impl Paint {
    /// `text` in this colour when `color`; the codes are those of ECMA-48 (SGR).
    pub(super) fn apply(self, text: &str, color: bool) -> String {
        let code = match self {
            Paint::Plain => return text.to_owned(),
            Paint::Strong => "1",
            Paint::Faint => "2",
            Paint::Good => "32",
            Paint::Bad => "31",
            Paint::Caution => "33",
        };
        if color && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Text from outside without control characters, so that no name can move the cursor or forge lines.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_bidi_control(c) { '\u{fffd}' } else { c }).collect()
}

/// Characters that reorder what follows them on the screen.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Columns that `text` takes on a terminal.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// `text` in lines of at most `columns`; later lines begin with `indent` spaces. A word longer than a line is cut.
pub(super) fn wrap(text: &str, columns: usize, indent: usize) -> Vec<String> {
    let columns = columns.max(indent + 8);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = width(word);
        let first_of_line = used == if lines.len() == 1 { 0 } else { indent };
        if !first_of_line && used + 1 + length > columns {
            lines.push(" ".repeat(indent));
            used = indent;
        } else if !first_of_line {
            push(&mut lines, " ");
            used += 1;
        }
        for c in word.chars() {
            let w = c.width().unwrap_or(0);
            if used + w > columns {
                lines.push(" ".repeat(indent));
                used = indent;
            }
            push(&mut lines, c.encode_utf8(&mut [0; 4]));
            used += w;
        }
    }
    lines
}

fn push(lines: &mut [String], text: &str) {
    if let Some(line) = lines.last_mut() {
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\nc\u{202e}"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}");
    }

    proptest! {
        #[test]
        fn wrapped_lines_fit_and_lose_nothing(text in "[ a-zäø漢]{0,200}", columns in 20usize..120, indent in 0usize..10) {
            let lines = wrap(&text, columns, indent);
            for line in &lines {
                prop_assert!(width(line) <= columns, "{line:?}");
            }
            let kept: String = lines.concat().split_whitespace().collect();
            let wanted: String = text.split_whitespace().collect();
            prop_assert_eq!(kept, wanted);
        }
    }
}

//! Paragraphs of a given width.

use ebbtide_model::shown::{Paint, Styled, one_line, width};
use unicode_width::UnicodeWidthChar;

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

/// `text` in lines of at most `columns`, the first after `lead`, later ones after as many blanks and `indent` more.
pub(super) fn paragraph(
    text: &str,
    lead: &str,
    indent: usize,
    columns: usize,
    (paint, color): (Paint, bool),
) -> Vec<Styled> {
    let lines = wrap(&one_line(text), columns.saturating_sub(lead.len()), indent);
    let blanks = " ".repeat(lead.len());
    let lead = |index| if index == 0 { lead } else { &blanks };
    let line = |(index, line): (usize, &String)| Styled::plain(lead(index)).then(&paint.apply(line, color));
    lines.iter().enumerate().map(line).collect()
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

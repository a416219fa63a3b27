//! What mails, tickets and terminals do to a line, taken back: colours, marks of quotes, lines of tables, times in front.
//! What a reader of one program's output then gets is words in lines, wherever these were broken.

use std::borrow::Cow;

/// The lines of `text` without what its way here added; blank ones are kept, so that they can be counted.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let end = if text.contains('\n') { '\n' } else { '\r' };
    text.split(end).map(|line| plain(line.trim_end_matches('\r')))
}

/// The same lines, those joined that a terminal broke at its last column or mail's encoding at a `=`, within words too. What
/// a mail broke between words stays as it is.
pub(crate) fn unbroken(text: &str) -> Vec<Cow<'_, str>> {
    let lines: Vec<Cow<'_, str>> = lines(text).collect();
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let encoded = lines.iter().any(|line| line.ends_with('='));
    let mut whole: Vec<Cow<'_, str>> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let breaks = if encoded { line.ends_with('=') } else { line.chars().count() == width };
        match whole.last_mut().filter(|_| goes_on) {
            Some(last) => {
                let (own, _) = own(&line);
                let before = &line[..line.len() - own.len()];
                let marks = before.trim_end().len();
                // One blank belongs to the marks.
                if before.len() - marks > usize::from(marks > 0) {
                    last.to_mut().push(' ');
                }
                last.to_mut().push_str(own);
            }
            None => whole.push(line),
        }
        goes_on = breaks;
        if let Some(last) = whole.last_mut().filter(|_| encoded && breaks) {
            last.to_mut().pop();
        }
    }
    if encoded {
        whole.iter_mut().for_each(|line| *line = line.replace("=20", " ").replace("=3D", "=").into());
    }
    whole
}

/// `line` without escapes, with one kind of blank, quote, dash and rule.
fn plain(line: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| matches!(byte, b'\t' | b' '..=b'~') && !matches!(byte, b'[' | b'&' | b'{');
    if line.bytes().all(is_plain) {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        let length = escape(rest);
        if length > 0 {
            rest = rest.get(length..).unwrap_or_default();
            continue;
        }
        if let Some((entity, sign)) = ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity)) {
            text.push(*sign);
            rest = &rest[entity.len()..];
            continue;
        }
        match next {
            // Blanks of no width, and what is left of a broken word.
            '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => {}
            '\u{2018}' | '\u{2019}' => text.push('\''),
            '\u{201c}'..='\u{201f}' | '«' | '»' => text.push('"'),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => text.push('-'),
            '│' | '┃' | '║' | '¦' | '├' | '┤' | '┼' => text.push('|'),
            '\u{2500}'..='\u{257f}' => text.push('-'),
            c if c.is_whitespace() || c.is_control() => text.push(' '),
            c => text.push(c),
        }
        rest = &rest[next.len_utf8()..];
    }
    Cow::Owned(text)
}

const ENTITIES: [(&str, char); 6] =
    [("&nbsp;", ' '), ("&gt;", '>'), ("&lt;", '<'), ("&amp;", '&'), ("&quot;", '"'), ("&#37;", '%')];

/// Length of the escape that `text` begins with, of a terminal or of Jira's colours and fences; 0 where it begins with none.
fn escape(text: &str) -> usize {
    const JIRA: [&str; 4] = ["{color", "{code", "{noformat", "{quote"];
    if JIRA.iter().any(|name| text.starts_with(name)) {
        return text.find('}').map_or(0, |end| end + 1);
    }
    // As a terminal gets it, as a pager shows it, and as a web page leaves it.
    let begun = ["\u{1b}", "^["].into_iter().find(|start| text.starts_with(start)).map_or(0, str::len);
    let rest = &text[begun..];
    if let Some(codes) = rest.strip_prefix('[') {
        let end = codes.find(|c: char| !matches!(c, '0'..='9' | ';' | '?'));
        return match end.and_then(|end| Some((end, codes[end..].chars().next()?))) {
            Some((end, last)) if begun > 0 || (last == 'm' && end > 0) => begun + 1 + end + last.len_utf8(),
            _ => begun,
        };
    }
    if begun > 0 && rest.starts_with(']') {
        return rest.find('\u{7}').map_or(text.len(), |end| begun + end + 1);
    }
    begun
}

/// What of `line` is its own: without marks of quotes and the time in front; and whether there was one.
pub(crate) fn own(line: &str) -> (&str, bool) {
    let marks = |text: &'_ str| text.len() - text.trim_start_matches(['>', '|', ' ', '\t']).len();
    let mut rest = &line[marks(line)..];
    // `cat -n`
    let numbered = rest.split_once('\t').filter(|(number, _)| is_number(number));
    let mut stamped = numbered.is_some();
    rest = numbered.map_or(rest, |(_, rest)| rest);
    while let Some((word, after)) = first_word(rest) {
        let bare = word.trim_matches(['[', ']', '(', ')', ',']);
        let of_a_month = MONTHS.contains(&bare) && first_word(after).is_some_and(|(day, _)| is_number(day));
        let is_part = stamped && (matches!(bare, "AM" | "PM" | "UTC" | "Z") || is_year(bare, after));
        rest = if of_a_month {
            first_word(after).map_or("", |(_, after)| after)
        } else if is_clock(bare) || is_date(bare) || is_part || (DAYS.contains(&bare) && !after.is_empty()) {
            after
        } else {
            break;
        };
        stamped = true;
    }
    // syslog's and journalctl's host and program: `db1 iostat[812]:`
    let mut words = rest;
    for _ in 0..if stamped { 2 } else { 0 } {
        let Some((word, after)) = first_word(words) else { break };
        if word.ends_with("]:") {
            return (&after[marks(after)..], true);
        }
        words = after;
    }
    (&rest[marks(rest)..], stamped)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

fn first_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// A year at the end of a date; a figure of a row is followed by others, or has a fraction.
fn is_year(word: &str, after: &str) -> bool {
    is_number(word) && word.len() == 4 && word.starts_with("20") && after.trim().is_empty()
}

/// `12:00:01`, `9:30`, `12:00:01.123`.
fn is_clock(word: &str) -> bool {
    let parts: Vec<&str> = word.trim_end_matches('Z').split(':').collect();
    let two = |part: &str| part.len() == 2 && is_number(part);
    let (Some(hour), Some(last)) = (parts.first(), parts.last()) else { return false };
    let seconds = last.split(['.', ',']).next().unwrap_or_default();
    (2..=3).contains(&parts.len()) && hour.len() <= 2 && is_number(hour) && two(parts[1]) && two(seconds)
}

/// `2026-11-29`, `11/29/26`, `29.11.2026`, `2026-11-29T12:00:01Z`, `1795835853.12`.
fn is_date(word: &str) -> bool {
    // Seconds since 1970.
    let seconds = word.split('.').next().unwrap_or_default();
    if seconds.len() == 10 && is_number(seconds) && seconds.starts_with(['1', '2']) {
        return true;
    }
    let day = word.split_once('T').map_or(word, |(day, _)| day);
    ['-', '/', '.'].into_iter().any(|sign| {
        let parts: Vec<&str> = day.split(sign).collect();
        parts.len() == 3 && parts.iter().all(|part| is_number(part) && part.len() <= 4)
    })
}

/// The words of a line, without the rules of a table and what makes a word bold or a link.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_rule = |word: &str| word.chars().all(|c| matches!(c, '-' | ':' | '=' | '+' | '|'));
    let rules_only = line.split_whitespace().all(is_rule);
    // Where nothing else divides them, commas are not those of figures.
    let by_commas = !line.trim().contains(char::is_whitespace) && line.matches(',').count() > 2;
    let words =
        line.split(move |c: char| c.is_whitespace() || matches!(c, '|' | ';') || by_commas && c == ',');
    words.filter_map(move |word| {
        match word.trim_matches(|c: char| !c.is_alphanumeric() && !"%-:.+".contains(c)) {
            _ if rules_only => None,
            bare if bare.contains(char::is_alphanumeric) => Some(bare),
            // One dash stands for a figure that is not there, an arrow for somebody who points.
            _ if word == "-" || is_pointing(word) => Some(word),
            _ => None,
        }
    })
}

fn is_pointing(word: &str) -> bool {
    word.contains(['<', '!', '#'])
        || word.contains('>') && word.contains(['-', '='])
        || word.contains(|c: char| !c.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Vec<String> {
        let line = plain(line);
        words(own(&line).0).map(str::to_owned).collect()
    }

    #[test]
    fn what_is_in_front_of_a_line_and_in_it_is_taken_away() {
        for line in [
            "sda 1.00 40%",
            "> > | sda\t1.00   40%",
            "\u{1b}[1;36msda\u{1b}[0m 1.00 \u{1b}]0;title\u{7}40%",
            "^[[32;22msda^[[0m [1m1.00[0m 40%",
            "12:00:01 sda 1.00 40%",
            "11/29/26 12:00:01 PM sda 1.00 40%",
            "[2026-11-29T12:00:01.123Z] sda 1.00 40%",
            "Nov 29 12:00:01 db1 iostat[812]: sda 1.00 40%",
            "Sun Nov 29 12:00:01 sda 1.00 40%",
            "1795835853.123456 sda 1.00 40%",
            "    12\tsda 1.00 40%",
            "||sda||1.00||40%||",
            "| **sda** | `1.00` | 40% |",
            "│ sda │ 1.00 │ 40% │",
            "{color:red}sda{color}\u{a0}1.00\u{202f}40%",
            "&gt; sda&nbsp;1.00 40%",
        ] {
            assert_eq!(read(line), ["sda", "1.00", "40%"], "{line:?}");
        }
        for rule in
            ["|---|:---:|--:|", "+-----+-----+", "```", "--", "", "├────┼───┤", "> ", "29.11.2026 12:00"]
        {
            assert_eq!(read(rule), [""; 0], "{rule:?}");
        }
        assert_eq!(read("[sdb] - 1"), ["sdb", "-", "1"]);
        assert_eq!(read("--> sdb <-- 1 ←"), ["-->", "sdb", "<--", "1", "←"]);
        assert_eq!(read("\u{feff}“é”"), ["é"]);
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in "(\u{1b}|\\^\\[|\\[|[0-9;:]{1,3}m?|\\]|&gt;|\\{color|Nov |12:00:01|é|.){0,30}") {
            let _ = read(&line);
        }
    }
}

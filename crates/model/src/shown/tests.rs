use super::*;
use proptest::prelude::*;

/// What a terminal obeys, or what reorders what is on it.
const HOSTILE: &[char] = &[
    '\0', '\u{7}', '\u{8}', '\n', '\r', '\t', '\u{1b}', '\u{7f}', '\u{84}', '\u{9b}', '\u{9d}', '\u{61c}',
    '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}',
];

/// Texts in which half of the characters are hostile.
fn hostile() -> impl Strategy<Value = String> {
    let character = prop_oneof![proptest::sample::select(HOSTILE), any::<char>()];
    proptest::collection::vec(character, 0..60).prop_map(String::from_iter)
}

fn obeyed(text: &str) -> bool {
    text.contains(is_control)
}

#[test]
fn controls_are_written_out() {
    assert_eq!(escape("\u{1b}]0;owned\u{7}\n\tok"), "\\x1b]0;owned\\x07\n\tok");
    assert_eq!(escape("a\u{9b}2Jb\u{202e}c\u{61c}d\r"), "a\\u009b2Jb\\u202ec\\u061cd\\r");
    assert_eq!(one_line("a\nb\tc\u{2028}"), "a\\nb\\tc\\u2028");
    assert!(matches!(escape("größer 漢字 e\u{301} ▁"), Cow::Borrowed(_)), "other text stays as it is");
    assert_eq!(Path::new("/a\u{1b}[2J\n").shown(), "/a\\x1b[2J\\n");
}

#[test]
fn a_long_cell_moves_only_its_own_row() {
    let long = "x".repeat(70_000);
    let rows = [["ID", "N"], ["a", "1"], [&long, "2"]].map(|row| row.map(str::to_owned));
    assert_eq!(columns(&rows, 2), format!("  ID  N\n  a   1\n  {long}  2\n"));
    let rows = [["漢", "7", "x"], ["nnn", "10", "y"], ["a\u{301}", "", ""]].map(|row| row.map(str::to_owned));
    let told = "漢    7  x\nnnn  10  y\na\u{301}\n";
    assert_eq!(aligned(&rows, 0, &[1]), told, "columns of the terminal, not characters");
}

proptest! {
    #[test]
    fn nothing_that_is_escaped_drives_a_terminal(text in hostile()) {
        prop_assert!(!obeyed(&one_line(&text)));
        prop_assert!(!obeyed(&escape(&text).replace(['\n', '\t'], "")));
        let once = escape(&text);
        prop_assert_eq!(escape(&once), once.clone(), "once is enough");
    }

    #[test]
    fn only_the_programs_own_styles_come_through(texts in proptest::collection::vec(hostile(), 0..4), color: bool) {
        let paints = [Paint::Plain, Paint::Strong, Paint::Faint, Paint::Good, Paint::Bad, Paint::Caution];
        let lines: Vec<Styled> = texts.iter().zip(paints.iter().cycle())
            .map(|(text, paint)| paint.apply(text, color).then(&text.as_str().into()).trim_end())
            .collect();
        let mut bare = Styled::lines(&lines).into_string();
        for own in ["0", "1", "2", "31", "32", "33"].map(|code| format!("\u{1b}[{code}m")) {
            bare = bare.replace(&own, "");
        }
        prop_assert!(!obeyed(&bare.replace(['\n', '\t'], "")), "{bare:?}");
    }

    #[test]
    fn json_stays_the_same_value(text in hostile()) {
        let value = serde_json::json!({ text.clone(): [text] });
        for told in [json(&value), json_line(&value)] {
            prop_assert!(!obeyed(&told.replace('\n', "")));
            prop_assert_eq!(&serde_json::from_str::<Value>(&told).expect("JSON"), &value);
        }
    }

    #[test]
    fn cells_cannot_leave_their_row(rows in proptest::collection::vec([hostile(), hostile()], 0..6)) {
        let told = columns(&rows, 0);
        prop_assert_eq!(told.lines().count(), rows.len());
        prop_assert!(!obeyed(&told.replace('\n', "")));
    }
}

#[test]
fn a_quotation_is_bounded_and_on_one_line() {
    assert_eq!(excerpt("a\nb\u{1b}"), "a\\nb\\x1b");
    let just = "ä".repeat(EXCERPT_MOST);
    assert_eq!(excerpt(&just), just);
    assert_eq!(excerpt(&format!("{just}x")), format!("{just}…"));
}

#[test]
fn a_message_keeps_the_beginning_and_the_end_of_a_long_line() {
    let just = "ö".repeat(LINE_MOST);
    let short = format!("{just}\n\n{just}");
    assert_eq!(shortened(&short), short);
    let long = format!("first\nx.fio:3: `{}` is not a number; write 4k\nlast", "9".repeat(100_000));
    let told = shortened(&long);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0] == "first" && lines[2] == "last", "{told}");
    assert_eq!(lines[1], format!("x.fio:3: `{}…` is not a number; write 4k", "9".repeat(EXCERPT_MOST)));
    let bare = format!("first {} last", "9".repeat(100_000));
    let told = shortened(&bare);
    assert!(told.starts_with("first 9") && told.ends_with("9 last"), "{told}");
    assert!(told.chars().count() < LINE_MOST + 50 && told.contains("bytes left out"), "{told}");
}

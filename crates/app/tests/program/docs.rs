//! Commands that the documentation shows are commands of this `ebb`, and those that need nothing of the host end as it says. Keys that messages and the
//! documentation name exist.

use crate::common::{Home, status, stderr};
use clap::error::ErrorKind;
use ebbtide_app::cli;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files below `place` whose names end with `end`, in order.
fn files(place: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Pages of the documentation, by their names in the repository, and the help of each command, with their texts.
fn pages() -> Vec<(String, String)> {
    let root = root();
    let mut pages = files(&root.join("docs"), ".md");
    pages.push(root.join("README.md"));
    let page = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_string_lossy().into_owned(), text)
    };
    pages.into_iter().map(page).chain(help()).collect()
}

/// The help of each command that `ebb --help` lists.
fn help() -> Vec<(String, String)> {
    let home = Home::new();
    let help = |line: &str| String::from_utf8(home.ebb(line).output().unwrap().stdout).unwrap();
    let list = help("--help");
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let all: Vec<_> = names.map(|name| (format!("help of {name}"), help(&format!("help {name}")))).collect();
    assert!(all.len() > 20 && all.iter().all(|(_, text)| text.contains("Examples:")), "{all:?}");
    all
}

/// A command line of `ebb` in a page.
#[derive(Debug)]
struct Shown {
    page: String,
    number: usize,
    /// Words behind `ebb`.
    words: Vec<String>,
    /// Whether it is all that its line does: nothing goes to another program or to a file.
    is_plain: bool,
    /// What stands in the page behind it.
    after: String,
}

impl Shown {
    fn line(&self) -> String {
        self.words.join(" ")
    }

    fn place(&self) -> String {
        format!("{}:{}: ebb {}", self.page, self.number, self.line())
    }
}

/// The words of a line of a shell up to a comment or to what is not for this command, and whether that is all of it. A quote that is not closed is one
/// word.
fn words(line: &str) -> (Vec<String>, bool) {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut signs = line.chars().peekable();
    let mut is_plain = true;
    while let Some(sign) = signs.next() {
        match (quote, sign) {
            (Some(end), _) if sign == end => quote = None,
            (None, '\'' | '"') => quote = Some(sign),
            (None, '|' | '>' | ';' | '&') => {
                // The number of a stream that is redirected.
                word.clear();
                is_plain = false;
                break;
            }
            (None, '#') if word.is_empty() => break,
            (None, ' ') => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                // An explanation stands in a column of its own.
                if signs.peek() == Some(&' ') {
                    break;
                }
            }
            _ => word.push(sign),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    // What a report advises, with what that is good for.
    if let Some(end) = words.iter().position(|word| word.ends_with(':')) {
        words.truncate(end + 1);
        words[end].pop();
    }
    (words, is_plain)
}

/// Command lines in blocks of `page`, fenced or indented. Lines of another prompt's output do not begin so.
fn shown(page: &str, text: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut fence: Option<String> = None;
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_none() { Some(kind.to_owned()) } else { None };
            continue;
        }
        let is_shell = fence.as_deref().is_some_and(|kind| ["", "console", "sh", "text"].contains(&kind));
        let is_indented = fence.is_none() && line.starts_with("    ");
        if !is_shell && !is_indented {
            continue;
        }
        let line = line.trim_start();
        let prompted = line.split_once("# ").or_else(|| line.split_once("$ "));
        let line = prompted.filter(|(host, _)| !host.contains(' ')).map_or(line, |(_, line)| line);
        if let Some(line) = line.strip_prefix("ebb ") {
            let (words, is_plain) = words(line);
            let after = lines[index + 1..].iter().take(12).copied().collect::<Vec<_>>().join("\n");
            found.push(Shown { page: page.to_owned(), number: index + 1, words, is_plain, after });
        }
    }
    found
}

fn parsed(words: &[String]) -> Result<(), clap::Error> {
    let line: Vec<OsString> =
        ["ebb"].into_iter().map(OsString::from).chain(words.iter().map(OsString::from)).collect();
    cli::check(&line)
}

#[test]
fn every_command_line_of_the_documentation_is_one() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in pages() {
        for shown in shown(&page, &text) {
            if let Err(error) = parsed(&shown.words) {
                // The first line of a screen that the command draws.
                let is_screen = page == "docs/reference/watch.md" && shown.words == ["watch"];
                wrong.extend((!is_screen).then(|| format!("{}: {error}", shown.place())));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 100, "{count}");
}

/// What is left out in prose is left out; what is there has to exist.
#[test]
fn commands_in_prose_have_no_words_that_ebb_does_not_know() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in pages() {
        for (number, line) in (1..).zip(text.lines()) {
            for quoted in line.split('`').skip(1).step_by(2) {
                let Some(rest) = quoted.strip_prefix("ebb ") else { continue };
                let (words, _) = words(&rest.replace(['[', ']'], "").replace("...", ""));
                count += 1;
                // An option's value may be left out.
                let is_option = words.last().is_some_and(|word| word.starts_with("--"));
                let with_value = || parsed(&[words.as_slice(), &["x".to_owned()]].concat());
                let Err(error) =
                    parsed(&words).or_else(|error| if is_option { with_value() } else { Err(error) })
                else {
                    continue;
                };
                let may_be = match error.kind() {
                    ErrorKind::DisplayHelp
                    | ErrorKind::DisplayVersion
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                    | ErrorKind::MissingRequiredArgument
                    | ErrorKind::MissingSubcommand => true,
                    // `--class CLASS`, `--listen ADDRESS`.
                    ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
                        words.iter().any(|word| word.chars().any(char::is_uppercase))
                    }
                    _ => false,
                };
                wrong.extend((!may_be).then(|| format!("{page}:{number}: `{quoted}`: {error}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 200, "{count}");
}

/// Whether `shown` needs no root, no guest, no device and no time: it is simulated, or only looked up.
fn is_free(shown: &Shown) -> bool {
    let has = |words: &[&str]| shown.words.windows(words.len()).any(|window| window == words);
    let begins = |words: &[&str]| shown.words.get(..words.len()).is_some_and(|first| first == words);
    let is_dry = has(&["--dry-run"]) && !["--on", "--hosts"].iter().any(|option| has(&[option]));
    shown.is_plain
        && ([
            &["check"][..],
            &["layout", "where"],
            &["layout", "compare"],
            &["catalog", "list"],
            &["catalog", "show"],
            &["plan"],
            &["bench", "--profile", "list"],
        ]
        .iter()
        .any(|words| begins(words))
            || begins(&["bench"]) && has(&["--profile"]) && has(&["--dry-run"])
            || begins(&["run"]) && (has(&["--on", "sim"]) || is_dry))
}

#[test]
fn commands_of_the_documentation_that_need_nothing_end_as_it_says() {
    let (mut simulated, mut looked_up, mut wrong) = (0, 0, Vec::new());
    for (page, text) in pages() {
        let mut home: Option<Home> = None;
        for shown in shown(&page, &text).iter().filter(|shown| is_free(shown)) {
            let home = home.get_or_insert_with(|| {
                let home = Home::new();
                let made = text
                    .lines()
                    .filter_map(|line| line.trim_start_matches(['$', '#', ' ']).strip_prefix("mkdir "));
                made.filter(|name| name.chars().all(char::is_alphanumeric))
                    .for_each(|name| fs::create_dir(home.path(name)).unwrap());
                std::os::unix::fs::symlink(root().join("experiments"), home.path("experiments")).unwrap();
                home
            });
            // Of a file of the reader's own, only the command line can be wrong.
            let is_file = |word: &&String| word.ends_with(".toml") || word.ends_with(".json");
            if shown.words.iter().filter(is_file).any(|word| !home.path(word).exists()) {
                continue;
            }
            let mut command = home.ebb("--quiet");
            command.args(&shown.words).env("XDG_CONFIG_HOME", home.path("config"));
            let output = command.output().unwrap();
            let says_open = shown.after.contains("status 3");
            if status(&output) != if says_open { 3 } else { 0 } {
                wrong.push(format!("{}: {}: {}", shown.place(), status(&output), stderr(&output)));
            }
            let count = if shown.words[0] == "run" { &mut simulated } else { &mut looked_up };
            *count += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(simulated >= 10 && looked_up >= 10, "{simulated} simulated, {looked_up} looked up");
}

/// All names of properties in a JSON Schema.
fn properties(schema: &Value, keys: &mut BTreeSet<String>) {
    if let Some(named) = schema["properties"].as_object() {
        keys.extend(named.keys().cloned());
    }
    match schema {
        Value::Object(members) => members.values().for_each(|member| properties(member, keys)),
        Value::Array(members) => members.iter().for_each(|member| properties(member, keys)),
        _ => {}
    }
}

/// Texts in quotes of a source file, without comments and without its tests.
fn messages(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n").replace("\\\"", "\u{1}");
    code.split('"').skip(1).step_by(2).map(|text| text.replace('\u{1}', "\"")).collect()
}

#[test]
fn keys_that_messages_and_pages_name_exist() {
    let home = Home::new();
    // Of ranges in a sweep, which are read by hand; of a job file.
    let mut keys: BTreeSet<String> = ["from", "to", "times", "step", "buffered"].map(str::to_owned).into();
    for line in ["check --schema", "plan --need-schema"] {
        let output = home.ebb(line).output().unwrap();
        properties(&serde_json::from_slice(&output.stdout).unwrap(), &mut keys);
    }
    let is_name = |text: &str| {
        text.starts_with(|sign: char| sign.is_ascii_lowercase())
            && text.chars().all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '_')
    };
    let (count, wrong) = (Cell::new(0), RefCell::new(Vec::new()));
    let check = |place: &str, text: &str, bare: bool| {
        for quoted in text.split('`').skip(1).step_by(2) {
            let key = match quoted.split_once(" = ") {
                Some((key, _)) => key,
                None if bare && quoted.contains('_') => quoted,
                None => continue,
            };
            if is_name(key) {
                count.set(count.get() + 1);
                if !keys.contains(key) {
                    wrong.borrow_mut().push(format!("{place}: `{quoted}`"));
                }
            }
        }
    };
    for source in files(&root().join("crates"), ".rs") {
        let place = source.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let is_tests = place.ends_with("tests.rs")
            || ["/tests/", "/benches/", "/target/"].iter().any(|part| place.contains(part));
        if is_tests {
            continue;
        }
        for text in messages(&fs::read_to_string(&source).unwrap()) {
            check(&place, &text, true);
        }
    }
    assert!(count.get() > 100, "{count:?}");
    // A page names much that is no key; what is set to a value is one, but for the mathematics and for Cargo.toml.
    let of_others = ["docs/explanation/statistics.md", "docs/releasing.md"];
    for (page, text) in pages().into_iter().filter(|(page, _)| !of_others.contains(&page.as_str())) {
        text.lines().for_each(|line| check(&page, line, false));
    }
    assert!(wrong.borrow().is_empty(), "no keys of an experiment or a need:\n{}", wrong.borrow().join("\n"));
}

//! One door: nothing but `crates/door` opens anything for writing. One way out: nothing but `views::out` prints. Clippy refuses
//! the calls (clippy.toml); this refuses what clippy cannot see: exceptions from its rules, libraries that open files by name or
//! print by themselves, judges of somebody's own.

use crate::pages;
use std::path::{Path, PathBuf};

/// Words that may stand in some files only.
struct Rule {
    word: &'static str,
    /// Paths below the repository in which it may stand.
    within: &'static [&'static str],
    why: &'static str,
}

/// Where everything that is printed is escaped.
const WAY_OUT: &str = "crates/app/src/views/out.rs";
/// Where a report goes to `-o /dev/stdout`, byte for byte as to a file: what is open there is not opened again.
const REPORT: &str = "crates/door/src/output.rs";
const ESCAPED: &str = "views::print, views::say and their siblings escape what they print";
const DRAWS: &str = "it prints by itself what it is given: only where that is escaped";

const RULES: &[Rule] = &[
    Rule {
        word: "clippy::disallowed_methods",
        within: &["crates/door/", "crates/host/src/testing.rs", "fuzz/", "xtask/", WAY_OUT],
        why: "only the door opens what is written, and only the way out prints; tests of a crate are exempt by \
              `cfg_attr(test, ...)` in its lib.rs",
    },
    Rule { word: "print!(", within: &[], why: ESCAPED },
    Rule { word: "println!(", within: &[], why: ESCAPED },
    Rule { word: "io::stdout", within: &[WAY_OUT, REPORT], why: ESCAPED },
    Rule { word: "io::stderr", within: &[WAY_OUT, REPORT], why: ESCAPED },
    Rule { word: "indicatif::", within: &["crates/app/src/progress/"], why: DRAWS },
    Rule { word: "ratatui::", within: &["crates/app/src/watch/"], why: DRAWS },
    Rule {
        word: "Connection::open",
        within: &["crates/runner/src/store/"],
        why: "SQLite opens files by name: only the store, which holds on to its file through the door",
    },
    Rule {
        word: "impl Judge for",
        within: &["crates/host/src/judge/"],
        why: "one judge decides what may be written",
    },
    Rule {
        word: "impl Look for",
        within: &["crates/host/src/judge/"],
        why: "one judge decides what may be written",
    },
    Rule {
        word: "Command::new",
        within: &["crates/host/src/", "crates/lab/src/", "xtask/"],
        why: "programs write too: only the host and lab crates run them",
    },
    Rule {
        word: "Handle::unjudged",
        within: &["crates/door/src/claim.rs"],
        why: "a handle that may be written comes from a claim",
    },
];

/// What makes a crate exempt for its tests; it stands in its lib.rs.
const FOR_TESTS: &str = "cfg_attr(test, allow(clippy::disallowed_methods))";

/// Every source file of the program, tests and examples left out.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["tests", "examples", "benches", "target"].contains(&name.as_str()) {
            sources(&path, found)?;
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// The text of a file up to its unit tests.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests")
        .or(text.find("#[cfg(test)]\npub(super) mod tests"))
        .map_or(text, |at| &text[..at])
}

/// Whether `line` of a lib.rs makes its crate's tests exempt, and nothing else.
fn is_for_tests(path: &Path, line: &str) -> bool {
    path.ends_with("src/lib.rs") && line.contains(FOR_TESTS)
}

/// Refuses what goes past the door.
pub fn check() -> Result<(), String> {
    println!("== one door and one way out: nothing else opens for writing, nothing else prints");
    let root = pages::root();
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files).map_err(|error| format!("cannot read the sources: {error}"))?;
    let mut bad = Vec::new();
    for path in files {
        let text = pages::read(&path)?;
        let shown = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        for (number, line) in without_tests(&text).lines().enumerate() {
            for rule in RULES.iter().filter(|rule| line.contains(rule.word)) {
                let may =
                    rule.within.iter().any(|place| shown.starts_with(place)) || is_for_tests(&path, line);
                if !may {
                    bad.push(format!("{shown}:{}: `{}`: {}", number + 1, rule.word, rule.why));
                }
            }
        }
    }
    bad.extend(features(&root)?);
    if bad.is_empty() {
        Ok(())
    } else {
        Err(format!("past the door or the way out:\n  {}", bad.join("\n  ")))
    }
}

/// The `testing` features are for dev-dependencies only.
fn features(root: &Path) -> Result<Vec<String>, String> {
    let mut bad = Vec::new();
    let crates = root.join("crates");
    let entries = std::fs::read_dir(&crates).map_err(|error| format!("{}: {error}", crates.display()))?;
    for path in entries.flatten().map(|entry| entry.path().join("Cargo.toml")) {
        let text = pages::read(&path)?;
        let normal = text.split("[dev-dependencies]").next().unwrap_or_default();
        if normal.lines().any(|line| line.starts_with("ebbtide-") && line.contains("testing")) {
            bad.push(format!("{}: `testing` is for dev-dependencies only", path.display()));
        }
    }
    Ok(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_seen_in_code_and_not_in_tests() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests { fn g() { Connection::open(x) } }";
        assert_eq!(without_tests(text), "fn f() {}\n");
        assert!(!is_for_tests(Path::new("crates/app/src/views.rs"), FOR_TESTS));
        assert!(is_for_tests(Path::new("crates/app/src/lib.rs"), FOR_TESTS));
    }
}

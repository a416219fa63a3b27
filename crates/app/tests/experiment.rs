//! `ebb experiment` as a program: what it says of good and of bad files.
#![allow(clippy::disallowed_methods)]

use assert_cmd::Command;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn ebb() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.current_dir(malformed());
    command
}

fn malformed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/malformed")
}

fn first_run() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/first-run.toml")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The malformed files by name, without extension.
fn cases() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(malformed())
        .expect("the directory of malformed files")
        .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Each file under tests/malformed is a mistake that a user makes; beside it stands every line of the answer: place,
/// mistake, the line itself, remedy. After a change of wording: `EBB_BLESS=1 cargo test -p ebbtide --test experiment`,
/// then read the difference.
#[test]
fn every_malformed_file_gets_a_pointed_error() {
    let cases = cases();
    assert!(cases.len() >= 60, "only {} malformed files were found", cases.len());
    let mut wrong = Vec::new();
    for name in &cases {
        let file = format!("{name}.toml");
        let output = ebb().args(["experiment", "check", &file]).output().expect("ebb runs");
        let found = text(&output.stderr);
        let expected_path = malformed().join(format!("{name}.expected"));
        if std::env::var_os("EBB_BLESS").is_some() {
            std::fs::write(&expected_path, &found).expect("the expected text is written");
        }
        let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
        let pointed =
            found.starts_with(&format!("{file}:")) && found.contains(": error: ") && found.contains("help: ");
        if output.status.code() != Some(2) || !output.stdout.is_empty() || !pointed || found != expected {
            wrong.push(format!("{name}: {}\n{found}\nexpected:\n{expected}", output.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn errors_are_json_for_programs() {
    let output = ebb()
        .args(["--json", "experiment", "check", "several-at-once.toml"])
        .arg(first_run())
        .output()
        .expect("ebb runs");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), "");
    let json: Value = serde_json::from_slice(&output.stdout).expect("only JSON on standard output");
    let [bad, good] = json["files"].as_array().map(Vec::as_slice).unwrap_or_default() else {
        panic!("{json}")
    };
    assert_eq!((&bad["ok"], &good["ok"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!(bad["errors"].as_array().map(Vec::len), Some(5));
    assert_eq!(bad["errors"][0]["line"], 5);
    assert!(bad["errors"][0]["help"].as_str().is_some_and(|help| !help.is_empty()));
    assert_eq!(good["summary"]["new_file_bytes"], 2_147_483_648_u64);
}

#[test]
fn a_good_file_is_summarised() {
    let output = ebb().args(["experiment", "check"]).arg(first_run()).output().expect("ebb runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary = text(&output.stdout);
    for expected in [
        "vol0 .. vol7 (8)",
        "linear-8",
        "(control)",
        "stripe of 8, chunk 64KiB",
        "2GiB of new files",
        "12 trials",
    ] {
        assert!(summary.contains(expected), "{expected} is not in\n{summary}");
    }
}

#[test]
fn what_is_no_experiment_file_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    let binary = dir.path().join("binary.toml");
    std::fs::write(&binary, b"name = \"x\"\n\xff\xfe\n").expect("written");
    let empty = dir.path().join("empty.toml");
    std::fs::write(&empty, "").expect("written");
    for (path, expected) in [
        (binary.as_path(), "line 2 is not UTF-8"),
        (empty.as_path(), "the experiment has no `volumes`"),
        (dir.path(), "is a directory and not a file"),
        (&dir.path().join("absent.toml"), "No such file"),
    ] {
        let output = ebb().args(["experiment", "check"]).arg(path).output().expect("ebb runs");
        assert_eq!(output.status.code(), Some(2), "{}", path.display());
        assert!(text(&output.stderr).contains(expected), "{}: {}", path.display(), text(&output.stderr));
    }
}

#[test]
fn the_schema_is_json() {
    let output = ebb().args(["experiment", "schema"]).output().expect("ebb runs");
    assert!(output.status.success());
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(schema["title"], "Ebbtide experiment");
}

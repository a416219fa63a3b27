//! `ebb check` as a program: what it says of good and of bad files.

mod mistakes;

use assert_cmd::Command;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn ebb() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ebb"))
}

fn first_run() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/first-run.toml")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory with every mistake in a file of its own.
fn malformed() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in mistakes::files() {
        std::fs::write(directory.path().join(format!("{name}.toml")), text).expect("written");
    }
    directory
}

/// Every line of each answer is compared: place, mistake, the line itself, remedy.
#[test]
fn every_malformed_file_gets_a_pointed_error() {
    let directory = malformed();
    let mut answers = String::new();
    for (name, _) in mistakes::files() {
        let file = format!("{name}.toml");
        let mut command = ebb();
        command.current_dir(&directory).args(["check", &file]);
        let output = command.output().expect("ebb runs");
        let found = text(&output.stderr);
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{name}: {}", output.status);
        let pointed =
            found.starts_with(&format!("{file}:")) && found.contains(": error: ") && found.contains("help: ");
        assert!(pointed, "{name}: {found}");
        answers += &found;
        answers += "\n";
    }
    insta::assert_snapshot!("answers_to_mistakes", answers);
}

#[test]
fn errors_are_json_for_programs() {
    let directory = malformed();
    let output = ebb()
        .current_dir(&directory)
        .args(["--json", "check", "several-at-once.toml"])
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
    let output = ebb().args(["check"]).arg(first_run()).output().expect("ebb runs");
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
        (dir.path(), "is a directory and not a regular file"),
        (&dir.path().join("absent.toml"), "No such file"),
    ] {
        let output = ebb().args(["check"]).arg(path).output().expect("ebb runs");
        assert_eq!(output.status.code(), Some(2), "{}", path.display());
        assert!(text(&output.stderr).contains(expected), "{}: {}", path.display(), text(&output.stderr));
    }
}

#[test]
fn the_schema_is_json() {
    let output = ebb().args(["check", "--schema"]).output().expect("ebb runs");
    assert!(output.status.success());
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(schema["title"], "Ebbtide experiment");
}

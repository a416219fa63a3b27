//! `ebb lab` where no guest is started.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use common::Home;
use std::process::Output;

fn lab(home: &Home, line: &str) -> Output {
    home.ebb(line).env("XDG_CACHE_HOME", home.path("cache")).output().unwrap()
}

fn ends_with(home: &Home, line: &str, status: i32, says: &str) {
    let output = lab(home, line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{line}: {said}");
    assert!(said.contains(says), "{line}: {said}");
}

#[test]
fn wrong_usage_is_told_before_anything_is_made() {
    let home = Home::new();
    ends_with(&home, "lab run -- true", 1, "`ebb lab build` makes it");
    ends_with(&home, "lab run", 2, "COMMAND");
    ends_with(&home, "lab run --throughput 20parsecs -- true", 2, "parsecs");
    ends_with(&home, "lab run --throughput 0 -- true", 2, "at 0");
    ends_with(&home, "lab run --iops 0 -- true", 2, "--iops");
    ends_with(&home, "lab run --memory 8MiB -- true", 2, "at least 256MiB");
    ends_with(&home, "lab shell", 2, "needs a terminal");
    assert!(!home.path("cache").exists());
}

#[test]
fn an_empty_lab_is_listed_and_cleaned() {
    let home = Home::new();
    let listed = lab(&home, "lab list");
    assert!(String::from_utf8_lossy(&listed.stdout).contains("no image yet: `ebb lab build` makes it"));
    let json: serde_json::Value = serde_json::from_slice(&lab(&home, "lab list --json").stdout).unwrap();
    assert_eq!(json["images"].as_array().map(Vec::len), Some(0));
    ends_with(&home, "lab clean", 0, "nothing to remove");
}

#[test]
fn files_of_killed_runs_are_removed() {
    let home = Home::new();
    let left = home.path("cache/ebbtide/lab/guests/guest-1");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("disk0.disk"), "x").unwrap();
    let listed = lab(&home, "lab list");
    assert!(String::from_utf8_lossy(&listed.stdout).contains("guest-1  1 MiB  ended"), "{listed:?}");
    let cleaned = lab(&home, "lab clean");
    assert!(String::from_utf8_lossy(&cleaned.stdout).contains("guest-1"), "{cleaned:?}");
    assert!(!left.exists());
}

//! `ebb lab` where no guest is started.

use crate::common::Home;
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
    ends_with(&home, "lab run --throughput 0 -- true", 2, "more than 0");
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

/// What ebb puts into directories that it makes (`ebbtide_door::MARK`).
fn mark(directory: &std::path::Path) {
    let says = "ebbtide-own/1\nebb made this directory and removes it with everything in it\n";
    std::fs::write(directory.join(".ebbtide"), says).unwrap();
}

#[test]
fn files_of_killed_runs_are_removed_and_nobody_else_s() {
    let home = Home::new();
    let left = home.path("cache/ebbtide/lab/guests/guest-1");
    let mine = home.path("cache/ebbtide/lab/guests/mydocs");
    for directory in [&left, &mine] {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("disk0.disk"), "x").unwrap();
    }
    mark(&left);
    let listed = lab(&home, "lab list");
    let said = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(said.contains("guest-1  1 MiB  ended"), "{listed:?}");
    assert!(said.contains("mydocs  no guest: ebb did not make it"), "{listed:?}");
    let cleaned = lab(&home, "lab clean");
    assert!(String::from_utf8_lossy(&cleaned.stdout).contains("guest-1"), "{cleaned:?}");
    assert_eq!(cleaned.status.code(), Some(0), "{cleaned:?}");
    assert!(String::from_utf8_lossy(&cleaned.stderr).contains("left alone: "), "{cleaned:?}");
    assert!(!left.exists() && mine.join("disk0.disk").exists());
    let all: serde_json::Value =
        serde_json::from_slice(&lab(&home, "lab clean --all --json").stdout).unwrap();
    assert_eq!(all["left"][0]["path"], mine.to_string_lossy().as_ref(), "{all}");
}

#[test]
fn a_link_in_place_of_the_guests_is_not_followed() {
    let home = Home::new();
    let photos = home.path("home2/photos");
    std::fs::create_dir_all(&photos).unwrap();
    std::fs::write(photos.join("a"), "p").unwrap();
    mark(&photos);
    std::fs::create_dir_all(home.path("cache/ebbtide/lab")).unwrap();
    std::os::unix::fs::symlink(home.path("home2"), home.path("cache/ebbtide/lab/guests")).unwrap();
    ends_with(&home, "lab clean", 0, "is a link");
    ends_with(&home, "lab clean --all", 0, "is a link");
    assert_eq!(std::fs::read_dir(&photos).unwrap().count(), 2);
}

//! `ebb volumes` on a recorded guest and on this host.

#[path = "../../host/src/sys/tree.rs"]
mod tree;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

fn ebb() -> Command {
    Command::cargo_bin("ebb").expect("the program is built")
}

fn recorded() -> tempfile::TempDir {
    tree::unpack(include_str!("../../host/tests/trees/arrays.tree"))
}

#[test]
fn free_volumes_come_first_then_the_tree_then_findings() {
    let root = recorded();
    let output = ebb().args(["volumes", "--root"]).arg(root.path()).output().expect("it runs");
    assert!(output.status.success());
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout));
}

#[test]
fn json_has_every_device_with_numbers_in_bytes() {
    let root = recorded();
    let output = ebb().args(["volumes", "--json", "--root"]).arg(root.path()).output().expect("it runs");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(value["schema"], "ebbtide.volumes/1");
    let devices = value["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 18);
    let md0 = devices.iter().find(|d| d["name"] == "md0").expect("md0");
    assert_eq!(md0["md"]["chunk"], 262_144);
    assert_eq!(md0["slaves"], serde_json::json!(["nvme0n1", "nvme1n1"]));
    assert!(value["findings"].as_array().is_some_and(|f| f.iter().any(|f| f["rule"] == "degraded-array")));
}

#[test]
fn one_array_is_shown_with_its_members_only() {
    let root = recorded();
    let mut command = ebb();
    command.args(["volumes", "/dev/md0", "--json", "--root"]).arg(root.path());
    let value: serde_json::Value =
        serde_json::from_slice(&command.output().expect("runs").stdout).expect("JSON");
    let names: Vec<&str> =
        value["devices"].as_array().expect("devices").iter().filter_map(|d| d["name"].as_str()).collect();
    assert_eq!(names, ["md0", "nvme0n1", "nvme1n1"]);
}

#[test]
fn an_unknown_device_is_wrong_usage_and_the_others_are_named() {
    let root = recorded();
    let mut command = ebb();
    command.args(["volumes", "sdzz", "--root"]).arg(root.path());
    command.assert().code(2).stderr(contains("no block device `sdzz`").and(contains("nvme3n1")));
}

#[test]
fn a_directory_without_sysfs_is_a_failure() {
    let empty = tempfile::tempdir().expect("a directory");
    let mut command = ebb();
    command.args(["volumes", "--root"]).arg(empty.path());
    command.assert().code(1).stderr(contains("sysfs"));
}

#[test]
fn this_host_can_be_looked_at() {
    ebb().arg("volumes").assert().success();
}

//! `ebb volumes` on a recorded guest and on this host.

use assert_cmd::Command;
use ebbtide_host::testing;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

fn ebb() -> Command {
    Command::cargo_bin("ebb").expect("the program is built")
}

fn recorded() -> tempfile::TempDir {
    testing::unpack(testing::ARRAYS)
}

#[test]
fn free_volumes_come_first_then_the_tree_then_findings() {
    let root = recorded();
    let output = ebb().args(["volumes", "--root"]).arg(root.path()).output().expect("it runs");
    assert!(output.status.success());
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout));
}

/// The recorded guest where udev does not run and nobody may read the devices.
#[test]
fn what_may_be_free_or_not_has_a_heading_of_its_own() {
    let tree = testing::ARRAYS;
    let without: Vec<&str> = tree.lines().take_while(|l| !l.starts_with("f /run/udev/")).collect();
    let root = testing::unpack(&without.join("\n"));
    let output = ebb().args(["volumes", "--root"]).arg(root.path()).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let (unknown, used) = text.split_once("\nIn use or with data\n").expect("both headings");
    assert!(unknown.starts_with("Not known\n"), "{unknown}");
    for name in ["md1", "md2", "nvme3n1"] {
        assert!(unknown.contains(&format!("\n  {name} ")), "{name}: {unknown}");
    }
    assert!(unknown.contains("unknown content") && !used.contains("unknown content"), "{text}");
    // md1 is named below each of its two disks, md2 below its one.
    assert_eq!(used.matches("not known (above)").count(), 3, "{used}");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.starts_with("ebb: what is on md1, md2, nvme3n1 is not known"), "{said}");

    // Nothing is said of devices that were not asked for.
    let output = ebb().args(["volumes", "vda", "--root"]).arg(root.path()).output().expect("it runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("ext4, on /"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_free_array_is_told_in_full_once() {
    let root = recorded();
    let output = ebb().args(["volumes", "md1", "--root"]).arg(root.path()).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.matches("id md-uuid-4712d46c").count(), 1, "{text}");
    assert_eq!(text.matches("free (above)").count(), 2, "{text}");
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

/// The recorded guest as an EC2 instance: two models that EC2 reports, and the DMI fields of a Nitro instance.
fn on_ec2(instance: &str) -> tempfile::TempDir {
    let tree = testing::ARRAYS;
    let (before, after) = tree.split_once("/nvme/nvme2/model").expect("a model");
    let store = after.replacen("|QEMU NVMe Ctrl", "|Amazon EC2 NVMe Instance Storage", 1);
    let tree =
        format!("{before}/nvme/nvme2/model{store}").replace("|QEMU NVMe Ctrl", "|Amazon Elastic Block Store");
    testing::unpack(&format!(
        "{tree}\nf /sys/class/dmi/id/sys_vendor\n|Amazon EC2\nf /sys/class/dmi/id/product_name\n|{instance}\n"
    ))
}

fn limits_section(root: &tempfile::TempDir) -> String {
    let output = ebb().args(["volumes", "--root"]).arg(root.path()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let from = text.find("Known limits").expect("a section");
    text[from..text.find("Findings").expect("findings")].to_owned()
}

/// A guest with LVM of many kinds, md over md, RAID5, RAID10, btrfs over two devices, and an array that was stopped; without the
/// queues of its devices, which the other guest has.
#[test]
fn every_stack_says_what_it_is_made_of() {
    let root = testing::unpack(testing::STACKS);
    let arguments =
        ["volumes", "vg-striped", "vg-linear", "vg-r5", "md2", "md5", "vdp", "vdr", "vdt", "vdu", "--root"];
    let output = ebb().args(arguments).arg(root.path()).output().expect("it runs");
    assert!(output.status.success());
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout));
    let output = ebb().args(["volumes", "--json", "--root"]).arg(root.path()).output().expect("it runs");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    let device = |name: &str| {
        let devices = value["devices"].as_array().expect("devices");
        devices.iter().find(|device| device["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    let striped = device("dm-2");
    assert_eq!((&striped["dev"], &striped["size"]), (&"253:2".into(), &41_943_040.into()));
    assert_eq!(striped["made"]["of"], serde_json::json!(["vda", "vdb", "vdc", "vdd"]));
    assert_eq!(striped["made"]["join"], serde_json::json!({ "kind": "stripe", "chunk": 65_536 }));
    assert_eq!(device("md10")["made"]["join"]["copies"], 2);
    assert_eq!(device("vdq")["mounts"][0]["mountpoint"], "/mnt/b", "the second device of a btrfs");
    let found = value["findings"].as_array().expect("findings");
    let stopped: Vec<_> = found.iter().filter(|f| f["rule"] == "stopped-array").collect();
    assert_eq!(stopped.len(), 1, "{found:?}");
    assert!(found.iter().all(|f| f["rule"] != "shared-disk"), "metadata beside its data: {found:?}");
}

#[test]
fn wide_has_numbers_and_exact_sizes() {
    let root = recorded();
    let output =
        ebb().args(["volumes", "vda", "--wide", "--root"]).arg(root.path()).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let row = text.lines().find(|line| line.trim_start().starts_with("vda ")).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..7], ["vda", "254:0", "1500MiB", "1.57", "GB", "1572864000", "virtio"], "{text}");
}

#[test]
fn limits_of_the_catalogue_are_told_without_guessing_a_type() {
    insta::assert_snapshot!(limits_section(&on_ec2("m5d.large")));
}

#[test]
fn limits_that_are_not_known_say_why() {
    let unknown = limits_section(&on_ec2("HVM domU"));
    assert!(unknown.contains("nvme2n1  instance store of 1GiB: limits unknown, the firmware"), "{unknown}");
    assert!(unknown.contains("aws:gp3") && !unknown.contains("together"), "{unknown}");
    // A host outside the clouds has no such section: the first test holds that.
}

#[test]
fn limits_are_in_the_json() {
    let root = on_ec2("m5d.large");
    let output = ebb().args(["volumes", "--json", "--root"]).arg(root.path()).output().expect("it runs");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    let volumes = &value["limits"]["volumes"];
    assert_eq!(volumes[0]["devices"], serde_json::json!(["nvme0n1", "nvme1n1", "nvme3n1"]));
    assert_eq!(volumes[0]["known"]["one_of"][2]["volume_type"], "aws:gp3");
    assert_eq!(volumes[0]["known"]["one_of"][2]["iops"]["least"]["rate"], 3000.0);
    assert_eq!(volumes[1]["known"]["disk"]["instance"], "m5d.large");
    assert_eq!(value["limits"]["instance"]["instance"], "m5d.large");
    assert!(value["limits"]["instance"]["link"]["iops"]["burst_rate"].is_number());
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

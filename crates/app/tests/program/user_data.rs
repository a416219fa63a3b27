//! `ebb user-data` on the command line; what it makes of disks is tested in guests (tests/lab/user_data.rs).

use assert_cmd::Command;
use serde_json::Value;

const EXPERIMENT: &str = r#"
name = "night"
[volumes]
a = { size = "1GiB" }
b = { size = "1GiB" }
[designs.fast-one]
layout = "stripe"
chunk = "64KiB"
members = ["a", "b"]
filesystem = "xfs"
[designs.safe]
layout = "mirror"
members = ["a", "b"]
filesystem = "ext4"
[workloads.w]
rw = "read"
runtime = "1s"
"#;

/// Status, standard output and standard error of `ebb user-data FILE` with `arguments`.
fn user_data(arguments: &[&str]) -> (i32, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("night.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let output =
        Command::cargo_bin("ebb").unwrap().arg("user-data").arg(&file).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn it_is_printed_as_cloud_config_as_a_script_and_as_json() {
    let order = ["--design", "fast-one", "--members", "instance-store"];
    let (status, config, errors) = user_data(&order);
    assert_eq!((status, errors.as_str()), (0, ""));
    assert!(
        config.starts_with("#cloud-config\n")
            && config.contains("- [/usr/local/sbin/ebb-fast_one, install]\n"),
        "{config}"
    );
    let (status, script, _) = user_data(
        &[&order[..], &["--format", "script", "--mount", "/srv/fast night", "--name", "fast"]].concat(),
    );
    assert!(status == 0 && script.starts_with("#!/bin/sh\n"), "{script}");
    assert!(
        script.contains("mount='/srv/fast night'\n")
            && script.contains("/etc/systemd/system/srv-fast\\x20night.mount"),
        "{script}"
    );
    // A shell can read it, and so can it the script in it.
    let (_, rest) = script.split_once("<<'END_OF_FILE'\n").unwrap();
    let (inner, _) = rest.split_once("END_OF_FILE\n").unwrap();
    for text in [script.as_str(), inner] {
        Command::new("sh").arg("-n").write_stdin(text).assert().success();
    }
    let (status, json, _) = user_data(&[&order[..], &["--json"]].concat());
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((status, value["text"].as_str()), (0, Some(config.as_str())));
    assert_eq!((&value["class"], &value["mount"]), (&"ephemeral".into(), &"/data".into()));
}

#[test]
fn a_wrong_order_says_what_to_write() {
    for (arguments, words) in [
        (vec![], "2 designs; say which with --design: fast-one, safe"),
        (vec!["--design", "other"], "it has no design other; it has fast-one, safe"),
        (vec!["--design", "safe"], "--members instance-store"),
        (vec!["--design", "safe", "--members", "sdb"], "sdb is no kind of disk"),
        (vec!["--design", "safe", "--members", "ebs", "--least", "1"], "at least, not 1"),
        (vec!["--design", "safe", "--members", "ebs", "--mount", "data"], "is not absolute"),
        (vec!["--design", "safe", "--members", "ebs", "--name", "md0"], "--name"),
        (
            vec!["--design", "safe", "--members", "instance-store", "--class", "persistent"],
            "cannot be persistent",
        ),
        (vec!["--design", "safe", "--least", "2"], "--members"),
    ] {
        let (status, output, errors) = user_data(&arguments);
        assert!(
            status == 2 && output.is_empty() && errors.contains(words),
            "{arguments:?}: {status} {errors}"
        );
    }
}

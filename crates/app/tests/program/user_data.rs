//! `ebb user-data` on the command line; what it makes of disks is tested in guests (tests/lab/boot_states.rs).

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

/// Status, standard output and standard error of `ebb user-data FILE:DESIGN` with `arguments`; of FILE alone without a design.
fn user_data(design: &str, arguments: &[&str]) -> (i32, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("night.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let colon = if design.is_empty() { "" } else { ":" };
    let named = format!("{}{colon}{design}", file.display());
    let output =
        Command::cargo_bin("ebb").unwrap().arg("user-data").arg(named).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn it_is_printed_as_cloud_config_as_a_script_and_as_json() {
    let order = ["--members", "instance-store"];
    let (status, config, errors) = user_data("fast-one", &order);
    assert!(status == 0 && errors.contains("comes back blank after a stop"), "{errors}");
    assert!(
        config.starts_with("#cloud-config\n")
            && config.contains("runcmd:\n- [/usr/local/sbin/ebb-fast_one]\n"),
        "{config}"
    );
    let (status, script, _) = user_data(
        "fast-one",
        &[&order[..], &["--script", "--mount", "/srv/fast night", "--name", "fast"]].concat(),
    );
    assert!(status == 0 && script.starts_with("#!/bin/sh\n"), "{script}");
    assert!(
        script.contains("mount='/srv/fast night'\n")
            && script.contains("fstab='/srv/fast\\040night xfs nofail"),
        "{script}"
    );
    // A shell can read it.
    Command::new("sh").arg("-n").write_stdin(script.as_str()).assert().success();
    let (status, json, _) = user_data("fast-one", &[&order[..], &["--json"]].concat());
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((status, value["text"].as_str()), (0, Some(config.as_str())));
    assert_eq!((&value["disks"], &value["mount"]), (&2.into(), &"/data".into()));
}

#[test]
fn a_wrong_order_says_what_to_write() {
    for (design, arguments, words) in [
        ("", vec![], "2 designs; name one, as FILE:DESIGN: fast-one, safe"),
        ("other", vec![], "it has no design `other`; it has fast-one, safe"),
        ("safe", vec![], "--members instance-store"),
        ("safe", vec!["--members", "sdb"], "sdb is no kind of disk"),
        ("safe", vec!["--members", "ebs", "--mount", "data"], "is not absolute"),
        ("safe", vec!["--members", "ebs", "--name", "md0"], "--name"),
        ("safe", vec!["--members", "ebs", "--class", "persistent"], "--ebb"),
        ("safe", vec!["--members", "ebs", "--ebb", "https://example.org/ebb"], "needs --sha256"),
        ("safe", vec!["--members", "ebs", "--ebb", "ebb"], "`installed`, or a URL"),
        ("safe", vec!["--members", "ebs", "--ebb", "http://e", "--sha256", "0f"], "64 digits"),
    ] {
        let (status, output, errors) = user_data(design, &arguments);
        assert!(
            status == 2 && output.is_empty() && errors.contains(words),
            "{arguments:?}: {status} {errors}"
        );
    }
}

#[test]
fn with_ebb_the_machine_is_given_the_file_itself() {
    let order = ["--members", "ebs", "--ebb", "installed", "--script"];
    let (status, script, errors) = user_data("safe", &order);
    assert_eq!((status, errors.as_str()), (0, ""));
    assert!(script.contains(EXPERIMENT.trim_end()), "{script}");
    Command::new("sh").arg("-n").write_stdin(script.as_str()).assert().success();
}

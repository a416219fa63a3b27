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
    assert!(status == 0 && errors.contains("comes back blank after a stop"), "{errors}");
    assert!(
        config.starts_with("#cloud-config\n")
            && config.contains("runcmd:\n- [/usr/local/sbin/ebb-fast_one]\n"),
        "{config}"
    );
    let (status, script, _) = user_data(
        &[&order[..], &["--format", "script", "--mount", "/srv/fast night", "--name", "fast"]].concat(),
    );
    assert!(status == 0 && script.starts_with("#!/bin/sh\n"), "{script}");
    assert!(
        script.contains("mount='/srv/fast night'\n")
            && script.contains("fstab='/srv/fast\\040night xfs nofail"),
        "{script}"
    );
    // A shell can read it.
    Command::new("sh").arg("-n").write_stdin(script.as_str()).assert().success();
    let (status, json, _) = user_data(&[&order[..], &["--json"]].concat());
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((status, value["text"].as_str()), (0, Some(config.as_str())));
    assert_eq!((&value["disks"], &value["mount"]), (&2.into(), &"/data".into()));
}

#[test]
fn a_wrong_order_says_what_to_write() {
    for (arguments, words) in [
        (vec![], "2 designs; say which with --design: fast-one, safe"),
        (vec!["--design", "other"], "it has no design other; it has fast-one, safe"),
        (vec!["--design", "safe"], "--members instance-store"),
        (vec!["--design", "safe", "--members", "sdb"], "sdb is no kind of disk"),
        (vec!["--design", "safe", "--members", "ebs", "--mount", "data"], "is not absolute"),
        (vec!["--design", "safe", "--members", "ebs", "--name", "md0"], "--name"),
        (vec!["--design", "safe", "--members", "ebs", "--class", "persistent"], "--ebb"),
        (vec!["--design", "safe", "--members", "ebs", "--ebb", "https://example.org/ebb"], "needs --sha256"),
        (vec!["--design", "safe", "--members", "ebs", "--ebb", "ebb"], "`installed`, or a URL"),
        (vec!["--design", "safe", "--members", "ebs", "--ebb", "http://e", "--sha256", "0f"], "64 digits"),
    ] {
        let (status, output, errors) = user_data(&arguments);
        assert!(
            status == 2 && output.is_empty() && errors.contains(words),
            "{arguments:?}: {status} {errors}"
        );
    }
}

#[test]
fn with_ebb_the_machine_is_given_the_file_itself() {
    let order = ["--design", "safe", "--members", "ebs", "--ebb", "installed", "--format", "script"];
    let (status, script, errors) = user_data(&order);
    assert_eq!((status, errors.as_str()), (0, ""));
    assert!(script.contains(EXPERIMENT.trim_end()), "{script}");
    Command::new("sh").arg("-n").write_stdin(script.as_str()).assert().success();
}

//! `ebb lab` with guests.

use super::common::until_true;
use super::guests::lab;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

fn ebb(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ebb")).args(arguments).output().unwrap()
}

#[test]
fn a_command_runs_with_its_status_and_its_two_streams() {
    lab();
    let script = "cat /sys/block/vda/size /sys/block/vdb/size; echo wrong >&2; ebb --version; exit 9";
    let output = ebb(&["lab", "run", "--disks", "2", "--size", "8MiB", "--json", "--", "bash", "-c", script]);
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let version = concat!("ebb ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(value["stdout"], format!("16384\n16384\n{version}"));
    assert_eq!((&value["stderr"], &value["status"]), (&"wrong\n".into(), &9.into()));

    let output = ebb(&["lab", "run", "-q", "--", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot start /no/such/program"), "{output:?}");
}

/// The one way to a real NVMe controller here: its log page, read through the kernel's passthrough by `ebb` and by
/// nvme-cli, says the same.
#[test]
fn the_health_of_nvme_drives_is_what_nvme_cli_reads() {
    lab();
    let script = "nvme smart-log /dev/nvme1n1 -o json; echo; ebb volumes --json; ls /dev/disk/by-id";
    let arguments =
        ["lab", "run", "--disks", "2", "--nvme", "--size", "8MiB", "--json", "--", "bash", "-ec", script];
    let output = ebb(&arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = value["stdout"].as_str().unwrap();
    assert!(said.contains("nvme-QEMU_NVMe_Ctrl_disk1"), "{said}");
    let mut values = serde_json::Deserializer::from_str(said).into_iter::<Value>();
    let (theirs, ours) = (values.next().unwrap().unwrap(), values.next().unwrap().unwrap());
    let drive = ours["devices"].as_array().unwrap().iter().find(|d| d["name"] == "nvme1n1").unwrap();
    assert_eq!((&drive["kind"], &drive["size"]), (&"nvme".into(), &(8 << 20).into()));
    let health = &drive["health"];
    // QEMU's drive has 323 K, and zeros for the rest.
    assert_eq!(theirs["temperature"].as_i64().unwrap() - 273, health["temperature_c"].as_i64().unwrap());
    assert_eq!(health["temperature_c"], 50);
    for (key, name) in [
        ("percent_used", "used_percent"),
        ("avail_spare", "spare_percent"),
        ("spare_thresh", "spare_threshold_percent"),
        ("media_errors", "media_errors"),
        ("power_on_hours", "power_on_hours"),
    ] {
        // Counters of 16 bytes are text there.
        let number = theirs[key].as_u64().or_else(|| theirs[key].as_str()?.parse().ok());
        assert_eq!(number, health[name].as_u64(), "{key} in {theirs} and {health}");
        assert!(number.is_some(), "{key} in {theirs}");
    }
    // A disk without the page has none.
    assert!(ours["devices"].as_array().unwrap().iter().any(|d| d.get("health").is_none()));
}

#[test]
fn guests_reach_each_other_and_nobody_else() {
    lab();
    // One asks the other by name; neither knows a way out.
    let script = "case $(hostname) in guest1) ping -c 2 -W 20 guest2;; *) ip route;; esac";
    let output = ebb(&["lab", "run", "--guests", "2", "--json", "--", "bash", "-c", script]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = |guest: usize| value["guests"][guest]["stdout"].as_str().unwrap().to_owned();
    assert!(said(0).contains("2 received"), "{value}");
    assert_eq!(said(1).trim(), "10.77.0.0/24 dev eth0 proto kernel scope link src 10.77.0.2");
}

#[test]
fn qemu_ends_with_a_killed_ebb_and_its_files_are_swept() {
    let (places, _) = lab();
    let mut run = Command::new(env!("CARGO_BIN_EXE_ebb"))
        .args(["lab", "run", "--", "sh", "-c", "echo up; sleep 600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(run.stdout.as_mut().unwrap(), &mut up).unwrap();
    // Of whichever thread started it.
    let threads = std::fs::read_dir(format!("/proc/{}/task", run.id())).unwrap();
    let children: String = threads
        .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap())
        .collect();
    let qemu: u32 = children.split_whitespace().next().unwrap().parse().unwrap();
    let command = std::fs::read_to_string(format!("/proc/{qemu}/comm")).unwrap();
    assert!(command.starts_with("qemu"), "{command}");
    let directory = std::fs::read_link(format!("/proc/{qemu}/cwd")).unwrap();
    run.kill().unwrap();
    assert_eq!(run.wait().unwrap().signal(), Some(9));

    let lives = || std::path::Path::new(&format!("/proc/{qemu}/cwd")).read_link().is_ok();
    until_true("QEMU's end after ebb's", || !lives());
    assert!(directory.starts_with(places.root()) && directory.exists());
    assert_eq!(ebb(&["lab", "clean"]).status.code(), Some(0));
    assert!(!directory.exists());
}

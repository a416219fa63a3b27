//! `ebb catalog`, and types by name in experiment files.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;

fn ebb(home: &std::path::Path) -> Command {
    let mut command = Command::cargo_bin("ebb").expect("is built");
    command.env("HOME", home).env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
    command
}

fn stdout(command: &mut Command) -> String {
    let output = command.output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("is text")
}

fn refused(command: &mut Command) -> String {
    let output = command.output().expect("runs");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).expect("is text")
}

#[test]
fn types_are_listed_and_shown_with_their_sources() {
    let home = tempfile::tempdir().expect("a directory");
    let listed = stdout(ebb(home.path()).args(["catalog", "list", "aws:gp"]));
    assert_eq!(listed.lines().count(), 5, "{listed}");
    let shown = stdout(ebb(home.path()).args(["catalog", "show", "gp2", "--size", "100GiB"]));
    for expected in ["300 IOPS, 3.00 k IOPS for 33 min", "134 MB/s", "awsdocs/amazon-ec2-user-guide@0992ede"]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let order = ["--size", "500GiB", "--provisioned-iops", "6000"];
    let priced = stdout(ebb(home.path()).args(["catalog", "show", "gp3"]).args(order));
    for expected in [
        "$0.08 for a GiB, $0.005 for each IOPS above 3000, $0.04 for each MiB/s above 125 a month (us-east-1, 2024-07-01)",
        "$55.00 a month",
        "ebs_volume_test.golden",
    ] {
        assert!(priced.contains(expected), "{expected}: {priced}");
    }
    let instance = stdout(ebb(home.path()).args(["catalog", "show", "m6i.2xlarge"]));
    assert!(instance.contains("312 MB/s, 1.25 GB/s for 30 min"), "{instance}");
    let json = stdout(ebb(home.path()).args([
        "catalog",
        "show",
        "aws:gp3",
        "--as-of",
        "2024-01-01",
        "--size",
        "1TiB",
        "--json",
    ]));
    let value: Value = serde_json::from_str(&json).expect("is JSON");
    assert_eq!(value["volume_type"]["iops"]["max"], 16000.0);
    assert_eq!(value["shape"]["iops"]["rate"], 3000.0);
    assert!((value["price_usd_month"].as_f64().expect("a price") - 81.92).abs() < 1e-9, "{value}");
}

#[test]
fn wrong_questions_are_answered_with_what_to_write() {
    let home = tempfile::tempdir().expect("a directory");
    assert!(refused(ebb(home.path()).args(["catalog", "show", "aws:gp33"])).contains("write `aws:gp3`"));
    let size = refused(ebb(home.path()).args(["catalog", "show", "st1", "--size", "10GiB"]));
    assert!(size.contains("125 to 16384 GiB"), "{size}");
    let day = refused(ebb(home.path()).args(["catalog", "show", "gp3", "--as-of", "2016-01-01"]));
    assert!(day.contains("2020-12-01"), "{day}");
}

#[test]
fn an_import_becomes_the_users_catalogue() {
    let home = tempfile::tempdir().expect("a directory");
    let described = home.path().join("types.json");
    let json = r#"{"InstanceTypes":[{"InstanceType":"m9z.large","VCpuInfo":{"DefaultVCpus":2},
        "MemoryInfo":{"SizeInMiB":8192},"EbsInfo":{"EbsOptimizedInfo":{"BaselineBandwidthInMbps":650,
        "BaselineIops":3600,"MaximumBandwidthInMbps":10000,"MaximumIops":40000}}}]}"#;
    fs::write(&described, json).expect("writes");
    let config = home.path().join(".config/ebbtide");
    fs::create_dir_all(&config).expect("makes");
    let catalog = config.join("catalog.toml");
    let mut import = ebb(home.path());
    import.arg("catalog").arg("import").arg(&described).arg("-o").arg(&catalog);
    stdout(&mut import);
    let shown = stdout(ebb(home.path()).args(["catalog", "show", "m9z.large"]));
    assert!(shown.contains("81.2 MB/s"), "{shown}");
    // Every command that reads an experiment knows it.
    let file = home.path().join("e.toml");
    let text = "name = \"e\"\ninstance = \"m9z.large\"\n[volumes.v]\ncount = 2\nsize = \"1MiB\"\n\
        [designs.d]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"v*\"]\n\
        [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n";
    fs::write(&file, text).expect("writes");
    for command in [
        &["check"][..],
        &["layout", "where", "--offset=0"],
        &["bench", "--rw=read", "--runtime=100ms", "--design"],
        &["run", "--dry-run"],
    ] {
        stdout(ebb(home.path()).args(command).arg(&file));
    }
    // An existing file is kept; a file that is no catalogue is named.
    assert_eq!(import.output().expect("runs").status.code(), Some(1));
    fs::write(&catalog, "nonsense = 1\n").expect("writes");
    let said = refused(ebb(home.path()).args(["catalog", "list"]));
    assert!(said.contains("catalog.toml") && said.contains("nonsense"), "{said}");
}

#[test]
fn a_volume_of_a_catalogue_type_runs_in_the_simulator() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("gp2.toml");
    let text = r#"
name = "gp2"
instance = "m6i.2xlarge"
as_of = 2026-01-01

[volumes.vol]
count = 2
size = "100GiB"
type = "aws:gp2"

[designs.stripe]
layout = "stripe"
members = ["vol*"]

[workloads.randread]
rw = "randread"
iodepth = 64
runtime = "2s"

[answer]
trials_max = 6
"#;
    fs::write(&file, text).expect("writes");
    let mut run = ebb(home.path());
    run.arg("run").arg(&file).args(["--on", "sim", "--seed", "1", "--json"]);
    let output = run.output().expect("runs");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {} {}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    });
    let iops =
        value["results"].as_array().expect("results").iter().find(|r| r["metric"] == "iops").expect("iops");
    // Two volumes that burst to 3000 each.
    let median = iops["median"].as_f64().expect("a number");
    assert!((median / 6000.0 - 1.0).abs() < 0.01, "{median}");
}

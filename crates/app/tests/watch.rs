//! `ebb watch` as a program, and its figures beside the real iostat's.

use assert_cmd::Command;
use ebbtide_core::observe::diskstats::{DiskCounters, lines};
use ebbtide_core::observe::rates::DiskRates;
use ebbtide_core::units::Nanos;
use predicates::str::contains;
use serde_json::Value;

fn ebb() -> Command {
    Command::cargo_bin("ebb").expect("the program is built")
}

#[test]
fn json_is_one_line_per_interval() {
    let output =
        ebb().args(["watch", "--json", "-i", "100ms", "-n", "2", "--idle"]).output().expect("it runs");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["schema"], "ebbtide.watch/1");
    assert!(lines[1]["interval_seconds"].as_f64().is_some_and(|s| s >= 0.05));
}

#[test]
fn csv_has_its_header_once() {
    let output = ebb().args(["watch", "--csv", "-i", "60ms", "-n", "2"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().filter(|l| l.starts_with("time_unix_s,")).count(), 1);
}

#[test]
fn what_cannot_be_watched_says_why() {
    ebb().args(["watch", "/proc", "-n", "1"]).assert().code(1).stderr(contains("rests on no block device"));
    ebb().args(["watch", "/no/such", "-n", "1"]).assert().code(1).stderr(contains("`/no/such`"));
    ebb().args(["watch", "-i", "1ms"]).assert().code(2).stderr(contains("--interval"));
}

/// Counters of every device, and seconds since boot.
fn now() -> (Vec<(String, DiskCounters)>, f64) {
    let text = std::fs::read_to_string("/proc/diskstats").expect("diskstats");
    let uptime = std::fs::read_to_string("/proc/uptime").expect("uptime");
    let seconds = uptime.split(' ').next().and_then(|t| t.parse().ok()).expect("seconds");
    (lines(&text).map(|l| (l.name.to_owned(), l.counters)).collect(), seconds)
}

/// iostat's first report is since boot, by the same formulas as any other. Whatever load there is meanwhile, each of
/// its figures must lie between ours just before it and just after it, but for its two decimals. Requires sysstat.
#[test]
fn figures_agree_with_iostat() {
    let before = now();
    let mut command = std::process::Command::new("iostat");
    let output = command.args(["-x", "-o", "JSON", "1", "1"]).env("S_TIME_FORMAT", "ISO").output();
    let output = output.expect("iostat, of the package sysstat: `cargo xtask setup` installs it");
    assert!(output.status.success(), "iostat without JSON is older than sysstat 11.5: {output:?}");
    let after = now();
    let report: Value = serde_json::from_slice(&output.stdout).expect("iostat's JSON");
    let disks = report["sysstat"]["hosts"][0]["statistics"][0]["disk"].as_array().expect("disks");
    let mut compared = 0;
    for disk in disks {
        let name = disk["disk_device"].as_str().expect("a name");
        let rates = |(devices, seconds): &(Vec<(String, DiskCounters)>, f64)| {
            let counters = devices.iter().find(|(n, _)| n == name).map(|(_, c)| *c).expect("the device");
            DiskRates::over(&counters, Nanos::from_secs_f64(*seconds)).expect("a span")
        };
        let (low, high) = (rates(&before), rates(&after));
        for (key, ours) in FIGURES {
            let theirs = disk[*key].as_f64().expect("a figure");
            let (a, b) = (ours(&low), ours(&high));
            let slack = 0.0051 + 2e-4 * a.abs().max(b.abs());
            assert!(
                theirs >= a.min(b) - slack && theirs <= a.max(b) + slack,
                "{name} {key}: {theirs} not in {a}..{b}"
            );
            compared += 1;
        }
    }
    assert!(compared > 0, "iostat shows no device");
}

/// iostat's names and our figures in its units.
type Figure = (&'static str, fn(&DiskRates) -> f64);
const FIGURES: &[Figure] = &[
    ("r/s", |r| r.read.per_second),
    ("w/s", |r| r.write.per_second),
    ("rkB/s", |r| r.read.bytes_per_second / 1024.0),
    ("wkB/s", |r| r.write.bytes_per_second / 1024.0),
    ("rrqm/s", |r| r.read.merged_per_second),
    ("wrqm/s", |r| r.write.merged_per_second),
    ("rrqm", |r| r.read.merged_share.unwrap_or(0.0) * 100.0),
    ("wrqm", |r| r.write.merged_share.unwrap_or(0.0) * 100.0),
    ("r_await", |r| r.read.await_ms.unwrap_or(0.0)),
    ("w_await", |r| r.write.await_ms.unwrap_or(0.0)),
    ("rareq-sz", |r| r.read.request_bytes.unwrap_or(0.0) / 1024.0),
    ("wareq-sz", |r| r.write.request_bytes.unwrap_or(0.0) / 1024.0),
    ("d/s", |r| r.discard.map_or(0.0, |d| d.per_second)),
    ("f/s", |r| r.flush_per_second.unwrap_or(0.0)),
    ("f_await", |r| r.flush_await_ms.unwrap_or(0.0)),
    ("aqu-sz", |r| r.queue),
    ("util", |r| r.util * 100.0),
];

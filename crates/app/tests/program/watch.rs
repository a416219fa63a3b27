//! `ebb watch` as a program, and its figures beside the real iostat's.

use crate::common::{Home, Loop, tool};
use assert_cmd::Command;
use ebbtide_analysis::observe::rates::DiskRates;
use ebbtide_model::observe::diskstats::{DiskCounters, lines};
use ebbtide_model::observe::host::{CpuShares, HostCounters};
use ebbtide_model::units::Nanos;
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

/// As iostat's: the first report is of the time since boot, and -y leaves it out. Programs get intervals only.
#[test]
fn the_first_report_is_since_boot() {
    let said = |arguments: &[&str]| {
        let output =
            ebb().args(["watch", "-i", "60ms", "-n", "1"]).args(arguments).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let both = said(&[]);
    let parts: Vec<&str> = both.trim_end().split("\n\n").collect();
    assert_eq!(parts.len(), 2, "{both}");
    assert!(parts[0].starts_with("means since boot, ") && parts[0].contains(" ago\ncpu   user "), "{both}");
    for part in &parts {
        assert!(part.contains("iowait ") && part.contains("steal ") && part.contains("swap  in "), "{both}");
    }
    assert!(!said(&["-y"]).contains("since boot"));
    let json: Value = serde_json::from_str(&said(&["--json"])).expect("one object");
    let share: f64 = json["cpu"].as_object().expect("shares").values().filter_map(Value::as_f64).sum();
    assert!((share - 1.0).abs() < 1e-9, "{json}");
    assert!(json["swap"]["out_bytes_per_second"].is_number(), "{json}");
}

#[test]
fn csv_has_its_header_once() {
    let output = ebb().args(["watch", "--format", "csv", "-i", "60ms", "-n", "2"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().filter(|l| l.starts_with("time_unix_s,")).count(), 1);
}

#[test]
fn what_cannot_be_watched_says_why() {
    ebb().args(["watch", "/proc", "-n", "1"]).assert().code(1).stderr(contains("rests on no block device"));
    ebb().args(["watch", "/no/such", "-n", "1"]).assert().code(1).stderr(contains("`/no/such`"));
    ebb().args(["watch", "-n", "0"]).assert().code(2).stderr(contains("--count"));
    ebb().args(["watch", "--siblings", "-n", "1"]).assert().code(2).stderr(contains("two or more"));
    ebb().args(["watch", "--siblings", "sda", "-n", "1"]).assert().code(2).stderr(contains("two or more"));
    ebb().args(["watch", "-i", "1ms"]).assert().code(2).stderr(contains("--interval"));
    // A bare number is seconds, as iostat's: too short, but no mistake.
    ebb().args(["watch", "-i", "0.001"]).assert().code(2).stderr(contains("--interval 1ms is shorter"));
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
    let (before, cpu_before) = (now(), cpu_since_boot());
    let mut command = std::process::Command::new("iostat");
    let output = command.args(["-x", "-o", "JSON", "1", "1"]).env("S_TIME_FORMAT", "ISO").output();
    let output = output.expect("iostat, of the package sysstat: `cargo xtask setup` installs it");
    assert!(output.status.success(), "iostat without JSON is older than sysstat 11.5: {output:?}");
    let (after, cpu_after) = (now(), cpu_since_boot());
    let report: Value = serde_json::from_slice(&output.stdout).expect("iostat's JSON");
    let disks = report["sysstat"]["hosts"][0]["statistics"][0]["disk"].as_array().expect("disks");
    let theirs = &report["sysstat"]["hosts"][0]["statistics"][0]["avg-cpu"];
    for (key, ours) in CPU_FIGURES {
        let (a, b) = (100.0 * ours(&cpu_before), 100.0 * ours(&cpu_after));
        let theirs = theirs[*key].as_f64().expect("a share");
        assert!(
            theirs >= a.min(b) - 0.0101 && theirs <= a.max(b) + 0.0101,
            "{key}: {theirs} not in {a}..{b}"
        );
    }
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

/// The processors' time since boot.
fn cpu_since_boot() -> CpuShares {
    let stat = std::fs::read_to_string("/proc/stat").expect("stat");
    HostCounters::parse(&stat, "").rates(Nanos::from_secs(1), 4096).cpu.expect("shares")
}

/// iostat's names of the processors' shares, and ours.
type CpuFigure = (&'static str, fn(&CpuShares) -> f64);
const CPU_FIGURES: &[CpuFigure] = &[
    ("user", |c| c.user),
    ("nice", |c| c.nice),
    ("system", |c| c.system),
    ("iowait", |c| c.iowait),
    ("steal", |c| c.steal),
    ("idle", |c| c.idle),
];

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

/// Seconds of the interval that both programs watch.
const WINDOW: u64 = 8;

/// Both programs' figures for `device` over one interval, ours with its length, and what the device did meanwhile. The
/// load begins after both have begun and ends before either ends: what they count is the same to the last request,
/// although they look at different instants. `None` when this machine was too slow for that.
fn watched_together(device: &Loop) -> Option<(Value, DiskRates, f64, DiskCounters)> {
    let counters =
        || now().0.into_iter().find(|(n, _)| n == device.name()).map(|(_, c)| c).expect("the device");
    let seconds = WINDOW.to_string();
    let started = std::time::Instant::now();
    let mut iostat = std::process::Command::new("iostat");
    iostat.args(["-x", "-o", "JSON", device.name(), &seconds, "2"]).env("S_TIME_FORMAT", "ISO");
    let mut watch = std::process::Command::new(env!("CARGO_BIN_EXE_ebb"));
    watch.args(["watch", "--json", "--interval", &format!("{seconds}s"), "-n", "1", &device.device]);
    let pipe = std::process::Stdio::piped;
    let iostat = iostat.stdout(pipe()).spawn().expect("iostat, of the package sysstat");
    let watch = watch.stdout(pipe()).spawn().expect("ebb");
    std::thread::sleep(std::time::Duration::from_secs(2));
    let before = counters();
    let file = format!("--filename={}", device.device);
    let size = ["--size=32m", "--bs=16k", "--direct=1", "--fsync=64", "--ioengine=libaio", "--iodepth=8"];
    let mut load = vec!["--name=load", "--rw=randrw", "--rwmixread=60", "--runtime=2", "--time_based", &file];
    load.extend(size);
    tool("fio", &load);
    tool("blkdiscard", &["--offset", "33554432", "--length", "1048576", &device.device]);
    let grown = counters().since(&before).expect("the same device");
    let quiet = started.elapsed().as_secs_f64() < WINDOW as f64 - 1.0;
    let (theirs, ours) = (iostat.wait_with_output().expect("iostat"), watch.wait_with_output().expect("ebb"));
    let theirs: Value = serde_json::from_slice(&theirs.stdout).expect("iostat's JSON");
    let ours: Value = serde_json::from_slice(&ours.stdout).expect("JSON");
    let disk = theirs["sysstat"]["hosts"][0]["statistics"][1]["disk"][0].clone();
    assert_eq!(disk["disk_device"], device.name());
    let rates = ours["devices"][0]["rates"].clone();
    let span = ours["interval_seconds"].as_f64().expect("a span");
    let rates: DiskRates = serde_json::from_value(rates).expect("rates");
    quiet.then_some((disk, rates, span, grown))
}

/// Under load, each of our columns is iostat's but for iostat's two decimals and the length of the two intervals, which
/// is known: ours says it, and iostat's follows from its requests per second and the requests that there were.
#[test]
#[ignore = "requires root, a free loop device, fio and sysstat"]
fn columns_agree_with_iostat_under_load() {
    let home = Home::new();
    let backing = home.path("backing");
    std::fs::File::create(&backing).expect("a file").set_len(64 << 20).expect("its length");
    let device = Loop::over(&backing);
    let together = (0..3).find_map(|_| watched_together(&device));
    let (theirs, ours, our_span, grown) =
        together.expect("a machine on which 2 s of load take less than 5 s");
    assert!(grown.read.ops > 100 && grown.write.ops > 100, "{grown:?}");
    assert!(grown.flush.is_some_and(|f| f.0 > 0) && grown.discard.is_some_and(|d| d.ops > 0), "{grown:?}");
    let figure = |key: &str| theirs[key].as_f64().expect("a figure of iostat");
    // Ours: the counts over the span that it says, exactly.
    for (rate, count) in [(ours.read, grown.read), (ours.write, grown.write)] {
        assert!((rate.per_second * our_span - count.ops as f64).abs() < 1e-6 * count.ops as f64, "{rate:?}");
        assert!(
            (rate.bytes_per_second * our_span - count.bytes() as f64).abs() < 1e-6 * count.bytes() as f64
        );
    }
    // Theirs: an interval of the length asked for, a little more when it was woken late.
    let their_span = grown.read.ops as f64 / figure("r/s");
    assert!((WINDOW as f64 - 0.05..WINDOW as f64 + 2.0).contains(&their_span), "{their_span} s");
    for (key, column) in FIGURES {
        let per_second = key.ends_with("/s") || matches!(*key, "aqu-sz" | "util");
        let ours = column(&ours) * if per_second { our_span / their_span } else { 1.0 };
        // iostat's two decimals, and as many of r/s, from which the length of its interval is worked out.
        let slack = 0.0051 + ours.abs() * (0.0051 / figure("r/s") + 1e-6);
        let theirs = figure(key);
        assert!((theirs - ours).abs() <= slack, "{key}: iostat {theirs}, ebb {ours}");
    }
}

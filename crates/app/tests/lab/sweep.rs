//! `ebb run --on lab` of a sweep: what a guest can build races, stands as its name says, and the best of it is a file.

use super::common::{Home, status, stderr};
use super::guests::lab;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What varies, two levels each.
const FACTORS: [(&str, [&str; 2]); 4] = [
    ("filesystem", ["ext4", "xfs"]),
    ("chunk", ["64KiB", "256KiB"]),
    ("scheduler", ["mq-deadline", "none"]),
    ("readahead", ["128KiB", "2MiB"]),
];

/// `experiments/lab-sweep.toml`, small: half of all combinations, those with an even number of second levels, so that each main effect
/// can still be told. Disks that do few but large reads: a readahead that asks for more at once reads several times as fast, whatever
/// carries the guest.
fn experiment() -> String {
    let mut text = r#"
name = "small-lab-sweep"
[volumes.vol]
count = 2
size = "512MiB"
[volumes.vol.shape]
reads = { iops = 60, throughput = "12MiB/s" }
[designs.raid0]
layout = "stripe"
members = ["vol*"]
[workloads.read]
rw = "read"
bs = "64KiB"
direct = false
span = "48MiB"
runtime = "1s"
ramp_time = "250ms"
[answer]
level = 0.75
trials_min = 3
trials_max = 3
[sweep]
design = "raid0"
objective = "throughput"
exclude = [
"#
    .to_owned();
    for combination in 0u32..1 << FACTORS.len() {
        if combination.count_ones() % 2 == 1 {
            let level = |(bit, (name, levels)): (usize, &(&str, [&str; 2]))| {
                format!("{name} = \"{}\"", levels[(combination >> bit & 1) as usize])
            };
            let fields: Vec<String> = FACTORS.iter().enumerate().map(level).collect();
            writeln!(text, "  {{ {} }},", fields.join(", ")).unwrap();
        }
    }
    text += "]\n[sweep.vary]\n";
    for (name, levels) in FACTORS {
        writeln!(text, "{name} = {levels:?}").unwrap();
    }
    text
}

/// Levels by factor, from the name of a design.
fn levels(design: &str) -> BTreeMap<&str, &str> {
    let (_, levels) = design.split_once('/').unwrap();
    levels.split(',').map(|level| level.split_once('=').unwrap()).collect()
}

fn kib(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap());
    number.parse::<u64>().unwrap() << if unit == "MiB" { 20 } else { 10 }
}

fn list<'v>(value: &'v Value, key: &str) -> &'v Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no list `{key}` in {value}"))
}

#[test]
#[ignore = "judges figures of an emulated guest, which a busy machine changes: `cargo test -p ebbtide --test lab sweep:: -- --ignored`"]
fn a_sweep_races_what_stands_in_a_guest() {
    lab();
    let home = Home::new();
    home.write("sweep.toml", &experiment());
    let output = home.ebb("run sweep.toml --on lab --seed 1 -o best.toml").output().unwrap();
    // 3: three rounds seldom decide.
    assert!([0, 3].contains(&status(&output)), "{output:?}");
    let session = home.json("show last --full", &[0]);
    assert_eq!((&session["session"]["trials_failed"], &session["session"]["rounds"]), (&0.into(), &3.into()));

    // Each trial stood on what its name says, as the guest's kernel saw it.
    let mut trials_of: BTreeMap<&str, u64> = BTreeMap::new();
    for trial in list(&session, "trials") {
        let design = trial["design"].as_str().unwrap();
        *trials_of.entry(design).or_default() += u64::from(trial["role"] == "candidate");
        let (asked, observed) = (levels(design), &trial["observed"]);
        let built = &observed["built"];
        assert_eq!(built["filesystem"], asked["filesystem"], "{design}: {built}");
        assert_eq!(built["chunk"], kib(asked["chunk"]), "{design}: {built}");
        assert_eq!(built["readahead"], kib(asked["readahead"]), "{design}: {built}");
        let disks = list(observed, "devices");
        assert_eq!(disks.len(), 2, "{design}: {disks:?}");
        assert!(disks.iter().all(|disk| disk["scheduler"] == asked["scheduler"]), "{design}: {disks:?}");
    }
    assert_eq!(trials_of.len(), 8, "{trials_of:?}");

    let race = &session["race"];
    let lanes = list(race, "designs");
    assert_eq!((lanes.len(), &race["objective"]), (8, &"throughput".into()), "{race}");
    let mut left = Vec::new();
    for lane in lanes {
        let design = lane["design"].as_str().unwrap();
        let dropped = lane["dropped_in_round"].as_u64();
        // The control runs on when it has lost.
        let is_control = session["session"]["control"] == design;
        let rounds = dropped.filter(|_| !is_control).unwrap_or(3);
        assert_eq!((lane["rounds"].as_u64(), trials_of[design]), (Some(rounds), rounds), "{race}");
        assert!(lane["figures"]["throughput"].as_f64().unwrap() > 0.0, "{lane}");
        left.extend(dropped.is_none().then_some(design));
    }
    match race["winner"].as_str() {
        Some(winner) => assert_eq!(left, [winner], "{race}"),
        None => assert!(left.len() > 1, "{race}"),
    }
    assert!(list(race, "tied").iter().all(|design| left.contains(&design.as_str().unwrap())), "{race}");
    let seconds = |key: &str| race[key].as_f64().unwrap();
    assert!(seconds("io_seconds") > 16.0 && seconds("grid_io_seconds") >= seconds("io_seconds"), "{race}");

    let factors = list(&session, "factors");
    for (name, [first, second]) in FACTORS {
        let effect = factors.iter().find(|effect| effect["factor"] == name);
        let effect = effect.unwrap_or_else(|| panic!("no effect of {name} in {factors:?}"));
        assert_eq!((&effect["level"], &effect["against"]), (&second.into(), &first.into()));
        let figure = |key: &str| effect[key].as_f64().unwrap();
        assert!(figure("ci_low") <= figure("ratio") && figure("ratio") <= figure("ci_high"), "{effect}");
        if name == "readahead" {
            assert!(figure("ratio") > 1.2, "2 MiB at a time are no faster than 128 KiB: {effect}");
        }
    }

    // A design is written only where something was decided.
    if !home.path("best.toml").exists() {
        assert_eq!(status(&output), 3, "{output:?}");
        assert!(stderr(&output).contains("best.toml is not written"), "{output:?}");
        return;
    }
    let best = std::fs::read_to_string(home.path("best.toml")).unwrap();
    let planned = home.ebb("run best.toml --on lab --dry-run").output().unwrap();
    assert!(planned.status.success(), "{}\n{best}", stderr(&planned));
}

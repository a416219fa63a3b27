//! `ebb monitor changes` on stores with weeks of canaries.

use crate::common::{Home, status, stderr};
use ebbtide_model::monitor::events::VolumeContext;
use ebbtide_model::monitor::{Measure, Pass, Watched};
use ebbtide_model::units::{Bytes, UnixTime};
use ebbtide_runner::store::Store;
use std::path::Path;

/// 2026-02-20, and a quarter of an hour.
const BEGIN: u64 = 1_771_545_600;
const EVERY: u64 = 900;
/// 2026-03-12 04:10, of a pass.
const STEP: u64 = 1_773_288_600;

/// A value that varies by a few percent without a pattern.
fn vary(number: u64) -> f64 {
    let mixed = (number ^ (number >> 7)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    1.0 + 0.1 * (((mixed >> 40) as f64 / (1u64 << 24) as f64) - 0.5)
}

/// Passes over the volumes `names` every quarter of an hour for so many days; from [`STEP`] on seeks are multiplied by what
/// `after` says of the volume.
fn passes(path: &Path, names: &[&str], days: u64, after: impl Fn(&str) -> f64) {
    let mut passes = Vec::new();
    for quarter in 0..days * 96 {
        // Ten minutes past, and so on.
        let at = BEGIN + 600 + quarter * EVERY;
        for (number, name) in names.iter().enumerate() {
            let factor = if at >= STEP { after(name) } else { 1.0 };
            let seeks = 2140.0 * vary(quarter * 64 + number as u64) * factor;
            let volume =
                Watched { id: format!("vol-{name}"), name: (*name).to_owned(), host: "db1".to_owned() };
            let values = vec![(Measure::Seeks, seeks), (Measure::Throughput, 1e8 * vary(quarter + 5))];
            passes.push(Pass { volume, at: UnixTime::from_secs(at), values, counted: None, found: None });
        }
    }
    Store::open(Some(path)).unwrap().add_passes(&passes).unwrap();
}

const EIGHT: [&str; 8] = ["sdb", "sdc", "sdd", "sde", "sdf", "sdg", "sdh", "sdi"];

#[test]
fn one_volumes_change_is_told_apart_from_its_siblings() {
    let home = Home::new();
    passes(&home.path("store.sqlite"), &EIGHT, 50, |name| if name == "sdf" { 0.37 } else { 1.0 });
    let output = home.ebb("monitor changes --store store.sqlite").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let sentence = "sdf lost 63% of its seeks on 12 March 2026 04:10 UTC; its seven siblings did not";
    assert_eq!(lines.next(), Some(sentence), "{text}");
    let figures = lines.next().unwrap();
    assert!(figures.contains("before") && figures.contains("95% interval"), "{figures}");
    assert_eq!(lines.next(), Some("looked at: 8 volumes, 2026-02-20 to 2026-04-10"));

    let value = home.json("monitor changes --store store.sqlite", &[0]);
    assert_eq!(value["schema"], "ebbtide.changes/1");
    let changes = value["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{value}");
    let change = &changes[0];
    assert_eq!((&change["volume"], &change["id"]), (&"sdf".into(), &"vol-sdf".into()));
    assert_eq!((&change["metric"], &change["siblings"]), (&"seeks".into(), &"other".into()));
    assert_eq!(change["at"], "2026-03-12T04:10:00Z");
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let (low, high) = (number(&change["ci"][0]), number(&change["ci"][1]));
    assert!(low <= 0.37 && 0.37 <= high && high - low < 0.05, "{change}");
    assert!((number(&change["after"]) / number(&change["before"]) - 0.37).abs() < 0.01, "{change}");

    // By name and by id; another one has none.
    for name in ["sdf", "vol-sdf"] {
        assert_eq!(
            home.json(&format!("monitor changes {name} --store store.sqlite"), &[0])["changes"][0],
            *change
        );
    }
    let other = home.json("monitor changes sdg --store store.sqlite", &[0]);
    assert_eq!(other["changes"], serde_json::json!([]));
    let text = home.ebb("monitor changes sdg --store store.sqlite").output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert_eq!(text, "no lasting change of 5% or more: 1 volume, 2026-02-20 to 2026-04-10\n");
    let unknown = home.ebb("monitor changes sdz --store store.sqlite").output().unwrap();
    assert_eq!(status(&unknown), 2);
    assert!(stderr(&unknown).contains("no volume sdz was monitored; there is sdb, sdc"), "{unknown:?}");
    let nowhere = home.ebb("monitor changes --store nowhere.sqlite").output().unwrap();
    assert_eq!(status(&nowhere), 2, "{nowhere:?}");
    assert!(stderr(&nowhere).contains("nowhere.sqlite: there is no store of passes"), "{nowhere:?}");
}

#[test]
fn a_change_stands_with_what_happened_then() {
    let home = Home::new();
    let path = home.path("store.sqlite");
    passes(&path, &["sdf"], 40, |_| 0.5);
    let mut store = Store::open(Some(&path)).unwrap();
    // Made up: the resize is seen by the pass that is the first at the new level.
    for (at, bytes) in [(STEP - 890, 100_000_000_000), (STEP + 10, 200_000_000_000)] {
        let volume = Watched { id: "vol-sdf".into(), name: "sdf".into(), host: "db1".into() };
        let found =
            VolumeContext { host: "db1".into(), bytes: Some(Bytes(bytes)), ..VolumeContext::default() };
        let at = UnixTime::from_secs(at);
        store
            .add_passes(&[Pass { volume, at, values: Vec::new(), counted: None, found: Some(found) }])
            .unwrap();
    }
    let text = home.ebb("monitor changes --store store.sqlite").output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.starts_with("sdf lost 50% of its seeks on 12 March 2026 04:10 UTC, after a resize from 100 GB to 200 GB at 04:10\n"),
        "{text}"
    );
    let value = home.json("monitor changes --store store.sqlite", &[0]);
    let event = &value["changes"][0]["events"][0];
    assert_eq!((&event["event"], &event["at"]), (&"resized".into(), &"2026-03-12T04:10:10Z".into()));
    assert_eq!(value["events"][0]["id"], "vol-sdf");
    let status = home.json("monitor status --store store.sqlite", &[0]);
    assert_eq!(status["events"][0]["event"], "resized");
}

#[test]
fn what_all_volumes_do_is_no_fault_of_one() {
    let home = Home::new();
    passes(&home.path("store.sqlite"), &EIGHT[..4], 40, |_| 0.8);
    let value = home.json("monitor changes --store store.sqlite", &[0]);
    let changes = value["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 4, "{value}");
    assert!(
        changes.iter().all(|change| change["siblings"] == "same" && change["siblings_changed"] == 3),
        "{value}"
    );
    let text = home.ebb("monitor changes sdb --store store.sqlite").output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.starts_with("sdb lost 20% of its seeks on 12 March 2026 04:10 UTC; so did its three siblings\n"),
        "{text}"
    );
}

#[test]
fn too_little_is_said_to_be_too_little() {
    let home = Home::new();
    let nothing = home.ebb("monitor changes").output().unwrap();
    assert_eq!((status(&nothing), nothing.stdout.as_slice()), (0, &b""[..]));
    assert!(stderr(&nothing).contains("`ebb monitor run`"), "{nothing:?}");
    assert_eq!(home.json("monitor changes", &[0])["changes"], serde_json::json!([]));
    assert_eq!(status(&home.ebb("monitor changes sda").output().unwrap()), 2);

    passes(&home.path("store.sqlite"), &["sdb"], 5, |_| 1.0);
    let output = home.ebb("monitor changes --store store.sqlite").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "too short to tell: 1 volume, known for less than a week\n");
    assert_eq!(home.json("monitor changes --store store.sqlite", &[0])["looked_at"][0]["enough"], false);
}

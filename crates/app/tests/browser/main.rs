//! The HTML report and the pages of `ebb serve` in a real browser: on a desk and on a phone, in light and in dark.
//!
//! Needs chromium, so it is a target of its own: `cargo xtask browser`. Screenshots are left in the target directory.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod devtools;
mod promtool;
mod serve;

use assert_cmd::Command;
use devtools::Browser;
use ebbtide_model::testing::session::{self as fixture, Recipe};
use ebbtide_runner::store::Store;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const CHECKS: &str = include_str!("checks.js");

const SECTIONS: [&str; 12] = [
    "summary",
    "limits",
    "trust",
    "intervals",
    "time",
    "latency",
    "members",
    "seen",
    "order",
    "environment",
    "experiment",
    "figures",
];

/// A window: name, width, height, whether it is a phone.
const WINDOWS: [(&str, u32, u32, bool); 2] = [("desk", 1280, 900, false), ("phone", 390, 844, true)];

/// Stores a made-up session and lets the program write its report.
fn report(directory: &Path, recipe: &Recipe) -> PathBuf {
    let session = fixture::session(recipe);
    let store_path = directory.join("store.sqlite");
    let mut store = Store::open(Some(&store_path)).unwrap();
    store.begin(&session, &Value::Null).unwrap();
    for record in &session.trials {
        store.add_trial(&session.meta.id, record).unwrap();
    }
    store.update(&session.meta, None).unwrap();
    let path = directory.join("report.html");
    Command::cargo_bin("ebb")
        .unwrap()
        .arg("--store")
        .arg(&store_path)
        .args(["show", "last", "-o"])
        .arg(&path)
        .assert()
        .success();
    path
}

/// What the browser complained about or asked for, beyond the file itself.
fn complaints(browser: &Browser, url: &str) -> Vec<String> {
    browser
        .events
        .iter()
        .filter(|event| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded") => true,
            Some("Network.requestWillBeSent") => {
                let asked = event["params"]["request"]["url"].as_str().unwrap_or_default();
                asked != url && !asked.starts_with("data:")
            }
            _ => false,
        })
        .map(Value::to_string)
        .collect()
}

/// Looks at the report of `recipe` in every window and theme.
fn look(name: &str, recipe: &Recipe) {
    let directory = tempfile::tempdir().unwrap();
    let path = report(directory.path(), recipe);
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < 1_000_000, "the report of {name} has {size} bytes");
    let url = format!("file://{}", path.display());
    let mut browser = Browser::start(&directory.path().join("profile"));
    let mut wrong = Vec::new();
    for (window, width, height, phone) in WINDOWS {
        for theme in ["light", "dark"] {
            browser.call(
                "Emulation.setDeviceMetricsOverride",
                json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone }),
            );
            browser.call(
                "Emulation.setEmulatedMedia",
                json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] }),
            );
            browser.open(&url);
            let shot =
                PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{window}-{theme}.png"));
            browser.screenshot(&shot);
            let found = browser.evaluate(&format!("({CHECKS})({})", json!(SECTIONS)));
            let found = found.as_array().expect("the checks return a list");
            wrong.extend(found.iter().map(|w| format!("{window}, {theme}: {w}")));
            wrong.extend(complaints(&browser, &url).into_iter().map(|w| format!("{window}, {theme}: {w}")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{name}, screenshots in {}:\n{}",
        env!("CARGO_TARGET_TMPDIR"),
        wrong.join("\n")
    );
}

#[test]
fn a_plain_report_is_readable_everywhere() {
    look("plain", &Recipe { failure: true, ..Recipe::default() });
}

#[test]
fn long_names_and_many_members_do_not_break_the_page() {
    let prefix = "a-rather-long-<b>name</b>&\"quoted\"-".to_owned();
    look("long", &Recipe { rounds: 8, members: 24, prefix, failure: false });
}

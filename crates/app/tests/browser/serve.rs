//! Each kind of page of `ebb serve`: no violation by axe (<https://github.com/dequelabs/axe-core>), nothing that the policy refused, on a
//! desk in light and on a phone in dark.

use super::devtools::Browser;
use super::{WINDOWS, complaints};
use ebbtide_model::monitor::events::VolumeContext;
use ebbtide_model::monitor::{Measure, Pass, Watched};
use ebbtide_model::testing::session::{self as fixture, Recipe};
use ebbtide_model::units::{Bytes, UnixTime};
use ebbtide_runner::store::Store;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ACCESSIBLE: &str = include_str!("accessible.js");

pub struct Serving(Child, pub String);

impl Serving {
    pub fn start(store: &Path) -> Serving {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command.args(["serve", "--quiet", "--listen", "127.0.0.1:0", "--store"]).arg(store);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        Serving(child, url.trim().trim_end_matches('/').to_owned())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two sessions, and six weeks of three volumes of which one becomes slower.
pub fn store(directory: &Path) -> (PathBuf, Vec<String>) {
    let path = directory.join("store.sqlite");
    let mut store = Store::open(Some(&path)).unwrap();
    let recipes = [
        Recipe { failure: true, ..Recipe::default() },
        Recipe {
            rounds: 8,
            members: 12,
            prefix: "a-rather-long-<b>name</b>&\"quoted\"-".to_owned(),
            failure: false,
        },
    ];
    let mut sessions = Vec::new();
    for (number, recipe) in recipes.iter().enumerate() {
        let mut session = fixture::session(recipe);
        session.meta.id = format!("{}-{number}", session.meta.id);
        session.meta.started_unix = UnixTime(session.meta.started_unix.0 + number as u64 * 1_000_000_000);
        sessions.push(session);
    }
    // The first beside itself, measured again: what is compared has the same names.
    let mut again = sessions[0].clone();
    again.meta.id = format!("{}-again", again.meta.id);
    sessions.push(again);
    let headline =
        || "stripe is 2.31 times as fast as linear under randread (95% interval 2.20 to 2.42)".to_owned();
    store.add_all(sessions.iter().map(|session| (session, headline()))).unwrap();
    let hours = 42 * 24;
    let mut passes = Vec::new();
    for hour in 0..hours {
        for number in 0..3u64 {
            let noise = ((hour * 7919 + number * 31) % 101) as f64 / 101.0;
            let level = if number == 1 && hour > 25 * 24 { 640.0 } else { 1000.0 };
            let volume = Watched {
                id: format!("vol-0{number}"),
                name: format!("nvme{number}n1"),
                host: "db1".to_owned(),
            };
            let mut values = vec![
                (Measure::LoadIops, 40.0 * noise),
                (Measure::LoadThroughput, 1e6 * noise),
                (Measure::LoadWait, 0.001),
            ];
            // A few days without canaries.
            if !(200..300).contains(&hour) {
                values.extend([
                    (Measure::Seeks, level * (1.0 + 0.05 * noise)),
                    (Measure::Throughput, 1e8 * (1.0 + 0.02 * noise)),
                ]);
            }
            passes.push(Pass {
                volume,
                at: UnixTime::from_secs(1_770_000_000 + hour * 3600),
                values,
                counted: None,
                found: Some(VolumeContext {
                    host: "db1".to_owned(),
                    kernel: Some(format!("6.1.{}", hour / 500)),
                    bytes: Some(Bytes(100_000_000_000 * (1 + u64::from(hour > 600)))),
                    ..VolumeContext::default()
                }),
            });
        }
    }
    store.add_passes(&passes).unwrap();
    (path, sessions.into_iter().map(|session| session.meta.id).collect())
}

/// The accessibility checker, which `cargo xtask setup` installs.
fn axe() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{path}: {error}; `cargo xtask setup` installs it"))
}

/// What is wrong with the page `url`, which is called `name`, on a desk and in light, on a phone and in dark. What axe loads by itself is none of the page's.
fn look(browser: &mut Browser, axe: &str, (name, url): (&str, &str), wrong: &mut Vec<String>) {
    // What a theme colours has the same colours in every window.
    for ((window, width, height, phone), theme) in WINDOWS.into_iter().zip(["light", "dark"]) {
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone }),
        );
        browser.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] }),
        );
        browser.open(url);
        let told: Vec<String> = complaints(browser, url)
            .into_iter()
            .filter(|told| !told.contains("status of 401") && !told.contains("status of 404"))
            .collect();
        let shot =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{name}-{window}-{theme}.png"));
        browser.screenshot(&shot);
        browser.evaluate(&format!("{axe};true"));
        let found = browser.evaluate(ACCESSIBLE);
        let found =
            found.as_array().expect("axe returns a list").iter().filter_map(Value::as_str).map(str::to_owned);
        wrong.extend(found.chain(told).map(|what| format!("{name}, {window}, {theme}: {what}")));
    }
}

#[test]
fn pages_of_a_server_are_accessible_everywhere() {
    let directory = tempfile::tempdir().unwrap();
    let (store, ids) = store(directory.path());
    let serving = Serving::start(&store);
    let mut browser = Browser::start(&directory.path().join("profile"));
    let (axe, mut wrong) = (axe(), Vec::new());
    for (name, path) in [
        ("sessions", "/".to_owned()),
        ("found", "/?experiment=none".to_owned()),
        ("session", format!("/session/{}", ids[0])),
        ("compare", format!("/compare?session={}&session={}", ids[0], ids[2])),
        ("volumes", "/volumes".to_owned()),
        ("volume", "/volume?id=vol-01".to_owned()),
        ("volume-all", "/volume?id=vol-01&weeks=all".to_owned()),
        ("nothing", "/nothing".to_owned()),
    ] {
        look(&mut browser, &axe, (name, &format!("{}{path}", serving.1)), &mut wrong);
    }
    assert!(wrong.is_empty(), "screenshots in {}:\n{}", env!("CARGO_TARGET_TMPDIR"), wrong.join("\n"));

    // By keyboard alone: two boxes, and the button.
    browser.open(&format!("{}/", serving.1));
    let chosen = browser.evaluate(
        "(() => { const boxes = [...document.querySelectorAll('input[type=checkbox]')];
            boxes.filter((box) => !box.value.endsWith('-1')).forEach((box) => { box.focus(); box.click(); });
            const button = document.querySelector('form[action=\"/compare\"] button');
            button.focus(); return document.activeElement === button; })()",
    );
    assert_eq!(chosen, true);
    for kind in ["keyDown", "keyUp"] {
        let key = json!({ "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r" });
        browser.call("Input.dispatchKeyEvent", key);
    }
    browser.until("location.pathname === '/compare' && !!document.getElementById('comparisons')");
    // A page's choice of colours is kept for the next.
    browser.evaluate("document.getElementById('theme').click()");
    let chosen = browser.evaluate("document.documentElement.dataset.theme");
    browser.open(&format!("{}/volumes", serving.1));
    assert_eq!(browser.evaluate("document.documentElement.dataset.theme"), chosen);
}

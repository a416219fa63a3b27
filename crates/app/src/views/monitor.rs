//! What a pass saw (`ebbtide.monitor/1`), and what is monitored (`ebbtide.monitored/1`).

use super::events;
use ebbtide_model::civil::Civil;
use ebbtide_model::monitor::{Measure, Watched};
use ebbtide_model::shown::{Shown, columns};
use ebbtide_model::units::{UnixTime, format_iops, format_latency, format_throughput};
use ebbtide_provision::monitor::MonitorState;
use ebbtide_runner::monitor::changes::Happened;
use ebbtide_runner::store::{HOURS_DAYS, Monitored, SINGLE_DAYS};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most events that are listed.
const EVENTS: usize = 10;

/// How the canary of a volume ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Measured,
    /// It was not, for this reason.
    LeftAlone(String),
    /// It could not be.
    Failed(String),
}

/// What a pass saw of a volume.
#[derive(Debug, Clone)]
pub struct VolumePass {
    /// The volume that the pass looked at.
    pub volume: Watched,
    pub values: Vec<(Measure, f64)>,
    /// How the canary ended.
    pub outcome: Outcome,
    /// What the reader of its figures must know.
    pub note: Option<String>,
}

/// A pass, for programs.
pub fn pass_json(seen: &[VolumePass]) -> Value {
    let volumes: Vec<Value> = seen
        .iter()
        .map(|seen| {
            let values: serde_json::Map<String, Value> = seen
                .values
                .iter()
                .map(|(measure, value)| (measure.name().to_owned(), json!(value)))
                .collect();
            let (skipped, failed) = match &seen.outcome {
                Outcome::Measured => (None, None),
                Outcome::LeftAlone(why) => (Some(why), None),
                Outcome::Failed(why) => (None, Some(why)),
            };
            json!({
                "volume": seen.volume.name,
                "id": seen.volume.id,
                "host": seen.volume.host,
                "measured": values,
                "skipped": skipped,
                "failed": failed,
                "note": seen.note,
            })
        })
        .collect();
    json!({ "schema": "ebbtide.monitor/1", "volumes": volumes })
}

/// A pass, for people.
pub fn pass_text(seen: &[VolumePass]) -> String {
    let mut rows =
        vec![["VOLUME", "SEEKS", "THROUGHPUT", "THE HOST'S LOAD SINCE THE LAST PASS", ""].map(str::to_owned)];
    for VolumePass { volume, values, outcome, note } in seen {
        let value =
            |wanted: Measure| values.iter().find(|(measure, _)| *measure == wanted).map(|(_, value)| *value);
        let wait = value(Measure::LoadWait).map(|wait| format!(", {} each", format_latency(wait * 1e9)));
        let load = value(Measure::LoadIops).zip(value(Measure::LoadThroughput)).map(|(iops, bytes)| {
            let (iops, bytes) = (format_iops(iops), format_throughput(bytes));
            format!("{iops} requests/s, {bytes}{}", wait.unwrap_or_default())
        });
        rows.push([
            volume.name.clone(),
            seeks(value(Measure::Seeks)),
            throughput(value(Measure::Throughput)),
            load.unwrap_or_else(|| "-".to_owned()),
            match outcome {
                Outcome::Measured => note.clone().unwrap_or_default(),
                Outcome::LeftAlone(why) => format!("not read: {why}"),
                Outcome::Failed(why) => format!("failed: {why}"),
            },
        ]);
    }
    columns(&rows, 0)
}

fn seeks(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |seeks| format!("{}/s", format_iops(seeks)))
}

fn throughput(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), format_throughput)
}

/// A volume that is monitored, and what was measured of it last.
#[derive(Debug)]
pub struct Volume {
    /// Which, and how much is known of it.
    pub known: Monitored,
    /// The newest value of each measure, and when it was measured.
    pub newest: BTreeMap<Measure, (UnixTime, f64)>,
}

/// What is monitored, and how.
#[derive(Debug)]
pub struct Status {
    /// The volumes that were.
    pub volumes: Vec<Volume>,
    /// What happened to them, the earliest first.
    pub happened: Vec<Happened>,
    /// Where that is kept; nothing where nothing is yet.
    pub store: Option<PathBuf>,
    /// What pauses passes; nothing where no place for it is known.
    pub pause_file: Option<PathBuf>,
    /// Whether the file that pauses passes exists.
    pub paused: bool,
    /// How the installed service goes; nothing where none is.
    pub installed: Option<MonitorState>,
}

impl Status {
    /// The state as JSON.
    pub fn json(&self) -> Value {
        let time = |at: Option<UnixTime>| at.map(|at| Civil::from_unix(at).rfc3339());
        let volumes: Vec<Value> = self
            .volumes
            .iter()
            .map(|Volume { known, newest }| {
                let newest = newest.iter().map(|(measure, (at, value))| {
                    (measure.name().to_owned(), json!({ "at": time(Some(*at)), "value": value }))
                });
                json!({
                    "volume": known.volume.name,
                    "id": known.volume.id,
                    "host": known.volume.host,
                    "last": time(known.last_unix),
                    "newest": newest.collect::<serde_json::Map<_, _>>(),
                    "passes_kept": known.passes,
                })
            })
            .collect();
        json!({
            "schema": "ebbtide.monitored/1",
            "volumes": volumes,
            "events": self.happened.iter().map(events::json).collect::<Vec<_>>(),
            "store": self.store.as_ref().map(|path| path.to_string_lossy()),
            "paused": self.paused,
            "pause_file": self.pause_file.as_ref().map(|file| file.to_string_lossy()),
            "installed": self.installed,
            "kept_days": { "passes": SINGLE_DAYS, "hours": HOURS_DAYS, "days": Value::Null },
        })
    }

    /// The state as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.volumes.is_empty() {
            text += "no volume was monitored yet; `ebb monitor run` measures each once\n";
        } else {
            let heads = ["VOLUME", "HOST", "LAST PASS", "SEEKS", "THROUGHPUT", "PASSES KEPT", "ID"];
            let mut rows = vec![heads.map(str::to_owned)];
            rows.extend(self.volumes.iter().map(|Volume { known, newest }| {
                let value = |measure| newest.get(&measure).map(|(_, value)| *value);
                [
                    known.volume.name.clone(),
                    known.volume.host.clone(),
                    known.last_unix.map_or_else(|| "never".to_owned(), said),
                    seeks(value(Measure::Seeks)),
                    throughput(value(Measure::Throughput)),
                    known.passes.to_string(),
                    known.volume.id.clone(),
                ]
            }));
            text += &columns(&rows, 0);
            text += &events::table(&self.happened, EVENTS);
            text += &format!(
                "kept: each pass for {SINGLE_DAYS} days, medians of hours for {} years, of days for ever\n",
                HOURS_DAYS / 365
            );
        }
        if let Some(store) = &self.store {
            text += &format!("store: {}\n", store.shown());
        }
        text += &match (&self.pause_file, self.paused) {
            (Some(file), true) => format!("paused: no volume is read while {} exists\n", file.shown()),
            (Some(file), false) => format!("not paused; a file {} pauses it\n", file.shown()),
            (None, _) => String::new(),
        };
        text + &self.installed.map_or_else(
            || "not installed; `ebb monitor install` has systemd call it every 15 min\n".to_owned(),
            |installed| installed.text(),
        )
    }
}

fn said(at: UnixTime) -> String {
    Civil::from_unix(at).to_string()
}

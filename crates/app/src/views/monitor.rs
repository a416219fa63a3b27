//! What a pass saw (`ebbtide.monitor/1`), and what is monitored (`ebbtide.monitored/1`).

use ebbtide_model::civil::Civil;
use ebbtide_model::monitor::{Measure, Watched};
use ebbtide_model::shown::{Shown, columns};
use ebbtide_model::units::{format_iops, format_latency, format_throughput};
use ebbtide_runner::store::{HOURS_DAYS, Monitored, SINGLE_DAYS};
use serde_json::{Value, json};
use std::path::Path;

/// How the canary of a volume ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was read.
    Measured,
    /// It was not, for this reason.
    LeftAlone(String),
    /// It could not be.
    Failed(String),
}

/// What a pass saw of a volume.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The volume that the pass looked at.
    pub volume: Watched,
    /// What was measured.
    pub values: Vec<(Measure, f64)>,
    /// How the canary ended.
    pub outcome: Outcome,
}

/// A pass, for programs.
pub fn pass_json(seen: &[Seen]) -> Value {
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
            })
        })
        .collect();
    json!({ "schema": "ebbtide.monitor/1", "volumes": volumes })
}

/// A pass, for people.
pub fn pass_text(seen: &[Seen]) -> String {
    let mut rows =
        vec![["VOLUME", "SEEKS", "THROUGHPUT", "THE HOST'S LOAD SINCE THE LAST PASS", ""].map(str::to_owned)];
    for Seen { volume, values, outcome } in seen {
        let value =
            |wanted: Measure| values.iter().find(|(measure, _)| *measure == wanted).map(|(_, value)| *value);
        let wait = value(Measure::LoadWait).map(|wait| format!(", {} each", format_latency(wait * 1e9)));
        let load = value(Measure::LoadIops).zip(value(Measure::LoadThroughput)).map(|(iops, bytes)| {
            let (iops, bytes) = (format_iops(iops), format_throughput(bytes));
            format!("{iops} requests/s, {bytes}{}", wait.unwrap_or_default())
        });
        rows.push([
            volume.name.clone(),
            value(Measure::Seeks).map_or_else(|| "-".to_owned(), |seeks| format!("{}/s", format_iops(seeks))),
            value(Measure::Throughput).map_or_else(|| "-".to_owned(), format_throughput),
            load.unwrap_or_else(|| "-".to_owned()),
            match outcome {
                Outcome::Measured => String::new(),
                Outcome::LeftAlone(why) => format!("not read: {why}"),
                Outcome::Failed(why) => format!("failed: {why}"),
            },
        ]);
    }
    columns(&rows, 0)
}

/// What is monitored, for programs.
pub fn status_json(volumes: &[Monitored], pause_file: Option<&Path>, paused: bool) -> Value {
    let volumes: Vec<Value> = volumes
        .iter()
        .map(|known| {
            json!({
                "volume": known.volume.name,
                "id": known.volume.id,
                "host": known.volume.host,
                "last": known.last_unix.map(|last| Civil::from_unix(last).rfc3339()),
                "passes_kept": known.passes,
            })
        })
        .collect();
    json!({
        "schema": "ebbtide.monitored/1",
        "volumes": volumes,
        "paused": paused,
        "pause_file": pause_file.map(|file| file.to_string_lossy()),
        "kept_days": { "passes": SINGLE_DAYS, "hours": HOURS_DAYS, "days": Value::Null },
    })
}

/// What is monitored, for people.
pub fn status_text(volumes: &[Monitored], pause_file: Option<&Path>, paused: bool) -> String {
    let mut text = String::new();
    if volumes.is_empty() {
        text += "no volume was monitored yet; `ebb monitor run` measures each once\n";
    } else {
        let mut rows = vec![["VOLUME", "HOST", "LAST PASS", "PASSES KEPT", "ID"].map(str::to_owned)];
        rows.extend(volumes.iter().map(|known| {
            [
                known.volume.name.clone(),
                known.volume.host.clone(),
                known.last_unix.map_or_else(|| "never".to_owned(), |last| Civil::from_unix(last).to_string()),
                known.passes.to_string(),
                known.volume.id.clone(),
            ]
        }));
        text += &columns(&rows, 0);
        text += &format!(
            "kept: each pass for {SINGLE_DAYS} days, medians of hours for {} years, of days for ever\n",
            HOURS_DAYS / 365
        );
    }
    text += &match (pause_file, paused) {
        (Some(file), true) => format!("paused: no volume is read while {} exists\n", file.shown()),
        (Some(file), false) => format!("not paused; a file {} pauses it\n", file.shown()),
        (None, _) => String::new(),
    };
    text
}

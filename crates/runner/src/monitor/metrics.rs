//! What a store says of monitored volumes, as figures for Prometheus.
//!
//! Gauges alone ([`Exposition`]): times are instants in seconds since the epoch, whose age is `time() - x`, rates are per second.

use super::changes::{Changes, OfVolume};
use crate::store::{Monitored, Store, StoreError};
use ebbtide_model::monitor::{Measure, Watched};
use ebbtide_model::shown::Exposition;
use ebbtide_model::units::UnixTime;
use std::collections::BTreeMap;

/// What is told of the volumes of a store.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    volumes: Vec<Figure>,
    told: Vec<OfVolume>,
    paused: bool,
}

/// What is known of one volume.
#[derive(Debug, Clone)]
struct Figure {
    known: Monitored,
    newest: BTreeMap<Measure, (UnixTime, f64)>,
}

/// The figures of `store`, whose lasting changes are known; `paused` says whether a file keeps passes from reading.
///
/// # Errors
/// When the store cannot be read.
pub fn figures(store: &Store, changes: &Changes, paused: bool) -> Result<Figures, StoreError> {
    let of = |known: Monitored| Ok(Figure { newest: store.newest(&known)?, known });
    let volumes = store.monitored()?.into_iter().map(of).collect::<Result<_, StoreError>>()?;
    Ok(Figures { volumes, told: changes.told.clone(), paused })
}

/// The gauge of a measure, and what it is.
const fn gauge(measure: Measure) -> (&'static str, &'static str) {
    match measure {
        Measure::Seeks => (
            "ebbtide_volume_seeks_per_second",
            "Random reads of 4 KiB per second, one at a time, in the newest pass that read the volume.",
        ),
        Measure::Throughput => (
            "ebbtide_volume_throughput_bytes_per_second",
            "Bytes per second of large reads in a row, in the newest pass that read the volume.",
        ),
        Measure::LoadIops => (
            "ebbtide_volume_load_operations_per_second",
            "Requests per second that the host made between the newest pass and the one before.",
        ),
        Measure::LoadThroughput => (
            "ebbtide_volume_load_bytes_per_second",
            "Bytes per second that the host moved between the newest pass and the one before.",
        ),
        Measure::LoadWait => (
            "ebbtide_volume_load_wait_seconds",
            "Mean time of the host's requests between two passes, of the newest in which it made any.",
        ),
        Measure::VolumeExceeded => (
            "ebbtide_volume_limit_exceeded_ratio",
            "Share of the time between two passes in which the host asked an EBS volume for more than the volume's limits, by its log page.",
        ),
        Measure::InstanceExceeded => {
            ("ebbtide_volume_instance_limit_exceeded_ratio", "The same for the instance's limits.")
        }
    }
}

/// The gauge of the levels before and after a change of `measure`.
const fn level(measure: Measure) -> Option<(&'static str, &'static str)> {
    match measure {
        Measure::Seeks => Some((
            "ebbtide_volume_change_seeks_per_second",
            "Random reads per second before and after the newest lasting change of them.",
        )),
        Measure::Throughput => Some((
            "ebbtide_volume_change_throughput_bytes_per_second",
            "Bytes per second before and after the newest lasting change of them.",
        )),
        _ => None,
    }
}

impl Figures {
    /// As Prometheus reads them, for a file or a page; the type of the page is `text/plain; version=0.0.4`.
    pub fn text(&self) -> String {
        let mut text = Exposition::default();
        text.gauge(
            "ebbtide_monitor_paused",
            "1 where a file keeps passes from reading volumes, else 0.",
            [(&[][..], f64::from(u8::from(self.paused)))],
        );
        let labels: Vec<[(&str, &str); 3]> =
            self.volumes.iter().map(|figure| labels(&figure.known.volume)).collect();
        let each = || self.volumes.iter().zip(&labels);
        text.gauge(
            "ebbtide_volume_last_pass_timestamp_seconds",
            "When a pass last looked at the volume, also where it was left alone.",
            each().filter_map(|(figure, labels)| Some((&labels[..], seconds(figure.known.last_unix?)))),
        );
        let canary = |figure: &Figure| {
            let of = |measure| figure.newest.get(&measure).map(|(at, _)| *at);
            of(Measure::Seeks).max(of(Measure::Throughput))
        };
        text.gauge(
            "ebbtide_volume_last_read_timestamp_seconds",
            "When a pass last read the volume.",
            each().filter_map(|(figure, labels)| Some((&labels[..], seconds(canary(figure)?)))),
        );
        for measure in Measure::ALL {
            let (name, help) = gauge(measure);
            let value = |figure: &Figure| figure.newest.get(&measure).map(|(_, value)| *value);
            text.gauge(name, help, each().filter_map(|(figure, labels)| Some((&labels[..], value(figure)?))));
        }
        self.changes(&mut text);
        text.finish()
    }

    /// The newest change of each measure of each volume.
    fn changes(&self, text: &mut Exposition) {
        let mut newest: BTreeMap<(&str, Measure), &OfVolume> = BTreeMap::new();
        for told in &self.told {
            let place = newest.entry((&told.volume.id, told.measure)).or_insert(told);
            if told.change.at > place.change.at {
                *place = told;
            }
        }
        let told: Vec<(&OfVolume, Vec<(&str, &str)>)> =
            newest.values().map(|told| (*told, of_change(told))).collect();
        text.gauge(
            "ebbtide_volume_change_timestamp_seconds",
            "When the newest lasting change of what the volume can do began; siblings says whether the host's other volumes changed too.",
            told.iter().map(|(told, labels)| (&labels[..], seconds(told.change.at))),
        );
        text.gauge(
            "ebbtide_volume_change_ratio",
            "The level since that change over the level before it.",
            told.iter().map(|(told, labels)| (&labels[..], told.change.ratio())),
        );
        for measure in Measure::ALL {
            let Some((name, help)) = level(measure) else { continue };
            let of_measure: Vec<([(&str, &str); 4], f64)> = newest
                .values()
                .filter(|told| told.measure == measure)
                .flat_map(|told| {
                    let [id, host, volume] = labels(&told.volume);
                    let of = |level| [id, host, volume, ("level", level)];
                    [(of("before"), told.change.before), (of("after"), told.change.after)]
                })
                .collect();
            text.gauge(name, help, of_measure.iter().map(|(labels, value)| (&labels[..], *value)));
        }
    }
}

/// What tells the volume apart: its id, which stays the same, and what it was called where it was last.
fn labels(volume: &Watched) -> [(&str, &str); 3] {
    [("id", &volume.id), ("host", &volume.host), ("volume", &volume.name)]
}

/// What tells the newest change of a measure of a volume apart, and whether the host's other volumes changed too.
fn of_change(told: &OfVolume) -> Vec<(&str, &str)> {
    let siblings = told.siblings.map_or("unknown", |siblings| if siblings.same() { "same" } else { "other" });
    [labels(&told.volume).as_slice(), &[("metric", told.measure.name()), ("siblings", siblings)]].concat()
}

fn seconds(at: UnixTime) -> f64 {
    at.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_analysis::changes::{Change, Siblings};
    use ebbtide_model::monitor::Pass;
    use std::collections::BTreeSet;

    const BEGIN: u64 = 1_795_000_000;

    fn watched(name: &str) -> Watched {
        Watched { id: format!("vol-{name}"), name: name.to_owned(), host: "db1".to_owned() }
    }

    /// What a store says in which a pass was left alone after one that read, with a made-up change.
    fn made_up() -> Figures {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let mut store = Store::open(Some(&directory.path().join("store.sqlite"))).expect("opens");
        let pass = |after: u64, values: Vec<(Measure, f64)>| {
            let at = UnixTime::from_secs(BEGIN + after);
            Pass { volume: watched("s\"df\\"), at, values, counted: None, found: None }
        };
        let read = Measure::ALL.map(|measure| (measure, f64::from(measure.number()) * 0.5)).to_vec();
        store.add_passes(&[pass(0, read)]).expect("adds");
        store.add_passes(&[pass(900, vec![(Measure::LoadIops, 7.0)])]).expect("adds");
        let mut figures = figures(&store, &Changes::default(), false).expect("reads");
        let at = UnixTime::from_secs(BEGIN - 86_400);
        let change = |ago: u64, after| Change {
            at: UnixTime::from_secs(BEGIN - ago),
            told: at,
            before: 100.0,
            after,
            ci: (0.1, 0.9),
        };
        for (measure, ago, after) in
            [(Measure::Seeks, 200, 37.0), (Measure::Seeks, 100, 50.0), (Measure::Throughput, 100, 80.0)]
        {
            figures.told.push(OfVolume {
                volume: watched("sdg"),
                measure,
                change: change(ago, after),
                siblings: Some(Siblings { known: 7, changed: 0 }),
                events: Vec::new(),
            });
        }
        figures
    }

    #[test]
    fn figures_are_these() {
        let text = made_up().text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let volume = r#"{id="vol-s\"df\\",host="db1",volume="s\"df\\"}"#;
        let of = r#"id="vol-sdg",host="db1",volume="sdg""#;
        let other = r#"siblings="other""#;
        assert_eq!(
            lines,
            [
                "ebbtide_monitor_paused 0".to_owned(),
                format!("ebbtide_volume_last_pass_timestamp_seconds{volume} {}", BEGIN + 900),
                format!("ebbtide_volume_last_read_timestamp_seconds{volume} {BEGIN}"),
                format!("ebbtide_volume_seeks_per_second{volume} 0.5"),
                format!("ebbtide_volume_throughput_bytes_per_second{volume} 1"),
                format!("ebbtide_volume_load_operations_per_second{volume} 7"),
                format!("ebbtide_volume_load_bytes_per_second{volume} 2"),
                format!("ebbtide_volume_load_wait_seconds{volume} 2.5"),
                format!("ebbtide_volume_limit_exceeded_ratio{volume} 3"),
                format!("ebbtide_volume_instance_limit_exceeded_ratio{volume} 3.5"),
                format!(
                    "ebbtide_volume_change_timestamp_seconds{{{of},metric=\"seeks\",{other}}} {}",
                    BEGIN - 100
                ),
                format!(
                    "ebbtide_volume_change_timestamp_seconds{{{of},metric=\"throughput\",{other}}} {}",
                    BEGIN - 100
                ),
                format!("ebbtide_volume_change_ratio{{{of},metric=\"seeks\",{other}}} 0.5"),
                format!("ebbtide_volume_change_ratio{{{of},metric=\"throughput\",{other}}} 0.8"),
                format!("ebbtide_volume_change_seeks_per_second{{{of},level=\"before\"}} 100"),
                format!("ebbtide_volume_change_seeks_per_second{{{of},level=\"after\"}} 50"),
                format!("ebbtide_volume_change_throughput_bytes_per_second{{{of},level=\"before\"}} 100"),
                format!("ebbtide_volume_change_throughput_bytes_per_second{{{of},level=\"after\"}} 80"),
            ]
        );
    }

    /// The names of metrics in `text`.
    fn names(text: &str) -> BTreeSet<&str> {
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.split(|c| !name(c)).filter(|word| word.starts_with("ebbtide_")).collect()
    }

    #[test]
    fn dashboard_and_alerts_ask_for_what_is_written() {
        let text = made_up().text();
        let written = names(&text);
        let dashboard = include_str!("../../../../docs/reference/monitor-dashboard.json");
        let alerts = include_str!("../../../../docs/reference/monitor-alerts.yml");
        serde_json::from_str::<serde_json::Value>(dashboard).expect("JSON");
        for (file, asked) in [("monitor-dashboard.json", dashboard), ("monitor-alerts.yml", alerts)] {
            let unknown: Vec<&str> = names(asked).difference(&written).copied().collect();
            assert!(unknown.is_empty() && !names(asked).is_empty(), "{file}: {unknown:?}");
        }
    }
}

//! The volumes that are monitored, as they were last measured.

use super::{PageContext, ToldChange, VOLUMES, address, simple};
use crate::html::{Section, answer, bar, scrolling};
use crate::words;
use ebbtide_model::civil::Civil;
use ebbtide_model::monitor::{Measure, Watched};
use ebbtide_model::units::{UnixTime, format_iops, format_latency, format_throughput};
use maud::{Markup, html};

/// Seconds after which the page is loaded again.
const REFRESH: u32 = 60;

/// A volume, and what the newest passes saw.
#[derive(Debug, Clone)]
pub struct VolumeLine {
    /// The volume that the line is about.
    pub volume: Watched,
    /// When the last pass read it.
    pub last: Option<UnixTime>,
    /// The newest value of each measure, and when it was measured.
    pub newest: Vec<(Measure, UnixTime, f64)>,
}

/// The volumes that are monitored.
#[derive(Debug, Clone)]
pub struct VolumesPage {
    /// By host and name.
    pub volumes: Vec<VolumeLine>,
    /// Lasting changes, the newest first.
    pub changes: Vec<ToldChange>,
    /// When the page is made.
    pub now: UnixTime,
    /// Whether the page loads itself again.
    pub refresh: bool,
}

/// Where the weeks of `volume` are.
pub(super) fn of_volume(volume: &Watched) -> String {
    address("/volume", &[("id", &volume.id)])
}

/// What `value` of `measure` is, with its unit.
pub(super) fn figure(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Seeks | Measure::LoadIops => format!("{}/s", format_iops(value)),
        Measure::Throughput | Measure::LoadThroughput => format_throughput(value),
        Measure::LoadWait => format_latency(value * 1e9),
        Measure::VolumeExceeded | Measure::InstanceExceeded => format!("{:.1}%", value * 100.0),
    }
}

pub(super) fn html(shown: &VolumesPage) -> String {
    let title = match shown.volumes.len() as u64 {
        0 => "No volume has been monitored yet: `ebb monitor run` measures each once".to_owned(),
        volumes => words::count(volumes, "volume"),
    };
    let header = html! { header { (bar(&html! { span.name { "Volumes" } })) (answer(&[title])) } };
    let sections = [
        Section::new("newest", "As last measured", newest),
        Section::new("changes", "Lasting changes", changes),
    ];
    let site = PageContext { refresh: shown.refresh.then_some(REFRESH), ..PageContext::at(VOLUMES) };
    simple(shown, &sections, "Volumes", &header, site)
}

/// How long ago, in one unit.
fn age(now: UnixTime, at: UnixTime) -> String {
    let seconds = now.0.saturating_sub(at.0) / 1_000_000_000;
    let (number, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7200 => (seconds / 60, "minute"),
        7200..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{} ago", words::count(number, unit))
}

fn newest(shown: &VolumesPage) -> Option<Markup> {
    if shown.volumes.is_empty() {
        return None;
    }
    let value = |line: &VolumeLine, wanted: Measure| {
        line.newest.iter().find(|(measure, ..)| *measure == wanted).map(|&(measure, at, value)| {
            let older = line.last.is_some_and(|last| at < last).then(|| age(shown.now, at));
            (figure(measure, value), older)
        })
    };
    Some(html! {
        p.sub {
            "Read at " (Civil::from_unix(shown.now)) ". "
            @if shown.refresh {
                "The page is loaded again every " (REFRESH) " s; " a href=(address(VOLUMES, &[("refresh", "no")])) { "keep it as it is" } "."
            } @else {
                "The page stays as it is; " a href=(VOLUMES) { "load it again every " (REFRESH) " s" } "."
            }
        }
        (scrolling("Volumes", html! { table.stack {
            thead { tr { th { "volume" } th { "host" } th { "last pass" } @for measure in Measure::ALL { th.n { (name(measure)) } } th { "id" } } }
            tbody { @for line in &shown.volumes { tr {
                th scope="row" { a href=(of_volume(&line.volume)) { (line.volume.name) } }
                td data-l="host" { (line.volume.host) }
                td data-l="last pass" { (line.last.map_or_else(|| "never".to_owned(), |last| age(shown.now, last))) }
                @for measure in Measure::ALL {
                    td.n data-l=(name(measure)) { @match value(line, measure) {
                        Some((figure, older)) => { (figure) @if let Some(older) = older { " " span.faint { (older) } } },
                        None => "–",
                    } }
                }
                td data-l="id" { (line.volume.id) }
            } } }
        } }))
    })
}

/// What a measure is called in a table.
pub(super) fn name(measure: Measure) -> &'static str {
    match measure {
        Measure::Seeks => "seeks",
        Measure::Throughput => "throughput",
        Measure::LoadIops => "host's requests",
        Measure::LoadThroughput => "host's bytes",
        Measure::LoadWait => "host's wait",
        Measure::VolumeExceeded => "above the volume's limit",
        Measure::InstanceExceeded => "above the instance's limit",
    }
}

fn changes(shown: &VolumesPage) -> Option<Markup> {
    if shown.volumes.is_empty() {
        return None;
    }
    Some(html! {
        @if shown.changes.is_empty() { p { "None of 5% or more is known." } }
        ul.warnings { @for told in &shown.changes { li {
            p { a href=(of_volume(&told.volume)) { (told.sentence) } }
            p.sub { (told.figures) }
        } } }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        let age_of =
            |seconds: u64| age(UnixTime::from_secs(10_000_000), UnixTime::from_secs(10_000_000 - seconds));
        for (seconds, expected) in [
            (0, "0 seconds ago"),
            (1, "1 second ago"),
            (119, "119 seconds ago"),
            (120, "2 minutes ago"),
            (7200, "2 hours ago"),
            (172_800, "2 days ago"),
        ] {
            assert_eq!(age_of(seconds), expected);
        }
    }
}

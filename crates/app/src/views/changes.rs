//! Lasting changes in words and as JSON (`ebbtide.changes/1`).

use super::events;
use ebbtide_analysis::changes::{Change, Siblings};
use ebbtide_model::civil::Civil;
use ebbtide_model::monitor::Measure;
use ebbtide_model::units::{format_count, format_iops, format_throughput};
use ebbtide_runner::monitor::changes::{Changes, Known, OfVolume};
use serde_json::{Value, json};

/// Numbers that are written as words, from zero on.
const NUMBERS: [&str; 13] =
    ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// Most events that are listed.
const EVENTS: usize = 20;

/// The answer as JSON.
pub fn json(found: &Changes) -> Value {
    let changes: Vec<Value> = found.told.iter().map(change_json).collect();
    let volumes: Vec<Value> = found.known.iter().map(known_json).collect();
    let happened: Vec<Value> = found.happened.iter().map(events::json).collect();
    json!({ "schema": "ebbtide.changes/1", "changes": changes, "events": happened, "looked_at": volumes })
}

fn change_json(told: &OfVolume) -> Value {
    let OfVolume { volume, measure, change, siblings, events } = told;
    json!({
        "volume": volume.name,
        "id": volume.id,
        "host": volume.host,
        "metric": measure.name(),
        "at": Civil::from_unix(change.at).rfc3339(),
        "told": Civil::from_unix(change.told).rfc3339(),
        "before": change.before,
        "after": change.after,
        "ratio": change.ratio(),
        "ci": [change.ci.0, change.ci.1],
        "siblings": siblings.map(|siblings| if siblings.same() { "same" } else { "other" }),
        "siblings_known": siblings.map_or(0, |siblings| siblings.known),
        "siblings_changed": siblings.map_or(0, |siblings| siblings.changed),
        "events": events.iter().map(events::event_json).collect::<Vec<_>>(),
    })
}

fn known_json(known: &Known) -> Value {
    json!({
        "volume": known.volume.name,
        "id": known.volume.id,
        "metric": known.measure.name(),
        "from": Civil::from_unix(known.from).rfc3339(),
        "to": Civil::from_unix(known.to).rfc3339(),
        "enough": known.enough,
    })
}

/// For people: a sentence for each change, its figures below it, and what was looked at.
pub fn text(found: &Changes) -> String {
    let mut text = String::new();
    for told in &found.told {
        text += &format!("{}\n  {}\n", sentence(told), figures(told));
    }
    let (enough, short): (Vec<&Known>, Vec<&Known>) = found.known.iter().partition(|known| known.enough);
    let volumes = |known: &[&Known]| {
        let mut ids: Vec<&str> = known.iter().map(|known| known.volume.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        format_count(ids.len() as u64, "volume")
    };
    let from = enough.iter().map(|known| known.from).min();
    let to = enough.iter().map(|known| known.to).max();
    if let (Some(from), Some(to)) = (from, to) {
        let what = if found.told.is_empty() { "no lasting change of 5% or more" } else { "looked at" };
        let (from, to) = (Civil::from_unix(from).day(), Civil::from_unix(to).day());
        text += &format!("{what}: {}, {from} to {to}\n", volumes(&enough));
    }
    text += &events::table(&found.happened, EVENTS);
    if !short.is_empty() {
        text += &format!("too short to tell: {}, known for less than a week\n", volumes(&short));
    }
    text
}

/// `sdf lost 63% of its seeks on 12 March 2026 04:10 UTC; its seven siblings did not`.
pub fn sentence(told: &OfVolume) -> String {
    let ratio = told.change.ratio();
    let what = match told.measure {
        Measure::Throughput => "throughput",
        _ => "seeks",
    };
    let name = &told.volume.name;
    let did = if ratio < 1.0 {
        format!("{name} lost {} of its {what}", percent(1.0 - ratio))
    } else if ratio < 2.0 {
        format!("{name} gained {} in {what}", percent(ratio - 1.0))
    } else {
        format!("{name} came to {ratio:.1} times its {what}")
    };
    let on = Civil::from_unix(told.change.at).in_words();
    let siblings = told.siblings.map(|siblings| format!("; {}", of_siblings(siblings))).unwrap_or_default();
    let after = events::around(&told.events, told.change.at);
    format!("{did} on {on}{after}{siblings}")
}

/// Levels with their unit, the ratio with its interval, and when it was known.
pub fn figures(told: &OfVolume) -> String {
    let Change { before, after, ci, .. } = told.change;
    let shown = |value: f64| match told.measure {
        Measure::Throughput => format_throughput(value),
        _ => format!("{}/s", format_iops(value)),
    };
    let hours = (told.change.delay_s() / 3600.0).round();
    format!(
        "{} before, {} since: {:.1}% of it (95% interval {:.1}% to {:.1}%); known after {hours:.0} hours",
        shown(before),
        shown(after),
        told.change.ratio() * 100.0,
        ci.0 * 100.0,
        ci.1 * 100.0,
    )
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// What the other volumes of the host did.
fn of_siblings(Siblings { known, changed }: Siblings) -> String {
    let word =
        |number: usize| NUMBERS.get(number).map_or_else(|| number.to_string(), |word| (*word).to_owned());
    let all = match known {
        1 => "its sibling".to_owned(),
        _ => format!("its {} siblings", word(known)),
    };
    match changed {
        0 => format!("{all} did not"),
        _ if changed == known => format!("so did {all}"),
        _ => format!("so did {} of {all}", word(changed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::monitor::Watched;
    use ebbtide_model::units::UnixTime;

    #[test]
    fn a_change_is_told_in_a_sentence() {
        let told = |measure, after: f64, siblings: Option<(usize, usize)>| {
            let volume = Watched { id: "vol-1".into(), name: "sdf".into(), host: "h".into() };
            let at = UnixTime::from_secs(1_773_288_600);
            let change = Change { at, told: at, before: 100.0, after, ci: (after / 110.0, after / 90.0) };
            let siblings = siblings.map(|(known, changed)| Siblings { known, changed });
            sentence(&OfVolume { volume, measure, change, siblings, events: Vec::new() })
        };
        for (measure, after, siblings, expected) in [
            (
                Measure::Seeks,
                37.0,
                Some((7, 0)),
                "lost 63% of its seeks on 12 March 2026 04:10 UTC; its seven siblings did not",
            ),
            (Measure::Throughput, 80.0, None, "lost 20% of its throughput on 12 March 2026 04:10 UTC"),
            (
                Measure::Seeks,
                125.0,
                Some((1, 1)),
                "gained 25% in seeks on 12 March 2026 04:10 UTC; so did its sibling",
            ),
            (
                Measure::Seeks,
                270.0,
                Some((13, 4)),
                "came to 2.7 times its seeks on 12 March 2026 04:10 UTC; so did four of its 13 siblings",
            ),
        ] {
            assert_eq!(told(measure, after, siblings), format!("sdf {expected}"));
        }
    }
}

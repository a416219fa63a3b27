//! What happened to monitored volumes, in words and for programs.

use ebbtide_model::civil::Civil;
use ebbtide_model::monitor::events::{Event, EventKind};
use ebbtide_model::shown::columns;
use ebbtide_model::units::{UnixTime, format_bytes, format_count};
use ebbtide_runner::monitor::changes::Happened;
use serde_json::{Value, json};

/// The answer as JSON.
pub fn json(happened: &Happened) -> Value {
    let mut value = event_json(&happened.event);
    value["volume"] = json!(happened.volume.name);
    value["id"] = json!(happened.volume.id);
    value
}

/// The event alone: what it is, when it was or was first seen, and when the last pass before was.
pub fn event_json(event: &Event) -> Value {
    let mut value = json!(event.what);
    value["at"] = json!(Civil::from_unix(event.at).rfc3339());
    value["since"] = json!(Civil::from_unix(event.since).rfc3339());
    value
}

/// The newest `most` of them, a line each; those of one moment that are the same for several volumes, as a start of their host, are one.
pub fn table(happened: &[Happened], most: usize) -> String {
    let mut lines: Vec<(&Event, Vec<&Happened>)> = Vec::new();
    for one in happened {
        let same = |(event, _): &&mut (&Event, Vec<&Happened>)| {
            event.what == one.event.what && near(event.at, one.event.at)
        };
        match lines.iter_mut().rev().take_while(|(event, _)| near(event.at, one.event.at)).find(same) {
            Some((_, all)) => all.push(one),
            None => lines.push((&one.event, vec![one])),
        }
    }
    let mut rows = vec![["WHEN", "VOLUME", "WHAT HAPPENED"].map(str::to_owned)];
    rows.extend(lines.iter().skip(lines.len().saturating_sub(most)).map(|(event, all)| {
        let volume = match all.as_slice() {
            [one] => one.volume.name.clone(),
            several => format_count(several.len() as u64, "volume"),
        };
        [Civil::from_unix(event.at).to_string(), volume, noun(&event.what)]
    }));
    if rows.len() == 1 { String::new() } else { columns(&rows, 0) }
}

/// Whether both are of one pass, which takes a few seconds for each volume.
fn near(one: UnixTime, other: UnixTime) -> bool {
    one.0.abs_diff(other.0) < 300_000_000_000
}

/// What happened around a change at `at`: `, after a resize from 107 GB to 215 GB at 03:55`; nothing where nothing did.
pub fn around(events: &[Event], at: UnixTime) -> String {
    let when = |event: &Event| {
        let (then, change) = (Civil::from_unix(event.at), Civil::from_unix(at));
        if then.day() == change.day() { then.minute() } else { then.in_words() }
    };
    let phrases = |word: &str, later: bool| {
        let those: Vec<String> = events
            .iter()
            // It happened after the pass before.
            .filter(|event| (event.since >= at) == later)
            .map(|event| format!("{} at {}", noun(&event.what), when(event)))
            .collect();
        if those.is_empty() { String::new() } else { format!(", {word} {}", those.join(" and ")) }
    };
    phrases("after", false) + &phrases("before", true)
}

/// An event as a noun.
pub fn noun(what: &EventKind) -> String {
    match what {
        EventKind::Moved { before, after } => format!("its move from {before} to {after}"),
        EventKind::Started => "a start of its host".to_owned(),
        EventKind::Machine { after, .. } => format!("its host's change to {after}"),
        EventKind::Kernel { after, .. } => format!("its host's change to kernel {after}"),
        EventKind::Renamed { before, after } => format!("its coming back as {after} instead of {before}"),
        EventKind::Resized { before, after } => {
            format!("a resize from {} to {}", format_bytes(before.0 as f64), format_bytes(after.0 as f64))
        }
        EventKind::Kind { before, after } => format!("its change from {before} to {after}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::monitor::Watched;
    use ebbtide_model::units::Bytes;

    const AT: u64 = 1_773_288_600;

    fn event(at: u64, what: EventKind) -> Event {
        Event { at: UnixTime::from_secs(at), since: UnixTime::from_secs(at - 900), what }
    }

    #[test]
    fn events_stand_with_the_change_that_they_may_explain() {
        let resize = EventKind::Resized { before: Bytes(100_000_000_000), after: Bytes(200_000_000_000) };
        let events = [
            event(AT - 900, resize),
            event(AT - 86_400, EventKind::Started),
            event(AT + 1800, EventKind::Started),
        ];
        let text = around(&events, UnixTime::from_secs(AT));
        assert_eq!(
            text,
            ", after a resize from 100 GB to 200 GB at 03:55 and a start of its host at 11 March 2026 04:10 UTC, before a start of its host at 04:40"
        );
        assert_eq!(around(&[], UnixTime::from_secs(AT)), "");
    }

    #[test]
    fn what_happens_to_all_volumes_of_a_host_is_one_line() {
        let of = |name: &str, at, what| {
            let volume = Watched { id: name.to_owned(), name: name.to_owned(), host: "h".to_owned() };
            Happened { volume, event: event(at, what) }
        };
        let moved = EventKind::Moved { before: "a".to_owned(), after: "b".to_owned() };
        let all = [
            of("sda", AT, EventKind::Started),
            of("sda", AT, moved),
            of("sdb", AT + 2, EventKind::Started),
            of("sdb", AT + 900, EventKind::Started),
        ];
        let text = table(&all, 10);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].contains("2 volumes") && lines[1].ends_with("a start of its host"), "{text}");
        assert!(lines[2].contains("sda") && lines[2].ends_with("its move from a to b"), "{text}");
        assert_eq!(table(&all, 1).lines().count(), 2);
        assert_eq!(table(&[], 10), "");
        let value = json(&all[1]);
        assert_eq!(
            (&value["event"], &value["before"], &value["volume"]),
            (&"moved".into(), &"a".into(), &"sda".into())
        );
    }
}

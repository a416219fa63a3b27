//! What pages show.

use super::serving::{Serving, monitored, store, stored};
use crate::common::Home;
use ebbtide_model::session::{Session, SessionMeta};
use ebbtide_model::testing::session::{self as fixture, Recipe};
use ebbtide_model::units::UnixTime;
use serde_json::Value;
use std::collections::BTreeSet;
fn no_markup_of_others(page: &str) {
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
}

#[test]
fn pages_show_what_is_stored_and_run_nothing_of_it() {
    let home = Home::new();
    let session = stored(&home);
    let id = session.meta.id.clone();
    let serving = Serving::local(&home);
    let list = serving.get("/");
    assert_eq!(list.status, 200);
    assert!(list.body.contains(&format!("href=\"/session/{id}\"")), "{}", list.body);
    assert!(list.body.contains("2 sessions") && list.body.contains("&lt;script&gt;"));
    no_markup_of_others(&list.body);

    let report = serving.get(&format!("/session/{id}"));
    assert_eq!(report.status, 200);
    for part in ["id=\"summary\"", "id=\"latency\"", "<svg", "aria-label=\"Pages\""] {
        assert!(report.body.contains(part), "{part}");
    }
    no_markup_of_others(&report.body);
    assert_eq!(serving.get(&format!("/session/{id}")).body, report.body);

    let compared = serving.get(&format!("/compare?order=oldest-first&session={id}-again&session={id}"));
    assert_eq!(compared.status, 200, "{}", compared.body);
    assert!(compared.body.contains("id=\"comparisons\"") && compared.body.contains("id=\"ratios\""));
    no_markup_of_others(&compared.body);
    for (query, said) in [
        ("", "Choose two"),
        (&*format!("?session={id}"), "Choose two"),
        (&*format!("?session={id}&session={id}-again&threshold=x"), "threshold"),
        (&*format!("?session={id}&session={id}-again&metric=mood"), "metric"),
        (&*format!("?session={id}&session={id}-again&order=no"), "order"),
    ] {
        let answer = serving.get(&format!("/compare{query}"));
        assert!(answer.status == 400 && answer.body.contains(said), "{query}: {answer:?}");
    }

    for (path, schema) in [
        ("/api/sessions".to_owned(), "ebbtide.sessions/1"),
        (format!("/api/session/{id}"), "ebbtide.session/1"),
        (format!("/api/compare?session={id}&session={id}-again"), "ebbtide.compare/1"),
        ("/api/changes".to_owned(), "ebbtide.changes/1"),
    ] {
        let answer = serving.get(&path);
        assert_eq!((answer.status, answer.field("Content-Type")), (200, "application/json"), "{path}");
        let value: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(value["schema"], schema, "{path}");
    }

    for (path, wanted) in
        [("/nowhere", 404), ("/session/nothing", 404), ("/session", 404), ("/?before=nothing", 404)]
    {
        let answer = serving.get(path);
        assert_eq!(answer.status, wanted, "{path}");
        assert!(!answer.body.contains("store.sqlite"), "where the store is: {}", answer.body);
    }
    assert_eq!(serving.get("/session/%3Cscript%3Ealert(1)").status, 404);
    no_markup_of_others(&serving.get("/session/%3Cscript%3Ealert(1)").body);
    no_markup_of_others(&serving.get("/?experiment=%22%3E%3Cscript%3Ealert(1)").body);

    let head = serving.ask(&["HEAD / HTTP/1.1", "Host: localhost"]);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.field("Content-Length"), list.field("Content-Length"));
    assert_eq!(serving.end("TERM").0, Some(0));
}

#[test]
fn ten_thousand_sessions_are_paged() {
    const ALL: usize = 10_000;
    let home = Home::new();
    let plain = fixture::session(&Recipe { rounds: 1, members: 2, ..Recipe::default() });
    let session = |number: usize| {
        let mut session = Session { trials: Vec::new(), ..plain.clone() };
        let started = UnixTime::from_secs(1_700_000_000 + number as u64 / 2);
        session.meta = SessionMeta::new(format!("session-{number:05}"), plain.meta.backend, 1, started);
        session.experiment.name = format!("experiment {}", number % 100);
        session
    };
    let sessions: Vec<Session> = (0..ALL).map(session).collect();
    store(&home).add_all(sessions.iter().map(|session| (session, "an answer".to_owned()))).unwrap();
    let serving = Serving::local(&home);
    let ids = |page: &str| -> Vec<String> {
        page.split("href=\"/session/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect()
    };
    let mut seen = BTreeSet::new();
    let mut path = "/".to_owned();
    for _ in 0..ALL {
        let answer = serving.get(&path);
        assert_eq!(answer.status, 200);
        assert!(answer.body.len() < 60_000, "{} bytes", answer.body.len());
        assert!(answer.body.contains("10000 sessions"), "{}", answer.body);
        let ids = ids(&answer.body);
        assert!(!ids.is_empty() && ids.len() <= 50);
        let before = seen.len();
        seen.extend(ids.iter().cloned());
        assert_eq!(seen.len(), before + ids.len(), "each once");
        let Some(next) = answer.body.split("href=\"/?before=").nth(1) else { break };
        path = format!("/?before={}", next.split('"').next().unwrap());
    }
    assert_eq!(seen.len(), ALL);
    let found = serving.get("/?experiment=EXPERIMENT+42");
    assert!(found.body.contains("100 sessions of experiments"), "{}", found.body);
}

#[test]
fn weeks_of_a_volume_are_drawn_with_their_changes() {
    let home = Home::new();
    let last = UnixTime::from_secs(1_774_000_000);
    monitored(&home, last);
    let serving = Serving::local(&home);
    let volumes = serving.get("/volumes");
    assert_eq!(volumes.status, 200);
    assert!(
        volumes.body.contains("data-refresh=\"60\"") && volumes.body.contains("2 volumes"),
        "{}",
        volumes.body
    );
    assert!(volumes.body.contains("of its seeks on"), "{}", volumes.body);
    assert!(!serving.get("/volumes?refresh=no").body.contains("data-refresh"));
    no_markup_of_others(&volumes.body);
    let link = volumes.body.split("href=\"/volume?id=vol-").nth(1).unwrap().split('"').next().unwrap();
    let page = serving.get(&format!("/volume?id=vol-{link}"));
    assert_eq!(page.status, 200);
    for part in [
        "lost 50% of its seeks",
        "curve other mark",
        "curve level",
        "curve other event",
        "id=\"events\"",
        "change to kernel 6.2",
        "id=\"measured\"",
        "id=\"load\"",
        "weeks=26",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    no_markup_of_others(&page.body);
    let early = serving.get(&format!("/volume?id=vol-{link}&weeks=1&until=2026-03-08"));
    assert!(early.status == 200 && early.body.contains("2026-03-02 to 2026-03-08"), "{}", early.body);
    assert!(!early.body.contains("curve other mark") && !early.body.contains("curve other event"));
    let figures = serving.get("/metrics");
    assert_eq!(
        (figures.status, figures.field("Content-Type")),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    assert!(figures.body.contains("\nebbtide_volume_change_ratio{id=\"vol-"), "{}", figures.body);
    assert!(figures.body.ends_with("# EOF\n") && figures.body.contains("\nebbtide_monitor_paused 0\n"));
    let other = serving.get("/volume?id=file%3A%2Fdata%2F..%2Fvol+2&weeks=all");
    assert!(other.status == 200 && other.body.contains("no lasting change of 5% or more"), "{}", other.body);
    for (query, said) in [
        ("", "Its id is wanted"),
        ("?id=none", "No volume"),
        ("?id=none&weeks=0", "weeks: write"),
        ("?id=none&until=yesterday", "until: write a day"),
    ] {
        let answer = serving.get(&format!("/volume{query}"));
        assert!(matches!(answer.status, 400 | 404) && answer.body.contains(said), "{query}: {answer:?}");
    }
}

#[test]
fn a_store_that_is_replaced_is_read_anew() {
    let home = Home::new();
    let serving = Serving::local(&home);
    assert!(serving.get("/").body.contains("Nothing is stored yet"));
    assert!(serving.get("/metrics").body.contains("ebbtide_monitor_paused 0\n# EOF"));
    let id = stored(&home).meta.id;
    assert!(serving.get("/").body.contains(&id));
    for name in ["store.sqlite", "store.sqlite-wal", "store.sqlite-shm"] {
        let _ = std::fs::remove_file(home.path(name));
    }
    assert!(!serving.get("/").body.contains(&id));
}

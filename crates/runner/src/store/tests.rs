use super::*;
use ebbtide_model::backend::BackendKind;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{CpuUse, Histogram, Interval, MemberSamples, OpSamples, TrialSamples};
use ebbtide_model::schedule::{Role, Trial};
use ebbtide_model::session::{Ending, HostInfo, Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_model::units::{Nanos, UnixTime};
use ebbtide_model::workload::{Access, Mix, Stop, Workload};
use rusqlite::Connection;
use std::path::PathBuf;

fn session(id: &str) -> Session {
    let started = UnixTime::from_secs(1_795_271_405);
    Session {
        meta: SessionMeta {
            host: HostInfo { hostname: "h".to_owned(), ..HostInfo::default() },
            engine_ceiling_iops: Some(123_456.5),
            ..SessionMeta::new(id, BackendKind::Files, u64::MAX - 1, started)
        },
        experiment: Experiment {
            workloads: vec![Workload::new(
                "w",
                Access::Random,
                Mix::Read,
                Stop::Runtime(Nanos::from_secs(2)),
            )],
            ..Experiment::once("tiny", Vec::new(), vec![("d".to_owned(), LayoutNode::Volume(0))])
        },
        experiment_text: "name = \"tiny\"".to_owned(),
        trials: Vec::new(),
    }
}

fn samples(members: usize) -> TrialSamples {
    let mut latency = Histogram::default();
    for n in 0..200 {
        latency.record(1_000_000 + n * n * 1_000);
    }
    let ops = || PerOp {
        read: OpSamples { latency: latency.clone(), ..OpSamples::default() },
        write: OpSamples::default(),
    };
    TrialSamples {
        started_unix: UnixTime::from_secs(1),
        elapsed: Nanos::from_secs(2),
        interval: Nanos::from_millis(100),
        array: ops(),
        members: (0..members)
            .map(|n| MemberSamples { name: format!("vol{n}"), ops: ops(), errors: Vec::new(), model: None })
            .collect(),
        series: (0..20)
            .map(|n| Interval {
                end: Nanos::from_millis(100 * (n + 1)),
                array: PerOp::default(),
                latency: latency.clone(),
                members: vec![PerOp::default(); members],
            })
            .collect(),
        cpu: CpuUse::default(),
        execution: Default::default(),
        mean_in_flight: Some(7.5),
        observed: None,
        hosts: Vec::new(),
        notes: vec!["a note".to_owned()],
    }
}

fn record(index: u32, outcome: Outcome) -> TrialRecord {
    let trial =
        Trial { index, round: index / 2, design: 0, workload: 0, role: Role::ControlAgain, seed: u64::MAX };
    TrialRecord { trial, outcome }
}

fn temporary() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("store.sqlite");
    (directory, path)
}

/// A session with all its trials.
fn load(store: &Store, which: &str) -> Result<Session, StoreError> {
    let mut session = store.head(which)?;
    let mut trials = Vec::new();
    store.each_trial(&session, |record| trials.push(record))?;
    session.trials = trials;
    Ok(session)
}

#[test]
fn what_is_stored_is_loaded() {
    let (_directory, path) = temporary();
    let mut store = Store::open(Some(&path)).expect("opens");
    let mut expected = session("20261121-143005-7f3a");
    store.begin(&expected, &serde_json::json!({"rounds": 6})).expect("begins");
    expected.trials.push(record(0, Outcome::Samples(Box::new(samples(8)))));
    expected.trials.push(record(1, Outcome::Failed("volume v: EIO".to_owned())));
    for trial in &expected.trials {
        store.add_trial(&expected.meta.id, trial).expect("stores");
    }
    drop(store); // as after a kill: nothing said how it ended
    let mut store = Store::open(Some(&path)).expect("opens again");
    assert_eq!(load(&store, "last").expect("loads"), expected);

    expected.meta.ending = Ending::NotReached;
    expected.meta.warnings.push("a warning".to_owned());
    store.update(&expected.meta, Some("striped is 8x")).expect("updates");
    assert_eq!(load(&store, "20261121").expect("loads"), expected);
    let list = store.list().expect("lists");
    assert_eq!((list[0].trials, list[0].failed), (1, 1));
    assert_eq!(list[0].headline.as_deref(), Some("striped is 8x"));
}

#[test]
fn a_session_is_added_as_a_whole_or_not_at_all() {
    let (_directory, path) = temporary();
    let mut store = Store::open(Some(&path)).expect("opens");
    let mut whole = session("20261121-143005-7f3a");
    whole.trials.push(record(0, Outcome::Samples(Box::new(samples(1)))));
    // The same number twice: the last insert fails.
    let mut broken = whole.clone();
    broken.trials.push(whole.trials[0].clone());
    store.add_all([(&broken, "two".to_owned())].into_iter()).expect_err("is refused");
    assert_eq!(store.list().expect("lists"), []);
    store.add_all([(&whole, "one".to_owned())].into_iter()).expect("stores");
    assert_eq!(load(&store, "last").expect("loads"), whole);
    assert_eq!(store.list().expect("lists")[0].headline.as_deref(), Some("one"));
}

#[test]
fn a_trial_of_eight_members_stays_small() {
    let packed = encoding::pack(&samples(8)).expect("packs");
    assert!(packed.len() < 64 * 1024, "{} bytes", packed.len());
}

#[test]
fn a_session_is_found_by_a_unique_beginning() {
    let (_directory, path) = temporary();
    let mut store = Store::open(Some(&path)).expect("opens");
    assert!(matches!(load(&store, "last"), Err(StoreError::NoSession { .. })));
    for id in ["20261121-1", "20261121-12", "20261122-1"] {
        store.begin(&session(id), &serde_json::Value::Null).expect("begins");
    }
    assert_eq!(store.resolve("20261122").expect("unique"), "20261122-1");
    assert_eq!(store.resolve("20261121-1").expect("the whole id wins"), "20261121-1");
    assert!(matches!(store.resolve("2026"), Err(StoreError::Ambiguous { ids, .. }) if ids.len() == 3));
    assert!(matches!(store.resolve("%"), Err(StoreError::NoSession { .. })));
    assert!(matches!(store.resolve(""), Err(StoreError::Ambiguous { .. })));
}

#[test]
fn every_older_schema_is_brought_up_to_date() {
    for version in 0..schema::MIGRATIONS.len() {
        let (_directory, path) = temporary();
        let old = Connection::open(&path).expect("opens");
        for step in &schema::MIGRATIONS[..version] {
            old.execute_batch(step).expect("migrates");
        }
        if version > 0 {
            old.pragma_update(None, "application_id", schema::APPLICATION_ID).expect("marks");
            old.pragma_update(None, "user_version", version as i64).expect("marks");
        }
        drop(old);
        let store = Store::open(Some(&path)).expect("opens");
        assert_eq!(store.list().expect("lists"), []);
    }
}

#[test]
fn a_store_that_says_a_wrong_version_is_told_by_it_and_left_as_it_is() {
    for version in 0..schema::MIGRATIONS.len() as i64 {
        let (_directory, path) = temporary();
        drop(Store::open(Some(&path)).expect("opens"));
        let marked = Connection::open(&path).expect("opens");
        marked.pragma_update(None, "user_version", version).expect("marks");
        drop(marked);
        for error in [Store::open(Some(&path)).err(), Store::open_existing(Some(&path)).err()] {
            let error = error.expect("is refused");
            assert!(
                matches!(error, StoreError::NotOfItsVersion { found, .. } if found == version),
                "{error}"
            );
        }
        let version_of = |connection: Connection| {
            connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).expect("reads")
        };
        assert_eq!(version_of(Connection::open(&path).expect("opens")), version);
    }
}

#[test]
fn a_path_with_something_behind_the_name_is_refused_whoever_opens_it() {
    let (_directory, path) = temporary();
    for end in ["/", "/."] {
        let mut written = path.clone().into_os_string();
        written.push(end);
        let written = std::path::PathBuf::from(written);
        for made in [false, true] {
            if made {
                drop(Store::open(Some(&path)).expect("opens"));
            }
            for error in [Store::open(Some(&written)).err(), Store::open_existing(Some(&written)).err()] {
                let error = error.expect("is refused").to_string();
                assert!(error.contains("leave out what is behind the name"), "{error}");
            }
            assert_eq!(path.exists(), made);
        }
        std::fs::remove_file(&path).expect("removes");
    }
}

#[test]
fn files_that_are_no_stores_are_left_alone() {
    let (directory, path) = temporary();
    std::fs::write(
        &path,
        "this is a text file, and long enough to be taken for a database header".repeat(20),
    )
    .expect("writes");
    let before = std::fs::read(&path).expect("reads");
    assert!(matches!(Store::open(Some(&path)), Err(StoreError::NotAStore { .. })));
    assert_eq!(std::fs::read(&path).expect("reads"), before);

    // SQLite takes less than a page for an empty database, and would write over it.
    for text in ["x", "key = 1\n"] {
        std::fs::write(&path, text).expect("writes");
        assert!(matches!(Store::open(Some(&path)), Err(StoreError::NotAStore { .. })));
        assert!(matches!(Store::open_existing(Some(&path)), Err(StoreError::NotAStore { .. })));
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), text);
    }

    let other = directory.path().join("other.sqlite");
    Connection::open(&other).expect("opens").execute_batch("CREATE TABLE x (y)").expect("writes");
    assert!(matches!(Store::open(Some(&other)), Err(StoreError::NotAStore { .. })));

    let newer = directory.path().join("newer.sqlite");
    drop(Store::open(Some(&newer)).expect("opens"));
    Connection::open(&newer).expect("opens").pragma_update(None, "user_version", 999).expect("marks");
    let error = Store::open(Some(&newer)).expect_err("is refused");
    assert!(matches!(error, StoreError::Newer { found: 999, .. }), "{error}");
}

#[test]
fn looking_makes_no_store_of_what_is_empty() {
    let (directory, path) = temporary();
    std::fs::write(&path, "").expect("writes");
    // Another program's database before it has a table.
    let bare = directory.path().join("bare.sqlite");
    Connection::open(&bare)
        .expect("opens")
        .execute_batch("CREATE TABLE x (y); DROP TABLE x")
        .expect("writes");
    for path in [&path, &bare] {
        let before = std::fs::read(path).expect("reads");
        assert!(Store::open_existing(Some(path)).expect("is fine").is_none());
        assert_eq!(std::fs::read(path).expect("reads"), before);
        // Who stores something there makes it one.
        drop(Store::open(Some(path)).expect("opens"));
        assert!(Store::open_existing(Some(path)).expect("opens").is_some());
    }
}

#[test]
fn a_place_that_cannot_be_is_named() {
    let (directory, _) = temporary();
    for (path, words) in [
        (directory.path().to_owned(), "a directory, not a regular file"),
        (directory.path().join("missing/store.sqlite"), "does not exist"),
        (PathBuf::from("/dev/null"), "not a regular file"),
        (PathBuf::from("/proc/ebbtide.sqlite"), "cannot open"),
    ] {
        let error = Store::open(Some(&path)).expect_err("is refused").to_string();
        assert!(error.contains(words) && error.contains(&path.display().to_string()), "{error}");
    }
    assert!(Store::open_existing(Some(&directory.path().join("none"))).expect("is fine").is_none());
}

#[test]
fn two_programs_may_write_at_once() {
    let (_directory, path) = temporary();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let path = &path;
            scope.spawn(move || {
                let mut store = Store::open(Some(path)).expect("opens");
                store.begin(&session(name), &serde_json::Value::Null).expect("begins");
                for index in 0..20 {
                    store.add_trial(name, &record(index, Outcome::Failed("x".to_owned()))).expect("stores");
                }
            });
        }
    });
    let list = Store::open(Some(&path)).expect("opens").list().expect("lists");
    assert_eq!(list.iter().map(|s| s.failed).collect::<Vec<_>>(), [20, 20, 20]);
}

/// A store as the first version wrote it, with samples as JSON alone: twelve simulated trials of two designs.
const VERSION_1: &[u8] = include_bytes!("recorded/version-1.sqlite");

#[test]
fn what_the_first_version_stored_is_read_and_means_the_same() {
    let (_directory, path) = temporary();
    std::fs::write(&path, VERSION_1).expect("writes");
    let store = Store::open(Some(&path)).expect("opens");
    let session = load(&store, "recorded").expect("loads");
    let ops = |record: &TrialRecord| match &record.outcome {
        Outcome::Samples(samples) => samples.array.counts().total().ops,
        Outcome::Failed(why) => panic!("{why}"),
    };
    assert_eq!(session.trials.len(), 12);
    assert!(session.trials.iter().all(|record| ops(record) > 0));
    for record in &session.trials {
        let Outcome::Samples(samples) = &record.outcome else { unreachable!("all have samples") };
        let packed = encoding::pack(samples).expect("packs");
        assert_eq!(encoding::unpack(&packed).expect("unpacks"), **samples);
    }
}

#[test]
fn design_by_design_says_what_the_whole_says() {
    let (_directory, path) = temporary();
    std::fs::write(&path, VERSION_1).expect("writes");
    let store = Store::open(Some(&path)).expect("opens");
    let session = load(&store, "recorded").expect("loads");
    let head = store.head("recorded").expect("loads");
    assert_eq!(head, Session { trials: Vec::new(), ..session.clone() });
    let parts = store.by_design(&head, |_, records| records.len()).expect("reads");
    assert_eq!(parts.iter().map(|(_, records)| records).sum::<usize>(), 12);
    let parts = parts.into_iter().map(|(part, _)| part).collect();
    assert_eq!(ebbtide_analysis::together(&head, parts), ebbtide_analysis::analyse(&session));
}

#[test]
fn a_damaged_trial_is_said_and_ends_the_reading() {
    let (_directory, path) = temporary();
    std::fs::write(&path, VERSION_1).expect("writes");
    let store = Store::open(Some(&path)).expect("opens");
    let sql = "UPDATE trials SET samples = x'01789c' WHERE idx = 3";
    store.connection.execute(sql, []).expect("damages");
    let head = store.head("recorded").expect("loads");
    let of_it = |error: StoreError| {
        assert!(
            matches!(&error, StoreError::Damaged { session: Some(id), .. } if *id == head.meta.id),
            "{error}"
        );
    };
    of_it(store.by_design(&head, |_, _| ()).map(drop).expect_err("is damaged"));
    of_it(load(&store, "recorded").expect_err("is damaged"));
    store.connection.execute("UPDATE trials SET design = 99 WHERE idx = 4", []).expect("damages");
    of_it(store.head("recorded").expect_err("is damaged"));
}

#[test]
fn a_damaged_session_does_not_hide_the_others() {
    let (_directory, path) = temporary();
    std::fs::write(&path, VERSION_1).expect("writes");
    let mut store = Store::open(Some(&path)).expect("opens");
    let mut other = store.head("recorded").expect("loads");
    other.meta.id = "other".to_owned();
    store.begin(&other, &serde_json::Value::Null).expect("stores");
    store.connection.execute("UPDATE sessions SET ending = '{' WHERE id = 'other'", []).expect("damages");
    let listed = store.list().expect("lists");
    assert_eq!(listed.len(), 2);
    let damaged = listed.iter().find(|session| session.id == "other").expect("is listed");
    assert!(damaged.headline.as_ref().is_some_and(|text| text.starts_with("damaged in the store")));
}

#[test]
fn a_page_of_sessions_reads_no_others() {
    let (_directory, path) = temporary();
    let mut store = Store::open(Some(&path)).expect("opens");
    for number in 0..25u64 {
        let mut session = session(&format!("s{number:02}"));
        // Some began at the same moment.
        session.meta.started_unix = UnixTime::from_secs(1000 + number / 2);
        session.experiment.name = if number % 5 == 0 { "Other 100%".to_owned() } else { "tiny".to_owned() };
        store.begin(&session, &serde_json::Value::Null).expect("begins");
    }
    let all: Vec<String> = store.list().expect("reads").into_iter().map(|s| s.id).collect();
    for name in [None, Some("OTHER"), Some("100%"), Some("%"), Some("none")] {
        let mut paged = Vec::new();
        let mut before: Option<String> = None;
        loop {
            let page = store.some(name, before.as_deref(), 4).expect("reads");
            assert!(page.sessions.len() <= 4);
            before = page.sessions.last().map(|last| last.id.clone());
            paged.extend(page.sessions.into_iter().map(|s| s.id));
            if !page.older {
                assert_eq!(page.all, paged.len() as u64, "{name:?}");
                break;
            }
        }
        let wanted = |id: &&String| {
            let other = id[1..].parse::<u64>().expect("a number") % 5 == 0;
            match name {
                None => true,
                Some("none") => false,
                Some(_) => other,
            }
        };
        assert_eq!(paged, all.iter().filter(wanted).cloned().collect::<Vec<_>>(), "{name:?}");
    }
    assert!(matches!(store.some(None, Some("s99"), 4), Err(StoreError::NoSession { .. })));
    assert_eq!(store.summary("last").expect("reads"), store.list().expect("reads")[0]);
}

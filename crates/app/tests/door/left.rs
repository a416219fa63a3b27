//! What a run leaves behind when it is killed, and what it says and keeps when a disk is full.

use super::common::{Home, LONG, Running, SHORT, status, stderr, tiny};
use super::matrix::every;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Rounds of the kill test; `EBB_TEST_ROUNDS` asks for others.
fn rounds() -> u64 {
    ebbtide_host::testing::number("EBB_TEST_ROUNDS", 30 / every() as u64)
}

/// Everything in the home but what may stay: the store, the journals' directory, files of the test's own.
fn leftovers(home: &Home) -> Vec<PathBuf> {
    let may_stay = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        path.is_dir() && ["ebbtide", "journals", "ledgers"].contains(&name.as_str())
            || name.starts_with("store.sqlite")
            || name.ends_with(".ledger")
    };
    ["data", "state", "volumes"]
        .iter()
        .flat_map(|name| home.files_in(name))
        .filter(|path| !may_stay(path))
        .collect()
}

fn cleanup(home: &Home) {
    let output = home.ebb("cleanup").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
}

#[test]
#[ignore = "takes its time: cargo xtask root"]
fn a_kill_at_any_time_loses_nothing_and_leaves_nothing_after_cleanup() {
    let home = Home::new();
    home.write("x.toml", &tiny("", LONG));
    std::fs::write(home.path("precious"), "a user's own").unwrap();
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut sessions = 0;
    for round in 0..rounds() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let running: Running = match round % 4 {
            0 | 1 => home.start("run x.toml --quiet"),
            2 => home.start("bench new --rw randread --bs 4k --size 32m --runtime 1s"),
            _ => home.start("bench new --verify --rw randwrite --bs 4k --size 8m"),
        };
        std::thread::sleep(Duration::from_millis(random % 900));
        running.signal_if_it_lives("KILL");
        drop(running.wait());
        let new = home.path("new");
        if let Ok(found) = std::fs::metadata(&new) {
            let size = if round % 4 == 2 { 32 << 20 } else { 8 << 20 };
            assert_eq!(found.len(), size, "round {round}: half a file");
            if round % 4 == 2 {
                let read = std::fs::read(&new).unwrap();
                let zeros = read.chunks(4096).filter(|block| block.iter().all(|byte| *byte == 0)).count();
                assert_eq!(zeros, 0, "round {round}: it was not filled");
            }
            std::fs::remove_file(&new).unwrap();
        }
        cleanup(&home);
        assert_eq!(leftovers(&home), Vec::<PathBuf>::new(), "round {round}");
        let now = home.json("list", &[0])["sessions"].as_array().map_or(0, Vec::len);
        assert!(now >= sessions, "round {round}: {now} of {sessions} sessions");
        sessions = now;
        assert_eq!(std::fs::read(home.path("precious")).unwrap(), b"a user's own");
        let names: Vec<_> =
            std::fs::read_dir(home.path("")).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(names.len(), 5, "round {round}: {names:?}");
    }
    home.write("y.toml", &tiny("", SHORT));
    let output = home.ebb("run y.toml --quiet").output().unwrap();
    assert!([0, 3].contains(&status(&output)), "{output:?}");
}

/// At how many of the calls of a kind one fails, at most.
fn points() -> usize {
    9 / every()
}

/// What is done with each of its writes failing in turn.
struct Work {
    line: &'static str,
    /// System calls that fail.
    calls: &'static [&'static str],
    /// A report that is whole whatever happens: the old one or the new one.
    report: Option<&'static str>,
}

const WORK: &[Work] = &[
    Work {
        line: "run x.toml --on sim --quiet -o r.json",
        calls: &["write", "pwrite64", "fsync", "fdatasync", "linkat", "renameat2"],
        report: Some("r.json"),
    },
    Work {
        line: "run x.toml --quiet",
        calls: &["write", "pwrite64", "fallocate", "mkdirat", "fsync", "fdatasync"],
        report: None,
    },
    Work {
        line: "bench new --rw randread --bs 4k --size 4m",
        calls: &["write", "pwrite64", "fallocate", "linkat", "fsync"],
        report: None,
    },
    Work {
        line: "bench new --verify --rw write --bs 4k --size 64k --ledger new.ledger",
        calls: &["write", "linkat", "fsync"],
        report: None,
    },
    Work {
        line: "show last --json -o r.json",
        calls: &["write", "linkat", "renameat2", "fsync"],
        report: Some("r.json"),
    },
];

/// Runs `line` with the calls of the kind `call` that `inject` says failing in each thread; how many there are.
fn traced(home: &Home, line: &str, call: &str, inject: &str) -> (std::process::Output, usize) {
    let log = home.path("strace.log");
    let mut command: Command = home.command("strace");
    command.args(["-f", "-qq", "-o", log.to_str().unwrap(), "-e", &format!("trace={call}")]);
    if !inject.is_empty() {
        command.args(["-e", &format!("inject={call}:error=ENOSPC:when={inject}")]);
    }
    command.arg(super::common::EBB).args(line.split_whitespace());
    let output = command.output().unwrap();
    let log_text = std::fs::read_to_string(&log).unwrap_or_default();
    std::fs::remove_file(&log).unwrap();
    (output, log_text.lines().filter(|line| line.contains(&format!("{call}("))).count())
}

/// Whether JSON that is there is whole.
fn is_whole(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap();
    text == "an old report" || serde_json::from_str::<serde_json::Value>(&text).is_ok()
}

#[test]
#[ignore = "requires strace: cargo xtask root"]
fn whichever_write_fails_it_is_said_and_nothing_complete_is_lost() {
    let home = Home::new();
    home.write("x.toml", &tiny("", SHORT));
    let output = home.ebb("run x.toml --on sim --quiet").output().unwrap();
    assert!([0, 3].contains(&status(&output)), "{output:?}");
    let mut failed = 0;
    for work in WORK {
        for call in work.calls {
            prepare(&home);
            let (output, calls) = traced(&home, work.line, call, "");
            assert!([0, 3].contains(&status(&output)), "{}: {output:?}", work.line);
            // In turn one alone, and one with all that come after it, as on a disk that stays full.
            for (number, when) in (1..=calls).step_by(calls.div_ceil(points()).max(1)).enumerate() {
                let inject = if number % 2 == 0 { format!("{when}+") } else { when.to_string() };
                failed += usize::from(one_fails(&home, work, call, &inject));
            }
        }
    }
    assert!(failed > 60 / every(), "only {failed} runs noticed");
    // And everything works again.
    let output = home.ebb("run x.toml --quiet").output().unwrap();
    assert!([0, 3].contains(&status(&output)), "{output:?}");
}

fn prepare(home: &Home) {
    for name in ["new", "new.ledger"] {
        let _ = std::fs::remove_file(home.path(name));
    }
    std::fs::write(home.path("r.json"), "an old report").unwrap();
}

/// Runs `work` with calls failing, and looks at what is there afterwards; whether it failed.
fn one_fails(home: &Home, work: &Work, call: &str, inject: &str) -> bool {
    prepare(home);
    let sessions = |home: &Home| home.json("list", &[0])["sessions"].as_array().unwrap().len();
    let before = sessions(home);
    let (output, _) = traced(home, work.line, call, inject);
    let what = format!("{} with {call} number {inject} failing", work.line);
    let failed = ![0, 3].contains(&status(&output));
    assert!(status(&output) >= 0, "{what}: {output:?}");
    // Each thread's writes are counted by themselves: the one that says so may be among those that fail.
    let mute = call == "write" && (inject.ends_with('+') || work.line.contains("--verify"));
    if failed && !mute {
        assert!(stderr(&output).contains("space"), "{what}: {output:?}");
    }
    if let Some(report) = work.report {
        assert!(is_whole(&home.path(report)), "{what}");
        if stderr(&output).contains("cannot write the report") {
            assert_eq!(std::fs::read_to_string(home.path(report)).unwrap(), "an old report", "{what}");
        }
    }
    assert!(sessions(home) >= before, "{what}: sessions are gone");
    cleanup(home);
    assert_eq!(leftovers(home), Vec::<PathBuf>::new(), "{what}");
    let beside = std::fs::read_dir(home.path("")).unwrap().flatten().map(|entry| entry.file_name());
    let hidden: Vec<_> = beside.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert!(hidden.is_empty(), "{what}: {hidden:?}");
    failed
}

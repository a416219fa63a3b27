//! Programs as the load: their figures, their data, their ends, and PostgreSQL for real.

use crate::common::{Home, refused, status, stderr, until_true};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Two directories of a home that any user can reach, of which the second does twice as many; and an experiment of them.
fn two(workload: &str) -> Home {
    let home = Home::new();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.path(""), open).unwrap();
    for (name, rate) in [("one", 100), ("two", 200)] {
        std::fs::create_dir(home.path(name)).unwrap();
        home.write(&format!("{name}/rate"), &format!("rate = {rate} per s\n"));
    }
    let at = |name: &str| home.path(name).to_string_lossy().into_owned();
    let text = format!(
        "name = \"p\"\n[designs.one]\ndirectory = \"{}\"\n[designs.two]\ndirectory = \"{}\"\n[workloads.w]\n{workload}\n\
         [answer]\nlevel = 0.5\ntrials_min = 3\ntrials_max = 3\nbudget = \"5m\"\n",
        at("one"),
        at("two"),
    );
    home.write("p.toml", &text);
    home
}

fn left_in(home: &Home) -> Vec<String> {
    let names = ["one", "two"].into_iter().flat_map(|name| home.files_in(name));
    let names = names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    names.filter(|name| name != "rate").collect()
}

/// Seconds to sleep that no other process of this machine has as its argument.
fn long(number: u32) -> String {
    format!("{number}.{}", std::process::id())
}

/// Whether a process runs whose command line has `word`.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).split('\0').any(|found| found == word))
}

fn result<'a>(session: &'a Value, design: &str, metric: &str) -> &'a Value {
    let results = session["results"].as_array().unwrap();
    let found = results.iter().find(|r| r["design"] == design && r["metric"] == metric);
    found.unwrap_or_else(|| panic!("{design} {metric}: {session:#}"))
}

/// The data are the same before each trial: a command that finds those of the trial before fails.
const READS: &str = r#"shell = true
prepare = ["echo fresh > data; mkdir below; echo deep > below/file"]
before = ["test \"$(cat data)\" = fresh"]
command = "cat {mount}/rate below/file; echo used > data; echo {seed} {round} {clients} > drawn; sleep 0.05"
clients = 3
metrics = [{ name = "rate", pattern = 'rate = ([0-9]+)', unit = "per s", better = "higher" }]"#;

#[test]
fn a_program_s_figure_decides_and_its_data_are_put_back_before_each_trial() {
    for reset in ["copy", "prepare"] {
        let home = two(&format!("{READS}\nreset = \"{reset}\""));
        let session = home.json("run p.toml", &[0, 3]);
        for (design, rate) in [("one", 100.0), ("two", 200.0)] {
            let of = result(&session, design, "rate");
            assert_eq!(
                (&of["median"], &of["trials"], &of["unit"]),
                (&rate.into(), &3.into(), &"per s".into())
            );
            assert_eq!(of["primary"], true);
            // Nanoseconds.
            assert!(result(&session, design, "time")["median"].as_f64().unwrap() >= 50e6);
        }
        let of_two =
            &session["comparisons"].as_array().unwrap().iter().find(|c| c["metric"] == "rate").unwrap();
        assert_eq!((&of_two["design"], &of_two["ratio"]), (&"two".into(), &2.0.into()));
        assert_eq!(left_in(&home), Vec::<String>::new());
        let text = home.ebb("show last").output().unwrap();
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert!(text.contains("200 per s") && text.contains("two"), "{text}");
    }
}

#[test]
fn without_a_reset_a_trial_finds_what_the_one_before_it_left() {
    let home = two(&format!("{READS}\nreset = \"none\""));
    let session = home.json("run p.toml", &[1, 3]);
    // The control may have run for the second time first.
    assert_eq!(result(&session, "two", "rate")["trials"], 1, "the others find used data");
    assert_eq!(left_in(&home), Vec::<String>::new());
}

#[test]
fn a_program_that_fails_says_why_and_leaves_nothing() {
    for (workload, part) in [
        (
            "shell = true\ncommand = \"echo the disk is odd >&2; exit 3\"",
            "status 3; it said last: the disk is odd",
        ),
        ("command = [\"no-such-program-of-ebb\"]", "there is no such program"),
        ("command = [\"sleep\", \"60\"]\ntimeout = \"200ms\"", "was killed"),
        ("shell = true\ncommand = \"kill -9 $$\"", "signal 9"),
        ("command = [\"yes\"]", "printed more than 64 MiB"),
        (
            "command = [\"echo\", \"tps = many\"]\nmetrics = [{ name = \"tps\", pattern = 'tps = (.*)', better = \"higher\" }]",
            "tps as `many`, which is no number",
        ),
        (
            "command = [\"true\"]\nmetrics = [{ name = \"tps\", pattern = 'tps = (.*)', better = \"higher\" }]",
            "its output has no tps",
        ),
        ("command = [\"true\"]\nprepare = [[\"false\"]]", "false ended with status 1"),
        ("command = [\"true\"]\nuser = \"nobody-at-all\"", "user"),
    ] {
        let home = two(workload);
        let output = home.ebb("run p.toml --json").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
        assert_eq!(status(&output), 1, "{workload}: {said}");
        assert!(said.contains(part), "{workload}: {part} is not in {said}");
        assert_eq!(left_in(&home), Vec::<String>::new(), "{workload}");
    }
}

#[test]
fn what_a_program_leaves_running_ends_with_its_trial() {
    let daemon = long(4711);
    let home = two(&format!("shell = true\ncommand = \"setsid sleep {daemon} >/dev/null 2>&1 & sleep 0.1\""));
    home.json("run p.toml", &[0, 3]);
    assert!(!runs(&daemon));
}

/// It is whoever's program: what it has of the run's it could use against the run.
#[test]
fn a_program_has_neither_the_journal_nor_a_terminal() {
    let home = two(r#"shell = true
command = """
echo n $(for f in /proc/self/fd/*; do readlink $f; done | grep -c jsonl)
if (true </dev/tty) 2>/dev/null; then echo t 1; else echo t 0; fi
grep NoNewPrivs /proc/self/status"""
metrics = [
    { name = "n", pattern = '^n ([0-9]+)', better = "lower" },
    { name = "t", pattern = '^t ([0-9]+)', better = "lower" },
    { name = "kept", pattern = 'NoNewPrivs:\s+([01])', better = "higher" },
]"#);
    let session = home.json("run p.toml", &[0, 3]);
    for (metric, value) in [("n", 0.0), ("t", 0.0), ("kept", 1.0)] {
        assert_eq!(result(&session, "one", metric)["median"], value, "{metric}: {session:#}");
    }
}

#[test]
fn after_a_kill_cleanup_ends_the_program_and_removes_its_data() {
    let (daemon, program) = (long(4712), long(4713));
    let workload =
        format!("prepare = [\"echo laid > data\"]\ncommand = \"setsid sleep {daemon} & sleep {program}\"");
    let home = two(&format!("shell = true\n{workload}"));
    let running = home.start("run p.toml");
    until_true("the program runs", || runs(&daemon) && runs(&program));
    running.signal("KILL");
    running.wait();
    assert!(runs(&daemon) && !left_in(&home).is_empty());
    home.json("cleanup", &[0]);
    assert!(!runs(&daemon) && !runs(&program));
    assert_eq!(left_in(&home), Vec::<String>::new());
    assert_eq!(home.json("cleanup", &[0])["leftovers"], Value::Array(vec![]));
}

#[test]
fn an_interrupt_ends_the_program() {
    let (daemon, program) = (long(4714), long(4715));
    let home = two(&format!("shell = true\ncommand = \"setsid sleep {daemon} & sleep {program}\""));
    let running = home.start("run p.toml");
    until_true("the program runs", || runs(&daemon) && runs(&program));
    running.signal("INT");
    running.wait();
    assert!(!runs(&daemon) && !runs(&program));
    assert_eq!(left_in(&home), Vec::<String>::new());
}

#[test]
fn a_user_who_cannot_reach_the_directory_is_told_which_is_closed() {
    if !rustix::process::geteuid().is_root() {
        println!("not root: programs run as this user, who can reach his own directories");
        return;
    }
    let home = two("command = [\"true\"]");
    std::fs::set_permissions(home.path(""), std::fs::Permissions::from_mode(0o700)).unwrap();
    let output = home.ebb("run p.toml").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
    assert!(said.contains("chmod o+x") && said.contains("user nobody cannot reach"), "{said}");
}

#[test]
fn backends_that_cannot_run_a_program_say_so() {
    let home = two("command = [\"true\"]");
    refused(&home, "run p.toml --on sim", 2, &["workload w is a program", "--on kernel"]);
    let array = "name = \"a\"\n[volumes.v]\nsize = \"8MiB\"\n[designs.d]\nlayout = \"linear\"\nmembers = [\"v\"]\n[workloads.w]\ncommand = [\"true\"]\n";
    home.write("a.toml", array);
    refused(&home, "run a.toml", 2, &["design d has no file system for it", "directory"]);
}

#[test]
fn postgresql_is_set_up_measured_and_taken_away() {
    let programs = ["/usr/lib/postgresql", "/usr/pgsql-15"];
    assert!(programs.iter().any(|path| Path::new(path).exists()), "install postgresql: run-tests does");
    let home = two(
        "command = [\"pgbench\", \"-n\", \"-c\", \"{clients}\", \"-T\", \"1\", \"-l\"]\nclients = 2\n[setup.postgresql]\nscale = 1",
    );
    let session = home.json("run p.toml", &[0, 3]);
    for design in ["one", "two"] {
        for metric in ["tps", "latency", "p99", "time"] {
            let of = result(&session, design, metric);
            assert!(of["trials"] == 3 && of["median"].as_f64().unwrap() > 0.0, "{of:#}");
        }
        let of = |metric: &str| result(&session, design, metric)["median"].as_f64().unwrap();
        assert!((of("tps") * of("latency") / 1000.0 - 2.0).abs() < 0.2, "two clients are busy: {session:#}");
    }
    let text = home.ebb("show last").output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(!text.contains("postgres (pid"), "its own processes are nobody else: {text}");
    assert_eq!(left_in(&home), Vec::<String>::new());
}

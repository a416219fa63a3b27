//! `ebb run --hosts` with workers that are processes of this host, each on volumes of its own.

use crate::common::{Home, status, stderr, until, until_true};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn two(answer: &str, runtime: &str) -> String {
    format!(
        r#"name = "two"
[volumes.v]
count = 2
size = "2MiB"
[volumes.v.shape]
iops = 100
[designs.one]
layout = "linear"
members = ["v0"]
[designs.both]
layout = "stripe"
members = ["v[0..1]"]
[workloads.read]
rw = "randread"
bs = "4k"
numjobs = 5
runtime = "{runtime}"
[workloads.single]
rw = "randwrite"
bs = "4k"
runtime = "{runtime}"
[answer]
{answer}
"#
    )
}

const ONCE: &str = "level = 0.5\ntrials_min = 2\ntrials_max = 2\nprecision = \"50%\"";
const LONG: &str = "trials_min = 400\ntrials_max = 400\nbudget = \"100s\"";

/// A line of a run on two processes.
const ON_TWO: &str = "run two.toml --hosts alpha,beta --launch processes --seed 3";

/// The workers that are at work in `home`, with the volumes that they have open.
fn workers(home: &Home) -> Vec<(u32, Vec<String>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let Ok(directory) = std::fs::read_link(entry.path().join("cwd")) else { continue };
        if !line.ends_with(b"\0worker\0") || directory != home.path("").canonicalize().unwrap() {
            continue;
        }
        let open = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let files: Vec<PathBuf> = open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).collect();
        let name = |file: &Path| Some(file.file_name()?.to_string_lossy().into_owned());
        let volumes = files.iter().filter(|file| file.starts_with(home.path("volumes")));
        found.push((pid, volumes.filter_map(|file| name(file)).collect()));
    }
    found
}

/// Waits until nothing of `home` is at work or left.
fn nothing_left(home: &Home) {
    until("the end of all workers", || match workers(home) {
        none if none.is_empty() => Ok(()),
        some => Err(format!("{some:?}")),
    });
    assert_eq!(home.files_in("volumes"), Vec::<PathBuf>::new(), "volumes are removed");
    let journals = home.files_in("state").into_iter().filter(|path| path.is_file());
    assert_eq!(journals.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "journals are removed");
}

fn trials<'a>(session: &'a Value, design: &str, workload: &str) -> Vec<&'a Value> {
    let all = session["trials"].as_array().unwrap().iter();
    all.filter(|trial| trial["design"] == design && trial["workload"] == workload).collect()
}

#[test]
fn each_host_runs_its_share_and_all_of_it_is_one_trial() {
    let home = Home::new();
    home.write("two.toml", &two(ONCE, "300ms"));
    let ran = home.ebb(ON_TWO).args(["-o", "two.html"]).output().unwrap();
    assert!([0, 3].contains(&status(&ran)), "{ran:?}");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        text.contains("\nHosts: median over the trials") && text.contains("hosts began within"),
        "{text}"
    );
    assert!(stderr(&ran).contains("host alpha: v0 (new)"), "{}", stderr(&ran));
    assert!(std::fs::read_to_string(home.path("two.html")).unwrap().contains("What they are"));

    let session = home.json("show --full", &[0]);
    assert_eq!(session["session"]["backend"], "hosts");
    assert_eq!(session["session"]["hosts"].as_array().unwrap().len(), 2);
    let notes = session["session"]["inventory"]["notes"].to_string();
    assert!(notes.contains("limits that the experiment gives its volumes"), "{notes}");
    let names = |trial: &Value| -> Vec<(String, u64)> {
        let hosts = trial["hosts"].as_array().unwrap().iter();
        hosts.map(|h| (h["name"].as_str().unwrap().to_owned(), h["jobs"].as_u64().unwrap())).collect()
    };
    let of = |hosts: &[(&str, u64)]| hosts.iter().map(|(n, j)| ((*n).to_owned(), *j)).collect::<Vec<_>>();
    for trial in trials(&session, "both", "read") {
        assert_eq!(names(trial), of(&[("alpha", 3), ("beta", 2)]));
        let hosts = trial["hosts"].as_array().unwrap();
        let sum: f64 = hosts.iter().map(|host| host["iops"].as_f64().unwrap()).sum();
        let all = trial["values"]["iops"].as_f64().unwrap();
        assert!((sum / all - 1.0).abs() < 1e-6 && all > 0.0, "{sum} of {all}");
        assert!(trial["skew_s"].is_f64() && trial["skew_error_s"].as_f64().unwrap() > 0.0, "{trial}");
        assert!((0.2..=0.3001).contains(&trial["elapsed_s"].as_f64().unwrap()), "{}", trial["elapsed_s"]);
        let members = trial["members"].as_array().unwrap();
        assert_eq!(members.len(), 2, "{members:?}");
    }
    for trial in trials(&session, "both", "single") {
        assert_eq!(names(trial), of(&[("alpha", 1), ("beta", 0)]));
        assert!(trial["skew_s"].is_null());
    }
    for trial in trials(&session, "one", "read") {
        assert_eq!(names(trial), of(&[("alpha", 5)]));
    }
    let csv = String::from_utf8(home.ebb("show --format csv").output().unwrap().stdout).unwrap();
    let rows: Vec<&str> = csv.lines().filter(|line| line.contains(",host_iops,")).collect();
    assert!(csv.lines().next().unwrap().ends_with(",error,host"), "{csv}");
    assert!(rows.iter().any(|row| row.ends_with(",beta")) && rows.iter().any(|row| row.ends_with(",alpha")));
    nothing_left(&home);
}

#[test]
fn what_would_run_where_is_shown_and_touches_nothing() {
    let home = Home::new();
    home.write("two.toml", &two(ONCE, "300ms"));
    let plan =
        home.json(&format!("{ON_TWO} --dry-run --place v0=beta --place v1=alpha --directory /srv"), &[0]);
    let lines: Vec<&str> = plan["hosts"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(lines, ["host alpha: v1 (new, in /srv)", "host beta: v0 (new, in /srv)"]);
    nothing_left(&home);
}

#[test]
fn mistakes_are_told_before_anything_is_started() {
    let home = Home::new();
    home.write("two.toml", &two(ONCE, "300ms"));
    for (line, said) in [
        ("--hosts a,b --place w=a", "no such volume"),
        ("--hosts a,b --place v0=c:/x", "does not name that host"),
        ("--hosts a,b,c", "host c has no volume"),
        ("--hosts a,b --on sim", "leave out --on"),
        ("--hosts a,b --scale 1/2", "--scale has no meaning with --hosts"),
        ("--hosts a,b --directory files", "write the whole path"),
        ("--directory /x", "--hosts"),
    ] {
        let refused = home.ebb(&format!("run two.toml --launch processes {line}")).output().unwrap();
        let refused = match line {
            "--directory /x" => home.ebb("run two.toml --directory /x").output().unwrap(),
            _ => refused,
        };
        assert_eq!((status(&refused), stderr(&refused).contains(said)), (2, true), "{line}: {refused:?}");
    }
    let option = home.ebb("run two.toml --hosts a,-oProxyCommand=x").output().unwrap();
    assert!(stderr(&option).contains("is no host") && status(&option) == 2, "{option:?}");
    // Two volumes that are one another's copies have no host that could keep them.
    let mirror = two(ONCE, "300ms").replace("layout = \"stripe\"", "layout = \"mirror\"");
    home.write("mirror.toml", &mirror);
    let refused = home.ebb("run mirror.toml --hosts a,b --launch processes").output().unwrap();
    assert!(stderr(&refused).contains("--place VOLUME=a") && status(&refused) == 2, "{refused:?}");
    nothing_left(&home);
}

#[test]
fn existing_files_are_written_only_when_that_is_allowed() {
    let home = Home::new();
    home.write("two.toml", &two(ONCE, "200ms"));
    let (one, other) = (home.path("one"), home.path("other"));
    for path in [&one, &other] {
        std::fs::write(path, vec![7; 1 << 20]).unwrap();
    }
    let line = format!("{ON_TWO} --place v0=alpha:{} --place v1=beta:{}", one.display(), other.display());
    let refused = home.ebb(&line).output().unwrap();
    assert!(status(&refused) == 1 && stderr(&refused).contains("--destroy"), "{refused:?}");
    assert_eq!(std::fs::read(&one).unwrap(), vec![7; 1 << 20]);
    let ran = home.ebb(&format!("{line} --destroy")).output().unwrap();
    assert!([0, 3].contains(&status(&ran)), "{ran:?}");
    assert_ne!(std::fs::read(&other).unwrap(), vec![7; 1 << 20]);
    nothing_left(&home);
}

#[test]
fn a_host_that_dies_fails_its_trials_is_named_and_the_others_put_everything_back() {
    let home = Home::new();
    home.write("two.toml", &two(LONG, "200ms"));
    let running = home.start_until(ON_TWO, 2);
    let beta = workers(&home).into_iter().find(|(_, volumes)| volumes.iter().any(|name| name.contains("v1")));
    let (pid, _) = beta.expect("a worker has v1 open");
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
    // The design that needs it not goes on.
    home.until(|session| crate::common::count(session, "trials") >= 12);
    running.signal("INT");
    let ended = running.wait();
    assert!(stderr(&ended).contains("host beta is lost"), "{}", stderr(&ended));
    let session = home.json("show --full", &[0]);
    // On a busy machine a trial may fail for beginning late.
    let lost = |trial: &&&Value| trial["failed"].as_str().is_some_and(|why| why.contains("beta"));
    let failed = |design: &str| trials(&session, design, "read").iter().filter(lost).count();
    assert!(failed("both") > 0 && failed("one") == 0, "{} {}", failed("both"), failed("one"));
    // What the one that was killed has made stays with its journal.
    assert!(workers(&home).is_empty());
    let cleaned = home.ebb("cleanup").output().unwrap();
    assert_eq!(status(&cleaned), 0, "{cleaned:?}");
    nothing_left(&home);
}

#[test]
fn workers_end_and_put_everything_back_when_nobody_is_there_any_more() {
    let home = Home::new();
    home.write("two.toml", &two(LONG, "200ms"));
    let running = home.start_until(ON_TWO, 1);
    assert_eq!(workers(&home).len(), 2);
    running.signal("KILL");
    running.wait();
    nothing_left(&home);
}

#[test]
fn an_interrupt_ends_all_and_keeps_what_had_finished() {
    let home = Home::new();
    home.write("two.toml", &two(LONG, "200ms"));
    let running = home.start_until(ON_TWO, 2);
    running.signal("INT");
    let ended = running.wait();
    assert_eq!(status(&ended), 130, "{}", stderr(&ended));
    nothing_left(&home);
    // While volumes are being made, too.
    home.write("two.toml", &two(LONG, "200ms").replace("2MiB", "4GiB"));
    let running = home.start(ON_TWO);
    until_true("two workers", || workers(&home).len() >= 2);
    running.signal("INT");
    assert_eq!(status(&running.wait()), 130);
    nothing_left(&home);
}

/// A home in which `ssh` is a script of these cases of what is asked: `question` (which ebb is there), `copy` and `worker`. What has no case
/// is done by a shell of this host. `here NAME` notes that it has come there, and which process it is.
fn with_ssh(home: &Home, cases: &str) -> String {
    let ebb = Path::new(crate::common::EBB).parent().unwrap();
    let script = format!(
        r#"#!/bin/sh
here() {{ echo $$ >at-$1.new && mv at-$1.new at-$1; }}
for command; do :; done
case $command in *copy-*) asked=copy;; *worker*) asked=worker;; *) asked=question;; esac
case $asked in
{cases}
*) exec sh -c "$command";;
esac
"#
    );
    std::fs::create_dir_all(home.path("bin")).unwrap();
    let ssh = home.write("bin/ssh", &script);
    crate::common::tool("chmod", &["755", ssh.to_str().unwrap()]);
    home.write("two.toml", &two(ONCE, "200ms"));
    format!("{}:{}:{}", home.path("bin").display(), ebb.display(), std::env::var("PATH").unwrap())
}

const OVER_SSH: &str = "run two.toml --hosts alpha,beta --seed 3";

#[test]
fn a_host_that_answers_without_an_end_is_given_up_and_named() {
    for stream in ["", ">&2"] {
        let home = Home::new();
        let path = with_ssh(&home, &format!("question) exec cat /dev/zero {stream};;"));
        let refused = home.ebb(OVER_SSH).env("PATH", path).output().unwrap();
        let said = stderr(&refused);
        assert!(status(&refused) == 1 && said.contains(" answered with more than 65536 bytes"), "{said}");
        nothing_left(&home);
    }
}

/// Hosts that say nothing any more, from some point on: what they do, the options, and what is said of them.
const SILENT: [(&str, &str, &str); 4] = [
    ("question) here it; exec sleep 1000;;", "", "says nothing: nothing came of it for 25 s"),
    (
        "question) exit 120;; copy) here it; exec sleep 1000;;",
        "--copy-ebb",
        "could not be copied there: nothing came of it for 25 s",
    ),
    ("worker) here it; exec sleep 1000;;", "", "is lost: it has said nothing for 25 s"),
    (
        "worker) ebb worker </dev/null; here it; exec sleep 1000;;",
        "",
        "is lost: it has said nothing for 25 s",
    ),
];

#[test]
fn a_host_that_says_nothing_is_given_up_and_named() {
    let running = SILENT.map(|(cases, options, wanted)| {
        let home = Home::new();
        let path = with_ssh(&home, cases);
        let mut command = home.ebb(&format!("{OVER_SSH} {options}"));
        let child = command.env("PATH", path).stderr(std::process::Stdio::piped()).spawn().unwrap();
        (home, child, wanted)
    });
    for (home, child, wanted) in running {
        let ended = child.wait_with_output().unwrap();
        let said = stderr(&ended);
        // Whichever is given up first.
        let named = ["alpha ", "alpha: ebb ", "beta ", "beta: ebb "]
            .iter()
            .any(|host| said.contains(&format!("{host}{wanted}")));
        assert!(status(&ended) == 1 && named, "{wanted}: {said}");
        gone(&home);
    }
}

/// Waits until the process that has come to `here it` is gone.
fn gone(home: &Home) {
    let pid = std::fs::read_to_string(home.path("at-it")).unwrap();
    let line = format!("/proc/{}/cmdline", pid.trim());
    while std::fs::read(&line).is_ok_and(|line| line.starts_with(b"sleep")) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_interrupt_ends_it_whatever_it_waits_for() {
    for (cases, options, _) in SILENT {
        let home = Home::new();
        let path = with_ssh(&home, cases);
        let mut command = home.interruptible(&format!("{OVER_SSH} {options}"));
        let child = command.env("PATH", path).stderr(std::process::Stdio::piped()).spawn().unwrap();
        while !home.path("at-it").exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        crate::common::tool("kill", &["-INT", &child.id().to_string()]);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(status(&ended), 130, "{cases}: {}", stderr(&ended));
        gone(&home);
    }
}

#[test]
fn a_process_that_keeps_the_streams_of_a_worker_holds_nothing_up() {
    let home = Home::new();
    let keeps = "worker) setsid sh -c 'echo $$ >>left; exec sleep 1000' & exec ebb worker;;";
    let path = with_ssh(&home, keeps);
    let ran = home.ebb(OVER_SSH).env("PATH", path).output().unwrap();
    let left = std::fs::read_to_string(home.path("left")).unwrap();
    for pid in left.lines() {
        crate::common::tool("kill", &["-KILL", pid]);
    }
    assert!([0, 3].contains(&status(&ran)), "{}", stderr(&ran));
    nothing_left(&home);
}

#[test]
fn a_host_that_ssh_cannot_reach_is_said_with_what_to_try() {
    let home = Home::new();
    home.write("two.toml", &two(ONCE, "200ms"));
    // Nothing listens on the discard port of this host; the user's own configuration is not asked.
    let refused = home.ebb("run two.toml --hosts ssh://127.0.0.1:9,ssh://localhost:9").output().unwrap();
    let said = stderr(&refused);
    assert!(
        status(&refused) == 1 && said.contains("cannot be reached") && said.contains("ssh-agent"),
        "{said}"
    );
    nothing_left(&home);
}

//! `ebb bench --profile`: each runs on a small scale, and tells what it should.

use crate::common::{Home, until_at_work};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

/// `ebb` in a directory of its own in `home`.
fn in_place(home: &Home, line: &str) -> Command {
    let place = home.path("place");
    fs::create_dir_all(&place).expect("makes it");
    let mut command = home.ebb(line);
    command.current_dir(place);
    command
}

fn ebb(home: &Home, arguments: &[&str]) -> Output {
    in_place(home, "--quiet bench --profile").args(arguments).output().expect("runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn steps(home: &Home, profile: &str, size: &str) -> (Vec<String>, Value) {
    let mut arguments = vec![profile, ".", "--json"];
    if profile != "efs" {
        arguments.extend(["--size", size]);
    }
    if profile != "dd" {
        // Synchronous writes of a busy disk may take longer than a short step, which is inconclusive then.
        arguments.push(if profile == "efs" { "--runtime=500ms" } else { "--runtime=200ms" });
    }
    let output = ebb(home, &arguments);
    // On a disk that others keep busy twenty synchronous writers may complete nothing in a short step: status 3.
    let inconclusive = profile == "efs" && output.status.code() == Some(3);
    assert!(output.status.success() || inconclusive, "{}", text(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names = value["jobs"].as_array().expect("jobs").iter();
    let names = names.map(|job| job["jobname"].as_str().expect("a name").to_owned()).collect();
    assert_eq!(fs::read_dir(home.path("place")).expect("is there").count(), 0, "nothing is left");
    (names, value)
}

#[test]
fn dd_writes_and_reads_both_ways() {
    let home = Home::new();
    let (names, value) = steps(&home, "dd", "8m");
    assert_eq!(names, ["write-direct", "read-direct", "write-fsync", "read-cold"]);
    assert_eq!(value["jobs"][0]["write"]["io_bytes"], 8 << 20);
    assert_eq!(value["jobs"][3]["read"]["io_bytes"], 8 << 20);
    let options = &value["jobs"][2]["job options"];
    for (name, given) in [("rw", "write"), ("ioengine", "psync"), ("end_fsync", "1"), ("size", "8388608")] {
        assert_eq!(options[name], given, "{name} of {options}");
    }
}

/// In text as in JSON: each step's cause in its line, and the sentence of each cause once. What is too short is not judged.
#[test]
fn what_limits_the_steps_is_said() {
    let home = Home::new();
    fs::create_dir_all(home.path("place")).expect("makes it");
    home.write("place/one", &"x".repeat(1 << 20));
    let said = |runtime: &str| {
        home.write(
            "own.toml",
            &format!("name = \"own\"\n[workloads.r]\nrw = \"randread\"\nruntime = \"{runtime}\"\n"),
        );
        text(&ebb(&home, &["../own.toml", "one"]))
    };
    let judged = said("1200ms");
    let limit = judged.lines().find_map(|line| line.strip_prefix("  limit of r: ")).expect("a limit");
    let (kind, _) = limit.split_once(':').expect("a kind and its sentence");
    let line = judged.lines().find(|line| line.trim_start().starts_with("r ")).expect("a step");
    assert!(judged.contains("limited by") && line.trim_end().ends_with(kind), "{judged}");
    let short = said("200ms");
    assert!(!short.contains("limit"), "{short}");
}

#[test]
fn efs_does_one_block_at_offset_0_of_each_file() {
    let home = Home::new();
    let (names, value) = steps(&home, "efs", "1m");
    assert_eq!(names.len(), 12, "1, 8 and 20 jobs: {names:?}");
    let few = ["write-1B-1-job", "read-1B-1-job", "write-10kB-1-job", "read-10kB-1-job", "write-1B-8-jobs"];
    assert_eq!(names[..5], few);
    let members = |job: usize| value["jobs"][job]["ebbtide"]["members"].as_array().map(Vec::len);
    assert_eq!([members(0), members(4), members(8)], [Some(1), Some(8), Some(20)]);
}

#[test]
fn the_database_has_its_log_beside_it() {
    let home = Home::new();
    let (names, value) = steps(&home, "database", "16m");
    assert_eq!(names, ["pages-8k", "log-beside-8k", "pages-16k", "log-beside-16k"]);
    assert_eq!(value["jobs"][0]["groupid"], value["jobs"][1]["groupid"]);
}

#[test]
fn ladder_and_seek_conclude() {
    let home = Home::new();
    let (names, value) = steps(&home, "ladder", "8m");
    assert_eq!(names[..2], ["iodepth-1", "iodepth-2"]);
    assert!(value["ebbtide"]["conclusions"][0].as_str().is_some_and(|text| text.contains("knee")), "{value}");
    let (names, value) = steps(&home, "seek", "16m");
    assert_eq!(names.len(), 3 * 6, "each set in each pass: {names:?}");
    assert!(names[..3].iter().all(|name| name.starts_with("pass-1-set-")), "{names:?}");
    assert!(
        value["ebbtide"]["conclusions"][0].as_str().is_some_and(|text| text.contains("cache")),
        "{value}"
    );
}

/// The line has the fields of one that bonnie++ 2.00a wrote.
#[test]
fn bonnie_writes_bonnies_csv() {
    let home = Home::new();
    let arguments = ["bonnie", ".", "--size=4m", "--format=csv"];
    let output = ebb(&home, &arguments);
    assert!(output.status.success(), "{}", text(&output));
    let line = String::from_utf8(output.stdout).expect("text");
    let recorded = "1.98,2.00a,vm,1,1795236111,64M,,8192,5,,,+++++,+++,+++++,+++,,,+++++,+++,+++++,+++,,,,,,,,,,,,,,,,,,,\
                    12171us,4073us,,8087us,6751us,,,,,,";
    let (ours, theirs): (Vec<&str>, Vec<&str>) =
        (line.trim_end().split(',').collect(), recorded.split(',').collect());
    assert_eq!(ours.len(), theirs.len());
    for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours.is_empty(), theirs.is_empty(), "field {index} of {line}");
    }
    assert_eq!((ours[0], ours[5], ours[7], ours[8]), ("1.98", "4M", "8192", "5"));
}

/// `ebb bench --profile ARGUMENTS`, interrupted when its job is at work: exit status and what it printed.
fn interrupted(home: &Home, arguments: &[&str]) -> (Option<i32>, String) {
    let place = home.path("place");
    fs::create_dir_all(&place).expect("makes it");
    let mut command = home.interruptible("--quiet bench --profile");
    command.current_dir(&place);
    let child = command.args(arguments).stdout(std::process::Stdio::piped()).spawn().expect("starts");
    // Some hundred operations.
    until_at_work(child.id(), Duration::from_millis(50));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("is running");
    let output = child.wait_with_output().expect("ends");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn what_was_cut_short_concludes_nothing() {
    let home = Home::new();
    let (status, said) = interrupted(&home, &["ladder", ".", "--size=4m", "--runtime=20s"]);
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("nothing is concluded") && !said.contains("knee"), "{said}");
    assert!(said.contains("iodepth-1: stopped after"), "{said}");
    let csv = ["bonnie", ".", "--size=2g", "--format=csv"];
    let (status, line) = interrupted(&home, &csv);
    assert_eq!(status, Some(130), "{line}");
    let fields: Vec<&str> = line.trim_end().split(',').collect();
    assert_eq!((fields[0], fields[5]), ("1.98", "2048M"));
    for results in [&fields[11..21], &fields[39..44]] {
        assert!(results.iter().all(|field| field.is_empty()), "nothing is made up: {line}");
    }
}

#[test]
fn efs_says_what_it_did_about_alignment() {
    let home = Home::new();
    let said = text(&ebb(&home, &["efs", ".", "--runtime=500ms"]));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    // Whole sectors or blocks where the file system needs them, and else the byte itself.
    let whole = ["512", "4096"].iter().any(|unit| {
        let done =
            format!("1B is done as {unit} bytes, and counted as such: O_DIRECT takes multiples of {unit}");
        said.contains(&format!("read-1B-20-jobs: {done}"))
    });
    assert!(whole || !said.contains("is done as"), "{said}");
}

#[test]
fn profiles_are_listed_explained_and_made() {
    let home = Home::new();
    let list = text(&ebb(&home, &["list"]));
    for name in ["dd", "bonnie", "efs", "seek", "database", "ladder", "snia"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
        let shown = text(&ebb(&home, &[name, "--dry-run"]));
        assert!(shown.contains("imitates:") && shown.contains("differs:"), "{shown}");
        assert!(shown.contains("bs ") && shown.contains("iodepth "), "{shown}");
        let value = ebb(&home, &[name, "--dry-run", "--json"]).stdout;
        let value: Value = serde_json::from_slice(&value).expect("JSON, and only JSON");
        assert_eq!(value["name"], name);
        assert!(value["groups_at_most"][0][0]["iodepth"].as_u64() > Some(0), "{value}");
    }
    let value: Value =
        serde_json::from_slice(&ebb(&home, &["list", "--json"]).stdout).expect("JSON, and only JSON");
    assert_eq!(value["profiles"].as_array().map(Vec::len), Some(7));
    assert_eq!(text(&ebb(&home, &[])), list, "without a name as with `list`");
    let output = ebb(&home, &["--dry-run"]);
    assert!(output.status.code() == Some(2) && text(&output).contains("--profile NAME"), "{}", text(&output));
    let output = ebb(&home, &["bonnie", ".", "--format=csv", "--json"]);
    assert!(
        output.status.code() == Some(2) && text(&output).contains("give one of them"),
        "{}",
        text(&output)
    );
    let output = ebb(&home, &["nothing", "."]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("ladder"), "{}", text(&output));
    let output = ebb(&home, &["dd", ".", "--bs=4k", "--iodepth=2"]);
    assert_eq!(output.status.code(), Some(2), "not passed over");
    assert!(text(&output).contains("the profile says what to run"), "{}", text(&output));

    for arguments in
        [["dd", "--runtime=1s"], ["bonnie", "--runtime=1s"], ["efs", "--size=4m"], ["seek", "--size=0"]]
    {
        let output = ebb(&home, &[arguments[0], ".", arguments[1]]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?} is not passed over: {}", text(&output));
    }

    let own = home.path("own.toml");
    let workloads = "name = \"mine\"\n[workloads.scan]\nrw = \"read\"\nbs = \"64k\"\nruntime = \"10s\"\n\
                     [workloads.point]\nrw = \"randread\"\nruntime = \"10s\"\n";
    fs::write(&own, workloads).expect("writes");
    let (names, _) = steps(&home, own.to_str().expect("text"), "4m");
    assert_eq!(names, ["scan", "point"]);
    let shown = text(&ebb(&home, &[own.to_str().expect("text"), "--dry-run"]));
    assert!(shown.contains("scan ") && shown.contains("bs 64KiB"), "{shown}");
    fs::write(&own, "name = \"mine\"\n[workloads.scan]\nrw = \"sideways\"\n").expect("writes");
    let output = ebb(&home, &[own.to_str().expect("text"), ".", "--size=4m"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("own.toml:3"), "{}", text(&output));
}

/// An experiment with profiles, run on `on`: exit status, workloads of the report, everything that was printed.
fn experiment(home: &Home, workloads: &str, on: &str) -> (Option<i32>, Vec<String>, String) {
    let shape = "shape = { iops = 20000, latency = \"100us\" }";
    let file = home.path("profiles.toml");
    let toml = format!(
        "name = \"profiles\"\n[volumes.v]\ncount = 2\nsize = \"4MiB\"\n{shape}\n\
         [designs.one]\nlayout = \"linear\"\nmembers = [\"v0\"]\n\
         [designs.two]\nlayout = \"stripe\"\nmembers = [\"v[0..1]\"]\n{workloads}\n[answer]\ntrials_max = 6\n"
    );
    fs::write(&file, toml).expect("writes");
    let output =
        in_place(home, &format!("--quiet run --json --on {on} --seed=7")).arg(&file).output().expect("runs");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let named =
        value["results"].as_array().into_iter().flatten().filter_map(|result| result["workload"].as_str());
    let mut names: Vec<String> = named.map(str::to_owned).collect();
    names.dedup();
    (output.status.code(), names, text(&output))
}

#[test]
fn experiments_run_profiles_by_name_on_files_and_in_the_simulator() {
    let home = Home::new();
    let own = "name = \"mine\"\n[workloads.point]\nrw = \"randread\"\nruntime = \"10s\"\n";
    fs::write(home.path("own.toml"), own).expect("writes");
    let workloads = "[workloads.near]\nprofile = \"seek\"\nspan = \"4MiB\"\nruntime = \"30ms\"\n\
                     [workloads.mine]\nprofile = \"own.toml\"\nruntime = \"30ms\"\n";
    for on in ["files", "sim"] {
        let (status, names, said) = experiment(&home, workloads, on);
        assert!(matches!(status, Some(0 | 3)), "{on}: {said}");
        for name in ["near-set-1MiB", "near-set-4MiB", "mine-point"] {
            assert!(names.iter().any(|found| found == name), "{on}: {names:?}");
        }
    }
    // Half of dd goes through a page cache: the simulated host has to have memory for one.
    let (status, _, said) = experiment(&home, "[workloads.dd]\nprofile = \"dd\"\n", "sim");
    assert_ne!(status, Some(0));
    assert!(said.contains("goes through the page cache, but the simulated host has no memory"), "{said}");
    let (status, names, said) =
        experiment(&home, "[workloads.dd]\nprofile = \"dd\"\n[host]\nmemory = \"1GiB\"\n", "sim");
    assert!(matches!(status, Some(0 | 3)), "{said}");
    assert!(names.iter().any(|name| name == "dd-read-cold"), "{names:?}");
}

//! Sweeps as a program sees them: what a dry run says, what is refused, and that what is planted is said.

use assert_cmd::Command;
use ebbtide_lab::backend::adapt::adapt;
use ebbtide_lab::machine::Accelerator;
use ebbtide_runner::kernel;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(name)
}

/// Status, standard output and standard error of `ebb COMMAND FILE` with `arguments`, in a directory of its own.
fn ebb(command_words: &[&str], file: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.current_dir(&home).env("XDG_DATA_HOME", home.path()).env("XDG_CACHE_HOME", home.path());
    let output = command.args(command_words).arg(file).args(arguments).output().expect("ebb runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The same of `ebb run`.
fn run(file: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    ebb(&["run"], file, arguments)
}

#[test]
fn a_dry_run_lists_what_varies_and_what_it_costs() {
    let file = shipped("heroku-sweep.toml");
    let (status, told, error) = run(&file, &["--dry-run", "--on", "sim", "--seed", "1"]);
    assert_eq!(status, Some(0), "{error}");
    for expected in [
        "48 designs of raid0: of the 96 that all levels would make 48 are left out or the same",
        "scheduler        cfq, deadline",
        "most throughput under read",
        "1470 trials",
        "if no design drops out",
        "294 trials, ",
        "with `budget = \"20%\"` in [sweep]",
        "the effects of filesystem, mount_options, readahead, scheduler: by the experiment",
        ": 49 trials, 48 designs under read, and ",
    ] {
        assert!(told.contains(expected), "{expected} is not in\n{told}");
    }
    assert!(!told.contains("raid0/scheduler"), "48 names are for --verbose: {told}");
    let (_, verbose, _) = run(&file, &["--dry-run", "--verbose", "--on", "sim", "--seed", "1"]);
    let name =
        "raid0/scheduler=cfq,filesystem=xfs,members=8,chunk=512KiB,readahead=32MiB,mount_options=noatime";
    assert!(verbose.contains(name), "{verbose}");
    let (_, json, _) = run(&file, &["--dry-run", "--json", "--on", "sim", "--seed", "1"]);
    let plan: Value = serde_json::from_str(&json).expect("JSON");
    let sweep = &plan["plan"]["sweep"];
    assert_eq!(sweep["designs"].as_array().map(Vec::len), Some(48));
    assert!(sweep["designs"].as_array().expect("names").contains(&name.into()));
    assert_eq!((&sweep["all"], &sweep["most_trials"]), (&96.into(), &1470.into()));
    // 49 trials a round, 30 rounds; each moves at most the gigabit for 5 seconds, as far as the effects let it.
    let most = sweep["most_bytes"].as_u64().expect("every volume has a limit") as f64;
    assert!((0.3..1.0).contains(&(most / (1470.0 * 5.0 * 125e6))), "{most}");
}

#[test]
fn what_is_planted_is_refused_wherever_it_could_be_measured() {
    for on in ["files", "kernel", "lab"] {
        let (status, told, error) = run(&shipped("heroku-sweep.toml"), &["--dry-run", "--on", on]);
        assert_eq!((status, told.as_str()), (Some(2), ""), "{on}: {error}");
        assert!(error.contains("heroku-sweep.toml:") && error.contains("[[effects]]"), "{on}: {error}");
        assert!(error.contains("`filesystem`") && error.contains("say `--on sim`"), "{on}: {error}");
    }
}

#[test]
fn the_reduced_sweep_is_one_that_a_guest_can_build() {
    let file = shipped("lab-sweep.toml");
    let (status, _, error) = run(&file, &["--dry-run", "--on", "sim"]);
    assert_eq!(status, Some(2), "nothing is planted, so the simulator has no model: {error}");
    assert!(error.contains("no model of"), "{error}");
    let (status, checked, error) = ebb(&["check"], &file, &[]);
    assert_eq!(status, Some(0), "{error}");
    for expected in
        ["16 designs of raid0: all that the levels make", "filesystem       ext4, xfs", "17 trials"]
    {
        assert!(checked.contains(expected), "{expected} is not in\n{checked}");
    }
    // What a dry run with `--on lab` prints where the guest's image has been made.
    let text = std::fs::read_to_string(&file).expect("is there");
    let experiment =
        ebbtide_experiment::parse(&text, "lab-sweep.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
    let adapted = adapt(&experiment, Accelerator::Tcg, None).unwrap_or_else(|why| panic!("{why}"));
    let plan = kernel::plan(&adapted.inside, "dry").unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(plan.builds.len(), 16);
    let shown = kernel::show(&adapted.inside, &plan, kernel::Built::Shared);
    let mut builds = adapted.inside.builds();
    builds.sort_unstable();
    builds.dedup();
    assert!(builds.len() < 16, "{builds:?}");
    assert_eq!(shown.matches("a round builds ").count(), builds.len(), "{shown}");
    assert_eq!(shown.matches(" stands on the build of ").count(), 16 - builds.len(), "{shown}");
    for (design, build) in experiment.designs.iter().zip(&plan.builds) {
        let steps = build.to_string();
        let made = if design.name.contains("filesystem=xfs") { "mkfs.xfs" } else { "mkfs.ext4" };
        let chunk = if design.name.contains("chunk=64KiB") { "--chunk=64" } else { "--chunk=256" };
        let scheduler = if design.name.contains("scheduler=none") { "none" } else { "mq-deadline" };
        for expected in [made, chunk, scheduler] {
            assert!(steps.contains(expected), "{}: {expected} is not in\n{steps}", design.name);
        }
    }
}

#[test]
fn a_simulated_sweep_shows_what_was_planted_and_says_that_it_was() {
    let text = std::fs::read_to_string(shipped("heroku-sweep.toml")).expect("is there");
    let small = text
        .replace("members = [8, 16, 24]", "members = [8]")
        .replace("\nscheduler = [\"cfq\", \"deadline\"]", "\nscheduler = [\"deadline\"]")
        .replace("chunk = [\"256KiB\", \"512KiB\"]", "chunk = [\"256KiB\"]")
        .replace("    { filesystem = \"ext3\", chunk = \"512KiB\" },\n", "")
        .replace("trials_max = 30", "trials_max = 12");
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("small.toml");
    std::fs::write(&file, small).expect("written");
    let (status, json, error) = run(&file, &["--on", "sim", "--seed", "1", "--no-save", "--json"]);
    assert!(matches!(status, Some(0 | 3)), "{status:?}: {error}");
    let report: Value = serde_json::from_str(&json).expect("JSON");
    assert!(json.contains("planted by the experiment"), "{json}");
    let results = report["results"].as_array().expect("results");
    let median = |part: &[&str]| {
        let named = |result: &&Value| {
            let name = result["design"].as_str().unwrap_or_default();
            result["metric"] == "throughput" && part.iter().all(|part| name.contains(part))
        };
        let result = results.iter().find(named).unwrap_or_else(|| panic!("{part:?} is not in {json}"));
        result["median"].as_f64().expect("a median")
    };
    let near = |ratio: f64, planted: f64| {
        assert!((ratio / planted - 1.0).abs() < 0.02, "{ratio}, planted {planted}")
    };
    let best = median(&["filesystem=xfs", "mount_options=atime"]);
    near(median(&["filesystem=ext3", "readahead=32MiB", "mount_options=atime"]) / best, 0.487);
    near(median(&["filesystem=ext3", "readahead=128KiB", "mount_options=atime"]) / best, 0.487 * 0.437);
    near(median(&["filesystem=xfs", "mount_options=noatime"]) / best, 0.95);
}

/// Arrays of 2 to 8 volumes of gp3, the last with more IOPS than it can use: faster and dearer, slower and cheaper, and one that is only dearer.
const PRICED: &str = r#"
name = "priced"
[volumes.plain]
count = 8
size = "1GiB"
provisioned_size = "100GiB"
type = "aws:gp3"
[volumes.dear]
count = 2
size = "1GiB"
provisioned_size = "100GiB"
type = "aws:gp3"
provisioned_iops = 6000
[designs.array]
layout = "stripe"
chunk = "64KiB"
members = ["plain[0..1]"]
[workloads.seqread]
rw = "read"
bs = "256k"
iodepth = 32
runtime = "1s"
[sweep]
design = "array"
objective = { pareto = ["throughput", "lat_p99", "price"] }
[sweep.vary]
members = [["plain[0..1]"], ["plain[0..3]"], ["plain[0..7]"], ["dear[0..1]"]]
[answer]
trials_min = 6
trials_max = 30
"#;

/// Two designs under `load`, of which the first to reach `objective` is the best.
fn two_designs(load: &str, objective: &str) -> String {
    format!(
        "name = \"two\"\n[volumes.vol]\ncount = 4\nsize = \"16MiB\"\n[volumes.vol.shape]\niops = 1000\nlatency = \"500us\"\n\
         [designs.a]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"vol[0..3]\"]\n\
         [workloads.w]\nrw = \"randread\"\niodepth = 16\n{load}\n\
         [sweep]\ndesign = \"a\"\nobjective = {objective}\n[sweep.vary]\nmembers = [2, 4]\n"
    )
}

#[test]
fn where_no_design_is_the_best_the_run_failed_and_none_is_written() {
    let home = tempfile::tempdir().expect("a directory");
    let (file, best) = (home.path().join("two.toml"), home.path().join("best.toml"));
    let best_name = best.to_str().expect("text");
    let limited = two_designs("runtime = \"500ms\"", "{ most = \"iops\", while = \"lat_p99 <= 100us\" }");
    // No volume answers in 100 us: every trial of the search fails.
    let failing = two_designs("latency_target = \"100us\"\nlatency_window = \"200ms\"", "\"iops\"");
    for (text, why) in
        [(limited, "no design is left: each breaks a limit or failed"), (failing, "every trial of")]
    {
        std::fs::write(&file, text).expect("written");
        let plain = ["--on", "sim", "--seed", "1", "--no-save"];
        let (status, _, error) = run(&file, &plain);
        assert_eq!(status, Some(1), "{error}");
        assert!(error.contains(why), "{error}");
        let (status, _, error) = run(&file, &[&plain[..], &["-o", best_name]].concat());
        assert_eq!(status, Some(1), "{error}");
        assert!(error.contains(why) && error.contains("best.toml is not written"), "{error}");
        assert!(!best.exists(), "{error}");
    }
    std::fs::write(&file, two_designs("runtime = \"500ms\"", "\"iops\"")).expect("written");
    let (status, _, error) = run(&file, &["--on", "sim", "--seed", "1", "--no-save", "-o", best_name]);
    assert_eq!((status, best.exists()), (Some(0), true), "{error}");
}

#[test]
fn a_front_with_the_price_keeps_what_is_cheap_and_what_is_fast() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("priced.toml");
    std::fs::write(&file, PRICED).expect("written");
    let (status, json, error) = run(&file, &["--on", "sim", "--seed", "1", "--no-save", "--json"]);
    assert!(matches!(status, Some(0 | 3)), "{status:?}: {error}");
    let report: Value = serde_json::from_str(&json).expect("JSON");
    let race = &report["race"];
    assert_eq!(race["objective"], "pareto throughput, lat_p99, price");
    let lanes = race["designs"].as_array().expect("designs");
    let prices: Vec<f64> =
        lanes.iter().map(|lane| lane["figures"]["price"].as_f64().expect("a price")).collect();
    // 100 GiB are $8, and 3000 IOPS more are $15.
    for expected in [16.0, 32.0, 64.0, 46.0] {
        assert!(prices.iter().any(|price| (price - expected).abs() < 1e-9), "{expected}: {prices:?}");
    }
    // The cheapest and the fastest stay whatever chance does; nothing that costs less is preferable to them.
    let left: Vec<f64> = lanes
        .iter()
        .zip(&prices)
        .filter(|(lane, _)| lane["dropped_in_round"].is_null())
        .map(|(_, price)| *price)
        .collect();
    assert!([16.0, 64.0].iter().all(|kept| left.contains(kept)), "{left:?}: {json}");
    let (_, told, _) = run(&file, &["--on", "sim", "--seed", "1", "--no-save"]);
    assert!(told.contains("$16.00 a month"), "{told}");
}

//! `ebb import` of real results, and what the store makes of them.

use crate::common::{Home, status, stderr};

const FIO: &str = include_str!("../../../formats/src/import/recorded/fio-3.33.txt");
const BONNIE: &str = include_str!("../../../formats/src/import/recorded/bonnie-2.00.csv");

#[test]
fn old_results_are_listed_shown_and_reported() {
    let home = Home::new();
    home.write("fio.txt", FIO);
    home.write("bonnie.csv", BONNIE);
    let taken = home.json("import fio.txt bonnie.csv", &[0]);
    let sessions = taken["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{taken}");
    assert!(sessions.iter().all(|s| s["new"] == true), "{taken}");
    let fio = sessions[0]["id"].as_str().unwrap();
    assert!(fio.starts_with("20261121-"), "fio's own time: {fio}");

    let list = home.json("list", &[0]);
    assert_eq!(list["sessions"].as_array().unwrap().len(), 2);
    assert!(list["sessions"].as_array().unwrap().iter().all(|s| s["backend"] == "import"), "{list}");

    let shown = home.json(&format!("show {fio}"), &[0]);
    let iops = shown["results"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["workload"] == "seqread" && r["metric"] == "iops");
    // 8649 reads and fio's count of writes in 1.003 s.
    assert!(iops.unwrap()["median"].as_f64().unwrap() > 8649.0 / 1.003, "{shown}");
    for line in ["list", "show", &format!("show {fio} --why"), &format!("show {fio} -o fio.html")] {
        let output = home.ebb(line).output().unwrap();
        assert_eq!(status(&output), 0, "{line}: {output:?}");
    }
    assert!(std::fs::read_to_string(home.path("fio.html")).unwrap().contains("fio-3.33"));

    let again = home.json("import fio.txt", &[0]);
    assert_eq!((&again["sessions"][0]["new"], &again["sessions"][0]["id"]), (&false.into(), &fio.into()));
    assert_eq!(home.json("list", &[0])["sessions"].as_array().unwrap().len(), 2);
}

/// A new session of one simulated volume under a workload that the recorded fio run has by name.
const NEW: &str = r#"
name = "new"
[volumes.vol]
size = "64MiB"
shape = { iops = 1000, latency = "0.5ms" }
[designs.single]
layout = "linear"
members = ["vol"]
[workloads.seqread]
rw = "read"
bs = "128KiB"
runtime = "200ms"
[answer]
trials_min = 6
trials_max = 6
"#;

#[test]
fn old_results_stand_beside_new_ones() {
    let home = Home::new();
    home.write("fio.txt", FIO);
    home.write("bonnie.csv", BONNIE);
    home.write("new.toml", NEW);
    assert_eq!(status(&home.ebb("import fio.txt bonnie.csv").output().unwrap()), 0);
    assert_eq!(status(&home.ebb("run new.toml --on sim -q").output().unwrap()), 0);
    let list = home.json("list", &[0]);
    let id = |experiment: &str| -> String {
        let sessions = list["sessions"].as_array().unwrap();
        let found = sessions.iter().find(|s| s["experiment"].as_str().unwrap().starts_with(experiment));
        found.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let (new, fio, bonnie) = (id("new"), id("fio"), id("bonnie"));

    // One trial has no interval: whatever it shows, nothing is decided.
    let compared = home.json(&format!("compare {new} {fio} -w seqread"), &[3]);
    let rows = compared["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|r| &r["session"]).collect::<Vec<_>>(), [new.as_str(), fio.as_str()]);
    assert!(rows[0]["throughput"]["ci_low"].is_number(), "six trials: {compared}");
    assert!(rows[1]["throughput"]["ci_low"].is_null(), "one trial: {compared}");
    let median = |row: usize| rows[row]["throughput"]["median"].as_f64().unwrap();
    assert_eq!(rows[1]["ratio"].as_f64(), Some(median(1) / median(0)));
    assert!(rows[1]["lat_p99"]["median"].is_number(), "{compared}");
    let first = &compared["comparisons"][0];
    assert_eq!(
        (&first["design"], &first["conclusion"]),
        (&"single".into(), &"inconclusive".into()),
        "{compared}"
    );
    assert!(
        first["ratio"].is_number() && first["ci_low"].is_null() && first["detectable"].is_null(),
        "{compared}"
    );
    assert!(compared["differs"].as_array().unwrap().iter().any(|d| d["what"] == "backend"), "{compared}");

    let output = home.ebb(&format!("compare {new} {fio} {bonnie} -w seqread,getc")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(status(&output), 3, "{output:?}");
    for told in
        ["imported of B is set against single of A", "too few trials", "not the same work", "are not paired"]
    {
        assert!(text.contains(told), "{told}: {text}");
    }
    let apart = home.ebb(&format!("compare {fio} {bonnie}")).output().unwrap();
    assert_eq!(status(&apart), 3, "what compares nothing does not pass: {apart:?}");
    assert!(String::from_utf8_lossy(&apart.stdout).contains("Nothing was compared"), "{apart:?}");

    for (line, why) in [
        (format!("compare {new}"), "2 values required"),
        (format!("compare {new} {new}"), "named already"),
        (format!("compare {new} {new}:single"), "named already"),
        (format!("compare {new}:none {fio}"), "it has no design `none`; it has single"),
        (format!("compare {new} {fio} -w nothing"), "there are: seqread"),
        (format!("compare {new} {fio} --threshold 5"), "such as 5%"),
        (format!("compare {new} {fio} --threshold 100%"), "less than 100%"),
        (format!("compare {new} {fio} --threshold 1% --indifference 2%"), "write a smaller one"),
        (format!("compare {new} {fio} -m speed"), "write one of throughput, iops"),
        (format!("compare {new} {fio} --json --format csv"), "give one of them"),
    ] {
        let output = home.ebb(&line).output().unwrap();
        assert_eq!(status(&output), 2, "{line}");
        assert!(stderr(&output).contains(why), "{line}: {}", stderr(&output));
    }
}

#[test]
fn an_imported_session_is_not_told_to_measure_more() {
    let home = Home::new();
    home.write("bonnie.csv", BONNIE);
    let taken = home.json("import bonnie.csv", &[0]);
    let id = taken["sessions"][0]["id"].as_str().unwrap();
    let said = |line: &str| {
        let output = home.ebb(line).output().unwrap();
        assert_eq!(status(&output), 0, "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let list = said("list");
    assert!(list.ends_with("import 2 imported 2 measurements, imported"), "{list}");
    let shown = said("show");
    for wrong in ["not reached", "trials_min", "seed"] {
        assert!(!shown.contains(wrong), "{wrong}: {shown}");
    }
    assert!(shown.contains("2 trials, imported: measured once, by another program"), "{shown}");
    assert!(shown.contains("imported, putc: the slowest operation took 22536us"), "{shown}");
    assert_eq!(home.json(&format!("show {id}"), &[0])["session"]["ending"], "imported");
}

#[test]
fn one_bad_file_and_nothing_is_stored() {
    let home = Home::new();
    home.write("fio.txt", FIO);
    home.write("cut.txt", &FIO[..FIO.len() / 2]);
    let output = home.ebb("import fio.txt cut.txt").output().unwrap();
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).contains("cut.txt: line "), "{}", stderr(&output));
    assert_eq!(home.json("list", &[0])["sessions"].as_array().unwrap().len(), 0);
    assert_eq!(status(&home.ebb("import").output().unwrap()), 2);
}

/// Each line of a file of many results is a session that keeps its own line: what the store grows by goes with the lines and not
/// with their square.
#[test]
fn many_results_in_one_file_cost_each_its_own() {
    let stored = |lines: usize| {
        let home = Home::new();
        home.write("many.csv", &BONNIE.repeat(lines));
        let taken = home.json("import many.csv", &[0]);
        assert_eq!(taken["sessions"].as_array().unwrap().len(), lines);
        assert!(taken["sessions"].as_array().unwrap().iter().all(|session| session["new"] == true));
        let again = home.json("import many.csv", &[0]);
        assert!(again["sessions"].as_array().unwrap().iter().all(|session| session["new"] == false));
        let shown = home.ebb("show last --experiment").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&shown.stdout), BONNIE);
        home.files_in("data").iter().map(|path| std::fs::metadata(path).unwrap().len()).sum::<u64>()
    };
    let (few, many) = (stored(100), stored(3000));
    assert!(many < 45 * few, "30 times the lines, and {many} bytes after {few}");
}

#[test]
fn what_is_said_of_many_results_is_said_once() {
    let home = Home::new();
    home.write("many.csv", &BONNIE.repeat(3));
    let said = stderr(&home.ebb("import many.csv").output().unwrap());
    let seeks: Vec<&str> = said.lines().filter(|line| line.contains("seeks took less")).collect();
    assert_eq!(seeks.len(), 1, "{said}");
    assert!(seeks[0].ends_with("(in 3 results)"), "{said}");
}

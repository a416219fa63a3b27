//! `ebb import` of real results, and what the store makes of them.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Home, status, stderr};

const FIO: &str = include_str!("../../core/src/import/recorded/fio-3.33.txt");
const BONNIE: &str = include_str!("../../core/src/import/recorded/bonnie-2.00.csv");

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
    for line in ["list", "show", &format!("explain {fio}"), &format!("report {fio} -o fio.html")] {
        let output = home.ebb(line).output().unwrap();
        assert_eq!(status(&output), 0, "{line}: {output:?}");
    }
    assert!(std::fs::read_to_string(home.path("fio.html")).unwrap().contains("fio-3.33"));

    let again = home.json("import fio.txt", &[0]);
    assert_eq!((&again["sessions"][0]["new"], &again["sessions"][0]["id"]), (&false.into(), &fio.into()));
    assert_eq!(home.json("list", &[0])["sessions"].as_array().unwrap().len(), 2);
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

//! `ebb run --on lab`.

use super::common::{Home, count, status, stderr};
use super::guests::lab;
use serde_json::Value;

/// One busy member against three, slow enough for any host. md builds one design, LVM the other.
fn experiment(answer: &str) -> String {
    format!(
        r#"
name = "three"
[volumes.v]
count = 3
size = "64MiB"
[volumes.v.shape]
throughput = "40MB/s"
latency = "1ms"
[designs.linear]
layout = "linear"
backing = "lvm"
members = ["v*"]
[designs.striped]
layout = "stripe"
chunk = "64KiB"
members = ["v*"]
[workloads.read]
rw = "read"
bs = "64KiB"
iodepth = 8
runtime = "2s"
ramp_time = "500ms"
[answer]
{answer}
"#
    )
}

/// Shares of the members of `design` in what was read, and the sentence of its first verdict.
fn result(session: &Value, design: &str) -> (Vec<f64>, String) {
    let results = session["results"].as_array().unwrap();
    let found = results.iter().find(|result| result["design"] == design && result["primary"] == true);
    let found = found.unwrap_or_else(|| panic!("no result of {design} in {results:?}"));
    let members = found["members"].as_array().unwrap();
    let shares = members.iter().map(|member| member["share"].as_f64().unwrap()).collect();
    (shares, found["verdict"]["sentence"].to_string())
}

#[test]
fn a_session_in_a_guest_is_stored_like_any_other() {
    lab();
    let home = Home::new();
    home.write(
        "three.toml",
        &experiment("level = 0.75\ntrials_min = 3\ntrials_max = 3\nprecision = \"20%\""),
    );
    let output = home.ebb("run three.toml --on lab --seed 1 --scale 1/10").output().unwrap();
    // 3: the figures of so few trials may be inconclusive on a busy host.
    assert!([0, 3].contains(&status(&output)), "{output:?}");
    assert!(stderr(&output).contains("scaled by 1/10, as requested"), "{output:?}");

    let listed = &home.json("list", &[0])["sessions"][0];
    assert_eq!(
        (&listed["backend"], &listed["trials"], &listed["failed"]),
        (&"lab".into(), &9.into(), &0.into())
    );
    let session = home.json("show last", &[0]);
    assert_eq!(session["session"]["backend"], "lab");
    let host = &session["session"]["host"];
    assert!(host["machine"].as_str().unwrap().starts_with("QEMU guest, "), "{host}");
    assert_ne!(
        host["kernel"].as_str().unwrap(),
        std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim()
    );
    let notes = session["session"]["inventory"]["notes"].to_string();
    assert!(notes.contains("no latency: left out of 3 volumes"), "{notes}");

    let (shares, verdict) = result(&session, "linear");
    // The counters are the disks': what else in the guest reads counts too (seen: up to 1.5%, at the end of the array, on a
    // busy host).
    assert!(shares[0] > 0.95, "{shares:?}");
    assert!(verdict.contains("one member works at a time") && verdict.contains("4.00 MB/s"), "{verdict}");
    let (shares, verdict) = result(&session, "striped");
    assert!(shares.len() == 3 && shares.iter().all(|share| (0.3..0.37).contains(share)), "{shares:?}");
    assert!(verdict.contains("3 of 3 members are at their limit"), "{verdict}");
    let explained = home.ebb("show last --why").output().unwrap();
    assert!(explained.status.success(), "{explained:?}");
    let page = home.path("report.html");
    assert!(home.ebb("show last -o report.html").output().unwrap().status.success());
    assert!(std::fs::read_to_string(page).unwrap().contains("QEMU guest, "));
}

/// Processes whose working directory is the guest's directory of session `id`.
fn qemus_of(id: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok())
        .filter(|cwd| cwd.to_string_lossy().contains(&format!("session-{id}")))
        .count()
}

#[test]
fn ctrl_c_ends_the_guest_and_keeps_what_is_done() {
    let (places, _) = lab();
    let home = Home::new();
    home.write("three.toml", &experiment("trials_min = 500\ntrials_max = 500"));
    let running = home.start("run three.toml --on lab --seed 1 --scale 1/10");
    let session = home.until(|session| count(session, "trials") >= 1);
    let id = session["id"].as_str().unwrap();
    assert_eq!(qemus_of(id), 1);
    running.signal("INT");
    let output = running.wait();
    assert_eq!(status(&output), 130, "{output:?}");
    assert_eq!(qemus_of(id), 0);
    assert!(!places.root().join("guests").join(format!("session-{id}")).exists());
    let session = &home.json("list", &[0])["sessions"][0];
    assert_eq!(session["ending"], "interrupted");
}

/// In a guest with disks for every design nothing is built twice, and the plan says nothing else.
#[test]
fn a_dry_run_says_once_when_designs_are_built() {
    lab();
    let home = Home::new();
    home.write("three.toml", &experiment("trials_max = 6"));
    let output = home.ebb("run three.toml --dry-run --on lab").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("the first trial of striped builds it; it stays"), "{said}");
    assert!(said.contains("is built once") && !said.contains("each trial of"), "{said}");
}

#[test]
fn what_a_guest_cannot_have_is_refused_before_it_starts() {
    lab();
    let home = Home::new();
    let text =
        experiment("trials_max = 6").replace("[volumes.v]", "[volumes.mine]\nfile = \"image\"\n[volumes.v]");
    home.write("three.toml", &text.replace("[\"v*\"]", "[\"v*\", \"mine\"]"));
    home.write("image", "x");
    let cases = [
        ("--on lab", "volume mine exists on this host"),
        ("--on lab --keep", "--keep has no meaning"),
        ("--on lab --destroy", "--destroy has no meaning"),
        ("--on kernel --scale 1/2", "--scale has no meaning"),
        ("--on lab --scale 2", "a fraction above 0 and at most 1"),
    ];
    for (options, reason) in cases {
        let output = home.ebb(&format!("run three.toml {options}")).output().unwrap();
        assert_eq!(status(&output), 2, "{options}: {output:?}");
        assert!(stderr(&output).contains(reason), "{options}: {output:?}");
    }
}

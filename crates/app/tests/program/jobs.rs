//! Workloads that run at the same time: `jobs`, job files and `database` in experiments, as a user runs them.

use crate::common::{Home, SHORT, refused, status, tiny};
use serde_json::Value;

/// `workloads` instead of the one of [`tiny`].
fn with(workloads: &str) -> String {
    let text = tiny("", SHORT);
    let (before, after) = text.split_once("[workloads.seqread]").unwrap();
    let (_, after) = after.split_once("[answer]").unwrap();
    format!("{before}{workloads}\n[answer]{after}")
}

const OLTP: &str = r#"
[workloads.oltp]
runtime = "200ms"
[workloads.oltp.jobs.data]
rw = "randread"
bs = "64k"
iodepth = 8
[workloads.oltp.jobs.log]
rw = "write"
bs = "64k"
iodepth = 8
"#;

/// The median of `metric` of `workload` on `design`, by what `ebb run` answered.
fn median(ran: &Value, design: &str, workload: &str, metric: &str) -> f64 {
    let results = ran["results"].as_array().unwrap();
    let is = |r: &&Value| r["design"] == design && r["workload"] == workload && r["metric"] == metric;
    results
        .iter()
        .find(is)
        .and_then(|r| r["median"].as_f64())
        .unwrap_or_else(|| panic!("{workload}: {ran:#}"))
}

#[test]
fn jobs_run_at_the_same_time_and_have_figures_each() {
    let home = Home::new();
    home.write("jobs.toml", &with(OLTP));
    let checked = home.json("check jobs.toml", &[0]);
    let summary = &checked["files"][0]["summary"];
    assert_eq!(
        (&summary["trials_per_round"], &summary["workloads"][1]["group"]),
        (&6.into(), &"oltp".into())
    );
    assert_eq!(summary["round_ns"], 600_000_000, "the time of one for both");
    for (how, says) in [
        ("", "once more (A/A); at the same time run oltp.data and oltp.log\n"),
        ("--verbose", "left under oltp.data and oltp.log (again, A/A)\n"),
    ] {
        let plan = home.ebb(&format!("run jobs.toml --dry-run {how}")).output().unwrap();
        let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
        assert!(plan.contains(says), "{plan}");
    }
    for backend in ["sim", "files"] {
        let ran = home.json(&format!("run jobs.toml --on {backend} --seed 7 -q"), &[0, 3]);
        for (design, volumes) in [("left", 1.0), ("right", 2.0)] {
            // Random reads of a linear array go to both its volumes.
            let most = if design == "left" { 2.0 } else { volumes } * 33_554_432.0;
            let rates = ["oltp.data", "oltp.log"].map(|job| median(&ran, design, job, "throughput"));
            assert!(rates.iter().all(|rate| *rate > 0.0), "{backend}: {rates:?}");
            assert!(rates.iter().sum::<f64>() < 1.2 * most, "{backend}, {design}: {rates:?} of {most}");
        }
    }
    let shown = home.ebb("show").output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("oltp.data") && shown.contains("oltp.log"), "{shown}");
}

#[test]
fn a_job_file_and_a_profile_of_jobs_are_workloads_of_an_experiment() {
    let home = Home::new();
    let pg = "[global]\nfilename=/dev/nothing\nioengine=libaio\nsize=4m\ndirect=1\n[data]\nrw=randread\niodepth=8\n[wal]\n\
              rw=write\nbs=8k\n[scan]\nstonewall\nrw=read\n";
    home.write("pg.fio", pg);
    home.write("jobs.toml", &with("[workloads.pg]\njobs = \"pg.fio\"\n[workloads.db]\nprofile = \"database\"\nruntime = \"200ms\"\n"));
    let checked = home.json("check jobs.toml", &[0]);
    let workloads = checked["files"][0]["summary"]["workloads"].as_array().unwrap();
    let groups: Vec<(&str, Option<&str>)> =
        workloads.iter().map(|w| (w["name"].as_str().unwrap(), w["group"].as_str())).collect();
    assert_eq!(
        groups,
        [
            ("pg.data", Some("pg.1")),
            ("pg.wal", Some("pg.1")),
            ("pg.scan", None),
            ("db-pages-8k", Some("db.1")),
            ("db-log-beside-8k", Some("db.1")),
            ("db-pages-16k", Some("db.2")),
            ("db-log-beside-16k", Some("db.2")),
        ]
    );
    let ran = home.ebb("run jobs.toml --on sim -q").output().unwrap();
    assert!([0, 3].contains(&status(&ran)), "{ran:?}");
    home.write("pg.fio", &pg.replace("rw=write", "rw=wriet\nfoo=1"));
    refused(&home, "check jobs.toml", 2, &["jobs.toml:18:8", "pg.fio:10", "wriet", "pg.fio:11"]);
}

#[test]
fn what_cannot_run_jobs_together_is_refused_before_anything_is_made_and_a_race_can() {
    let home = Home::new();
    let hosts = with(OLTP).replacen("size = \"8MiB\"", "size = \"8MiB\"\nhost = \"localhost\"", 1);
    home.write("jobs.toml", &hosts);
    refused(
        &home,
        "run jobs.toml --hosts localhost",
        2,
        &[
            "the jobs of workload oltp run at the same time, which --hosts does not do",
            "workloads of their own",
        ],
    );
    let sweep = "\n[sweep]\ndesign = \"left\"\nworkload = \"oltp.data\"\n[sweep.vary]\n\"workload.iodepth\" = [1, 2]\n";
    home.write("swept.toml", &(with(OLTP) + sweep));
    refused(&home, "check swept.toml", 2, &["workload `oltp.data` is one of several jobs", "without `jobs`"]);
    home.write("swept.toml", &(with(OLTP) + &sweep.replace("oltp.data", "oltp")));
    refused(&home, "check swept.toml", 2, &["there is no workload `oltp`", "oltp.data"]);
    assert!(home.files_in("volumes").is_empty());
    // One that decides a race has the others beside it.
    let race = sweep
        .replace("left", "right")
        .replace("\"workload.iodepth\" = [1, 2]", "chunk = [\"64KiB\", \"1MiB\"]");
    home.write("swept.toml", &(with(OLTP) + &race));
    let ran = home.json("run swept.toml --on sim --seed 2", &[0, 3]);
    assert_eq!(ran["race"]["designs"].as_array().map(Vec::len), Some(2), "{ran:#}");
    let loads: std::collections::BTreeSet<&str> =
        ran["results"].as_array().unwrap().iter().filter_map(|result| result["workload"].as_str()).collect();
    assert_eq!(loads.into_iter().collect::<Vec<_>>(), ["oltp.data", "oltp.log"]);
}

//! Builds that trials of a sweep share, `--on kernel` in a guest: made once a round, put back after a kill at any boundary.

use super::guests::{guest, script, tell, unchanged};
use serde_json::Value;
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;

/// Two builds of two designs each, which differ in what is set and said at the mount.
const EXPERIMENT: &str = r#"
name = "builds"
[volumes]
a = { device = "/dev/disk/by-id/virtio-a", id = "virtio-a" }
b = { device = "/dev/disk/by-id/virtio-b", id = "virtio-b" }
[designs.d]
layout = "stripe"
members = ["a", "b"]
filesystem = "ext4"
mount_options = "noatime"
[sweep]
design = "d"
vary = { chunk = ["64KiB", "256KiB"], scheduler = ["mq-deadline", "none"] }
[workloads.w]
rw = "randwrite"
bs = "64k"
size = "1MiB"
span = "1MiB"
[answer]
level = 0.5
trials_min = 2
trials_max = 2
"#;

/// Puts an mdadm in `counted` that writes down which arrays it creates.
const COUNTED: &str = r#"mkdir -p counted .local/state/ebbtide/journals; modprobe raid0
cat >counted/mdadm <<'E'
#!/bin/bash
[ "$1" = --create ] && echo "$@" >>/root/created
exec "$(PATH=${PATH#*:} command -v mdadm)" "$@"
E
chmod +x counted/mdadm"#;

/// Boundaries after which the first trial on a build has ended: of what is shared, of what is the trial's own, and of putting that back.
fn of_the_first_trial(plan: &Value) -> usize {
    let steps = plan["builds"][0]["steps"].as_array().unwrap();
    let shared = plan["builds"][0]["shared"].as_u64().unwrap() as usize;
    let undos = |steps: &[Value]| steps.iter().filter(|step| !step["undo"].is_null()).count();
    steps.len() + undos(steps) + 2 + undos(&steps[shared..])
}

#[test]
fn a_build_of_a_round_serves_its_designs_and_a_kill_between_them_is_cleaned_up() {
    let mut guest = guest("builds", &["a", "b"].map(|name| (name.to_owned(), 300 * MIB)));
    let before = tell(&mut guest, &format!("cat >e.toml <<'E'\n{EXPERIMENT}E\n{COUNTED}; state"));
    let run = "ebb run e.toml --on kernel --destroy --seed 1";
    let plan = tell(&mut guest, &format!("{run} --dry-run --json"));
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["plan"]["sweep"]["builds_a_round"], 3, "two, and one for the control's second trial");

    let counted = format!("rm -f created; PATH=/root/counted:$PATH {run}");
    let said = script(&mut guest, &format!("{counted} --json 2>err || [ $? = 3 ]")).unwrap();
    let report: Value = serde_json::from_str(&said).unwrap();
    let session = &report["session"];
    assert_eq!((&session["trials"], &session["trials_failed"]), (&10.into(), &0.into()), "{session:#}");
    assert!(!report["warnings"].to_string().contains("put back"), "{report:#}");
    let created = tell(&mut guest, "cat created");
    let arrays: BTreeSet<&str> =
        created.split_whitespace().filter(|word| word.starts_with("--uuid=")).collect();
    assert_eq!((created.lines().count(), arrays.len()), (6, 6), "three a round:\n{created}");
    unchanged(&before, &tell(&mut guest, "rm created err; state"), "after the run");

    // On the first build of the round that two designs share, in the second trial.
    let first = of_the_first_trial(&plan);
    for boundary in [first, first + 4, first + 8] {
        let kill =
            format!("status=0; {counted} --no-save -q 2>&1 || status=$?; echo $status $(wc -l <created)");
        let said = tell(&mut guest, &kill.replace("PATH=", &format!("EBB_TEST_HALT={boundary} PATH=")));
        assert_eq!(said.lines().last(), Some("137 1"), "{boundary}: {said}");
        let cleaned = tell(&mut guest, "ebb cleanup");
        let after = tell(&mut guest, "rm created; state");
        unchanged(&before, &after, &format!("killed at boundary {boundary}, then\n{cleaned}"));
    }
}

/// Each has a file of its own in the file system, and all of them one build a time.
#[test]
fn jobs_that_run_at_the_same_time_have_one_build() {
    let mut guest = guest("jobs", &["a", "b"].map(|name| (name.to_owned(), 300 * MIB)));
    let (before, _) = EXPERIMENT.split_once("[sweep]").unwrap();
    let jobs = "[workloads.oltp]\nruntime = \"300ms\"\n[workloads.oltp.jobs.data]\nrw = \"randread\"\nspan = \"8MiB\"\n\
                [workloads.oltp.jobs.log]\nrw = \"write\"\nfdatasync = 1\noffset = \"8MiB\"\nspan = \"1MiB\"\n\
                [answer]\nlevel = 0.5\ntrials_min = 2\ntrials_max = 2\n";
    let state = tell(&mut guest, &format!("cat >e.toml <<'E'\n{before}{jobs}E\n{COUNTED}; state"));
    let run =
        "PATH=/root/counted:$PATH ebb run e.toml --on kernel --destroy --seed 1 --json 2>err || [ $? = 3 ]";
    let report: Value = serde_json::from_str(&script(&mut guest, run).unwrap()).unwrap();
    let session = &report["session"];
    assert_eq!((&session["trials"], &session["trials_failed"]), (&8.into(), &0.into()), "{report:#}");
    for job in ["oltp.data", "oltp.log"] {
        let of_job = |r: &&Value| r["workload"] == job && r["metric"] == "iops";
        let result = report["results"].as_array().unwrap().iter().find(of_job).unwrap();
        assert!(result["median"].as_f64() > Some(0.0), "{result:#}");
    }
    assert_eq!(tell(&mut guest, "wc -l <created").trim(), "4", "in two rounds, on the control twice");
    unchanged(&state, &tell(&mut guest, "rm created err; state"), "after the run");
}

//! PostgreSQL as the load on arrays of md, in a guest of this machine's programs.

use ebbtide_lab::uml::{Guest, Kernel};
use ebbtide_runner::places;
use serde_json::Value;
use std::fs::File;
use std::time::Duration;

const EXPERIMENT: &str = r#"
name = "pg"
[volumes.a]
device = "/dev/ubda"
[volumes.b]
device = "/dev/ubdb"
[designs.mirror]
layout = "mirror"
members = ["a", "b"]
filesystem = "ext4"
[designs.stripe]
layout = "stripe"
chunk = "64KiB"
members = ["a", "b"]
filesystem = "xfs"
[setup.postgresql]
scale = 1
shared_buffers = "16MB"
[workloads.tpcb]
command = ["pgbench", "-n", "-c", "{clients}", "-T", "2", "-l"]
clients = 2
[answer]
level = 0.5
trials_min = 2
trials_max = 2
budget = "1h"
"#;

const SCRIPT: &str = r#"
export XDG_STATE_HOME=/tmp/state XDG_DATA_HOME=/tmp/data PATH=$PATH:/usr/sbin:/sbin
mkdir -p /tmp/w && cd /tmp/w && cp /share/e.toml .
state() { grep ^md /proc/mdstat; cat /proc/mounts; ls /run/ebbtide 2>/dev/null; wipefs /dev/ubda /dev/ubdb; pgrep -l postgres; }
state >before
EBB run e.toml --on kernel --destroy --json >/share/report.json 2>/share/said; echo run $?
state >after; diff before after && echo same
EBB run e.toml --on kernel --destroy --no-save -q >/dev/null 2>&1 &
until pgrep pgbench >/dev/null; do sleep 0.2; done
kill -9 $(pgrep -f 'ebb run e.toml')
wait
pgrep postgres >/dev/null && echo left
EBB cleanup >/share/cleaned 2>&1; echo cleanup $?
state >after; diff before after && echo clean
"#;

#[test]
fn postgresql_runs_on_md_and_leaves_nothing_after_a_kill_either() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let share = place.path().join("share");
    std::fs::create_dir(&share).unwrap();
    std::fs::write(share.join("e.toml"), EXPERIMENT).unwrap();
    let disks: Vec<_> = ["a", "b"].map(|name| place.path().join(name)).into();
    for disk in &disks {
        File::create(disk).unwrap().set_len(400 << 20).unwrap();
    }
    let script = SCRIPT.replace("EBB", env!("CARGO_BIN_EXE_ebb"));
    let kernel = Kernel::ready(&places::lab().unwrap(), &mut super::guests::told).unwrap();
    let guest = Guest { script, disks, udev: true, memory_mib: 800, share: Some(share.clone()) };
    let outcome = guest.run(&kernel, Duration::from_secs(1800)).unwrap();
    let told = |name: &str| std::fs::read_to_string(share.join(name)).unwrap_or_default();
    let all = format!("{}\n{}\n{}", outcome.output, told("said"), told("cleaned"));
    for part in ["same\n", "left\n", "cleanup 0\n", "clean\n"] {
        assert!(outcome.output.contains(part), "{part}{all}");
    }
    let report: Value =
        serde_json::from_str(&told("report.json")).unwrap_or_else(|error| panic!("{error}: {all}"));
    assert_eq!(report["session"]["trials_failed"], 0, "{report:#}");
    for design in ["mirror", "stripe"] {
        let results = report["results"].as_array().unwrap();
        let of =
            |metric: &str| results.iter().find(|r| r["design"] == design && r["metric"] == metric).unwrap();
        assert!(of("tps")["median"].as_f64().unwrap() > 0.0 && of("p99")["trials"] == 2, "{report:#}");
        assert_eq!(of("tps")["members"].as_array().unwrap().len(), 2, "{report:#}");
    }
}

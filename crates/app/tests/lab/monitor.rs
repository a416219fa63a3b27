//! `ebb monitor install` in a system that boots: it is back after a reboot, measures with few rights, finds a disk that became slower, costs
//! little, and leaves nothing when it is taken away.

use super::system::{disk, system, tell};
use ebbtide_lab::system::{Life, SystemGuest};
use serde_json::Value;

const MIB: u64 = 1 << 20;
/// Seconds between two passes by default.
const INTERVAL_S: f64 = 900.0;

/// What is there of units, and of what their making leaves.
const UNITS: &str = "ls -R /etc/systemd/system | grep -i ebbtide || true; systemctl list-timers --all --no-legend | grep -i ebbtide || true; ls /var/lib/systemd/timers | grep -i ebbtide || true";

const SLOWER: &str = "\
    mkdir /etc/systemd/system/ebbtide-monitor.service.d
    printf '[Service]\nIOReadIOPSMax=/dev/vdb 60\n' >/etc/systemd/system/ebbtide-monitor.service.d/slower.conf";

fn running(life: &Life, guest: &mut SystemGuest) {
    let failed =
        tell(guest, "systemctl --failed --no-legend; journalctl -b --no-pager -u 'ebbtide-*' || true");
    assert_eq!(life.state, "running", "{life:?}: {failed}");
}

fn json(guest: &mut SystemGuest, line: &str) -> Value {
    let said = tell(guest, line);
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{line}: {error}: {said}"))
}

/// Starts passes until both volumes were read: a host that has just started is busy, and then nothing is. Seeks per second of each, and the
/// seconds of a processor that the pass took.
fn pass(guest: &mut SystemGuest) -> (Vec<f64>, f64) {
    let begin = tell(guest, "date +%Y-%m-%dT%H:%M:%SZ").trim().to_owned();
    for _ in 0..40 {
        let started = "systemctl start ebbtide-monitor.service || { journalctl --no-pager -u ebbtide-monitor.service; exit 1; }";
        tell(guest, started);
        let known = json(guest, "ebb monitor status --json");
        let newest = |volume: &Value| {
            let seeks = &volume["newest"]["seeks"];
            Some(seeks["value"].as_f64()?)
                .filter(|_| seeks["at"].as_str().is_some_and(|at| at >= begin.as_str()))
        };
        let volumes = known["volumes"].as_array().unwrap();
        let seeks: Vec<f64> = volumes.iter().filter_map(newest).collect();
        if seeks.len() == 2 {
            let spent = tell(guest, "systemctl show -P CPUUsageNSec ebbtide-monitor.service");
            return (seeks, spent.trim().parse::<f64>().unwrap() / 1e9);
        }
        eprintln!("not read yet, at a load of {}", tell(guest, "cat /proc/loadavg").trim());
        tell(guest, "sleep 5");
    }
    panic!("nothing was measured");
}

#[test]
fn what_is_installed_survives_a_reboot_and_sees_a_slower_disk() {
    let mut guest = system("monitor", vec![disk("a", 64 * MIB), disk("b", 64 * MIB)]);
    let life = guest.boot().unwrap();
    running(&life, &mut guest);
    let before = tell(&mut guest, UNITS);
    // Where others may exchange it, or a reboot takes it away, nothing is installed.
    let refused = tell(
        &mut guest,
        "cp /ebb/ebb /tmp/ebb; /tmp/ebb monitor install 2>&1 && exit 1; mkdir -p /opt; mkdir -m 777 /opt/open; cp /ebb/ebb /opt/open; /opt/open/ebb monitor install 2>&1 && exit 1; true",
    );
    assert!(refused.contains("/tmp") && refused.contains("write to /opt/open"), "{refused}");
    tell(&mut guest, "install -m 755 /ebb/ebb /usr/local/bin/ebb; rm -r /tmp/ebb /opt/open");
    let planned =
        tell(&mut guest, "/usr/local/bin/ebb monitor install --dry-run /dev/vda $(basename /dev/vdb)");
    assert!(planned.contains("DynamicUser=yes\nSupplementaryGroups=disk\n"), "{planned}");
    assert!(planned.contains("/pause virtio-a virtio-b\n"), "by what stays the same: {planned}");
    assert_eq!(tell(&mut guest, UNITS), before, "a dry run touches nothing");
    let said = tell(&mut guest, "/usr/local/bin/ebb monitor install /dev/vda $(basename /dev/vdb) 2>&1");
    eprintln!("{said}");
    eprintln!(
        "{}",
        tell(
            &mut guest,
            "systemd-analyze verify /etc/systemd/system/ebbtide-monitor.* 2>&1; systemd-analyze security --no-pager ebbtide-monitor.service 2>&1 | tail -1"
        )
    );
    let (first, _) = pass(&mut guest);
    eprintln!("{}", tell(&mut guest, "ebb monitor status"));
    // The disk b is slower when it is back: its control group lets the unit do no more.
    tell(&mut guest, SLOWER);
    let life = guest.reboot().unwrap();
    running(&life, &mut guest);
    let (second, spent) = pass(&mut guest);
    let share = spent / INTERVAL_S * 100.0;
    eprintln!(
        "seeks/s {first:.0?}, then {second:.0?}; a pass takes {spent:.2} s of a processor, {share:.3}% of one at the default interval"
    );
    assert!(
        first.iter().chain(&second[..1]).all(|seeks| *seeks > 2.0 * second[1]),
        "{first:?}, then {second:?}"
    );
    let known = json(&mut guest, "ebb monitor status --json");
    assert_eq!(
        (&known["installed"]["active"], &known["installed"]["last_exit_status"]),
        (&true.into(), &0.into())
    );
    assert!(known["installed"]["next"].is_string(), "{known}");
    // The timer itself: its time comes.
    let passes = |known: &Value| known["volumes"][0]["passes_kept"].as_u64().unwrap();
    tell(&mut guest, "date -s '+20 minutes' >/dev/null");
    let mut after = known.clone();
    for _ in 0..30 {
        after = json(&mut guest, "ebb monitor status --json");
        if passes(&after) > passes(&known) {
            break;
        }
        tell(&mut guest, "sleep 2");
    }
    assert!(passes(&after) > passes(&known) && after["installed"]["last"].is_string(), "{after}");
    eprintln!("{}", tell(&mut guest, "ebb monitor status; ebb monitor changes"));
    tell(&mut guest, "rm -r /etc/systemd/system/ebbtide-monitor.service.d; systemctl daemon-reload");
    eprintln!("{}", tell(&mut guest, "/usr/local/bin/ebb undo monitor 2>&1"));
    assert_eq!(tell(&mut guest, UNITS), before);
    let left = tell(&mut guest, "ls /var/lib/ebbtide-monitor/; ls /var/lib/ebbtide 2>&1 || true");
    assert!(left.contains("store.sqlite"), "{left}");
    let again = tell(&mut guest, "/usr/local/bin/ebb undo monitor 2>&1 || echo status $?");
    assert!(again.contains("there is no monitor") && again.ends_with("status 1\n"), "{again}");
}

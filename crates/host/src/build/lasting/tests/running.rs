//! What runs and is not as it should be, what uses it, and who waits for it.

use super::changed::{MIRROR, applied, refused};
use super::machine::Disk;
use super::{Applied, STACKS};
use ebbtide_provision::MemberState;

#[test]
fn what_md_says_of_an_array_that_runs_is_told() {
    let (machine, _) = applied(MIRROR);
    machine.must_be_healthy("at first");
    let told = |file: &str, text: &str| {
        machine.put(&format!("/sys/block/md127/md/{file}"), text);
        machine.status().drift.join("; ")
    };
    assert_eq!(told("array_state", "read-auto\n"), "", "it waits for its first write");
    let read_only = "/dev/md/data is read-only: `mdadm --readwrite /dev/md/data` ends that";
    assert_eq!(told("array_state", "readonly\n"), read_only);
    machine.edit("/proc/self/mountinfo", |text| text.replace(" rw - ext4", " ro - ext4"));
    let both = "`mdadm --readwrite /dev/md/data`, then `mount -o remount,rw /srv/data`";
    let drift = machine.status().drift;
    assert!(drift.len() == 1 && drift[0].ends_with(both), "{drift:?}");
    machine.edit("/proc/self/mountinfo", |text| text.replace(" ro - ext4", " rw - ext4"));
    assert_eq!(told("array_state", "clean\n"), "");
    machine.put("/sys/class/block/data/ro", "1\n");
    assert_eq!(
        machine.status().drift,
        ["/dev/md/data is read-only: `blockdev --setrw /dev/md/data` ends that"]
    );
    machine.put("/sys/class/block/data/ro", "0\n");
    assert!(told("sync_action", "frozen\n").contains("`echo idle > /sys/block/md127/md/sync_action`"));
    assert_eq!(told("sync_action", "idle\n"), "");
    // After a repair it is what was put right.
    machine.put("/sys/block/md127/md/last_sync_action", "repair\n");
    assert_eq!(told("mismatch_cnt", "128\n"), "");
    let differ = told("last_sync_action", "check\n");
    assert!(differ.starts_with("the copies or the parity of /dev/md/data differ in 128 sectors"), "{differ}");
    assert_eq!(told("mismatch_cnt", "0\n"), "");
    machine.put("/sys/block/md127/md/level", "raid1\n");
    assert_eq!(
        told("raid_disks", "1\n"),
        "/dev/md/data has 1 device, and the design has 2: `mdadm --grow /dev/md/data --raid-devices=2` gives it that number again, before members are added"
    );
    assert_eq!(told("raid_disks", "2\n"), "");
}

#[test]
fn swap_that_was_lost_is_made_anew_and_the_array_beside_it_is_not_missing() {
    let raid = format!("{MIRROR}\nswap = [{{ members = [\"v[3..4]\"], priority = 5 }}]");
    for lines in [STACKS[3].1, &raid] {
        for is_booted in [false, true] {
            let (machine, desired) = applied(lines);
            match is_booted {
                true => machine.power_off(),
                false => machine.stop("swap:/dev/disk/by-id/vol3"),
            }
            machine.set_disk(3, Disk::Foreign);
            if is_booted {
                machine.boot();
            }
            let seen = machine.status();
            assert!(!seen.missing && !seen.drift.is_empty(), "{seen:?}");
            for destroy in [false, true] {
                assert!(refused(&machine, &desired, destroy).contains("vol3"));
            }
            machine.set_disk(3, Disk::Blank);
            let seen = machine.status();
            assert!(!seen.missing && seen.drift.iter().any(|drift| drift.contains("vol3")), "{seen:?}");
            machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("makes it anew");
            machine.must_be_healthy(lines);
            assert!(machine.shows_data() && machine.runs("swap:/dev/disk/by-id/vol3"));
            let again = machine.keep(|keeper| keeper.apply(desired, false, &[]));
            assert_eq!(again, Ok(Applied::default()));
        }
    }
}

#[test]
fn files_on_it_that_the_kernel_uses_are_named_before_an_undo_begins() {
    let (machine, _) = applied(MIRROR);
    let is_refused = |wanted: &str| {
        let before = machine.everything();
        let planned = machine.keep(|keeper| keeper.plan_undo("data", false)).map(drop);
        let undone = machine.keep(|keeper| keeper.undo("data", false)).map(drop);
        assert_eq!(planned, undone);
        let error = undone.expect_err("is refused").to_string();
        assert!(error.contains(wanted), "{error}");
        assert_eq!(machine.everything(), before);
    };
    machine.edit("/proc/swaps", |text| format!("{text}/srv/data/my\\040swap file 1000 0 -2\n"));
    is_refused("the file /srv/data/my swap on it is swapped to (`swapoff /srv/data/my swap`)");
    machine.edit("/proc/swaps", |text| text.replace("/srv/data/my", "/srv/other"));
    machine.put("/sys/block/loop3/loop/backing_file", "/srv/data/image\n");
    is_refused("/dev/loop3 is a loop device over the file /srv/data/image on it");
    machine.put("/sys/block/loop3/loop/backing_file", "/srv/image\n");
    // A directory of it in its place.
    machine.edit("/proc/self/mountinfo", |text| text.replace(" / /srv/data", " /sub /srv/data"));
    is_refused("it is mounted on /srv/data");
    machine.edit("/proc/self/mountinfo", |text| text.replace(" /sub /srv/data", " / /srv/data"));
    machine.keep(|keeper| keeper.undo("data", false)).expect("undoes");
}

#[test]
fn members_of_an_array_that_waits_for_others_are_not_called_resyncing() {
    let (machine, _) = applied(MIRROR);
    machine.put("/sys/block/md127/md/dev-vol0/state", "spare\n");
    let state = || machine.status().members[0].state;
    assert_eq!(state(), Some(MemberState::Resyncing));
    machine.put("/sys/block/md127/md/array_state", "inactive\n");
    assert_eq!(state(), Some(MemberState::Inactive));
    machine.runs_as("/dev/md/other");
    machine.put("/sys/block/md127/md/array_state", "inactive\n");
    let wanted = "/dev/md/data waits for members, and does not run: it is /dev/md127";
    assert!(machine.status().drift.iter().any(|drift| drift == wanted), "{:?}", machine.status());
    // By the kernel's own files, too.
    machine.put("/sys/class/block/vol0/holders/md127", "");
    machine.put("/sys/class/block/md127/md/dev-vol0/state", "spare\n");
    machine.put("/sys/class/block/md127/md/array_state", "inactive\n");
    let record = machine.record().expect("is there");
    let seen = machine.keep(|keeper| keeper.state_by_kernel(&record.desired.members[0]));
    assert_eq!(seen, Some(MemberState::Inactive));
}

#[test]
fn a_boot_that_waits_for_a_member_says_so() {
    let (machine, _) = applied(MIRROR);
    machine.shows_own_process();
    machine.power_off();
    machine.set_disk(1, Disk::Absent);
    let record = machine.record().expect("is there");
    let seen = machine.keep(|keeper| {
        let _lock = keeper.lock(super::apply::APPLY, "data").expect("is free");
        keeper.look(&record).expect("looks")
    });
    let step = seen.at_work.and_then(|at_work| at_work.step);
    assert_eq!(step.as_deref(), Some("it waits for /dev/disk/by-id/vol1, which is not there"));
}

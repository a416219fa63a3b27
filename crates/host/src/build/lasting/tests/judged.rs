//! What is judged before the first step: what waits, what is swapped out, what runs in halves, under another name or on others' devices.

use super::STACKS;
use super::machine::{Disk, Machine};
use ebbtide_provision::status::Array;
use ebbtide_provision::{Class, Desired};

const MIRROR: &str = "layout = \"mirror\"\nmembers = [\"v[0..1]\"]\nfilesystem = \"ext4\"";

/// A machine on which `lines` were applied.
fn applied(lines: &str, class: Class) -> (Machine, Desired) {
    let machine = Machine::new();
    let desired = machine.desired(lines, class);
    machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
    machine.write_data();
    (machine, desired)
}

/// Neither an undo nor its dry run does anything; what they say.
fn not_undone(machine: &Machine, destroy: bool) -> String {
    let before = machine.everything();
    let planned = machine.keep(|keeper| keeper.plan_undo("data", destroy)).expect_err("is refused");
    let undone = machine.keep(|keeper| keeper.undo("data", destroy)).expect_err("is refused");
    assert_eq!((planned, machine.everything()), (undone.clone(), before));
    undone.to_string()
}

fn drifted(machine: &Machine, words: &str) -> bool {
    machine.status().drift.iter().any(|drift| drift.contains(words))
}

#[test]
fn what_is_frozen_or_suspended_is_told_and_nothing_is_begun() {
    let (machine, desired) = applied(MIRROR, Class::Persistent);
    machine.freezes("/dev/md/data", false);
    machine.must_be_healthy("not frozen");
    machine.freezes("/dev/md/data", true);
    let frozen = "/srv/data is frozen, as by `fsfreeze -f`: whoever writes there waits. `fsfreeze -u /srv/data` ends that";
    assert!(drifted(&machine, frozen));
    for destroy in [false, true] {
        assert!(not_undone(&machine, destroy).contains(frozen));
    }
    machine.freezes("/dev/md/data", false);
    machine.put("/sys/class/block/vol1/slaves/dm-7", "");
    machine.put("/sys/class/block/dm-7/dm/suspended", "1\n");
    machine.put("/sys/class/block/dm-7/dm/name", "below\n");
    let suspended = "/dev/mapper/below is suspended: whoever uses it waits. `dmsetup resume below` ends that";
    assert!(drifted(&machine, suspended));
    assert!(not_undone(&machine, true).contains(suspended));
    let before = machine.everything();
    for attempt in [
        machine.keep(|keeper| keeper.plan(desired.clone(), true, &[])).map(drop),
        machine.keep(|keeper| keeper.apply(desired.clone(), true, &[])).map(drop),
        machine.keep(|keeper| keeper.at_boot("data", std::time::Duration::ZERO)).map(drop),
    ] {
        assert!(attempt.expect_err("is refused").to_string().contains(suspended));
    }
    assert_eq!(machine.everything(), before);
    machine.put("/sys/class/block/dm-7/dm/suspended", "0\n");
    machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
}

#[test]
fn a_name_of_somebody_s_cannot_break_a_line_nor_move_the_cursor() {
    let (machine, _) = applied(MIRROR, Class::Persistent);
    let (number, kind) = machine.mounted();
    // The table of mounts writes a line break as \\012.
    machine.mount_also((&number, &kind), "/mnt/a\\012b\u{1b}[2J", "/dev/md/data");
    let error = not_undone(&machine, true);
    assert!(!error.contains(['\n', '\u{1b}']) && error.contains("/mnt/a\\nb\\x1b[2J"), "{error}");
    machine.unmount_also();
    machine.stop("mount:");
    machine.mount_also(("9:99", "ext4"), "/srv/data", "/dev/\u{1b}[31mtheirs");
    let seen = machine.status();
    assert!(!seen.drift.iter().any(|drift| drift.contains('\u{1b}')), "{seen:?}");
    assert!(
        seen.drift.iter().any(|drift| drift.contains("/dev/\\x1b[31mtheirs (ext4) is mounted there")),
        "{seen:?}"
    );
}

#[test]
fn an_undo_of_what_was_never_begun_says_so() {
    let machine = Machine::new();
    let desired = machine.desired(MIRROR, Class::Persistent);
    machine.die_in(0, super::machine::Torn::Before);
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[]))
    }));
    assert!(killed.is_err());
    machine.live();
    let begun = machine.record().expect("is there").begun > 0;
    let undone = machine.keep(|keeper| keeper.undo("data", false)).expect("undoes");
    assert_eq!((undone.was_begun, undone.steps, undone.files), (begun, 0, 0));
    let (machine, _) = applied(MIRROR, Class::Persistent);
    assert!(machine.keep(|keeper| keeper.undo("data", false)).expect("undoes").was_begun);
}

#[test]
fn swap_that_memory_cannot_take_up_stays_on() {
    let (machine, _) = applied(STACKS[3].1, Class::Persistent);
    machine.swaps_out(900, 800);
    let error = not_undone(&machine, false);
    assert!(error.contains("1800KiB are swapped out"), "{error}");
    machine.swaps_out(900, 1800);
    machine.keep(|keeper| keeper.undo("data", false)).expect("undoes");
}

#[test]
fn what_only_one_of_two_halves_has_is_not_erased_while_the_other_runs() {
    for stack in [MIRROR, STACKS[1].1] {
        let (machine, _) = applied(stack, Class::Persistent);
        for (disk, table) in [(0, "A.A"), (1, ".A."), (2, "A.A")] {
            machine.has_table(disk, table);
        }
        let planned = machine.keep(|keeper| keeper.plan_undo("data", true)).expect("plans");
        assert!(planned.notes.iter().any(|note| note.contains("run without the other")), "{planned:?}");
        assert!(
            !planned.steps.iter().any(|step| step.contains("wipefs") || step.contains("zero")),
            "{planned:?}"
        );
        let before = machine.disks();
        let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
        assert!(undone.left.iter().any(|left| left.contains("run without the other")), "{undone:?}");
        assert_eq!(machine.disks(), before);
        assert!(!machine.runs("md:") && !machine.runs("crypt:") && !machine.runs("mount:"));
    }
}

#[test]
fn an_array_that_runs_under_another_name_has_its_data() {
    let (machine, _) = applied(MIRROR, Class::Persistent);
    machine.runs_as("/dev/md/other");
    let record = machine.record().expect("is there");
    let seen = Array::of(&record, machine.status());
    assert_eq!((seen.state.as_ref(), seen.can_lose), ("drifted", Some(1)), "{seen:?}");
    assert!(drifted(&machine, "the array is /dev/md127 and not /dev/md/data"));
}

#[test]
fn a_member_that_missed_something_is_not_counted_on() {
    let lines = "layout = \"raid5\"\nmembers = [\"v[0..2]\"]\nfilesystem = \"ext4\"";
    let (machine, desired) = applied(lines, Class::Persistent);
    machine.power_off();
    for disk in [0, 1] {
        machine.has_table(disk, "AA.");
    }
    machine.has_table(2, "AAA");
    machine.set_disk(0, Disk::Absent);
    let error = machine.keep(|keeper| keeper.apply(desired, false, &[])).expect_err("is refused").to_string();
    let missed = "; /dev/disk/by-id/vol2 (last written to today, 17 changes) is there, but missed what was written since";
    assert!(error.contains(missed) && !error.contains("--run"), "{error}");
}

#[test]
fn a_btrfs_on_others_devices_is_no_copy_and_stays() {
    let lines = "layout = \"stripe\"\nmembers = [\"v[0..1]\"]\nfilesystem = \"btrfs\"";
    let (machine, _) = applied(lines, Class::Persistent);
    let uuid = machine.uuid_of("btrfs");
    machine.put(&format!("/sys/fs/btrfs/{uuid}/devices/vol5"), "");
    machine.put(&format!("/sys/fs/btrfs/{uuid}/devices/data"), "");
    let spread = "the btrfs on /dev/md/data is on /dev/vol5 too, which the design does not name: \
                  `btrfs device remove /dev/vol5 /srv/data` has it on /dev/md/data alone again";
    assert!(drifted(&machine, spread), "{:?}", machine.status());
    assert!(!drifted(&machine, "copy"));
    let before = machine.disks();
    let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
    assert!(undone.left.iter().any(|left| left.contains(spread)), "{undone:?}");
    assert_eq!(machine.disks(), before);
}

#[test]
fn what_is_in_the_mount_point_of_an_ephemeral_array_is_not_hidden_at_boot() {
    let (machine, desired) = applied(STACKS[0].1, Class::Ephemeral);
    machine.power_off();
    (0..4).for_each(|disk| machine.set_disk(disk, Disk::Blank));
    machine.put("/srv/data/precious", "x");
    let before = machine.everything();
    let at_boot = machine.keep(|keeper| keeper.at_boot("data", std::time::Duration::ZERO)).map(drop);
    let by_hand = machine.keep(|keeper| keeper.apply(desired, false, &[])).map(drop);
    assert_eq!(at_boot, by_hand);
    assert!(at_boot.expect_err("is refused").to_string().contains("is not empty (it has precious in it)"));
    assert_eq!(machine.everything(), before);
}

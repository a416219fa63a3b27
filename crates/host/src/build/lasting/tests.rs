//! Arrays that stay, on a made-up machine: applied, killed between any two changes and in the middle of a command, cut from power, booted,
//! changed by others, undone, in random order. After each of these what `look` says must be true, the machine must boot, and data
//! that were there must be there.
//!
//! Faults: a kill ends `ebb` at any boundary; a command that is killed has done nothing, part of its work, or all of it; a power cut
//! takes with it what runs (arrays, mappings, mounts, swap) and nothing else, because `ebb` has synced what it has written.

mod changed;
mod interleaved;
mod interrupted;
mod judged;
mod kept;
mod machine;
mod running;

use super::*;
use ebbtide_provision::Record;
use machine::{Disk, Machine};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Of what is tried by the hundred, every so many are; `EBB_TEST_EVERY=1` tries all.
fn every() -> usize {
    crate::testing::every(4)
}

const STACKS: [(&str, &str); 6] = [
    (
        "raid0 and XFS",
        "layout = \"stripe\"\nmembers = [\"v[0..3]\"]\nfilesystem = \"xfs\"\nmount_options = \"noatime\"\nreadahead = \"1MiB\"\nscheduler = \"none\"\nqueue_depth = 64",
    ),
    (
        "raid10, LUKS and ext4",
        "layout = \"raid10\"\nmembers = [\"v[0..2]\"]\nencryption = { format = \"luks2\", key_file = \"/root/key\" }\nfilesystem = \"ext4\"",
    ),
    ("striped LVM", "layout = \"stripe\"\nbacking = \"lvm\"\nmembers = [\"v[0..3]\"]\nfilesystem = \"ext4\""),
    (
        "linear LVM and swap",
        "layout = \"linear\"\nbacking = \"lvm\"\nmembers = [\"v[0..2]\"]\nfilesystem = \"xfs\"\nswap = [{ members = [\"v[3..4]\"], priority = 5 }]",
    ),
    (
        "one disk",
        "layout = \"linear\"\nmembers = [\"v0\"]\nfilesystem = \"ext4\"\nscheduler = \"mq-deadline\"",
    ),
    (
        "cached LVM",
        "layout = \"linear\"\nbacking = \"lvm\"\nmembers = [\"v0\"]\nfilesystem = \"xfs\"\ncache = { members = [\"v1\"], kind = \"cache\", mode = \"writeback\" }",
    ),
];

#[test]
fn applied_again_nothing_changes_and_undone_nothing_is_left() {
    for (stack, lines) in STACKS {
        let machine = Machine::new();
        let before = machine.everything();
        let desired = machine.desired(lines, ebbtide_provision::Class::Persistent);
        let planned = machine.keep(|keeper| keeper.plan(desired.clone(), false, &[])).expect("plans");
        assert!(!planned.is_nothing() && machine.everything() == before, "{stack}");
        let applied = machine
            .keep(|keeper| keeper.apply(desired.clone(), false, &[]))
            .unwrap_or_else(|error| panic!("{stack}: {error}"));
        assert_eq!(applied.files, planned.files.len(), "{stack}");
        machine.must_be_healthy(stack);
        let standing = machine.everything();
        assert!(
            machine.keep(|keeper| keeper.plan(desired.clone(), false, &[])).expect("plans").is_nothing(),
            "{stack}"
        );
        assert_eq!(
            machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])),
            Ok(Applied::default()),
            "{stack}"
        );
        assert_eq!(machine.everything(), standing, "{stack}");
        undone_as_planned(&machine, true, stack);
        assert_eq!(machine.everything(), before, "{stack}");
    }
}

#[test]
fn an_apply_that_is_at_work_is_told_and_not_taken_for_one_that_was_ended() {
    let mut steps = std::collections::BTreeSet::new();
    for (stack, lines) in STACKS {
        for boundary in (1..).step_by(3) {
            let machine = Machine::new();
            machine.shows_own_process();
            let desired = machine.desired(lines, ebbtide_provision::Class::Persistent);
            machine.halt_in(boundary);
            let apply = || machine.keep(|keeper| keeper.apply(desired.clone(), false, &[]));
            if unless_killed(apply).is_some() {
                break;
            }
            machine.live();
            let begun = |record: &Record| record.phase == ebbtide_provision::Phase::Applying;
            let Some(record) = machine.record().filter(begun) else { continue };
            let ended = |drift: &[String]| drift.iter().any(|line| line.contains("was ended before"));
            let seen = machine.status();
            assert!(ended(&seen.drift) && seen.at_work.is_none(), "{stack}, {boundary}: {seen:?}");
            let look_while = |name: &str| {
                machine.keep(|keeper| {
                    let _lock = keeper.lock(apply::APPLY, name).expect("is free");
                    keeper.look(&record).expect("looks")
                })
            };
            let seen = look_while("another");
            assert!(ended(&seen.drift) && seen.at_work.is_none(), "{stack}, {boundary}: {seen:?}");
            let seen = look_while("data");
            let at_work = seen.at_work.as_ref().expect("is told");
            assert!(seen.drift.is_empty() && at_work.pid == std::process::id(), "{stack}: {seen:?}");
            steps.extend(at_work.step.clone());
        }
    }
    for wanted in [
        "`mkfs.xfs ",
        "`mdadm --create ",
        "all steps are done, and /etc/",
        "what follows a change of files, `udevadm control --reload`, `systemctl daemon-reload`, `update-initramfs -u`",
    ] {
        assert!(steps.iter().any(|step| step.contains(wanted)), "{wanted}: {steps:#?}");
    }
}

#[test]
fn what_a_resumed_apply_did_is_counted() {
    let mut commands_alone = 0;
    for command in 0.. {
        let machine = Machine::new();
        let desired = machine.desired(STACKS[0].1, ebbtide_provision::Class::Persistent);
        let apply = || machine.keep(|keeper| keeper.apply(desired.clone(), false, &[]));
        machine.die_in(command, machine::Torn::Before);
        if unless_killed(apply).is_some() {
            break;
        }
        machine.live();
        let resumed = apply().expect("applies");
        assert!(!resumed.is_nothing(), "{command}: {resumed:?}");
        if (resumed.steps, resumed.files) == (0, 0) {
            assert!(resumed.after.contains(&"update-initramfs -u".to_owned()), "{resumed:?}");
            commands_alone += 1;
        }
    }
    assert!(commands_alone > 0);
}

/// Undoes it, which does what a dry run has said, and that has touched nothing.
fn undone_as_planned(machine: &Machine, destroy: bool, stack: &str) {
    let before = machine.everything();
    let planned = machine.keep(|keeper| keeper.plan_undo("data", destroy)).expect("plans");
    assert_eq!(machine.everything(), before, "{stack}");
    let undone = machine
        .keep(|keeper| keeper.undo("data", destroy))
        .unwrap_or_else(|error| panic!("{stack}: {error}"));
    assert_eq!(planned.steps.len(), undone.steps, "{stack}: {planned:#?}");
    assert_eq!(planned.files.len(), undone.files, "{stack}: {planned:#?}");
}

#[test]
fn everything_is_back_after_a_boot_and_after_an_undo_that_keeps_data() {
    for (stack, lines) in STACKS {
        let machine = Machine::new();
        let desired = machine.desired(lines, ebbtide_provision::Class::Persistent);
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        machine.write_data();
        machine.power_off();
        machine.boot();
        machine.must_be_healthy(stack);
        undone_as_planned(&machine, false, stack);
        assert!(machine.files().iter().all(|(_, text)| !text.contains("ebb")), "{stack}");
        machine
            .keep(|keeper| keeper.apply(desired.clone(), false, &[]))
            .unwrap_or_else(|error| panic!("{stack}: {error}"));
        machine.must_be_healthy(stack);
        assert!(machine.has_data(), "{stack}");
    }
}

#[test]
fn a_step_that_fails_takes_what_was_made_with_it() {
    for ((stack, lines), leftovers) in STACKS.iter().zip([false, true].repeat(STACKS.len())) {
        for fails in 0.. {
            let machine = Machine::new();
            machine.leftovers.set(leftovers);
            let before = machine.everything();
            let desired = machine.desired(lines, ebbtide_provision::Class::Persistent);
            machine.fail_at(fails);
            let Err(error) = machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])) else {
                assert!(fails > 3, "{stack}");
                break;
            };
            assert!(error.to_string().contains("made to fail"), "{stack}, command {fails}: {error}");
            assert_eq!(machine.everything(), before, "{stack}, command {fails}: {error}");
        }
    }
}

#[test]
fn somebody_s_data_are_overwritten_with_leave_only() {
    let machine = Machine::new();
    machine.set_disk(1, Disk::Foreign);
    let before = machine.everything();
    let desired = machine.desired(STACKS[0].1, ebbtide_provision::Class::Persistent);
    for attempt in [
        machine.keep(|keeper| keeper.plan(desired.clone(), false, &[])).map(drop),
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).map(drop),
    ] {
        let error = attempt.expect_err("is refused").to_string();
        assert!(error.contains("ext4") && error.contains("--destroy"), "{error}");
    }
    assert_eq!(machine.everything(), before);
    machine.keep(|keeper| keeper.apply(desired.clone(), true, &[])).expect("applies");
    machine.must_be_healthy("over somebody's data");
}

#[test]
fn a_mount_point_that_cannot_be_one_is_refused_before_anything_is_made() {
    type Prepare = fn(&Machine);
    let cases: [(&str, Prepare, &str); 5] = [
        ("files", |machine| machine.put("/srv/data/precious", ""), "is not empty (it has precious in it)"),
        (
            "a line",
            |machine| machine.edit("/etc/fstab", |text| text + "\n/dev/sdz /srv/data xfs defaults 0 0\n"),
            "line 3 of /etc/fstab",
        ),
        (
            "a mount",
            |machine| machine.mount_also(("9:9", "ext4"), "/srv/data", "/dev/sdz"),
            "has /dev/sdz (ext4) mounted on it",
        ),
        ("no directory", |machine| machine.put("/srv/data", ""), "no directory"),
        ("a link", |machine| machine.link("/srv/data", "/etc"), "write /etc"),
    ];
    for (what, prepare, wanted) in cases {
        let machine = Machine::new();
        prepare(&machine);
        let before = machine.everything();
        let desired = machine.desired(STACKS[0].1, ebbtide_provision::Class::Persistent);
        for attempt in [
            machine.keep(|keeper| keeper.plan(desired.clone(), true, &[])).map(drop),
            machine.keep(|keeper| keeper.apply(desired.clone(), true, &[])).map(drop),
        ] {
            let error = attempt.expect_err(what).to_string();
            assert!(error.contains("/srv/data") && error.contains(wanted), "{what}: {error}");
        }
        assert_eq!(machine.everything(), before, "{what}");
    }
}

#[test]
fn nothing_is_taken_away_while_it_is_mounted_anywhere() {
    for (stack, lines) in STACKS {
        let machine = Machine::new();
        let before = machine.everything();
        let desired = machine.desired(lines, ebbtide_provision::Class::Persistent);
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        let (number, kind) = machine.mounted();
        machine.mount_also((&number, &kind), "/mnt/elsewhere", "/dev/any");
        let error = machine.keep(|keeper| keeper.plan_undo("data", true)).expect_err(stack).to_string();
        assert!(
            error.contains("it is mounted on /mnt/elsewhere") && error.contains("umount /mnt/elsewhere"),
            "{error}"
        );
        let error = machine.keep(|keeper| keeper.undo("data", true)).expect_err(stack).to_string();
        assert!(
            error.contains("it is mounted on /mnt/elsewhere") && error.contains("`ebb undo data` goes on"),
            "{error}"
        );
        assert!(machine.record().is_some(), "{stack}: it is not forgotten");
        machine.unmount_also();
        machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
        assert_eq!(machine.everything(), before, "{stack}");
    }
}

#[test]
fn what_covers_a_mount_or_takes_its_place_in_fstab_is_told() {
    let machine = Machine::new();
    let desired = machine.desired(STACKS[0].1, ebbtide_provision::Class::Persistent);
    machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
    machine.mount_also(("9:9", "ext4"), "/srv", "/dev/sdz");
    let wanted = "/dev/sdz (ext4) is mounted over it on /srv";
    let seen = machine.status();
    assert!(seen.drift.iter().any(|drift| drift.contains(wanted)), "{seen:?}");
    let error = machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect_err("is refused");
    assert!(error.to_string().contains("/dev/sdz covers that: unmount /srv first"), "{error}");
    let error = machine.keep(|keeper| keeper.undo("data", false)).expect_err("is refused").to_string();
    assert!(error.contains(wanted), "{error}");
    machine.unmount_also();
    machine.edit("/etc/fstab", |text| format!("/dev/sdz /srv/data ext4 defaults 0 0\n{text}"));
    let seen = machine.status();
    assert!(
        seen.drift.iter().any(|drift| drift.contains("line 1 of /etc/fstab gives /srv/data to /dev/sdz")),
        "{seen:?}"
    );
}

#[test]
fn the_wait_for_what_a_command_makes_ends_when_it_is_asked_to() {
    let machine = Machine::new();
    let before = machine.everything();
    let desired = machine.desired(STACKS[4].1, ebbtide_provision::Class::Persistent);
    let stop = AtomicBool::new(false);
    // The mount command ends well, and nothing is to be seen of it.
    machine.mounts_nothing.set(true);
    let error = machine.keep(|keeper| {
        let tell = |line: &str| {
            if line.starts_with("mount ") {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let Context { sys, runner, host, boundary, .. } = keeper.0;
        let context = Context {
            sys: sys.clone(),
            runner: *runner,
            host: *host,
            journal: None,
            tell: &tell,
            stop: &stop,
            boundary: *boundary,
        };
        let keeper = Keeper(&context);
        keeper.apply(desired, false, &[]).expect_err("is stopped")
    });
    assert_eq!(error, BuildError::Stopped.into());
    assert_eq!(machine.everything(), before);
}

#[test]
fn what_was_formatted_once_is_never_formatted_again() {
    let machine = Machine::new();
    let desired = machine.desired(STACKS[0].1, ebbtide_provision::Class::Persistent);
    machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
    machine.power_off();
    (0..4).for_each(|disk| machine.set_disk(disk, Disk::Blank));
    machine.boot();
    for destroy in [false, true] {
        let error = machine
            .keep(|keeper| keeper.apply(desired.clone(), destroy, &[]))
            .expect_err("is refused")
            .to_string();
        assert!(error.contains("never made or formatted twice"), "{error}");
    }
}

#[test]
fn instance_store_is_made_anew_where_all_of_it_is_blank() {
    let machine = Machine::new();
    let desired = machine.desired(STACKS[0].1, ebbtide_provision::Class::Ephemeral);
    machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
    machine.must_be_healthy("ephemeral");
    // A stop gave empty disks.
    machine.power_off();
    (0..4).for_each(|disk| machine.set_disk(disk, Disk::Blank));
    machine.boot();
    machine.must_be_healthy("made anew at boot");
    // All but one of them, or one with something of somebody's: nothing is made, the machine is up all the same.
    for odd in [Disk::Foreign, Disk::Absent] {
        machine.power_off();
        (0..4).for_each(|disk| machine.set_disk(disk, Disk::Blank));
        machine.set_disk(2, odd);
        let before = machine.disks();
        machine.boot();
        assert_eq!(machine.disks(), before, "{odd:?}");
        assert!(!machine.status().drift.is_empty() && machine.status().missing, "{odd:?}");
    }
    // With all of its own members back it is started, and keeps its data.
    machine.power_off();
    (0..4).for_each(|disk| machine.set_disk(disk, Disk::Blank));
    machine.boot();
    machine.write_data();
    machine.power_off();
    machine.boot();
    machine.must_be_healthy("started");
    assert!(machine.has_data());
}

#[test]
fn tunables_and_the_mount_change_in_place_and_the_rest_is_refused() {
    let machine = Machine::new();
    let with = |lines: &str| machine.desired(lines, ebbtide_provision::Class::Persistent);
    let before = machine.everything();
    machine.keep(|keeper| keeper.apply(with(STACKS[0].1), false, &[])).expect("applies");
    machine.write_data();
    let tuned = STACKS[0]
        .1
        .replace("queue_depth = 64", "queue_depth = 32")
        .replace("noatime", "nodiratime")
        .replace("scheduler = \"none\"\n", "");
    machine.keep(|keeper| keeper.apply(with(&tuned), false, &[])).expect("applies the change");
    machine.must_be_healthy("tuned");
    assert!(machine.has_data() && machine.files().iter().any(|(_, text)| text.contains("nodiratime")));
    for (other, wanted) in [
        (STACKS[0].1.replace("v[0..3]", "v[0..2]"), "members of an array that stays are not exchanged"),
        (STACKS[0].1.replace("xfs", "ext4"), "mkfs.ext4"),
        (STACKS[0].1.replace("members", "chunk = \"64KiB\"\nmembers"), "cannot be changed in place"),
    ] {
        let error =
            machine.keep(|keeper| keeper.apply(with(&other), true, &[])).expect_err("is refused").to_string();
        assert!(error.contains(wanted) && error.contains("ebb undo data"), "{error}");
    }
    machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
    assert_eq!(machine.everything(), before);
}

#[test]
fn members_that_grow_are_taken_up_where_that_can_be() {
    for (stack, lines, wanted) in [
        ("raid10, LUKS and ext4", STACKS[1].1, &["mdadm", "cryptsetup", "resize2fs"][..]),
        ("linear LVM", STACKS[3].1, &["pvresize", "pvresize", "pvresize", "xfs_growfs"]),
        ("one disk", STACKS[4].1, &["resize2fs"]),
        ("raid0", STACKS[0].1, &[]),
    ] {
        let machine = Machine::new();
        machine.resize(100);
        let desired = machine.desired(lines, ebbtide_provision::Class::Persistent);
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        machine.must_be_healthy(stack);
        assert!(machine.took_up().is_empty(), "{stack}");
        machine.resize(200);
        let planned = machine.keep(|keeper| keeper.plan(desired.clone(), false, &[])).expect("plans");
        assert_eq!(
            (planned.is_nothing(), planned.notes.is_empty()),
            (wanted.is_empty(), !wanted.is_empty()),
            "{stack}: {planned:?}"
        );
        assert_eq!(
            machine.status().drift.is_empty(),
            wanted.is_empty(),
            "{stack}: what cannot be mended is no drift"
        );
        // Killed between any two of them, the next apply takes up all of it.
        machine.halt_in(3);
        let first = unless_killed(|| machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])));
        machine.live();
        let took = machine.took_up();
        assert!(
            wanted.starts_with(&took.iter().map(String::as_str).collect::<Vec<_>>()),
            "{stack}: {took:?}"
        );
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        assert!(
            first.is_some() && took == wanted || machine.took_up() == wanted,
            "{stack}: {first:?}, {took:?}"
        );
        machine.must_be_healthy(stack);
        assert!(
            machine.keep(|keeper| keeper.plan(desired.clone(), false, &[])).expect("plans").is_nothing(),
            "{stack}"
        );
    }
}

/// Runs `what` until it ends or is killed.
fn unless_killed<T>(what: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(what)) {
        Ok(done) => Some(done),
        Err(cause) if cause.is::<machine::Killed>() => None,
        Err(cause) => std::panic::resume_unwind(cause),
    }
}

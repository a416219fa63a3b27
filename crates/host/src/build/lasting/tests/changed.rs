//! What is not as it was: members, mappings, files and records that somebody has changed since.

use super::machine::{Disk, Machine};
use super::{Applied, STACKS};
use ebbtide_provision::Class;

#[test]
fn an_array_that_lacks_a_member_says_which_and_how_to_go_on() {
    for (stack, goes_on) in [(0, false), (1, true)] {
        let machine = Machine::new();
        let (stack, lines) = STACKS[stack];
        let desired = machine.desired(lines, Class::Persistent);
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        machine.write_data();
        machine.power_off();
        machine.set_disk(1, Disk::Absent);
        machine.boot();
        let before = machine.everything();
        for attempt in [
            machine.keep(|keeper| keeper.plan(desired.clone(), true, &[])).map(drop),
            machine.keep(|keeper| keeper.apply(desired.clone(), true, &[])).map(drop),
        ] {
            let error = attempt.expect_err(stack).to_string();
            assert!(
                error.contains("volume v1 is missing (there is no /dev/disk/by-id/vol1)")
                    && error.contains("Bring it back")
                    && error.contains("mdadm --assemble --run /dev/md/data") == goes_on,
                "{stack}: {error}"
            );
        }
        assert_eq!(machine.everything(), before, "{stack}");
    }
}

#[test]
fn a_mapping_of_somebody_s_is_neither_taken_for_it_nor_closed() {
    let machine = Machine::new();
    let desired = machine.desired(STACKS[1].1, Class::Persistent);
    machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
    machine.put("/sys/class/block/dm-0/dm/name", "data\n");
    machine.put("/sys/class/block/dm-0/dm/uuid", "CRYPT-LUKS2-0123-data\n");
    machine.put("/sys/class/block/dm-0/slaves/sdz", "");
    let other = "/dev/mapper/data is a mapping of somebody's: its UUID is CRYPT-LUKS2-0123-data";
    let seen = machine.status();
    assert!(seen.drift.iter().any(|drift| drift.starts_with(other)), "{seen:?}");
    let error = machine.keep(|keeper| keeper.apply(desired.clone(), true, &[])).expect_err("is refused");
    assert!(error.to_string().starts_with(other), "{error}");
    let planned = machine.keep(|keeper| keeper.plan_undo("data", false)).expect("plans");
    assert!(planned.notes.iter().any(|note| note.contains(other)), "{planned:?}");
    let error = machine.keep(|keeper| keeper.undo("data", true)).expect_err("is refused").to_string();
    assert!(error.starts_with(other), "its content cannot be looked at: {error}");
    machine.stop("mount:");
    // On the array itself it is in use.
    machine.put("/sys/class/block/dm-0/slaves/data", "");
    let before = machine.files();
    let error = machine.keep(|keeper| keeper.undo("data", false)).expect_err("is refused").to_string();
    assert!(error.starts_with(other) && error.contains("`ebb undo data` goes on"), "{error}");
    assert_eq!(machine.files(), before);
    assert!(machine.runs("crypt:data") && machine.runs("md:"));
}

#[test]
fn a_file_that_is_a_link_by_now_is_told_before_anything_is_taken_away() {
    for file in ["/etc/fstab", "/etc/mdadm/mdadm.conf", "/etc/crypttab"] {
        let machine = Machine::new();
        let desired = machine.desired(STACKS[1].1, Class::Persistent);
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        machine.becomes_link(file);
        let link = format!("{file}: ");
        let seen = machine.status();
        assert!(
            seen.drift.iter().any(|drift| drift.contains(&link) && drift.contains("symbolic link")),
            "{seen:?}"
        );
        let before = machine.everything();
        for attempt in [
            machine.keep(|keeper| keeper.plan(desired.clone(), false, &[])).map(drop),
            machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).map(drop),
            machine.keep(|keeper| keeper.plan_undo("data", true)).map(drop),
            machine.keep(|keeper| keeper.undo("data", true)).map(drop),
        ] {
            let error = attempt.expect_err(file).to_string();
            assert!(
                error.contains("symbolic link") && error.contains("put the file in the place of the link"),
                "{error}"
            );
        }
        assert_eq!(machine.everything(), before, "{file}");
    }
}

#[test]
fn commands_that_follow_a_change_of_files_follow_nothing_else() {
    let machine = Machine::new();
    let mut desired = machine.desired(STACKS[0].1, Class::Persistent);
    machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
    desired.design = "other".to_owned();
    assert_eq!(
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])),
        Ok(Applied::default()),
        "no file changes"
    );
    assert_eq!(machine.record().expect("is there").desired.design, "other");
    machine.must_be_healthy("under another name of its design");
}

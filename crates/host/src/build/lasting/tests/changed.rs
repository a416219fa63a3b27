//! What is not as it was: members, mappings, files and records that somebody has changed since.

use super::machine::{Disk, Machine};
use super::{Applied, STACKS};
use crate::build::mdadm;
use ebbtide_provision::{Class, Desired, Phase};

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
fn a_copy_of_lvm_s_is_not_run_without_the_other_but_where_somebody_says_so() {
    let (machine, desired) = applied(&format!("{MIRROR}\nbacking = \"lvm\""));
    machine.power_off();
    machine.set_disk(1, Disk::Absent);
    let error = refused(&machine, &desired, false);
    assert!(
        error.contains("/dev/data/data is not activated: volume v1 is missing (there is no /dev/disk/by-id/vol1). Bring it back")
            && error.contains("`lvchange --activate y --activationmode degraded data/data`"),
        "{error}"
    );
}

#[test]
fn an_array_of_another_level_is_not_healthy() {
    let (machine, desired) = applied(MIRROR);
    machine.becomes_level("0");
    let seen = machine.status();
    let told =
        "/dev/md/data is not the array that was applied: its raid level is raid0, and the design wants raid1";
    assert!(seen.differs && seen.drift.iter().any(|drift| drift == told), "{seen:?}");
    let error = refused(&machine, &desired, false);
    assert!(error.contains("its raid level is raid0, and the design wants raid1"), "{error}");
}

#[test]
fn what_an_array_carries_is_not_taken_for_something_in_front_of_it() {
    for metadata in ["1.2", "1.1"] {
        let (machine, desired) = applied(&format!("{MIRROR}\nmetadata = \"{metadata}\""));
        machine.power_off();
        let seen = machine.status();
        assert!(
            !seen.drift.iter().any(|drift| drift.contains("front") || drift.contains("/dev/zero")),
            "{metadata}: {seen:?}"
        );
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect(metadata);
        assert!(machine.shows_data(), "{metadata}");
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

/// A machine on which `lines` were applied.
pub(super) fn applied(lines: &str) -> (Machine, Desired) {
    let machine = Machine::new();
    let desired = machine.desired(lines, Class::Persistent);
    machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
    machine.write_data();
    (machine, desired)
}

/// Neither a dry run nor an apply does anything; what they say.
pub(super) fn refused(machine: &Machine, desired: &Desired, destroy: bool) -> String {
    let before = machine.everything();
    let planned = machine.keep(|keeper| keeper.plan(desired.clone(), destroy, &[])).map(drop);
    let applied = machine.keep(|keeper| keeper.apply(desired.clone(), destroy, &[])).map(drop);
    assert_eq!(planned, applied);
    assert_eq!(machine.everything(), before);
    applied.expect_err("is refused").to_string()
}

pub(super) const MIRROR: &str = "layout = \"mirror\"\nmembers = [\"v[0..1]\"]\nfilesystem = \"ext4\"";

#[test]
fn copies_of_members_are_neither_taken_for_them_nor_erased() {
    for is_mounted in [false, true] {
        let (machine, desired) = applied(MIRROR);
        machine.power_off();
        machine.copies_run(&[0, 1]);
        if is_mounted {
            machine.mounts("/dev/md/data");
        }
        let other = "/dev/md127 has the uuid of /dev/md/data and stands on /dev/vol4, /dev/vol5: copies of its members";
        let seen = machine.status();
        assert!(seen.missing && seen.drift.iter().any(|drift| drift.contains(other)), "{seen:?}");
        for destroy in [false, true] {
            let error = refused(&machine, &desired, destroy);
            assert!(error.contains(other), "{error}");
        }
        let before = machine.disks();
        let planned = machine.keep(|keeper| keeper.plan_undo("data", true)).expect("plans");
        assert!(planned.notes.iter().any(|note| note.contains(other)), "{planned:?}");
        let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
        assert!(undone.left.iter().any(|left| left.contains(other)), "{undone:?}");
        assert_eq!(machine.disks(), before);
        assert!(machine.runs("md:") && machine.runs("mount:") == is_mounted);
    }
}

#[test]
fn an_array_on_other_members_is_told_with_its_data_and_left() {
    let (machine, desired) = applied(MIRROR);
    // Its first member was exchanged by hand: the other one, and a new one.
    machine.stands_on("vol0 vol5");
    let other =
        "/dev/md127 has the uuid of /dev/md/data and stands on /dev/vol5, which the design does not name";
    let seen = machine.status();
    assert!(!seen.missing && seen.elsewhere && seen.drift[0].contains(other), "{seen:?}");
    let error = refused(&machine, &desired, true);
    assert!(error.contains(other) && error.contains("`ebb undo data` takes data out"), "{error}");
    machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
    assert!(machine.runs("md:") && machine.runs("mount:") && machine.record().is_none());
    assert!(machine.files().iter().all(|(_, text)| !text.contains("ebb")));
}

#[test]
fn a_group_of_somebody_s_under_our_name_is_never_touched() {
    for stack in [STACKS[2], ("raw", "layout = \"linear\"\nbacking = \"lvm\"\nmembers = [\"v[0..2]\"]")] {
        let (machine, desired) = applied(stack.1);
        machine.somebody_takes_the_group();
        let other = "the volume group data stands on /dev/disk/by-id/vol5, which the design does not name; the volume group on";
        let seen = machine.status();
        assert!(seen.missing && seen.drift.iter().any(|drift| drift.contains(other)), "{seen:?}");
        assert!(seen.drift.iter().any(|drift| drift.contains("`vgrename old data`")), "{seen:?}");
        assert!(refused(&machine, &desired, true).contains(other));
        let (before, mounted) = (machine.disks(), machine.runs("mount:"));
        let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
        assert!(undone.left.iter().any(|left| left.contains(other)), "{undone:?}");
        assert_eq!((machine.disks(), machine.runs("mount:")), (before, mounted));
        machine.stop("mount:");
        for destroy in [false, true] {
            assert!(refused(&machine, &desired, destroy).contains(other));
        }
    }
}

#[test]
fn a_volume_that_was_made_again_under_our_name_is_not_ours() {
    let (machine, desired) = applied(STACKS[2].1);
    machine.makes_volume_again();
    let other = "the logical volume data/data is not the one that was made: its UUID is another";
    assert!(machine.status().drift.iter().any(|drift| drift.contains(other)), "{:?}", machine.status());
    assert!(refused(&machine, &desired, true).contains(other));
    let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
    assert!(undone.left.iter().any(|left| left.contains(other)) && machine.has_data(), "{undone:?}");
}

#[test]
fn a_record_without_uuids_of_lvm_gets_them_when_its_devices_are_ours() {
    let (machine, desired) = applied(STACKS[2].1);
    let known = machine.record().expect("is there").lvm;
    assert_eq!(known.keys().collect::<Vec<_>>(), ["data", "data/data"]);
    machine.edit("/var/lib/ebbtide/apply/data.json", |text| {
        let (before, rest) = text.split_once("\"lvm\": {").expect("has them");
        before.to_owned() + rest.split_once("},").expect("ends").1
    });
    assert!(machine.record().expect("opens").lvm.is_empty());
    machine.must_be_healthy("before");
    machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
    assert_eq!(machine.record().expect("is there").lvm, known);
}

#[test]
fn halves_that_both_ran_alone_are_not_started() {
    let (machine, desired) = applied(MIRROR);
    machine.power_off();
    machine.has_table(0, "A.");
    machine.has_table(1, ".A");
    let error = refused(&machine, &desired, true);
    assert!(
        error.contains("were both run without the other")
            && error.contains("(last written to today, 17 changes)"),
        "{error}"
    );
    // One that was only away has missed something.
    machine.has_table(1, "AA");
    machine.keep(|keeper| keeper.apply(desired, false, &[])).expect("applies");
    // The array runs from the first, and the other one ran alone.
    machine.stands_on("vol0");
    machine.has_table(1, ".A");
    let record = machine.record().expect("is there");
    let seen = ebbtide_provision::status::Array::of(&record, machine.status());
    assert!(seen.remedies[0].contains("run without the members in use, last on today"), "{seen:?}");
    assert!(!seen.remedies[0].contains("add /dev"), "{seen:?}");
    machine.has_table(1, "AA");
    for (bitmap, add) in [("none\n", " --add /dev"), ("+8\n", " --re-add /dev")] {
        machine.put("/sys/block/md127/md/bitmap/location", bitmap);
        let seen = ebbtide_provision::status::Array::of(&record, machine.status());
        assert!(seen.remedies[0].contains(add), "{seen:?}");
    }
}

#[test]
fn a_header_with_another_uuid_is_not_opened() {
    let (machine, desired) = applied(STACKS[1].1);
    machine.stop("mount:");
    machine.stop("crypt:");
    machine.changes_uuid("crypto_LUKS");
    let other = "/dev/md/data carries crypto_LUKS with the label";
    assert!(refused(&machine, &desired, true).contains(other));
    let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
    assert!(undone.left.iter().any(|left| left.contains(other)), "{undone:?}");
    assert!(machine.has_data() && !machine.runs("crypt:"));
    let error = machine.keep(|keeper| keeper.apply(desired, false, &[])).expect_err("is refused").to_string();
    assert!(error.contains(other) && !machine.runs("crypt:"), "{error}");
}

#[test]
fn a_file_system_with_another_uuid_is_told_and_not_missing() {
    for (stack, lines) in STACKS {
        let (machine, desired) = applied(lines);
        machine.changes_uuid(if lines.contains("xfs") { "xfs" } else { "ext4" });
        let seen = machine.status();
        assert!(!seen.missing && !seen.elsewhere && seen.drift.len() == 1, "{stack}: {seen:?}");
        assert!(
            seen.drift[0].contains("the UUID another and not") && seen.drift[0].contains(" -U "),
            "{seen:?}"
        );
        machine.keep(|keeper| keeper.undo("data", false)).expect("undoes");
        let error = machine.keep(|keeper| keeper.apply(desired, false, &[])).expect_err(stack).to_string();
        // Nothing is known of a disk but that it carries something.
        assert!(error.contains("the UUID another") || stack == "one disk", "{stack}: {error}");
    }
}

#[test]
fn an_undo_that_is_refused_has_changed_nothing() {
    for (stack, lines) in STACKS {
        let (machine, desired) = applied(lines);
        let before = machine.everything();
        let refused = |wanted: &str| {
            for destroy in [false, true] {
                let planned = machine.keep(|keeper| keeper.plan_undo("data", destroy)).map(drop);
                let undone = machine.keep(|keeper| keeper.undo("data", destroy)).map(drop);
                assert_eq!(planned, undone, "{stack}");
                let error = undone.expect_err(stack).to_string();
                assert!(error.contains(wanted), "{stack}: {error}");
            }
            assert_eq!(machine.record().expect("is there").phase, Phase::Applied);
        };
        refused(&machine.stands_below("/srv/data/in"));
        machine.unmount_also();
        if stack != "one disk" {
            machine.put("/sys/class/block/data/holders/dm-9", "");
            machine.put("/sys/class/block/dm-9/dm/name", "mine\n");
            refused("/dev/mapper/mine stands on it");
            machine.remove("/sys/class/block/data/holders");
        }
        assert_eq!(machine.everything(), before, "{stack}");
        assert_eq!(
            machine.keep(|keeper| keeper.apply(desired, false, &[])),
            Ok(Applied::default()),
            "{stack}"
        );
    }
}

#[test]
fn a_member_that_is_blank_or_in_another_group_is_not_as_it_was() {
    type Change = fn(&Machine);
    let cases: [(Change, &str); 2] = [
        (
            |machine| machine.forgets("pv", 1),
            "/dev/disk/by-id/vol1 is not the physical volume of LVM that was made",
        ),
        (
            |machine| machine.is_in_group(1, "mine another"),
            "/dev/disk/by-id/vol1 belongs to the volume group mine now, which is another",
        ),
    ];
    for (change, wanted) in cases {
        let (machine, desired) = applied(STACKS[2].1);
        change(&machine);
        let seen = machine.status();
        assert!(seen.drift.iter().any(|drift| drift == wanted), "{wanted}: {seen:?}");
        refused(&machine, &desired, true);
    }
    // A member of somebody's group stays in it, whatever is asked for.
    let (machine, _) = applied(STACKS[2].1);
    machine.is_in_group(1, "mine another");
    let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
    assert!(undone.left.iter().any(|left| left.contains("the volume group mine")), "{undone:?}");
    assert!(machine.disks().contains_key("pv:/dev/disk/by-id/vol1"));
}

#[test]
fn a_broken_array_of_somebody_s_is_not_ours() {
    let (machine, _) = applied(MIRROR);
    let before = machine.everything();
    for (members, device, is_ours) in
        [("vol9", "/dev/md126", false), ("vol9", "/dev/md/data", true), ("vol0", "/dev/md126", true)]
    {
        let sys = machine.sys();
        machine.put("/sys/block/md126/md/array_state", "broken\n");
        machine.put(&format!("/sys/block/md126/md/dev-{members}/state"), "in_sync\n");
        machine.put("/sys/class/block/md126/dev", "9:126\n");
        machine.put("/dev/md126", "");
        machine.remove_file("/dev/md/data");
        machine.link(if device == "/dev/md126" { "/dev/md/other" } else { device }, "/dev/md126");
        let own = ["/dev/disk/by-id/vol0".to_owned(), "/dev/disk/by-id/vol1".to_owned()];
        let found = mdadm::broken(&sys, "/dev/md/data", &own);
        assert_eq!(found.as_deref(), is_ours.then_some("md126"), "{members} {device}");
        ["/sys/block/md126", "/sys/class/block/md126"].iter().for_each(|place| machine.remove(place));
        ["/dev/md126", "/dev/md/other"].iter().for_each(|place| machine.remove_file(place));
        machine.stop("nothing");
    }
    assert_eq!(machine.everything(), before);
}

#[test]
fn what_is_under_a_mount_of_somebody_s_is_not_erased() {
    for (stack, lines) in STACKS {
        let (machine, _) = applied(lines);
        machine.stop("mount:");
        machine.mount_also(("9:99", "xfs"), "/srv/data", "/dev/sdz");
        let below =
            || machine.disks().into_iter().filter(|(_, on)| !on.starts_with("swap")).collect::<Vec<_>>();
        let before = below();
        let planned = machine.keep(|keeper| keeper.plan_undo("data", true)).expect("plans");
        let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
        assert!(undone.left[0].contains("/dev/sdz (xfs) is mounted there"), "{stack}: {undone:?}");
        assert_eq!(planned.steps.len(), undone.steps, "{stack}: {planned:#?}, {undone:#?}");
        assert_eq!(below(), before, "{stack}");
    }
}

#[test]
fn a_queue_that_keeps_its_setting_does_not_keep_the_rest() {
    let (machine, _) = applied(STACKS[0].1);
    let file = "/sys/class/block/vol1/queue/nr_requests";
    // Its own value can be read, and nothing be written to it.
    machine.becomes_link(file);
    let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
    assert!(
        undone.left.len() == 1
            && undone.left[0].starts_with("nr_requests of /dev/disk/by-id/vol1 stays 64: 256 is refused ("),
        "{undone:?}"
    );
    assert!(machine.record().is_none() && machine.disks().is_empty());
}

#[test]
fn copies_of_metadata_go_with_the_group_that_they_are_of() {
    let (machine, _) = applied(STACKS[2].1);
    let own = machine.record().expect("is there").lvm["data"].clone();
    let copies = [
        ("/etc/lvm/backup/data", "theirs"),
        ("/etc/lvm/archive/data_00001-1.vg", own.as_str()),
        ("/etc/lvm/archive/data_00002-7.vg", "theirs"),
    ];
    for (path, uuid) in copies {
        machine.put(path, &format!("data {{\n\tid = \"{uuid}\"\n}}\n"));
    }
    machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
    let left: Vec<String> = machine.files().into_iter().map(|(path, _)| path).collect();
    for (path, uuid) in copies {
        assert_eq!(left.iter().any(|left| path.ends_with(left)), uuid == "theirs", "{path}: {left:?}");
    }
}

#[test]
fn a_line_of_somebody_s_in_our_block_outlives_every_apply() {
    let (stack, lines) = STACKS[3];
    let (machine, desired) = applied(lines);
    let theirs = "tmpfs /mnt/theirs tmpfs nofail 0 0\n";
    machine.edit("/etc/fstab", |text| text.replace("# ebb: end data", &format!("{theirs}# ebb: end data")));
    let fstab = || machine.files().into_iter().find(|(path, _)| path.ends_with("fstab")).expect("is there").1;
    let other = machine.desired(&format!("{lines}\nmount_options = \"noatime\""), Class::Persistent);
    let mut unmounted = machine.desired(lines, Class::Persistent);
    let part = unmounted.parts.iter_mut().find(|part| part.path.ends_with("fstab")).expect("has one");
    part.lines = part.lines.lines().skip(1).map(|line| format!("{line}\n")).collect();
    for (desired, own) in
        [(&desired, "/srv/data xfs nofail"), (&other, "/srv/data xfs noatime,nofail"), (&unmounted, "swap")]
    {
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        let (fstab, mounts) = (fstab(), usize::from(own != "swap"));
        assert!(fstab.contains(theirs) && fstab.contains(own), "{stack}: {fstab}");
        assert_eq!(
            (fstab.matches("/srv/data").count(), fstab.matches(" swap ").count()),
            (mounts, 2),
            "{fstab}"
        );
        assert!(machine.status().drift.is_empty(), "{stack}: {:?}", machine.status());
    }
    assert!(machine.record().expect("is there").earlier.is_empty());
    machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
    assert!(fstab().contains(theirs) && !fstab().contains("ebb"), "{}", fstab());
}

#[test]
fn a_file_system_with_another_label_is_told_with_how_it_gets_its_own_back() {
    for (stack, lines) in STACKS {
        let (machine, desired) = applied(lines);
        machine.changes_label(if lines.contains("xfs") { "xfs" } else { "ext4" });
        let seen = machine.status();
        assert!(!seen.missing && seen.drift.len() == 1, "{stack}: {seen:?}");
        assert!(
            seen.drift[0].contains("with the label another and the UUID that was made: `"),
            "{stack}: {seen:?}"
        );
        let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
        assert!(machine.has_data() && undone.left[0].contains("label another"), "{stack}: {undone:?}");
        let error = machine.keep(|keeper| keeper.apply(desired, false, &[])).expect_err(stack).to_string();
        assert!(error.contains("gives it its label back") || stack == "one disk", "{stack}: {error}");
    }
}

#[test]
fn an_array_of_somebody_s_under_our_name_stays_mounted() {
    let (machine, desired) = applied(MIRROR);
    machine.is_made_again();
    let other = "/dev/md/data is an array of somebody's: its UUID is theirs";
    assert!(machine.status().drift.iter().any(|drift| drift == other), "{:?}", machine.status());
    for destroy in [false, true] {
        assert!(refused(&machine, &desired, destroy).contains(other));
    }
    let before = machine.disks();
    let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
    assert!(undone.left.iter().any(|left| left == other), "{undone:?}");
    assert!(machine.disks() == before && machine.runs("md:") && machine.runs("mount:"));
}

#[test]
fn a_mount_that_fails_with_new_options_is_back_with_the_old_ones() {
    let (machine, desired) = applied(STACKS[0].1);
    let wrong = machine.desired(&STACKS[0].1.replace("noatime", "nosuchoption"), Class::Persistent);
    let error = machine.keep(|keeper| keeper.apply(wrong, false, &[])).expect_err("is no option").to_string();
    assert!(
        error.contains("nosuchoption") && error.ends_with("it is mounted again as it was before"),
        "{error}"
    );
    assert!(machine.shows_data());
    machine.keep(|keeper| keeper.apply(desired, false, &[])).expect("applies");
    machine.must_be_healthy("with the old ones");
}

#[test]
fn a_copy_that_a_boot_would_mount_is_told() {
    for (stack, lines) in STACKS {
        let (machine, _) = applied(lines);
        let disks = machine.disks();
        let made: Vec<&str> = disks
            .iter()
            .filter(|(key, _)| key.starts_with("on:"))
            .filter_map(|(_, on)| on.split(' ').nth(2))
            .collect();
        for uuid in &made {
            machine.put("/dev/disk/by-uuid/.made", "");
            machine.link(&format!("/dev/disk/by-uuid/{uuid}"), "/dev/disk/by-id/vol5");
        }
        let drift = machine.status().drift;
        let told = drift
            .iter()
            .filter(|drift| drift.starts_with("/dev/vol5 has the UUID of what is on /dev/"))
            .count();
        assert_eq!((told, drift.len()), (made.len(), made.len()), "{stack}: {drift:?}");
    }
}

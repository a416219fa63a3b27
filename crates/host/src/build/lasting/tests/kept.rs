//! Arrays that are there already: of another design, with somebody's data on them, stopped, or in part.

use super::machine::{Disk, Machine};
use super::{STACKS, undone_as_planned, unless_killed};
use ebbtide_provision::Class;

/// Designs without a file system, and the same with what would be written over their data.
const RAW: [(&str, &str); 4] = [
    ("layout = \"stripe\"\nmembers = [\"v[0..3]\"]", "filesystem = \"xfs\""),
    (
        "layout = \"raid10\"\nmembers = [\"v[0..2]\"]",
        "encryption = { format = \"luks2\", key_file = \"/root/key\" }\nfilesystem = \"ext4\"",
    ),
    ("layout = \"stripe\"\nbacking = \"lvm\"\nmembers = [\"v[0..3]\"]", "filesystem = \"ext4\""),
    (
        "layout = \"raid10\"\nmembers = [\"v[0..2]\"]\nencryption = { format = \"luks2\", key_file = \"/root/key\" }",
        "filesystem = \"ext4\"",
    ),
];

#[test]
fn data_without_a_signature_are_not_formatted() {
    for (lines, more) in RAW {
        let machine = Machine::new();
        let with = format!("{lines}\n{more}");
        let [raw, formatted] = [lines, &with].map(|lines| machine.desired(lines, Class::Persistent));
        machine.keep(|keeper| keeper.apply(raw, false, &[])).expect("applies");
        machine.somebody_writes();
        machine.keep(|keeper| keeper.undo("data", false)).expect("undoes");
        for _ in 0..2 {
            let apply = |destroy| machine.keep(|keeper| keeper.apply(formatted.clone(), destroy, &[]));
            let error = apply(false).expect_err("is refused").to_string();
            assert!(
                error.contains("data of an unknown kind") && error.contains("--destroy"),
                "{with}: {error}"
            );
            assert!(machine.has_data(), "{with}");
        }
        let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
        assert!(machine.has_data() && !undone.left.is_empty(), "{with}: {undone:?}");
        machine.keep(|keeper| keeper.apply(formatted, true, &[])).expect("applies");
        machine.must_be_healthy(&with);
        assert!(!machine.has_data(), "{with}");
    }
}

#[test]
fn what_members_had_before_does_not_count_in_an_array_that_is_made_of_them() {
    for (stack, lines) in STACKS {
        let machine = Machine::new();
        machine.leftovers.set(true);
        let before = machine.everything();
        let desired = machine.desired(lines, Class::Persistent);
        machine
            .keep(|keeper| keeper.apply(desired, false, &[]))
            .unwrap_or_else(|error| panic!("{stack}: {error}"));
        machine.must_be_healthy(stack);
        undone_as_planned(&machine, true, stack);
        assert_eq!(machine.everything(), before, "{stack}");
    }
}

#[test]
fn an_array_of_another_design_is_not_taken_for_the_one_that_is_wanted() {
    let swap = |lines: &str, from: &str, to: &str| lines.replace(from, to);
    let cases = [
        (swap(RAW[0].0, "members", "chunk = \"64KiB\"\nmembers"), RAW[0].0.to_owned(), "64K", "512K"),
        (
            RAW[0].0.replace("[0..3]", "[0..2]"),
            swap(RAW[0].0, "stripe", "raid5").replace("[0..3]", "[0..2]"),
            "raid0",
            "raid5",
        ),
        (swap(RAW[2].0, "stripe", "linear"), RAW[2].0.to_owned(), "linear", "striped"),
        (swap(RAW[2].0, "members", "chunk = \"64KiB\"\nmembers"), RAW[2].0.to_owned(), "64k", "512k"),
    ];
    for (first, second, is, wanted) in cases {
        let machine = Machine::new();
        let [old, new] = [&first, &second].map(|lines| machine.desired(lines, Class::Persistent));
        machine.keep(|keeper| keeper.apply(old.clone(), false, &[])).expect("applies");
        machine.somebody_writes();
        machine.keep(|keeper| keeper.undo("data", false)).expect("undoes");
        let before = machine.everything();
        for destroy in [false, true] {
            let planned = machine.keep(|keeper| keeper.plan(new.clone(), destroy, &[])).map(drop);
            let applied = machine.keep(|keeper| keeper.apply(new.clone(), destroy, &[])).map(drop);
            assert_eq!(planned, applied);
            let error = applied.expect_err("is refused").to_string();
            assert!(
                error.contains(&format!("is {is}, and the design wants {wanted}"))
                    && error.contains("ebb undo data --destroy"),
                "{error}"
            );
            assert_eq!(machine.everything(), before);
        }
        machine.keep(|keeper| keeper.apply(old, false, &[])).expect("applies");
        assert!(machine.has_data());
    }
}

#[test]
fn a_file_system_of_another_type_is_not_taken_for_the_one_that_is_wanted() {
    for (stack, lines) in STACKS {
        let machine = Machine::new();
        let (one, other) = if lines.contains("xfs") { ("xfs", "ext4") } else { ("ext4", "xfs") };
        let [old, new] = [lines.to_owned(), lines.replace(one, other)]
            .map(|lines| machine.desired(&lines, Class::Persistent));
        machine.keep(|keeper| keeper.apply(old.clone(), false, &[])).expect("applies");
        machine.write_data();
        machine.keep(|keeper| keeper.undo("data", false)).expect("undoes");
        let error =
            machine.keep(|keeper| keeper.apply(new.clone(), false, &[])).expect_err("is refused").to_string();
        assert!(error.contains(one), "{stack}: {error}");
        if stack != "one disk" {
            assert!(error.contains(&format!("and the design wants {other}")), "{stack}: {error}");
        }
        let undone = machine.keep(|keeper| keeper.undo("data", true));
        assert!(machine.has_data(), "{stack}: {undone:?}");
        machine
            .keep(|keeper| keeper.apply(old, false, &[]))
            .unwrap_or_else(|error| panic!("{stack}: {error}"));
        machine.must_be_healthy(stack);
        assert!(machine.shows_data(), "{stack}");
    }
}

#[test]
fn an_undo_looks_at_what_is_on_arrays_that_do_not_run() {
    for (stack, lines) in STACKS {
        for somebody in
            [None, Some(Machine::somebody_formats as fn(&Machine)), Some(Machine::somebody_writes)]
        {
            let machine = Machine::new();
            let before = machine.everything();
            let desired = machine.desired(lines, Class::Persistent);
            machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
            machine.stop("mount:");
            machine.stop("swap:");
            if let Some(somebody) = somebody {
                somebody(&machine);
            }
            ["crypt:", "md:", "lv:"].iter().for_each(|what| machine.stop(what));
            let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
            match somebody {
                // Where nothing is made, what is on the disk is never looked at: nothing is erased there.
                Some(_) => assert!(
                    machine.has_data() && (!undone.left.is_empty() || stack == "one disk"),
                    "{stack}: {undone:?}"
                ),
                None => assert_eq!(machine.everything(), before, "{stack}: {undone:?}"),
            }
        }
    }
}

#[test]
fn a_dry_run_says_what_is_started_of_an_array_that_does_not_run() {
    for (stack, lines) in STACKS {
        let machine = Machine::new();
        let desired = machine.desired(lines, Class::Persistent);
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        machine.power_off();
        let planned = machine.keep(|keeper| keeper.plan(desired.clone(), false, &[])).expect("plans");
        assert!(!planned.steps.iter().any(|step| step.contains("mkfs")), "{stack}: {planned:#?}");
        let applied = machine.keep(|keeper| keeper.apply(desired, false, &[])).expect("applies");
        assert_eq!(planned.steps.len(), applied.steps, "{stack}: {planned:#?}");
    }
}

#[test]
fn an_undo_leaves_an_array_that_does_not_start() {
    for (stack, lines) in &STACKS[..2] {
        let machine = Machine::new();
        let desired = machine.desired(lines, Class::Persistent);
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        machine.write_data();
        machine.power_off();
        machine.set_disk(1, Disk::Absent);
        let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
        assert!(undone.left.iter().any(|left| left.contains("does not start")), "{stack}: {undone:?}");
        assert!(machine.has_data() && machine.disks().keys().any(|key| key.starts_with("super:")), "{stack}");
    }
}

#[test]
fn an_undo_that_was_killed_ends_what_it_had_begun_to_erase() {
    for (stack, lines) in STACKS {
        for boundary in 0.. {
            let machine = Machine::new();
            let before = machine.everything();
            let desired = machine.desired(lines, Class::Persistent);
            machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
            machine.halt_in(boundary);
            let ended = unless_killed(|| machine.keep(|keeper| keeper.undo("data", true))).is_some();
            machine.live();
            if ended {
                break;
            }
            machine.power_off();
            machine.boot();
            if machine.record().is_some() {
                let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
                assert!(undone.left.is_empty(), "{stack}, {boundary}: {undone:?}");
            }
            assert_eq!(machine.everything(), before, "{stack}, {boundary}");
        }
    }
}

//! Making that is interrupted, at every point: by a boot that goes on, and with something of somebody's there meanwhile.

use super::machine::{Disk, Machine, Torn};
use super::{STACKS, every, unless_killed};
use ebbtide_provision::{Class, Desired};

/// A kill.
#[derive(Debug, Clone, Copy)]
enum Kill {
    /// At a boundary between two changes.
    Between(usize),
    /// Of a command.
    Of(usize, Torn),
}

/// Every kill there is, by kind: each kind begins at the first boundary or command.
fn kinds() -> [fn(usize) -> Kill; 4] {
    [
        Kill::Between,
        |number| Kill::Of(number, Torn::Before),
        |number| Kill::Of(number, Torn::Within),
        |number| Kill::Of(number, Torn::After),
    ]
}

/// A machine on which `work` was killed so; nothing where it came to its end.
fn killed(machine: &Machine, kill: Kill, work: impl FnOnce(&Machine)) -> bool {
    match kill {
        Kill::Between(boundary) => machine.halt_in(boundary),
        Kill::Of(command, torn) => machine.die_in(command, torn),
    }
    let ended = unless_killed(|| work(machine)).is_some();
    machine.live();
    !ended
}

#[test]
fn a_boot_goes_on_with_what_one_before_it_began_and_writes_over_nothing() {
    let (mut healed, mut refused) = (0, 0);
    for (first, (stack, lines)) in STACKS.into_iter().enumerate() {
        let first = first % every();
        for kind in kinds() {
            for number in (first..).step_by(every()) {
                let kill = kind(number);
                let story = format!("{stack}, {kill:?}");
                let begun = || {
                    let machine = Machine::new();
                    let desired = machine.desired(lines, Class::Ephemeral);
                    machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
                    machine.power_off();
                    (0..6).for_each(|disk| machine.set_disk(disk, Disk::Blank));
                    let was_killed = killed(&machine, kill, Machine::boot);
                    (machine, desired, was_killed)
                };
                let (machine, desired, was_killed) = begun();
                if !was_killed {
                    machine.must_be_healthy(&story);
                    break;
                }
                machine.power_off();
                machine.boot();
                if machine.status().drift.is_empty() {
                    machine.must_be_healthy(&story);
                    healed += 1;
                } else {
                    // What carries something that cannot be judged is a person's to give up.
                    assert!(!matches!(kill, Kill::Of(_, Torn::Before)), "{story}: {:?}", machine.status());
                    machine
                        .keep(|keeper| keeper.apply(desired.clone(), true, &[]))
                        .unwrap_or_else(|error| panic!("{story}: {error}"));
                    machine.must_be_healthy(&story);
                    refused += 1;
                }
                for somebody in [Machine::somebody_formats, Machine::somebody_writes] {
                    let (machine, desired, _) = begun();
                    somebody(&machine);
                    machine.power_off();
                    machine.boot();
                    assert!(machine.has_data(), "{story}: a boot");
                    let _ = machine.keep(|keeper| keeper.apply(desired.clone(), false, &[]));
                    assert!(machine.has_data(), "{story}: an apply");
                }
            }
        }
    }
    assert!(
        healed > 100 / every() && healed > 4 * refused,
        "{healed} went on, {refused} were left to somebody"
    );
}

#[test]
fn an_undo_leaves_what_is_somebody_s_with_all_that_it_stands_on() {
    for (stack, lines) in STACKS {
        let machine = Machine::new();
        let desired = machine.desired(lines, Class::Persistent);
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        machine.stop("mount:");
        machine.stop("swap:");
        machine.stop("crypt:");
        machine.somebody_formats();
        let planned = machine.keep(|keeper| keeper.plan_undo("data", true)).expect("plans");
        let undone = machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
        assert!(machine.has_data() && !undone.left.is_empty(), "{stack}: {undone:?}");
        assert_eq!(planned.steps.len(), undone.steps, "{stack}: {planned:#?}, {undone:#?}");
        let below =
            machine.disks().keys().filter(|key| key.starts_with("super:") || key.starts_with("pv:")).count();
        assert_eq!(below > 0, stack != "one disk", "{stack}: {:?}", machine.disks());
    }
}

#[test]
fn a_member_that_is_somebody_s_by_now_is_not_written_over_beside_own_ones() {
    for (stack, lines) in &STACKS[..2] {
        let machine = Machine::new();
        let desired = machine.desired(lines, Class::Persistent);
        machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
        machine.keep(|keeper| keeper.undo("data", false)).expect("undoes");
        machine.set_disk(1, Disk::Foreign);
        let before = machine.disks();
        for _ in 0..2 {
            let error =
                machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect_err("is refused");
            assert_eq!(machine.disks(), before, "{stack}: {error}");
        }
    }
}

#[test]
fn an_apply_that_was_killed_writes_over_nothing_that_came_to_be_since() {
    for (stack, lines) in STACKS {
        for kind in kinds() {
            for number in 0.. {
                let (kill, somebody) =
                    (kind(number / 2), [Machine::somebody_formats, Machine::somebody_writes][number % 2]);
                let machine = Machine::new();
                let desired = machine.desired(lines, Class::Persistent);
                let apply = |machine: &Machine| {
                    machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])).map(drop)
                };
                if !killed(&machine, kill, |machine| apply(machine).expect("applies")) {
                    break;
                }
                somebody(&machine);
                let planned = machine.keep(|keeper| keeper.plan(desired.clone(), false, &[])).map(drop);
                let applied = apply(&machine);
                assert!(machine.has_data(), "{stack}, {kill:?}: {applied:?}");
                // Only an attempt to start it shows that an array was made in part.
                let in_part = matches!(kill, Kill::Of(_, Torn::Within));
                assert!(
                    planned.is_err() == applied.is_err() || in_part && planned.is_ok(),
                    "{stack}, {kill:?}: {planned:?}, {applied:?}"
                );
            }
        }
    }
}

#[test]
fn what_a_new_design_has_no_more_is_put_back_whenever_its_apply_was_killed() {
    for (stack, lines) in [STACKS[0], STACKS[4]] {
        let without: Vec<&str> = lines
            .lines()
            .filter(|line| {
                !["scheduler", "queue_depth", "mount_options"].iter().any(|key| line.starts_with(key))
            })
            .collect();
        for kind in kinds() {
            for number in 0.. {
                let (machine, kill) = (Machine::new(), kind(number));
                let before = machine.everything();
                let [with, without] =
                    [lines, &without.join("\n")].map(|lines| machine.desired(lines, Class::Persistent));
                let apply =
                    |desired: &Desired| machine.keep(|keeper| keeper.apply(desired.clone(), false, &[]));
                apply(&with).expect("applies");
                let ended = !killed(&machine, kill, |_| drop(apply(&without).expect("applies")));
                // On with the new one, or back to the old one.
                if number % 2 == 0 {
                    apply(&without).unwrap_or_else(|error| panic!("{stack}, {kill:?}: {error}"));
                    machine.must_be_healthy(stack);
                }
                machine.keep(|keeper| keeper.undo("data", true)).expect("undoes");
                assert_eq!(machine.everything(), before, "{stack}, {kill:?}");
                if ended {
                    break;
                }
            }
        }
    }
}

//! Random orders of everything that happens to a machine.

use super::machine::{Disk, Machine, Torn};
use super::{STACKS, every, unless_killed};
use ebbtide_provision::{Class, Phase};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// Orders that there are, each of some events.
const ORDERS: usize = 500;
const EVENTS: u32 = 8;

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn below(&mut self, most: u64) -> usize {
        usize::try_from(self.0.next_u64() % most).unwrap_or_default()
    }
}

/// A kill, somewhere or nowhere.
fn threaten(machine: &Machine, dice: &mut Dice) {
    match dice.below(3) {
        0 => {}
        1 => machine.halt_in(dice.below(70)),
        _ => machine.die_in(dice.below(18), [Torn::Before, Torn::Within, Torn::After][dice.below(3)]),
    }
}

/// What there is must be what is said of it.
fn must_be_told_truly(machine: &Machine, stack: &str, files: &[(String, String)], story: &str) {
    let Some(record) = machine.record() else {
        assert!(
            !machine.files().iter().any(|(_, text)| text.contains("# ebb")),
            "{story}: files without a record"
        );
        assert!(!machine.runs("mount:") && !machine.runs("swap:"), "{story}: in use without a record");
        return;
    };
    let seen = machine.status();
    // By what the machine itself knows.
    let tunables =
        !stack.contains("queue_depth") || machine.everything().contains("\"none\",\n        \"64\",");
    let stands = record.phase == Phase::Applied
        && machine.runs("mount:/srv/data")
        && (!stack.contains("swap") || machine.count("swap:") == 2)
        && (!stack.contains("luks") || machine.runs("crypt:data"))
        && machine.files() == files
        && tunables;
    let said = seen.drift.is_empty() && !seen.missing;
    assert_eq!(said, stands, "{story}: {seen:?}, {record:#?}");
}

#[test]
fn random_orders_of_apply_kill_power_cut_boot_and_undo() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<super::machine::Killed>() {
            quiet(info);
        }
    }));
    let (mut kills, mut applied, mut undone) = (0, 0, 0);
    let mut wanted = BTreeMap::new();
    for order in (0..ORDERS).step_by(every()) {
        let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(order as u64));
        let machine = Machine::new();
        let before = machine.everything();
        let (name, stack) = STACKS[dice.below(STACKS.len() as u64)];
        let class = if dice.below(4) == 0 { Class::Ephemeral } else { Class::Persistent };
        let desired = machine.desired(stack, class);
        let mut story = format!("order {order}, {name}, {class:?}");
        let mut precious = false;
        // What the files are to be, by an apply that nobody disturbed.
        let files = wanted.entry((name, class.as_ref().to_owned())).or_insert_with(|| {
            let undisturbed = Machine::new();
            undisturbed.keep(|keeper| keeper.apply(desired.clone(), false, &[])).expect("applies");
            undisturbed.files()
        });
        for _ in 0..EVENTS {
            match dice.below(9) {
                0..=2 => {
                    threaten(&machine, &mut dice);
                    let done =
                        unless_killed(|| machine.keep(|keeper| keeper.apply(desired.clone(), false, &[])));
                    machine.live();
                    story += &format!("\napply: {done:?}");
                    match done {
                        Some(Ok(_)) => {
                            applied += 1;
                            machine.must_be_healthy(&story);
                            assert!(!precious || machine.shows_data(), "{story}: other data");
                            machine.write_data();
                            precious = true;
                        }
                        Some(Err(error)) => {
                            let error = error.to_string();
                            let told = ["is being taken away", "`ebb apply --destroy` writes over it"];
                            assert!(told.iter().any(|why| error.contains(why)), "{story}: {error}");
                        }
                        None => kills += 1,
                    }
                }
                3 => {
                    let destroy = dice.below(2) == 0;
                    threaten(&machine, &mut dice);
                    let done = unless_killed(|| machine.keep(|keeper| keeper.undo("data", destroy)));
                    machine.live();
                    story += &format!("\nundo, destroy {destroy}: {done:?}");
                    kills += usize::from(done.is_none());
                    undone += usize::from(matches!(done, Some(Ok(_))));
                    // One that was killed may have destroyed it already, or not.
                    precious &= !destroy;
                    if let Some(Err(error)) = done {
                        assert!(error.to_string().contains("there is no data"), "{story}");
                    }
                }
                4 | 5 => {
                    machine.power_off();
                    machine.boot();
                    story += "\npower cut, boot";
                }
                6 => {
                    let what = ["mount:", "swap:", "md:"][dice.below(3)];
                    // md cannot be stopped below what uses it.
                    if what != "md:" || !machine.runs("mount:") && !machine.runs("crypt:") {
                        machine.stop(what);
                        story += &format!("\nsomebody stops {what}");
                    }
                }
                7 => {
                    machine.edit("/etc/fstab", |text| {
                        text.replace("x-systemd.device-timeout=", "x-systemd.device-timeout=9")
                    });
                    machine.edit("/etc/mdadm/mdadm.conf", |text| text.replace("ARRAY /dev", "DEVICE /dev"));
                    story += "\nsomebody edits fstab and mdadm.conf";
                }
                _ if class == Class::Ephemeral
                    && machine.record().is_some_and(|record| record.phase == Phase::Applied) =>
                {
                    machine.power_off();
                    (0..6).for_each(|disk| machine.set_disk(disk, Disk::Blank));
                    machine.boot();
                    precious = false;
                    story += "\na stop gives empty disks";
                    assert!(!machine.status().missing, "{story}");
                }
                _ => {}
            }
            machine.must_boot(&story);
            must_be_told_truly(&machine, stack, files, &story);
            assert!(!precious || machine.has_data(), "{story}: data are gone");
        }
        // From wherever that has led, it can be taken away as a whole.
        if machine.record().is_none() {
            let _ = machine.keep(|keeper| keeper.apply(desired.clone(), false, &[]));
        }
        if machine.record().is_some_and(|record| record.phase == Phase::Undoing) {
            machine
                .keep(|keeper| keeper.undo("data", true))
                .unwrap_or_else(|error| panic!("{story}: {error}"));
        } else {
            // What was cut off is made again where that is said.
            machine
                .keep(|keeper| keeper.apply(desired.clone(), true, &[]))
                .unwrap_or_else(|error| panic!("{story}: {error}"));
            machine
                .keep(|keeper| keeper.undo("data", true))
                .unwrap_or_else(|error| panic!("{story}: {error}"));
        }
        assert_eq!(machine.everything(), before, "{story}");
    }
    // Otherwise it has tried less than it says.
    assert!(
        kills > 200 / every() && applied > 300 / every() && undone > 100 / every(),
        "{kills} kills, {applied} applied, {undone} undone"
    );
}

//! Every kind of what is made to stay, on its made-up machine, with every fault at every boundary. In the end there is what was there before, the
//! whole, or a record from which the same command goes on. Nobody's data are gone.
//!
//! | fault | when |
//! | --- | --- |
//! | a kill, a power cut | between any two changes |
//! | a program fails, or never ends | at any of its calls |
//! | no more room | for the record |
//! | something of it vanishes | between any two changes |
//! | somebody puts his own in its place | after a kill, before it is cleaned up |

use super::*;
use crate::command::{CommandError, GivenUp};
use ebbtide_model::journal::{Journal, JournalError, Leftover, leftovers};
use std::cell::{Cell, RefCell};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What a panic carries that stands for a kill.
pub(crate) struct Killed;

/// Does `what`, which may be killed; nothing where it was.
pub(crate) fn until_killed<T>(what: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(what)) {
        Ok(done) => Some(done),
        Err(panic) if panic.is::<Killed>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// What was written down before each change.
#[derive(Default)]
pub(crate) struct Written(pub(crate) Mutex<Vec<Entry>>);

impl Journal for Written {
    fn write(&self, entry: &Entry) -> Result<(), JournalError> {
        self.0.lock().expect("locks").push(entry.clone());
        Ok(())
    }
}

impl Written {
    /// Whether there is something to clean up.
    pub(crate) fn has_left(&self) -> bool {
        !leftovers(&self.0.lock().expect("locks")).is_empty()
    }

    /// What `ebb cleanup` does with it.
    pub(crate) fn clean_up(&self, context: &Context<'_>) -> Vec<Result<Outcome, Failure>> {
        let entries = std::mem::take(&mut *self.0.lock().expect("locks"));
        let one = |left| match left {
            Leftover::Step { undo: BuildUndo::Unmake(thing), .. } => {
                assert!(thing.is_named(), "{thing:?}");
                clean_up(context, &thing, false)
            }
            other => panic!("nothing else is written down: {other:?}"),
        };
        leftovers(&entries).into_iter().map(one).collect()
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    PowerCut,
    Others,
    Vanishes,
    Full,
    Fails,
    Hangs,
}

impl Fault {
    const ALL: [Fault; 7] = [
        Fault::Kill,
        Fault::PowerCut,
        Fault::Others,
        Fault::Vanishes,
        Fault::Full,
        Fault::Fails,
        Fault::Hangs,
    ];

    /// Whether it is a program that it happens to.
    fn is_of_program(self) -> bool {
        matches!(self, Fault::Fails | Fault::Hangs)
    }
}

/// A fault that comes after so many boundaries or programs, and the directory of records that there is no room in.
#[derive(Default)]
pub(crate) struct Faults {
    comes: Cell<Option<(Fault, usize)>>,
    full: RefCell<Option<PathBuf>>,
}

impl Faults {
    /// Whether it comes now, at a boundary or at a program.
    fn now(&self, is_program: bool) -> Option<Fault> {
        let (fault, left) = self.comes.get().filter(|(fault, _)| fault.is_of_program() == is_program)?;
        self.comes.set(left.checked_sub(1).map(|left| (fault, left)));
        (left == 0).then_some(fault)
    }

    /// Between any two changes on `machine`, whose records are in `records`.
    pub(crate) fn boundary(&self, records: &Path, vanish: impl FnOnce()) {
        match self.now(false) {
            Some(Fault::Kill | Fault::PowerCut | Fault::Others) => resume_unwind(Box::new(Killed)),
            Some(Fault::Vanishes) => vanish(),
            Some(Fault::Full) if records.is_dir() => {
                fs::rename(records, records.with_extension("aside")).expect("renames");
                fs::write(records, "").expect("writes");
                *self.full.borrow_mut() = Some(records.to_owned());
            }
            _ => {}
        }
    }

    /// Before `program` is run: whether it fails.
    pub(crate) fn program(&self, program: &str) -> Result<bool, CommandError> {
        match self.now(true) {
            Some(Fault::Hangs) => {
                Err(CommandError::GivenUp { command: program.to_owned(), why: GivenUp::Silent(600) })
            }
            fault => Ok(fault.is_some()),
        }
    }

    /// Nothing goes wrong any more; whether something had.
    fn end(&self) -> bool {
        if let Some(records) = self.full.take() {
            fs::remove_file(&records).expect("removes");
            fs::rename(records.with_extension("aside"), records).expect("renames");
        }
        self.comes.take().is_none()
    }
}

/// A made-up machine that something of one kind is made on.
pub(crate) trait Tried {
    fn faults(&self) -> &Faults;
    fn journal(&self) -> &Written;
    /// Does `what` on it.
    fn within(&self, what: &mut dyn FnMut(&Context<'_>));
    /// The command that makes it.
    fn make(&self, context: &Context<'_>) -> Result<(), Failure>;
    /// `ebb undo`.
    fn undo(&self, context: &Context<'_>) -> Result<(), Failure>;
    /// A boot, or a power cut: what the kernel had is gone.
    fn boot(&self);
    /// Something that the kernel or the host has of it goes.
    fn vanish(&self);
    /// Somebody else puts something of his own in its place.
    fn replace(&self);
    /// Whether that, and what was on it when it was whole before, is there still.
    fn is_intact(&self, replaced: bool, was_whole: bool) -> bool;
    /// Whether what was written before a power cut cannot be taken away from here, which was said.
    fn is_out_of_reach(&self) -> bool {
        false
    }
    /// Everything that there is of it; without what is its user's where it was whole.
    fn traces(&self, was_whole: bool) -> Vec<String>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Make,
    MakeAfterBoot,
    Undo,
}

fn run(machine: &dyn Tried, command: Command) -> Result<(), Failure> {
    let mut done = Ok(());
    machine.within(&mut |context| {
        done = match command {
            Command::Undo => machine.undo(context),
            _ => machine.make(context),
        };
    });
    done
}

/// Whether the fault came.
fn try_one(machine: &dyn Tried, command: Command, fault: Fault, at: usize) -> bool {
    let what = format!("{fault:?} at {at} of {command:?}");
    let was_whole = command != Command::Make;
    if was_whole {
        run(machine, Command::Make).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    if command == Command::MakeAfterBoot {
        machine.boot();
    }
    machine.faults().comes.set(Some((fault, at)));
    let done = until_killed(|| run(machine, command));
    if !machine.faults().end() {
        assert_eq!(done, Some(Ok(())), "{what}");
        return false;
    }
    if fault == Fault::PowerCut {
        machine.boot();
    }
    let is_replaced = fault == Fault::Others && !was_whole;
    if is_replaced {
        machine.replace();
    }
    // What was taken away at once leaves nothing to clean up.
    if matches!(&done, Some(Err(why)) if !matches!(why, Failure::Both { .. }))
        && fault.is_of_program()
        && !was_whole
    {
        assert!(!machine.journal().has_left(), "{what}: {done:?}");
    }
    let mut said = Vec::new();
    machine.within(&mut |context| said = machine.journal().clean_up(context));
    assert!(machine.is_intact(is_replaced, was_whole), "{what}: {said:?}");
    let is_recorded =
        |machine: &dyn Tried| machine.traces(false).iter().any(|trace| trace.ends_with(".json"));
    if !was_whole && !is_recorded(machine) && !is_replaced {
        assert_eq!(machine.traces(false), Vec::<String>::new(), "{what}: {said:?}");
    }
    // From whatever there is, there is a way on and a way back.
    if !is_replaced && !machine.is_out_of_reach() && at.is_multiple_of(2) {
        run(machine, Command::Make).unwrap_or_else(|error| panic!("{what}, then made again: {error}"));
    }
    if is_recorded(machine) {
        run(machine, Command::Undo).unwrap_or_else(|error| panic!("{what}, then undone: {error}"));
    }
    assert!(machine.is_intact(is_replaced, was_whole), "{what}");
    assert_eq!(machine.traces(true), Vec::<String>::new(), "{what}: {said:?}");
    true
}

/// Every fault at every boundary of every command on machines that `new` makes; how many came.
pub(crate) fn every_fault<M: Tried>(new: impl Fn() -> M) -> usize {
    let mut came = 0;
    let step = crate::testing::every(5);
    for command in [Command::Make, Command::MakeAfterBoot, Command::Undo] {
        for fault in Fault::ALL {
            came += (0..).step_by(step).take_while(|at| try_one(&new(), command, fault, *at)).count();
        }
    }
    came
}

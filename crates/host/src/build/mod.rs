//! Builds designs in the kernel: carries out the steps of [`ebbtide_model::plan::build`] and puts them back.
//!
//! Each step is in the journal before it is done. After a failure what was done is undone in reverse, and both
//! errors are kept; after a kill `ebb cleanup` does the same from the journal. An undo looks for what was made by
//! its identity, so that it finds it under another name after a reboot, and never touches anything else.

mod blank;
mod error;
mod free;
pub(crate) mod identity;
mod kernel;
pub mod lasting;
mod lvm;
mod mdadm;
mod queue;
mod standing;
#[cfg(test)]
mod tests;
mod tools;
mod undo;

pub use error::BuildError;
pub use free::{free_loops, free_md_numbers, load_loop_driver};
pub use kernel::missing_in_kernel;
pub use tools::{Missing, missing};
pub use undo::{Outcome, foresee, undo};

use crate::command::{Runner, Shown};
use crate::sys::Sys;
use ebbtide_door::{Directory, id_of};
use ebbtide_model::journal::{Entry, Journal};
use ebbtide_model::plan::build::{BuildAction, BuildStep, BuildUndo, Mounted};
use rustix::process::{Signal, getpid, kill_process};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a device that udev or the kernel still holds is waited for in all.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 10 });
/// Between two looks at what is waited for.
const STEP: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 100 });
/// udev settles its events for at most so many seconds at a time.
const SETTLE_MAX: u64 = 5;

/// A property in which an array that is there is not as it would be made.
#[derive(Debug, PartialEq, Eq)]
struct Differs {
    property: String,
    is: String,
    wanted: String,
}

/// Carries out steps on a host.
pub struct Builder {
    sys: Sys,
    runner: Box<dyn Runner + Send>,
    journal: Arc<dyn Journal>,
    /// What is to be undone, by the number that it has in the journal.
    done: Vec<(u64, BuildUndo)>,
    next: u64,
    key: Option<Vec<u8>>,
    /// Boundaries between steps that are still to pass before this process kills itself.
    kill_in: Option<u64>,
}

impl Builder {
    /// A builder that has done nothing yet.
    pub fn new(sys: Sys, runner: Box<dyn Runner + Send>, journal: Arc<dyn Journal>) -> Builder {
        Builder { sys, runner, journal, done: Vec::new(), next: 0, key: None, kill_in: None }
    }

    /// The same, whose steps have numbers from `first` on: for one of several that write to the same journal.
    pub fn numbered_from(self, first: u64) -> Builder {
        Builder { next: first, ..self }
    }

    /// The key for steps that need one on a program's standard input.
    pub fn set_key(&mut self, key: Vec<u8>) {
        self.key = Some(key);
    }

    /// For tests: this process kills itself (SIGKILL) after passing `boundaries` of them. A boundary is before each
    /// step, between its entry in the journal and what it does, after the last step, and between what an undo did
    /// and its entry.
    pub fn kill_at(&mut self, boundaries: u64) {
        self.kill_in = Some(boundaries);
    }

    fn boundary(&mut self) {
        match &mut self.kill_in {
            Some(0) => {
                let _ = kill_process(getpid(), Signal::KILL);
            }
            Some(left) => *left -= 1,
            None => {}
        }
    }

    /// What is done and not undone: hand it to [`undo_to`](Self::undo_to) to go back to here.
    pub fn mark(&self) -> usize {
        self.done.len()
    }

    /// Does `steps` in their order. When one fails, or `stop` is set, what this call did is undone.
    ///
    /// # Errors
    /// Which step failed and how; with it what could not be undone.
    pub fn build(&mut self, steps: &[BuildStep], stop: &AtomicBool) -> Result<(), BuildError> {
        let mark = self.mark();
        for step in steps {
            self.boundary();
            let result =
                if stop.load(Ordering::Relaxed) { Err(BuildError::Stopped) } else { self.step(step, stop) };
            if let Err(error) = result {
                return Err(match self.undo_to(mark) {
                    Ok(()) => error,
                    Err(left) => BuildError::Both { build: Box::new(error), undo: Box::new(left) },
                });
            }
        }
        self.boundary();
        Ok(())
    }

    /// Undoes everything done since `mark`, the last first. What cannot be undone stays in the journal and on the
    /// list with what it stands on, and keeps nothing else from being undone.
    ///
    /// # Errors
    /// What could not be undone.
    pub fn undo_to(&mut self, mark: usize) -> Result<(), BuildError> {
        let mut errors = Vec::new();
        let mut left = Vec::new();
        for (number, step) in self.done.split_off(mark.min(self.done.len())).into_iter().rev() {
            // Only what could not be put back is on the list.
            if left.iter().any(|(_, above): &(u64, BuildUndo)| above.stands_on(&step)) {
                left.push((number, step));
                continue;
            }
            let undone = undo(&self.sys, self.runner.as_ref(), &step);
            self.boundary();
            if let Err(error) = undone.and_then(|_| Ok(self.journal.write(&Entry::Undone(number))?)) {
                errors.push(error);
                left.push((number, step));
            }
        }
        left.reverse();
        self.done.append(&mut left);
        if errors.is_empty() { Ok(()) } else { Err(BuildError::Undo(errors)) }
    }

    fn step(&mut self, step: &BuildStep, stop: &AtomicBool) -> Result<(), BuildError> {
        let undo = self.concrete(step)?;
        if let Some(undo) = undo {
            let number = self.next;
            self.next += 1;
            let entry = Entry::Step { number, undo: undo.clone() };
            self.journal.write(&entry)?;
            self.done.push((number, undo));
            self.boundary();
        }
        match &step.action {
            BuildAction::Run { program, arguments } => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                run(self.runner.as_ref(), program, &arguments)?;
                self.note_sequence()
            }
            BuildAction::RunWithKey { program, arguments } => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let key = self
                    .key
                    .as_deref()
                    .ok_or_else(|| BuildError::NoKey { command: Shown(program, &arguments).to_string() })?;
                run_with(self.runner.as_ref(), program, &arguments, key).map(drop)
            }
            BuildAction::SetQueue(setting) => queue::set(&self.sys, setting),
            BuildAction::MakeDirectory(path) => self.make_directory(path),
            BuildAction::EqualPvs { group } => lvm::equal(self.runner.as_ref(), group),
            BuildAction::WaitLv { volume } => lvm::wait(self.runner.as_ref(), volume, stop),
        }
    }

    /// Notes which use of its device the loop device that was just attached is.
    fn note_sequence(&mut self) -> Result<(), BuildError> {
        let Some((number, BuildUndo::DetachLoop { device, sequence, .. })) = self.done.last_mut() else {
            return Ok(());
        };
        // Told once: what is there later may be another use.
        if sequence.is_some() {
            return Ok(());
        }
        *sequence = identity::sequence(&self.sys, device);
        if sequence.is_none() {
            return Ok(());
        }
        let number = *number;
        let Some((_, undo)) = self.done.last() else { return Ok(()) };
        Ok(self.journal.write(&Entry::Step { number, undo: undo.clone() })?)
    }

    /// The undo of `step` with what only the system knows now; nothing where nothing will change.
    fn concrete(&self, step: &BuildStep) -> Result<Option<BuildUndo>, BuildError> {
        match (&step.undo, &step.action) {
            (Some(BuildUndo::RestoreQueue { set, .. }), _) => {
                let old = queue::get(&self.sys, set)?;
                Ok((old != set.value).then(|| BuildUndo::RestoreQueue { set: set.clone(), old: Some(old) }))
            }
            (Some(BuildUndo::DetachLoop { device, file, .. }), _) => {
                let found = std::fs::metadata(self.sys.at(file)).ok();
                let id = found.as_ref().map(id_of);
                Ok(Some(BuildUndo::DetachLoop {
                    device: device.clone(),
                    file: file.clone(),
                    id,
                    sequence: None,
                }))
            }
            (Some(BuildUndo::WipeContent { device, label, .. }), _) => Ok(Some(BuildUndo::WipeContent {
                device: device.clone(),
                label: label.clone(),
                sequence: identity::loop_sequence(&self.sys, device),
            })),
            (Some(BuildUndo::Unmount { mountpoint, from: Some(from) }), _) => {
                let number = identity::number(&self.sys, &from.device);
                let from = Mounted { number, ..from.clone() };
                Ok(Some(BuildUndo::Unmount { mountpoint: mountpoint.clone(), from: Some(from) }))
            }
            // A directory that is there already is not ours to remove.
            (Some(_), BuildAction::MakeDirectory(path)) if self.sys.at(path).is_dir() => Ok(None),
            (undo, _) => Ok(undo.clone()),
        }
    }

    fn make_directory(&self, path: &Path) -> Result<(), BuildError> {
        let place = self.sys.at(path);
        if place.is_dir() {
            return Ok(());
        }
        Directory::of(&place)
            .and_then(|(parent, name)| parent.make(name))
            .map(drop)
            .map_err(|error| BuildError::Path { path: path.to_owned(), what: error.to_string() })
    }
}

/// Runs a program that must end with status 0, and returns its standard output.
pub(crate) fn run(runner: &dyn Runner, program: &str, arguments: &[&str]) -> Result<String, BuildError> {
    run_with(runner, program, arguments, b"")
}

/// [`run`] with `input` on its standard input.
pub(crate) fn run_with(
    runner: &dyn Runner,
    program: &str,
    arguments: &[&str],
    input: &[u8],
) -> Result<String, BuildError> {
    let output = runner.run_with(program, arguments, input)?;
    if output.status == Some(0) {
        return Ok(output.text().into_owned());
    }
    Err(BuildError::Command {
        command: Shown(program, arguments).to_string(),
        status: output.status,
        stdout: output.text().trim().to_owned(),
        stderr: output.stderr.trim().to_owned(),
    })
}

/// Tries `attempt` again for a while: after a change udev looks at a device, and a device that is open cannot be
/// stopped.
fn insist<T>(runner: &dyn Runner, attempt: impl FnMut() -> Result<T, BuildError>) -> Result<T, BuildError> {
    insist_until(Instant::now() + PATIENCE, runner, attempt)
}

/// [`insist`] with the last attempt at `deadline`.
fn insist_until<T>(
    deadline: Instant,
    runner: &dyn Runner,
    mut attempt: impl FnMut() -> Result<T, BuildError>,
) -> Result<T, BuildError> {
    let mut told = false;
    loop {
        let error = match attempt() {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || !error.may_pass() {
            return Err(error);
        }
        if !std::mem::replace(&mut told, true) {
            runner.waits(&error.to_string(), left);
        }
        // Where there is no udev there is nothing to wait for.
        let timeout = format!("--timeout={}", left.as_secs().min(SETTLE_MAX));
        let _ = runner.run("udevadm", &["settle", &timeout]);
        std::thread::sleep(STEP.min(left));
    }
}

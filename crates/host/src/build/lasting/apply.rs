//! Making what is not there, step by step, from whatever is there.

use super::look::{destroys, makes_swap};
use super::renew::Renewed;
use super::undo::backwards;
use super::{Failure, Keeper, StepState};
use crate::build::{BuildError, SETTLE_MAX, STEP, blank, lvm, mdadm, queue, run};
use ebbtide_door::pause_at;
use ebbtide_model::plan::build::{BuildAction, BuildStep, BuildUndo, LASTING_LVM_CONFIG};
use ebbtide_model::shown::Shown;
use ebbtide_provision::{Desired, Phase, Record};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What has the lock while an apply holds it.
pub(super) const APPLY: &str = "ebb apply";

/// How long it may take until what a command made has its name: udev looks at what is on a new device first, and an array whose members are on
/// other hosts, and synchronise meanwhile, is slow to read. (udev's own limit is three minutes.)
const NAMING: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 120 });

/// What an apply would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Planned {
    /// Commands and settings, in order.
    pub steps: Vec<String>,
    /// Changes of files, each as a diff.
    pub files: Vec<String>,
    /// Commands that follow a change of files.
    pub after: Vec<String>,
    /// Why something is not done.
    pub notes: Vec<String>,
}

impl Planned {
    /// Whether all is as it should be.
    pub fn is_nothing(&self) -> bool {
        self.steps.is_empty() && self.files.is_empty() && self.after.is_empty()
    }
}

/// What an apply did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// Steps that were done.
    pub steps: usize,
    /// Files that were changed.
    pub files: usize,
    /// Commands that were run because files were changed, now or by an apply that was ended before it was done.
    pub after: Vec<String>,
}

impl Applied {
    /// Whether all was as it should be, as far as an apply can make it so.
    pub fn is_nothing(&self) -> bool {
        self.steps == 0 && self.files == 0 && self.after.is_empty()
    }
}

impl Keeper<'_> {
    /// What [`apply`](Self::apply) would do now; touches nothing. `without` are hosts that are left out.
    ///
    /// # Errors
    /// Why it would be refused, or a program that is asked fails.
    pub fn plan(&self, desired: Desired, destroy: bool, without: &[String]) -> Result<Planned, Failure> {
        self.refuse_suspended(&desired)?;
        let mut renewed = self.renewed(desired)?;
        self.note_without(&mut renewed.record, without)?;
        if self.came_back_blank(&renewed.record)?.is_ok_and(|blank| blank) {
            (renewed.record.begun, renewed.record.done) = (0, 0);
        }
        let record = &renewed.record;
        let lost = self.to_renew_cache(record, destroy)?;
        if !lost.is_empty() {
            let steps = lost.iter().map(|words| words.join(" ")).collect();
            let note = "what follows from that is known only once the array runs again";
            return Ok(Planned { steps, notes: vec![note.to_owned()], ..Planned::default() });
        }
        self.check_names(record)?;
        if !without.is_empty() {
            refuse_new(record, self.is_new(record)?, without)?;
        }
        self.may_mount(record)?;
        let Planned { steps, notes, .. } = self.ahead(record, destroy)?;
        let is_made = steps.is_empty();
        let stale = backwards(&renewed.stale).into_iter().filter_map(|(_, step)| step.undo.as_ref());
        // A cache of another kind is attached where the old one still is.
        let is_changed = |step: &&BuildStep| {
            matches!(step.undo, Some(BuildUndo::Uncache { .. }))
                && renewed.stale.iter().any(|old| old.undo == step.undo)
        };
        let again = record.desired.build.steps.iter().filter(is_changed).map(|step| step.action.to_string());
        let again = again.filter(|step| !steps.contains(step)).collect::<Vec<_>>();
        let steps = stale.map(ToString::to_string).chain(again).chain(steps).collect();
        let mut planned = Planned { steps, notes, ..Planned::default() };
        if is_made && !self.grown(record).is_empty() {
            match self.growth(record) {
                Some(commands) => planned.steps.extend(commands.iter().map(|words| words.join(" "))),
                None => planned.notes.extend(self.cannot_grow(record)),
            }
        }
        for back in self.returns(record)? {
            match self.may_return(&back, destroy) {
                Ok(()) => planned.steps.extend(back.commands()),
                Err(why) => planned.notes.push(why),
            }
        }
        planned.steps.extend(
            self.to_take_out(record)?
                .iter()
                .map(|(device, member)| format!("mdadm {device} --fail {0} --remove {0}", member.path)),
        );
        self.may_put_files(record, &renewed.stale_parts)?;
        planned.files = self.diffs(record, &renewed.stale_parts)?;
        if !planned.files.is_empty() || record.phase != Phase::Applied && !record.is_made_anew() {
            planned.after = record.desired.after.iter().map(|words| words.join(" ")).collect();
        }
        Ok(planned)
    }

    /// Makes everything of `desired` that is not there, and its record. What members that are not its own yet carry is lost only with
    /// `destroy` and what the door asks for beside. Where a step of something new fails, what was made is taken away again. Hosts in `without` are
    /// left out: their members are taken from arrays that run, and what only they may have is given up where an array is started.
    ///
    /// # Errors
    /// The step that failed, or why nothing is done.
    pub fn apply(&self, desired: Desired, destroy: bool, without: &[String]) -> Result<Applied, Failure> {
        let lock = self.lock(APPLY, &desired.name)?;
        self.refuse_suspended(&desired)?;
        let Renewed { mut record, stale, stale_parts, changed } = self.renewed(desired)?;
        let is_chosen = self.note_without(&mut record, without)?;
        // Files that an apply has changed which was ended before this.
        let is_open = record.phase != Phase::Applied && !record.is_made_anew() || !stale_parts.is_empty();
        let renewed_cache = self.renew_cache(&record, destroy)?;
        let is_new = self.is_new(&record)?;
        refuse_new(&record, is_new, without)?;
        self.check_names(&record)?;
        self.may_mount(&record)?;
        self.may_put_files(&record, &stale_parts)?;
        let mut begun = record.clone();
        if self.came_back_blank(&begun)?.is_ok_and(|blank| blank) {
            (begun.begun, begun.done) = (0, 0);
        }
        self.ahead(&begun, destroy)?;
        if !without.is_empty() {
            // Nothing is noted of a choice that is refused.
            for step in record.desired.build.steps.iter().filter(|step| record.desired.is_across_hosts(step))
            {
                if self.now(&record, step)? == StepState::Absent {
                    self.wake(&record, step)?;
                }
            }
        }
        let left_behind = self.leave_behind(&record, &stale, &stale_parts)?;
        if changed {
            self.note_tunables(&mut record);
            self.note_lvm_places(&mut record);
            (record.phase, record.anew) = (Phase::Applying, false);
        }
        if changed || is_chosen {
            self.write(&record)?;
        }
        let left_behind = Applied { steps: left_behind.steps + renewed_cache, ..left_behind };
        let done = self.carry_out(&mut record, left_behind, destroy, is_open);
        drop(lock);
        match done {
            Err(error) if is_new => {
                // What a kill may leave is left for the next call; what failed before anybody used it is taken away.
                (self.tell)("taking away what was made");
                match self.take_away(&record.desired.name, true, true) {
                    Ok(_) => Err(error),
                    Err(left) => Err(Failure::Refused(format!(
                        "{error}; and then: {left}; `ebb undo {} --destroy` tries again",
                        record.desired.name
                    ))),
                }
            }
            Err(error) if self.mounts_again(&record, &stale) => {
                Err(Failure::Refused(format!("{error}; it is mounted again as it was before")))
            }
            other => other,
        }
    }

    fn carry_out(
        &self,
        record: &mut Record,
        mut applied: Applied,
        destroy: bool,
        is_open: bool,
    ) -> Result<Applied, Failure> {
        self.begin_anew_if_blank(record)?;
        applied.steps += self.make(record, By::Person { destroy })?;
        applied.steps += self.grow(record)?;
        applied.files += self.put_files(record)?;
        if applied.files > 0 || is_open {
            self.next()?;
            self.after(&record.desired.after)?;
            applied.after = record.desired.after.iter().map(|words| words.join(" ")).collect();
        }
        self.is_applied(record)?;
        applied.steps += self.take_out(record)?;
        applied.steps += self.bring_back(record, destroy)?;
        Ok(applied)
    }

    /// Notes that all of it was made.
    pub(super) fn is_applied(&self, record: &mut Record) -> Result<(), Failure> {
        if record.phase == Phase::Applied {
            return Ok(());
        }
        (record.phase, record.anew) = (Phase::Applied, false);
        record.earlier.clear();
        self.write(record)
    }

    /// Whether nothing of it was ever made.
    fn is_new(&self, record: &Record) -> Result<bool, Failure> {
        let begun = record.begun > 0 || record.phase == Phase::Applied || record.is_made_anew();
        Ok(!begun && self.nothing_is_there(record)?)
    }

    /// Whether nothing of what steps make on devices is there, running or not.
    pub(super) fn nothing_is_there(&self, record: &Record) -> Result<bool, Failure> {
        for step in &record.desired.build.steps {
            if step.undo.as_ref().is_some_and(destroys) && self.is_there(record, step)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether anything of what `step` makes is there, running or not.
    pub(super) fn is_there(&self, record: &Record, step: &BuildStep) -> Result<bool, Failure> {
        Ok(self.now(record, step)? != StepState::Absent || self.wake(record, step)?.is_some())
    }

    /// Notes in `record` what tunables are before they are set.
    fn note_tunables(&self, record: &mut Record) {
        for step in &mut record.desired.build.steps {
            if let Some(BuildUndo::RestoreQueue { set, old: old @ None }) = &mut step.undo {
                // One of an array that is not there yet goes with it.
                *old = queue::get(&self.sys, set).ok();
            }
        }
    }

    /// The command that brings back what `step` made once and what is only not running; nothing where there is nothing.
    pub(super) fn wake(&self, record: &Record, step: &BuildStep) -> Result<Option<Vec<String>>, Failure> {
        let words = |words: &[&str], rest: &[String]| {
            Some(words.iter().map(|&word| word.to_owned()).chain(rest.iter().cloned()).collect())
        };
        Ok(match &step.undo {
            Some(BuildUndo::StopMd { .. }) if record.desired.is_across_hosts(step) => {
                self.start_across_hosts(record, step)?
            }
            Some(BuildUndo::StopMd { device, uuid, members }) => {
                let there = self.to_start(record, step, device, uuid, members)?;
                let there: Vec<String> = there.into_iter().map(str::to_owned).collect();
                let assemble = ["mdadm", "--assemble", device, &format!("--uuid={uuid}"), "--quiet"];
                if there.is_empty() { None } else { words(&assemble, &there) }
            }
            Some(BuildUndo::RemoveLv { volume }) if lvm::is_there(self.runner, volume)? => {
                self.has_all_volumes(record, volume)?;
                words(&["lvchange", "--config", LASTING_LVM_CONFIG, "--activate", "y", volume], &[])
            }
            _ => None,
        })
    }

    /// Does every step that does not stand; how many.
    pub(super) fn make(&self, record: &mut Record, by: By) -> Result<usize, Failure> {
        let mut count = 0;
        let mut index = 0;
        let mut made = Vec::new();
        while let Some(step) = record.desired.build.steps.get(index).cloned() {
            self.next()?;
            let Some(undo) = &step.undo else {
                index = self.make_part(record, index, &step, by, &mut count)?;
                continue;
            };
            let now = self.found(record, index, &step)?;
            if !destroys(undo) {
                if by.does(undo) && now != StepState::Stands {
                    self.can_be_done(undo, &now)?;
                    if let BuildUndo::Uncache { .. } = undo {
                        // What was cut off has left a part.
                        self.put_back_here(undo)?;
                    }
                    self.act(record, &step)?;
                    count += 1;
                }
                index += 1;
                continue;
            }
            let unconfirmed = record.begun > index && record.done <= index;
            self.is_as_designed(record, &step)?;
            self.is_ours(record, &step)?;
            let mut stands = now == StepState::Stands;
            if !stands && let Some(words) = self.wake(record, &step)? {
                let gives_up = self.gives_up(record, &step)?;
                if gives_up {
                    self.note_fork(record, &step, &words)?;
                }
                stands = self.woken(record, &step, &words, record.done > index)?;
                count += usize::from(stands);
            }
            if stands {
                let is_noted = self.note_uuid(record, &step)?;
                if record.done <= index {
                    // Found as it is: what belongs to it was done with it. Of what was begun here only the step itself is known.
                    let with = if unconfirmed { 0 } else { belonging(&record.desired.build.steps, index) };
                    record.done = index + 1 + with;
                    record.begun = record.begun.max(record.done);
                    self.write(record)?;
                } else if is_noted {
                    self.write(record)?;
                }
                index += 1;
                continue;
            }
            // Swap that was lost keeps no boot from going on, and nothing that is made after it from being known as made.
            let is_again = record.done > index && makes_swap(&step);
            if is_again && by == By::Boot {
                index += 1;
                continue;
            }
            self.may_be_made(record, index, undo, &now, by.destroys())?;
            self.may_write(record, index, undo, by.destroys(), &made).map_err(|why| match by {
                By::Boot => self.left_at_boot(record, &step, &why),
                By::Person { .. } => why,
            })?;
            if unconfirmed {
                self.put_back_here(undo)?;
                (self.boundary)();
            }
            if !is_again {
                record.begun = index + 1;
                forget_uuid(record, undo);
                self.write(record)?;
            }
            pause_at("apply.begun");
            self.clear_front(record, undo)?;
            self.act(record, &step)?;
            made.push(index);
            self.note_uuid(record, &step)?;
            record.done = record.done.max(index + 1);
            self.write(record)?;
            count += 1;
            index += 1;
        }
        Ok(count)
    }

    /// Takes away what members begin with that are about to be written over, as it would be taken for somebody's. It would outlive that in front of a
    /// superblock, or be the first of what the array carries.
    fn clear_front(&self, record: &Record, undo: &BuildUndo) -> Result<(), Failure> {
        let BuildUndo::StopMd { members, .. } = undo else { return Ok(()) };
        for path in members.iter().filter(|path| record.desired.is_member(path)) {
            if mdadm::first_byte(&self.sys, path).is_some() {
                blank::zero(self.runner, path, 0, 1)?;
                (self.boundary)();
            }
        }
        Ok(())
    }

    /// A step that belongs to the one before it and cannot be asked for. Where to go on.
    fn make_part(
        &self,
        record: &mut Record,
        index: usize,
        step: &BuildStep,
        by: By,
        count: &mut usize,
    ) -> Result<usize, Failure> {
        if record.done > index {
            return Ok(index + 1);
        }
        if let Some((owner, undo)) = cut_off(record, index) {
            if !by.destroys() {
                self.is_unused(undo)?;
            }
            (self.tell)(&undo.to_string());
            self.put_back_here(undo)?;
            record.done = owner;
            record.begun = owner;
            self.write(record)?;
            return Ok(owner);
        }
        record.begun = index + 1;
        self.write(record)?;
        self.act(record, step)?;
        record.done = index + 1;
        self.write(record)?;
        *count += usize::from(matches!(step.action, BuildAction::Run { .. }));
        Ok(index + 1)
    }

    /// Whether `words` brought back what `step` made. Of what was made once and does not come back, an error says why.
    pub(super) fn woken(
        &self,
        record: &Record,
        step: &BuildStep,
        words: &[String],
        made: bool,
    ) -> Result<bool, Failure> {
        if let Some(BuildUndo::StopMd { uuid, device, members }) = &step.undo
            && !mdadm::arrays(&self.sys, self.runner, uuid)?.is_empty()
        {
            // udev may be about to give it its name.
            self.settle();
            if self.now(record, step)? == StepState::Stands {
                return Ok(true);
            }
            // It runs under another name, or in part.
            (self.tell)(&format!("mdadm --stop the array that should be {device}"));
            mdadm::halt(&self.sys, self.runner, (device, uuid), members)?;
        }
        (self.tell)(&words.join(" "));
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let result = run(self.runner, &words[0], &arguments);
        (self.boundary)();
        self.settle();
        match result {
            Ok(_) => self.wait_for(record, step).map(|()| true),
            Err(error) if made => Err(error.into()),
            Err(_) => Ok(false),
        }
    }

    /// Whether a step that can be done at any time can be done now.
    fn can_be_done(&self, undo: &BuildUndo, now: &StepState) -> Result<(), Failure> {
        match (undo, now) {
            (BuildUndo::Unmount { mountpoint, .. }, StepState::Other(what)) => {
                Err(Failure::Refused(format!("{}: {what}; unmount that first", mountpoint.shown())))
            }
            _ => Ok(()),
        }
    }

    /// Does `step`, and waits until what it makes is there.
    pub(super) fn act(&self, record: &Record, step: &BuildStep) -> Result<(), Failure> {
        (self.tell)(&step.action.to_string());
        match &step.action {
            BuildAction::Run { program, arguments } => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                if let Err(error) = run(self.runner, program, &arguments) {
                    // At boot others do the same from the same files: what they were faster with is done.
                    let again = step.undo.as_ref().is_some_and(|undo| !destroys(undo));
                    if !again || self.now(record, step)? != StepState::Stands {
                        return Err(error.into());
                    }
                }
            }
            BuildAction::RunWithKey { program, arguments } => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let command = crate::command::Shown(program, &arguments).to_string();
                return Err(BuildError::NoKey { command }.into());
            }
            BuildAction::SetQueue(setting) => queue::set(&self.sys, setting)?,
            BuildAction::EqualPvs { group } => lvm::equal(self.runner, group)?,
            BuildAction::WaitLv { volume } => lvm::wait(self.runner, volume, self.stop)?,
            BuildAction::MakeDirectory(path) => {
                return Err(Failure::Refused(format!("{} is not made for what stays", path.shown())));
            }
        }
        (self.boundary)();
        self.settle();
        self.wait_for(record, step)
    }

    /// udev makes links, and looks at what changed.
    pub(super) fn settle(&self) {
        let _ = self.runner.run("udevadm", &["settle", &format!("--timeout={SETTLE_MAX}")]);
    }

    fn wait_for(&self, record: &Record, step: &BuildStep) -> Result<(), Failure> {
        let until = Instant::now() + NAMING;
        loop {
            self.runner.forget();
            match self.now(record, step)? {
                StepState::Stands => return Ok(()),
                _ if self.stop.load(Ordering::Relaxed) => return Err(BuildError::Stopped.into()),
                StepState::Other(what) if matches!(step.undo, Some(BuildUndo::CloseCrypt { .. })) => {
                    // It does not become another one, and nobody else has opened it.
                    if let Some(BuildUndo::CloseCrypt { name, .. }) = &step.undo {
                        run(self.runner, "cryptsetup", &["close", name])?;
                    }
                    return Err(Failure::Refused(format!("after `{}`: {what}", step.action)));
                }
                _ if Instant::now() < until => std::thread::sleep(STEP),
                StepState::Other(what) => {
                    return Err(Failure::Refused(format!("after `{}`: {what}", step.action)));
                }
                StepState::Absent => {
                    return Err(Failure::Refused(format!(
                        "`{}` succeeded, but what it makes is not there",
                        step.action
                    )));
                }
            }
        }
    }
}

/// Who has an array be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Somebody who has said whether what is in the way may be lost.
    Person { destroy: bool },
    /// A boot: nobody is asked, so that nothing is lost.
    Boot,
}

impl By {
    fn destroys(self) -> bool {
        self == By::Person { destroy: true }
    }

    /// Whether `undo`'s step is done: at boot, things are mounted and swapped to by the service manager, when what is below is there.
    fn does(self, undo: &BuildUndo) -> bool {
        let mounts = matches!(
            undo,
            BuildUndo::Unmount { .. } | BuildUndo::SwapOff { .. } | BuildUndo::RemoveDirectory(_)
        );
        self != By::Boot || !mounts
    }
}

/// The step that the one at `index` belongs to, and how it is taken away, where it cannot be told whether that one was done: the whole is made
/// anew.
pub(super) fn cut_off(record: &Record, index: usize) -> Option<(usize, &BuildUndo)> {
    let steps = &record.desired.build.steps;
    let step = &steps[index];
    let unconfirmed = record.begun > index && record.done <= index;
    if step.undo.is_some() || !unconfirmed || !matches!(step.action, BuildAction::Run { .. }) {
        return None;
    }
    steps[..index].iter().enumerate().rev().find_map(|(at, step)| Some((at, step.undo.as_ref()?)))
}

/// What `undo` would take away is made anew, so that LVM calls it by another uuid.
fn forget_uuid(record: &mut Record, undo: &BuildUndo) {
    if let BuildUndo::RemoveVg { name } | BuildUndo::RemoveLv { volume: name } = undo {
        record.lvm.remove(name);
    }
}

/// How many steps after `index` belong to it.
fn belonging(steps: &[BuildStep], index: usize) -> usize {
    steps.iter().skip(index + 1).take_while(|step| step.undo.is_none()).count()
}

/// Refuses to leave hosts out of what `is_new`.
fn refuse_new(record: &Record, is_new: bool, without: &[String]) -> Result<(), Failure> {
    match without.first().filter(|_| is_new) {
        Some(host) => Err(Failure::Refused(format!(
            "{} was never made, so nothing of it can be left out: remove --without {host}",
            record.desired.name
        ))),
        None => Ok(()),
    }
}

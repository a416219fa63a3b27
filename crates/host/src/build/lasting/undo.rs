//! Taking away what was made, and nothing else.

use super::look::{destroys, written};
use super::refuse::{base, formatted};
use super::whose::Other;
use super::{Failure, Keeper, Planned, StepState};
use crate::build::{BuildError, lvm, mdadm, run, undo};
use crate::sys;
use ebbtide_door::own;
use ebbtide_model::plan::build::{BuildStep, BuildUndo, LASTING_LVM_CONFIG, QueueAttribute};
use ebbtide_model::shown::{Shown, excerpt, one_line};
use ebbtide_provision::{Initramfs, Phase, Record};
use std::path::{Path, PathBuf};

/// What an undo did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undone {
    /// Steps that were put back.
    pub steps: usize,
    /// Files that were changed or removed.
    pub files: usize,
    /// What was left alone, and why.
    pub left: Vec<String>,
    /// Whether anything of it was begun to be made, before.
    pub was_begun: bool,
}

impl Keeper<'_> {
    /// Takes away what is there of the array `name`: mounts and swap, lines in files, running devices; with `destroy` superblocks and file
    /// systems too. Without, members keep their data.
    ///
    /// # Errors
    /// When there is no such record, or something cannot be put back: it is still in use.
    pub fn undo(&self, name: &str, destroy: bool) -> Result<Undone, Failure> {
        self.take_away(name, destroy, false)
    }

    /// [`undo`](Self::undo); with `is_new` of what a failing apply has just made, on which there is nothing of anybody's.
    pub(super) fn take_away(&self, name: &str, destroy: bool, is_new: bool) -> Result<Undone, Failure> {
        // Where there is nothing to take away, nothing is made either.
        let unknown = self.record(name).is_ok_and(|record| record.is_none());
        let _lock = if unknown { None } else { Some(self.lock("ebb undo", name)?) };
        let record = self.record(name)?;
        let mut record = record.ok_or_else(|| no_such(name))?;
        self.may_take_files(&record)?;
        self.refuse_waiting(&record.desired)?;
        self.refuse_opened(&record, destroy)?;
        let others = self.others(&record)?;
        self.refuse_used(&record, &others)?;
        let mut undone = Undone::default();
        let steps = record.desired.build.steps.clone();
        let backwards = backwards(&steps);
        let undos =
            || backwards.iter().filter_map(|(index, step)| Some((*index, *step, step.undo.as_ref()?)));
        let before = record.clone();
        let is_own = |index: usize| is_new || was_erased(&before, index);
        // Where nothing can be noted, nothing is changed.
        if record.phase != Phase::Undoing {
            // Content that an apply had begun may be somebody's by now.
            if let Some(BuildStep { undo: Some(BuildUndo::WipeContent { .. }), .. }) = steps.get(record.done)
            {
                record.begun = record.done;
            }
            record.phase = Phase::Undoing;
            self.write(&record)?;
        }
        let mut kept: Vec<&BuildUndo> = Vec::new();
        let mut ended: Vec<&BuildStep> = Vec::new();
        let are_ended = self
            .end_uses(undos(), &others, &mut undone, (&mut kept, &mut ended))
            .and_then(|()| self.refuse_mounted(&record, &others, false))
            .and_then(|()| if kept.is_empty() { self.refuse_claimed(&record) } else { Ok(()) });
        if let Err(in_use) = are_ended {
            self.write(&before)?;
            return Err(self.begin_uses(&before, &ended, in_use));
        }
        let parts = record.desired.parts.clone();
        undone.files = self.take_files(&record, &parts)?;
        // The files may have been changed by an undo that was ended before this. Of arrays that still run, or are on disks, Debian's
        // initramfs would get lines of its own.
        let after = || record.desired.after.iter();
        self.after(after().filter(|words| !Initramfs::is_made_by(words)))?;
        let unseen =
            if destroy && !is_new { self.start_all(&record, &others, &mut undone)? } else { Vec::new() };
        for (index, step, undo) in undos().filter(|(.., undo)| !uses(undo)) {
            let carries = is_below(undo, &kept);
            let other = self.is_of_others(&record, &others, index, destroy && !carries, is_own(index))?;
            if let Some(what) = &other {
                undone.leave(what);
                // A mapping on what is below has been refused before.
                if matches!(undo, BuildUndo::CloseCrypt { .. }) {
                    continue;
                }
            }
            let is_unseen = unseen.contains(&index);
            let stays = other.is_some() || keeps(undo) && (is_unseen || carries);
            if destroy
                && destroys(undo)
                && kept.is_empty()
                && !stays
                && !matches!(self.is_there(&record, step), Ok(false))
            {
                // Whatever is left of it after a kill is known to be nobody's.
                (record.begun, record.done) = (record.begun.max(index + 1), index);
                self.write(&record)?;
            }
            let is_kept = if stays {
                true
            } else if destroy || !destroys(undo) {
                self.put_back(undo, &mut undone)? || carries || is_unseen
            } else {
                false
            };
            if is_kept {
                kept.push(undo);
            }
            if other.is_none() && destroys(undo) && (is_kept || !destroy) {
                self.rest(undo, &mut undone)?;
            }
        }
        self.after(after().filter(|words| Initramfs::is_made_by(words)))?;
        if destroy {
            undone.files += self.lvm_copies(&record, &kept)?;
        }
        self.forget(&record)?;
        undone.left = undone.left.iter().map(|left| one_line(left).into_owned()).collect();
        undone.was_begun = before.begun > 0;
        Ok(undone)
    }

    /// Unmounts and swaps off, mounts first, which are the most likely to be in use: that keeps everything. What is somebody's by now is left, and keeps
    /// what it stands on.
    fn end_uses<'a>(
        &self,
        undos: impl Iterator<Item = (usize, &'a BuildStep, &'a BuildUndo)>,
        others: &[Option<Other>],
        undone: &mut Undone,
        (kept, ended): (&mut Vec<&'a BuildUndo>, &mut Vec<&'a BuildStep>),
    ) -> Result<(), Failure> {
        let is_mount = |undo: &BuildUndo| matches!(undo, BuildUndo::Unmount { .. });
        let mut ends: Vec<(usize, &BuildStep, &BuildUndo)> = undos.filter(|(.., undo)| uses(undo)).collect();
        ends.sort_by_key(|(.., undo)| !is_mount(undo));
        for (index, step, undo) in ends {
            let steps = undone.steps;
            let is_left = match &others[index] {
                Some(other) => {
                    undone.leave(&other.what);
                    true
                }
                None => self.put_back(undo, undone)?,
            };
            if is_left {
                kept.push(undo);
            }
            if undone.steps > steps {
                ended.push(step);
            }
        }
        Ok(())
    }

    /// Takes into use again what an undo has `ended` that is refused after that: `why`, with what came of it.
    fn begin_uses(&self, record: &Record, ended: &[&BuildStep], why: Failure) -> Failure {
        let failed = ended.iter().rev().find_map(|step| self.act(record, step).err());
        match failed {
            _ if ended.is_empty() => why,
            None => Failure::Refused(format!("{why}; it is in use again as it was before")),
            Some(failed) => Failure::Refused(format!("{why}; and it is not in use again: {failed}")),
        }
    }

    /// Starts what is on members, does not run and carries more, so that this can be looked at. The steps of which it cannot.
    fn start_all(
        &self,
        record: &Record,
        others: &[Option<Other>],
        undone: &mut Undone,
    ) -> Result<Vec<usize>, Failure> {
        let mut unseen: Vec<usize> = Vec::new();
        let steps = &record.desired.build.steps;
        let halves = self.halves(record, others)?;
        for (index, step) in steps.iter().enumerate() {
            let Some(undo) = step.undo.as_ref().filter(|_| others[index].is_none()) else { continue };
            let mut below = unseen.iter().filter_map(|below| steps[*below].undo.as_ref());
            if holds_content(undo) && below.any(|below| undo.stands_on(below)) {
                unseen.push(index);
                continue;
            }
            if let Some((_, apart)) = halves.iter().find(|(half, _)| *half == index) {
                undone.leave(apart);
                unseen.push(index);
                continue;
            }
            let mut above = steps[index + 1..].iter().filter_map(|step| step.undo.as_ref());
            if !above.any(|above| destroys(above) && above.stands_on(undo)) {
                continue;
            }
            let below = match undo {
                BuildUndo::CloseCrypt { .. } => formatted(steps, index),
                _ => None,
            };
            if !(below.is_some() || resting(undo).is_some()) || self.now(record, step)? == StepState::Stands {
                continue;
            }
            let started = match (below, self.wake(record, step)) {
                (Some(below), _) if self.now(record, &steps[below])? == StepState::Stands => {
                    self.act(record, step).map(|()| true)
                }
                (None, Ok(Some(words))) => self.woken(record, step, &words, false),
                (None, Err(why)) => Err(why),
                _ => continue,
            };
            let why = match started {
                Ok(true) => continue,
                Err(why @ Failure::Build(BuildError::Stopped)) => return Err(why),
                Err(why) => format!(" ({why})"),
                Ok(false) => String::new(),
            };
            // Of what was cut off while it was made, or erased, some is missing, and nobody has used it.
            let made_by = below.unwrap_or(index);
            let is_cut_off = record.begun > made_by && record.done <= made_by;
            if is_cut_off && written(undo).iter().all(|path| self.is_there_at(path)) {
                continue;
            }
            undone.left.push(format!(
                "{} does not start, so that what is on it cannot be looked at{why}",
                shown(undo)
            ));
            unseen.push(index);
        }
        Ok(unseen)
    }

    /// What [`undo`](Self::undo) would do now; touches nothing.
    ///
    /// # Errors
    /// When there is no such record, or a program that is asked fails.
    pub fn plan_undo(&self, name: &str, destroy: bool) -> Result<Planned, Failure> {
        let record = self.record(name)?;
        let record = record.ok_or_else(|| no_such(name))?;
        self.refuse_waiting(&record.desired)?;
        let others = self.others(&record)?;
        self.may_take_files(&record)?;
        self.refuse_opened(&record, destroy)?;
        self.refuse_used(&record, &others)?;
        let mut planned = Planned::default();
        let halves = if destroy { self.halves(&record, &others)? } else { Vec::new() };
        let mut of_half: Vec<&BuildUndo> = Vec::new();
        for (index, step) in record.desired.build.steps.iter().enumerate() {
            let Some(undo) = step.undo.as_ref().filter(|undo| holds_content(undo)) else { continue };
            if halves.iter().any(|(half, _)| *half == index)
                || of_half.iter().any(|half| undo.stands_on(half))
            {
                of_half.push(undo);
            }
        }
        planned.notes.extend(halves.iter().map(|(_, apart)| format!("left alone: {apart}")));
        let mut steps = backwards(&record.desired.build.steps);
        steps.sort_by_key(|(_, step)| !step.undo.as_ref().is_some_and(uses));
        let mut kept: Vec<&BuildUndo> = Vec::new();
        for (index, step) in steps {
            let Some(undo) = &step.undo else { continue };
            let now = self.now(&record, step)?;
            // What does not start, for want of a member, is told by the undo itself.
            let is_asleep = destroy
                && resting(undo).is_some()
                && now == StepState::Absent
                && self.wake(&record, step).is_ok_and(|words| words.is_some());
            if is_asleep {
                let note =
                    "is started first: what somebody else has put on it is left, with all that it stands on";
                planned.notes.push(format!("{} {note}", shown(undo)));
            }
            let carries = is_below(undo, &kept) || of_half.contains(&undo);
            let is_own = was_erased(&record, index);
            let other = match &now {
                StepState::Other(what) if matches!(undo, BuildUndo::Unmount { .. }) => Some(what.clone()),
                _ => self.is_of_others(&record, &others, index, destroy && !carries, is_own)?,
            };
            if carries || other.is_some() && !matches!(undo, BuildUndo::CloseCrypt { .. }) {
                kept.push(undo);
            }
            // What a tunable of an array was before goes with the array.
            let goes = matches!(undo, BuildUndo::RestoreQueue { old: None, .. });
            match other.map(|what| format!("left alone: {what}")) {
                Some(note) if planned.notes.contains(&note) => {}
                Some(note) => planned.notes.push(note),
                None if goes || now == StepState::Absent && !is_asleep => {}
                None if !(carries && keeps(undo)) && (destroy || !destroys(undo)) => {
                    planned.steps.push(undo.to_string())
                }
                None => planned.steps.extend(resting(undo)),
            }
        }
        planned.files = self.taken(&record)?;
        planned.after = record.desired.after.iter().map(|words| words.join(" ")).collect();
        Ok(planned)
    }

    /// Why what the step `index` made is not this array's alone, by `others` from before the undo began, or by now: of content only where that
    /// is to be erased. With `is_own` leftovers of its own content do not count.
    fn is_of_others(
        &self,
        record: &Record,
        others: &[Option<Other>],
        index: usize,
        erases: bool,
        is_own: bool,
    ) -> Result<Option<String>, Failure> {
        if let Some(other) = &others[index] {
            return Ok(Some(other.what.clone()));
        }
        let step = &record.desired.build.steps[index];
        let Some(undo) = &step.undo else { return Ok(None) };
        let group = match undo {
            BuildUndo::WipeContent { device, .. } if erases => {
                return Ok(match self.now(record, step)? {
                    StepState::Other(what) => Some(what),
                    StepState::Absent if !is_own && base(&record.desired.build.steps, device).is_some() => {
                        undo::carries(&self.sys, self.runner, device)
                    }
                    _ => None,
                });
            }
            BuildUndo::WipeContent { .. } => return Ok(None),
            BuildUndo::RemoveVg { name } => Some(name),
            _ => None,
        };
        if let Some(other) = self.whose(record, step)? {
            return Ok(Some(other.what));
        }
        Ok(match group {
            Some(group) if erases && self.has_other_volumes(record, group)? => {
                Some(format!("the volume group {group} has logical volumes that are not this array's"))
            }
            _ => None,
        })
    }

    fn has_other_volumes(&self, record: &Record, group: &str) -> Result<bool, Failure> {
        let is_own = |name: &str| {
            record.desired.build.steps.iter().any(|step| match &step.undo {
                Some(BuildUndo::RemoveLv { volume }) => lvm::parts(volume) == (group, name),
                Some(BuildUndo::Uncache { volume }) => {
                    lvm::parts(volume) == (group, name.trim_end_matches(lvm::CACHE))
                }
                _ => false,
            })
        };
        Ok(lvm::logical(self.runner, group)?.iter().any(|volume| !is_own(&volume.name)))
    }

    /// Puts `undo`'s step back; whether it was left, because something there is somebody's.
    fn put_back(&self, undo: &BuildUndo, undone: &mut Undone) -> Result<bool, Failure> {
        (self.boundary)();
        let outcome = match undo {
            // Its content is only there while it runs.
            BuildUndo::WipeContent { device, .. } if !self.is_there_at(device) => {
                return Ok(false);
            }
            BuildUndo::RemoveDirectory(path) => match self.put_back_here(undo) {
                // Somebody uses it for something of their own by now.
                Err(error) => {
                    undone.left.push(format!("the directory {} stays: {error}", path.shown()));
                    return Ok(false);
                }
                done => done?,
            },
            _ => self.put_back_here(undo)?,
        };
        let mut left = false;
        match outcome {
            undo::Outcome::Done => {
                (self.tell)(&undo.to_string());
                undone.steps += 1;
            }
            undo::Outcome::Before => {}
            undo::Outcome::Left(what) => {
                undone.left.push(what);
                // A mapping on what is below has been refused before.
                left = !matches!(undo, BuildUndo::CloseCrypt { .. });
            }
        }
        (self.boundary)();
        Ok(left)
    }

    /// Has what `undo` would take away stop running, and leaves it on its members.
    fn rest(&self, undo: &BuildUndo, undone: &mut Undone) -> Result<(), Failure> {
        let Some(command) = resting(undo) else { return Ok(()) };
        (self.boundary)();
        let ran = match undo {
            BuildUndo::StopMd { device, uuid, members } => {
                mdadm::halt(&self.sys, self.runner, (device, uuid), members)?
            }
            BuildUndo::RemoveLv { volume } => {
                let runs = lvm::is_there(self.runner, volume)?
                    && self.sys.at(&Path::new("/dev").join(volume)).exists();
                if runs {
                    let words = ["--config", LASTING_LVM_CONFIG, "--activate", "n", volume];
                    run(self.runner, "lvchange", &words)?;
                }
                runs
            }
            _ => false,
        };
        if ran {
            (self.tell)(&command);
            undone.steps += 1;
        }
        (self.boundary)();
        Ok(())
    }

    /// LVM keeps copies of a group's metadata, made at boot too; they go with it. A group of somebody's may have had the name before:
    /// of its copies none goes.
    fn lvm_copies(&self, record: &Record, kept: &[&BuildUndo]) -> Result<usize, Failure> {
        let undos = record.desired.build.steps.iter().filter_map(|step| step.undo.as_ref());
        let groups = undos.filter(|undo| !kept.contains(undo)).filter_map(|undo| match undo {
            BuildUndo::RemoveVg { name } => Some(name.clone()),
            _ => None,
        });
        let mut files = 0;
        for group in groups {
            let backup = self.sys.at(Path::new("/etc/lvm/backup")).join(&group);
            let archive = self.sys.at(Path::new("/etc/lvm/archive"));
            let archived = sys::names(&archive)
                .into_iter()
                .filter(|name| is_archive(name, &group))
                .map(|name| archive.join(name));
            let own = record.lvm.get(&group).map(|uuid| format!("id = \"{uuid}\""));
            let is_own = |path: &PathBuf| {
                let text = sys::text(path);
                text.zip(own.as_deref()).is_some_and(|(text, own)| text.contains(own))
            };
            for path in archived.chain([backup]).filter(is_own) {
                own::remove(&path).map_err(|error| Failure::file(&path, error))?;
                files += 1;
            }
        }
        for place in
            LVM_PLACES.map(Path::new).iter().filter(|place| record.new_files.contains(&place.to_path_buf()))
        {
            // Another group's copies may be in it by now.
            let _ = own::remove_empty(&self.sys.at(place));
        }
        Ok(files)
    }

    /// Notes which of the directories for LVM's copies are not there before a group is.
    pub(super) fn note_lvm_places(&self, record: &mut Record) {
        let makes_group = record
            .desired
            .build
            .steps
            .iter()
            .any(|step| matches!(step.undo, Some(BuildUndo::RemoveVg { .. })));
        if makes_group && record.begun == 0 {
            let new = LVM_PLACES.map(PathBuf::from).into_iter().filter(|place| !self.sys.at(place).exists());
            record.new_files.extend(new);
        }
    }
}

impl Undone {
    /// Notes what is left, once.
    fn leave(&mut self, what: &str) {
        if !self.left.iter().any(|left| left == what) {
            self.left.push(what.to_owned());
        }
    }
}

/// Steps in the order in which they are put back: the last first, but the scheduler of a queue before its depth, which a change of it resets.
pub(super) fn backwards(steps: &[BuildStep]) -> Vec<(usize, &BuildStep)> {
    let mut backwards: Vec<(usize, &BuildStep)> = steps.iter().enumerate().rev().collect();
    for at in 1..backwards.len() {
        if let [(_, later), (_, earlier)] = &backwards[at - 1..=at]
            && let (
                Some(BuildUndo::RestoreQueue { set: later, .. }),
                Some(BuildUndo::RestoreQueue { set: earlier, .. }),
            ) = (&later.undo, &earlier.undo)
            && earlier.attribute == QueueAttribute::Scheduler
            && earlier.device == later.device
        {
            backwards.swap(at - 1, at);
        }
    }
    backwards
}

fn no_such(name: &str) -> Failure {
    Failure::Refused(format!(
        "there is no {} that `ebb apply` made on this host; `ebb status` lists what there is",
        excerpt(name)
    ))
}

/// Whether it ends a use of what is made: tried before all else.
fn uses(undo: &BuildUndo) -> bool {
    matches!(undo, BuildUndo::Unmount { .. } | BuildUndo::SwapOff { .. })
}

/// Whether anything of `kept` stands on what `undo` would take away. What is on a volume is on its cache, too.
fn is_below(undo: &BuildUndo, kept: &[&BuildUndo]) -> bool {
    let volume = match undo {
        BuildUndo::Uncache { volume } => Some(BuildUndo::RemoveLv { volume: volume.clone() }),
        _ => None,
    };
    kept.iter().any(|above| above.stands_on(volume.as_ref().unwrap_or(undo)))
}

/// Whether what `undo` would take away stays below what is kept.
fn keeps(undo: &BuildUndo) -> bool {
    destroys(undo) || matches!(undo, BuildUndo::Uncache { .. })
}

/// Whether what `undo` would take away is on a device, or shows what is.
fn holds_content(undo: &BuildUndo) -> bool {
    destroys(undo) || matches!(undo, BuildUndo::CloseCrypt { .. })
}

/// How what `undo` would take away stops running and stays on its members, where it runs.
fn resting(undo: &BuildUndo) -> Option<String> {
    match undo {
        BuildUndo::StopMd { device, .. } => Some(format!("mdadm --stop {device}")),
        BuildUndo::RemoveLv { volume } => Some(format!("lvchange --activate n {volume}")),
        _ => None,
    }
}

/// Whether an undo that was ended before it was done had looked at what the step at `index` made, and begun to erase it.
fn was_erased(record: &Record, index: usize) -> bool {
    record.phase == Phase::Undoing && record.begun > index && record.done <= index
}

/// The device that `undo` would take away.
pub(super) fn shown(undo: &BuildUndo) -> String {
    match undo {
        BuildUndo::StopMd { device, .. } => device.clone(),
        BuildUndo::RemoveLv { volume } => format!("/dev/{volume}"),
        BuildUndo::CloseCrypt { name, .. } => format!("/dev/mapper/{name}"),
        other => other.to_string(),
    }
}

/// Where LVM keeps copies of groups' metadata.
const LVM_PLACES: [&str; 2] = ["/etc/lvm/backup", "/etc/lvm/archive"];

/// `GROUP_00000-1234567890.vg`: LVM's name for a copy.
fn is_archive(name: &str, group: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix(group)
        .and_then(|rest| rest.strip_prefix('_')?.strip_suffix(".vg")?.split_once('-'))
        .is_some_and(|(number, random)| digits(number) && digits(random))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::plan::build::{BuildAction, QueueSetting};

    #[test]
    fn a_queue_gets_its_scheduler_back_before_its_depth() {
        let step = |device: &str, attribute| {
            let set = QueueSetting { device: device.to_owned(), attribute, value: "x".to_owned() };
            let undo = BuildUndo::RestoreQueue { set: set.clone(), old: None };
            BuildStep { action: BuildAction::SetQueue(set), undo: Some(undo) }
        };
        use QueueAttribute::{NrRequests, ReadAheadKb, Scheduler};
        let steps = [
            step("a", Scheduler),
            step("a", NrRequests),
            step("b", Scheduler),
            step("b", NrRequests),
            step("c", NrRequests),
            step("md", ReadAheadKb),
        ];
        let order: Vec<usize> = backwards(&steps).into_iter().map(|(index, _)| index).collect();
        assert_eq!(order, [5, 4, 2, 3, 0, 1]);
        assert!(backwards(&[]).is_empty());
    }
}

//! What an apply has to do where another one came before it: the record on disk, brought to what is wanted now.

use super::look::destroys;
use super::undo::backwards;
use super::{Applied, Failure, Keeper, StepState};
use ebbtide_model::plan::build::{BuildStep, BuildUndo};
use ebbtide_provision::files::Part;
use ebbtide_provision::{Desired, Phase, Record};

/// A record brought to what is wanted now, and what is left over from what was wanted before.
pub(super) struct Renewed {
    pub(super) record: Record,
    /// Steps of the old design that the new one does not have; each can be put back and loses nothing.
    pub(super) stale: Vec<BuildStep>,
    /// The same of lines in files.
    pub(super) stale_parts: Vec<Part>,
    /// Whether the record on disk says something else.
    pub(super) changed: bool,
}

impl Keeper<'_> {
    /// The record for `desired`: the one on disk where that is of the same array.
    pub(super) fn renewed(&self, desired: Desired) -> Result<Renewed, Failure> {
        let old = self.record(&desired.name)?;
        let Some(mut old) = old else {
            let mut desired = desired;
            // Directories that are there are nobody's to remove.
            desired.build.steps.retain(|step| !matches!(&step.undo, Some(BuildUndo::RemoveDirectory(path)) if self.sys.at(path).is_dir()));
            return Ok(Renewed {
                record: Record::new(desired),
                stale: Vec::new(),
                stale_parts: Vec::new(),
                changed: true,
            });
        };
        if old.phase == Phase::Undoing {
            return Err(Failure::Refused(format!(
                "{0} is being taken away: end that with `ebb undo {0}` first",
                old.desired.name
            )));
        }
        let mut new = desired;
        new.build.steps.retain(|step| match &step.undo {
            Some(BuildUndo::RemoveDirectory(path)) => {
                old.desired.build.steps.iter().any(|known| known.undo == step.undo)
                    || !self.sys.at(path).is_dir()
            }
            _ => true,
        });
        // What a tunable was before `ebb` set it is known from the first time only.
        for step in &mut new.build.steps {
            if let Some(BuildUndo::RestoreQueue { set, old: before }) = &mut step.undo {
                *before = old.desired.build.steps.iter().find_map(|known| match &known.undo {
                    Some(BuildUndo::RestoreQueue { set: known, old })
                        if (&known.device, known.attribute) == (&set.device, set.attribute) =>
                    {
                        old.clone()
                    }
                    _ => None,
                });
            }
        }
        if old.desired == new {
            return Ok(Renewed { record: old, stale: Vec::new(), stale_parts: Vec::new(), changed: false });
        }
        if let Some(what) = differs(&old.desired, &new) {
            return Err(Failure::Refused(what));
        }
        let same = |step: &BuildStep, other: &BuildStep| match (&step.undo, &other.undo) {
            (Some(BuildUndo::RestoreQueue { set, .. }), Some(BuildUndo::RestoreQueue { set: other, .. })) => {
                (&set.device, set.attribute) == (&other.device, other.attribute)
            }
            // How it was opened is changed when it is opened the next time.
            (Some(BuildUndo::CloseCrypt { name, .. }), Some(BuildUndo::CloseCrypt { name: other, .. })) => {
                name == other
            }
            _ => step == other,
        };
        let stale = old
            .desired
            .build
            .steps
            .iter()
            .filter(|step| !new.build.steps.iter().any(|other| same(step, other)));
        let stale: Vec<BuildStep> =
            stale.filter(|step| step.undo.as_ref().is_some_and(|undo| !destroys(undo))).cloned().collect();
        let stale_parts = old.desired.parts.iter().filter(|part| {
            !new.parts.iter().any(|other| (&other.path, other.whole) == (&part.path, part.whole))
        });
        let stale_parts: Vec<Part> = stale_parts.cloned().collect();
        // Steps that destroy are the same and in the same order: as many of them are done as were.
        let reached = |count: usize| {
            let destroyed = old.desired.build.steps.iter().take(count).filter(|step| makes(step)).count();
            let at = new.build.steps.iter().enumerate().filter(|(_, step)| makes(step)).nth(destroyed);
            at.map_or(new.build.steps.len(), |(index, _)| index)
        };
        let (begun, done) = (reached(old.begun), reached(old.done));
        old.earlier.extend(old.desired.parts.iter().filter(|part| !new.parts.contains(part)).cloned());
        old.begun = begun.max(done);
        old.done = done;
        old.desired = new;
        Ok(Renewed { record: old, stale, stale_parts, changed: true })
    }

    /// Mounts what an apply that failed has unmounted to mount it otherwise; whether that was done.
    pub(super) fn mounts_again(&self, record: &Record, stale: &[BuildStep]) -> bool {
        let mount = stale.iter().find(|step| matches!(step.undo, Some(BuildUndo::Unmount { .. })));
        mount.is_some_and(|step| {
            matches!(self.now(record, step), Ok(StepState::Absent)) && self.act(record, step).is_ok()
        })
    }

    /// Puts back what the new `record` has no more. The old one is the record until that is done: nobody else knows of it.
    pub(super) fn leave_behind(
        &self,
        record: &Record,
        stale: &[BuildStep],
        stale_parts: &[Part],
    ) -> Result<Applied, Failure> {
        let mut applied = Applied::default();
        if stale.is_empty() && stale_parts.is_empty() {
            return Ok(applied);
        }
        let old = self.record(&record.desired.name)?;
        if let Some(mut old) = old {
            (old.phase, old.anew) = (Phase::Applying, false);
            self.write(&old)?;
        }
        for undo in backwards(stale).iter().filter_map(|(_, step)| step.undo.as_ref()) {
            self.next()?;
            (self.tell)(&undo.to_string());
            self.put_back_here(undo)?;
            applied.steps += 1;
        }
        applied.files += self.take_files(record, stale_parts)?;
        Ok(applied)
    }
}

/// Whether a step, or what belongs to it, makes something on a device.
fn makes(step: &BuildStep) -> bool {
    step.undo.as_ref().is_none_or(destroys)
}

/// What cannot become of an array that is there, in words; nothing where all of it can.
fn differs(old: &Desired, new: &Desired) -> Option<String> {
    let name = &old.name;
    let remedy = format!(
        "take the old one away with `ebb undo {name}` (it keeps its data), or apply this one under another --name"
    );
    let paths =
        |desired: &Desired| desired.members.iter().map(|member| member.path.clone()).collect::<Vec<_>>();
    if paths(old) != paths(new) {
        return Some(format!(
            "{name} stands on {}, and the design wants {}: members of an array that stays are not exchanged; {remedy}",
            paths(old).join(", "),
            paths(new).join(", ")
        ));
    }
    if old.class != new.class {
        return Some(format!(
            "{name} is {} and is asked to be {}: the classes are never mixed; {remedy}",
            old.class.as_ref(),
            new.class.as_ref()
        ));
    }
    let made = |desired: &Desired| {
        desired
            .build
            .steps
            .iter()
            .filter(|step| makes(step))
            .map(|step| step.action.to_string())
            .collect::<Vec<_>>()
    };
    let (old_steps, new_steps) = (made(old), made(new));
    let at = old_steps.iter().zip(&new_steps).position(|(old, new)| old != new);
    let at =
        at.or_else(|| (old_steps.len() != new_steps.len()).then_some(old_steps.len().min(new_steps.len())))?;
    let show =
        |steps: &[String]| steps.get(at).map_or_else(|| "nothing".to_owned(), |step| format!("`{step}`"));
    Some(format!(
        "{name} was made by {} and the design wants {}: that cannot be changed in place; {remedy}",
        show(&old_steps),
        show(&new_steps)
    ))
}

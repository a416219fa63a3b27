//! What an apply would do, judged as a whole before any of it is done.

use super::apply::{Planned, cut_off};
use super::look::{destroys, written};
use super::refuse::{base, formatted};
use super::{Failure, Keeper, StepState};
use ebbtide_model::plan::build::{BuildStep, BuildUndo};
use ebbtide_provision::{Member, Record};

impl Keeper<'_> {
    /// What would be done on devices now, judged as a whole: what does not stand is refused, started or made. Nothing is known of what
    /// stands on something that does not run.
    pub(super) fn ahead(&self, record: &Record, destroy: bool) -> Result<Planned, Failure> {
        let steps = &record.desired.build.steps;
        let mut planned = Planned::default();
        let mut members: Vec<&Member> = Vec::new();
        // Steps that would be done, and those that stand again once something runs.
        let (mut made, mut asleep): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for (index, step) in steps.iter().enumerate() {
            let Some(undo) = &step.undo else {
                if let Some((_, owner)) = cut_off(record, index).filter(|_| !destroy) {
                    self.is_unused(owner)?;
                }
                if index >= record.done && made.iter().any(|made| made + 1 == index) {
                    made.push(index);
                    planned.steps.push(step.action.to_string());
                }
                continue;
            };
            if stands_on_any(undo, &asleep, steps) {
                asleep.push(index);
                if record.done <= index {
                    planned.notes.push(format!(
                        "`{}`: whether that is needed is known only once what is below it runs",
                        step.action
                    ));
                }
                continue;
            }
            // What stands on something that is not there cannot be asked.
            let is_above = stands_on_any(undo, &made, steps);
            let now = if is_above { StepState::Absent } else { self.found(record, index, step)? };
            if now == StepState::Stands {
                continue;
            }
            if let Some(words) = self.wake(record, step)? {
                planned.steps.push(words.join(" "));
                asleep.push(index);
                continue;
            }
            if destroys(undo) {
                self.may_be_made(record, index, undo, &now, destroy)?;
                members.extend(self.to_write(record, index, undo, destroy, &made)?);
                made.push(index);
            } else if matches!(undo, BuildUndo::CloseCrypt { .. })
                && formatted(steps, index).is_none_or(|formatted| !made.contains(&formatted))
            {
                asleep.push(index);
            }
            planned.steps.push(step.action.to_string());
        }
        self.host.may_build(&members, destroy).map_err(Failure::Refused)?;
        Ok(planned)
    }
}

/// Whether a step that makes something stands on any of those at `below`.
fn stands_on_any(undo: &BuildUndo, below: &[usize], steps: &[BuildStep]) -> bool {
    let on_device =
        || written(undo).iter().filter_map(|path| base(steps, path)).any(|base| below.contains(&base));
    let mut below_too = below.iter().filter_map(|index| steps[*index].undo.as_ref());
    destroys(undo) && (below_too.any(|below| destroys(below) && undo.stands_on(below)) || on_device())
}

//! What cannot be carried out though it is well written: an answer that the budget does not allow, writes that `files` does not do; said before
//! anything is touched.

use super::{Design, Experiment};
use crate::layout::{LayoutName, LayoutNode};
use crate::units::{Nanos, format_count, format_waiting};
use crate::workload::Mix;

/// Least number of trials whose median has an exact interval at `level`: [x(1), x(n)] has the coverage
/// 1 - 2 / 2^n (order statistics).
pub fn least_trials(level: f64) -> u32 {
    (1..64).find(|n| 1.0 - 2.0 * 0.5f64.powi(*n as i32) >= level).unwrap_or(64)
}

/// Least rounds in which so many comparisons can be told together at `level`.
pub fn least_rounds(level: f64, comparisons: usize) -> u32 {
    least_trials(1.0 - (1.0 - level) / comparisons.max(1) as f64)
}

impl Experiment {
    /// Designs that are compared with the control, each under every workload; those of a sweep race instead.
    fn comparisons(&self) -> usize {
        if self.sweep.is_some() { 0 } else { self.designs.len().saturating_sub(1) * self.workloads.len() }
    }

    /// Why the answer cannot be reached, whatever is measured: fewer rounds than its comparisons need, or less time than they take.
    pub fn cannot_decide(&self) -> Vec<String> {
        let answer = &self.answer;
        let comparisons = self.comparisons();
        let needed = least_rounds(answer.level, comparisons);
        let mut notes = Vec::new();
        if comparisons > 0 && answer.trials_max < needed {
            notes.push(format!(
                "`trials_max = {}` cannot decide {}: together they take {needed} rounds at a level of {}; write `trials_max = {needed}` \
                 or more",
                answer.trials_max,
                format_count(comparisons as u64, "comparison"),
                answer.level,
            ));
        }
        let rounds = if comparisons > 0 { answer.trials_min.max(needed) } else { answer.trials_min };
        let rounds = rounds.min(answer.trials_max);
        let least = self.round_time().map(|time| Nanos(time.0.saturating_mul(rounds.into())));
        if let Some(least) = least.filter(|least| *least > answer.budget) {
            let minutes = least.0.div_ceil(60 * Nanos::PER_SECOND);
            let whose = if answer.budget_asked { "budget" } else { "default budget" };
            let sim = if answer.budget_asked { "" } else { "; with --on sim there is none by default" };
            notes.push(format!(
                "the {whose} of {} ends it before the least {rounds} rounds, which would take {}: the answer cannot be reached; write \
                 `budget = \"{minutes}m\"` or more{sim}",
                answer.budget,
                format_waiting(least)
            ));
        }
        notes
    }

    /// Which design has no file system for a program that is the load, where `has_one` says which have.
    pub fn needs_file_system(&self, has_one: impl Fn(&Design) -> bool) -> Option<String> {
        let program = self.loads().find(|load| load.program.is_some())?;
        let design = self.designs.iter().find(|design| !has_one(design))?;
        Some(format!(
            "workload {} is a program, and design {} has no file system for it",
            program.name, design.name
        ))
    }

    /// Why the `files` backend refuses this experiment: it reads layouts with parity but does not write them. Names the
    /// design, the workload and what to write instead.
    pub fn refused_in_user_space(&self) -> Option<String> {
        let mut engine = self.loads().filter(|workload| workload.program.is_none());
        let workload = engine.find(|workload| workload.mix != Mix::Read)?;
        self.designs.iter().find_map(|design| {
            let level = parity_level(&design.layout)?;
            let instead = LayoutName::names("` or `", |layout| layout.has_copies());
            Some(format!(
                "design {}: {level} is not written in user space, and workload {} writes; write `rw = \"read\"` or \
                 `rw = \"randread\"`, choose `{instead}`, or simulate it: `ebb run FILE --on sim`",
                design.name, workload.name
            ))
        })
    }
}

/// The name of the outermost level with parity, if there is one.
fn parity_level(node: &LayoutNode) -> Option<&'static str> {
    let LayoutNode::Array { kind, members } = node else { return None };
    match kind.facts().parity() {
        0 => members.iter().find_map(parity_level),
        _ => Some(kind.name()),
    }
}

//! What cannot be carried out though it is well written: an answer that the budget does not allow, writes that `files` does not do; said before
//! anything is touched.

use super::Experiment;
use crate::layout::{LayoutName, LayoutNode};
use crate::units::{Nanos, format_waiting};
use crate::workload::Mix;

impl Experiment {
    /// That the budget ends before the least rounds do, so that the answer cannot be reached.
    pub fn budget_too_small(&self) -> Option<String> {
        let answer = &self.answer;
        let least = Nanos(self.round_time()?.0.saturating_mul(answer.trials_min.into()));
        (least > answer.budget).then(|| {
            format!(
                "the budget of {} ends it before the least {} rounds, which would take {}: the answer cannot be reached",
                answer.budget,
                answer.trials_min,
                format_waiting(least)
            )
        })
    }

    /// Why the `files` backend refuses this experiment: it reads layouts with parity but does not write them. Names the
    /// design, the workload and what to write instead.
    pub fn refused_in_user_space(&self) -> Option<String> {
        let workload = self.loads().find(|workload| workload.mix != Mix::Read)?;
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

//! What a backend cannot carry out, said before anything is touched.

use super::Experiment;
use crate::layout::LayoutNode;
use crate::workload::Mix;

impl Experiment {
    /// Why the `files` backend refuses this experiment: it reads layouts with parity but does not write them. Names the
    /// design, the workload and what to write instead.
    pub fn refused_in_user_space(&self) -> Option<String> {
        let workload = self.workloads.iter().find(|workload| workload.mix != Mix::Read)?;
        self.designs.iter().find_map(|design| {
            let level = parity_level(&design.layout)?;
            Some(format!(
                "design {}: {level} is not written in user space, and workload {} writes; write `rw = \"read\"` or \
                 `rw = \"randread\"`, choose `raid10` or `mirror`, or simulate it: `ebb run FILE --on sim`",
                design.name, workload.name
            ))
        })
    }
}

/// The name of the outermost level with parity, if there is one.
fn parity_level(node: &LayoutNode) -> Option<&'static str> {
    let LayoutNode::Array { kind, members } = node else { return None };
    match kind.facts().parity {
        0 => members.iter().find_map(parity_level),
        _ => Some(kind.name()),
    }
}

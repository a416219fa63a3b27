//! What a backend cannot carry out, said before anything is touched.

use super::Experiment;
use crate::layout::{ArrayKind, LayoutNode};
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
    match kind {
        ArrayKind::Raid5 { .. } | ArrayKind::Raid6 { .. } => Some(kind.name()),
        ArrayKind::Linear | ArrayKind::Mirror | ArrayKind::Stripe { .. } | ArrayKind::Raid10 { .. } => {
            members.iter().find_map(parity_level)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(layout: &str, rw: &str) -> Experiment {
        let text = format!(
            "name = \"t\"\n[volumes.v]\ncount = 6\nsize = \"8MiB\"\n[designs.d]\n{layout}\n[workloads.w]\nrw = \"{rw}\"\nruntime = \"1s\"\n"
        );
        Experiment::parse(&text, "t.toml").expect("parses")
    }

    #[test]
    fn only_writes_to_parity_are_refused() {
        let flat = "layout = \"raid5\"\nmembers = [\"v[0..5]\"]";
        let nested =
            "layout = \"stripe\"\nmembers = [{ layout = \"raid6\", members = [\"v[0..3]\"] }, \"v4\"]";
        let none = "layout = \"raid10\"\nmembers = [\"v[0..5]\"]";
        for (layout, level) in [(flat, "raid5"), (nested, "raid6")] {
            for rw in ["write", "randrw", "rewrite"] {
                let refusal = experiment(layout, rw).refused_in_user_space();
                assert!(
                    refusal.is_some_and(|why| why.contains(&format!("design d: {level} is not written")))
                );
            }
            assert_eq!(experiment(layout, "randread").refused_in_user_space(), None);
        }
        assert_eq!(experiment(none, "write").refused_in_user_space(), None);
    }
}

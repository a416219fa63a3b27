//! Swap spaces: made last and undone first, so that nothing else of a build waits for pages that were swapped out.

use super::{BuildPlanError, BuildUndo, Planner};

impl Planner<'_> {
    /// Makes the design's swap spaces and switches them on.
    pub(super) fn swap(&mut self) -> Result<(), BuildPlanError> {
        for (group, swap) in self.design.stack.swap.iter().enumerate() {
            for (position, member) in swap.members.iter().enumerate() {
                let device = self.node(member, false)?;
                let label = self.identity(&format!("swap{group}.{position}")).label();
                let undo =
                    BuildUndo::WipeContent { device: device.clone(), label: label.clone(), sequence: None };
                let uuid = self.identity(&format!("swap{group}.{position}")).uuid();
                let own = if self.is_lasting() { &["--uuid", uuid.as_str()][..] } else { &[] };
                let arguments = [&["--force", "--label", &label][..], own, &[&device]].concat();
                self.run("mkswap", &arguments, Some(undo));
                let undo = BuildUndo::SwapOff { device: device.clone(), label };
                let priority = swap.priority.map(|priority| format!("--priority={priority}"));
                let arguments: Vec<&str> =
                    priority.iter().map(String::as_str).chain([device.as_str()]).collect();
                self.run("swapon", &arguments, Some(undo));
            }
        }
        Ok(())
    }
}

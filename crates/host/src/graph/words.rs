//! What is between a path and its disks, in words.

use super::{Graph, Node, Place};
use ebbtide_model::graph::{Below, Layers};
use ebbtide_model::shown::Shown;

impl Graph {
    /// What is between a path and its disks: `md0 (stripe of 2, chunk 64KiB, over vdb, vdc)`; of a device, what it is itself.
    /// Nothing where a disk or its partition is all.
    pub fn in_words(&self, place: &Place) -> Option<String> {
        let words = match (&place.fstype, self.each(&place.below).as_slice()) {
            (_, []) => return None,
            (None, [device]) => self.stands_on(device, 0),
            (Some(_), [one]) => self.called(one, 0),
            _ => self.joined(&place.below, 0),
        };
        let disks = self.disks_below(&place.below.devices);
        let one_disk = matches!(disks.as_slice(), [disk] if self.nodes[*disk].name == words);
        (!words.is_empty() && !one_disk).then_some(words)
    }

    fn each(&self, below: &Below) -> Vec<&Node> {
        below.devices.iter().filter_map(|at| self.nodes.get(*at)).collect()
    }

    /// A device by its name, and what it stands on; a partition is where its disk is. A circle ends where it has been all around.
    fn called(&self, node: &Node, depth: usize) -> String {
        let name = node.shown_name();
        if node.made.devices.is_empty() || depth > self.count() {
            return name.to_owned();
        }
        let below = self.stands_on(node, depth);
        if node.disk().is_some() { below } else { format!("{name} ({below})") }
    }

    fn stands_on(&self, node: &Node, depth: usize) -> String {
        let below = self.each(&node.made);
        match (node.over(), below.as_slice()) {
            (Some(over), []) => format!("a loop device over {}", over.path.shown()),
            (Some(over), _) => {
                format!("a loop device over {} on {}", over.path.shown(), self.names(&node.made, depth))
            }
            (None, []) => String::new(),
            (None, [disk]) if node.disk().is_some() => self.called(disk, depth + 1),
            (None, [one]) => format!("over {}", self.called(one, depth + 1)),
            (None, _) => self.joined(&node.made, depth),
        }
    }

    fn names(&self, below: &Below, depth: usize) -> String {
        let names: Vec<String> = self.each(below).iter().map(|node| self.called(node, depth + 1)).collect();
        names.join(", ")
    }

    fn joined(&self, below: &Below, depth: usize) -> String {
        let how = below.join.in_words(below.devices.len(), below.missing);
        format!("{how}, over {}", self.names(below, depth))
    }
}

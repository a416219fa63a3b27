//! Layouts and workloads in words.

use ebbtide_model::experiment::Experiment;
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::workload::{Access, Mix, Workload};

/// Names of the volumes of a layout, in layout order.
pub(crate) fn leaves(node: &LayoutNode, experiment: &Experiment) -> Vec<String> {
    let volumes = node.volumes().into_iter().filter_map(|index| experiment.volumes.get(index));
    volumes.map(|volume| volume.name.clone()).collect()
}

/// What a workload does, as a verb that follows the name of a design.
pub(crate) fn verb(workload: &Workload) -> String {
    let order = match workload.access {
        Access::Sequential => "sequentially",
        Access::Random => "at random",
    };
    match workload.mix {
        Mix::Read => format!("reads {order}"),
        Mix::Write => format!("writes {order}"),
        Mix::Rewrite => format!("rewrites {order}"),
        Mix::Mixed { read_percent } => format!("reads ({read_percent}%) and writes {order}"),
    }
}

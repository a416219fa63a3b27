//! Layouts in words.

use ebbtide_model::experiment::Experiment;
use ebbtide_model::layout::LayoutNode;

/// Names of the volumes of a layout, in layout order.
pub(crate) fn leaves(node: &LayoutNode, experiment: &Experiment) -> Vec<String> {
    let volumes = node.volumes().into_iter().filter_map(|index| experiment.volumes.get(index));
    volumes.map(|volume| volume.name.clone()).collect()
}

//! What `ebb bench` is asked for, as jobs, and what came of them, as text and JSON.

pub mod describe;
pub mod fio;
pub mod profile;
pub mod target;

use ebbtide_model::experiment::{Experiment, Volume};
use ebbtide_model::layout::LayoutNode;

/// An experiment that only says on what to run: a design for each layout.
pub fn experiment(volumes: Vec<Volume>, designs: Vec<(String, LayoutNode)>) -> Experiment {
    Experiment::once("bench", volumes, designs)
}

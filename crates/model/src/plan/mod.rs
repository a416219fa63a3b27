//! What is done to the system, as data that is printed before anything is touched.

pub mod build;
mod steps;
mod sweep;
#[cfg(test)]
mod tests;

pub use steps::{Action, RunPlan, SHORT_RUNS_AFTER, Step, Undo};
pub use sweep::SweepPlan;

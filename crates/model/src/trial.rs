//! A trial: which workload is run on which design, and why.

use serde::{Deserialize, Serialize};

/// Why a trial is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// To measure its design.
    Candidate,
    /// The control once more in the same round, for the A/A comparison.
    ControlAgain,
}

/// One trial of the plan: one workload on one design, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Trial {
    /// Position in the whole session, from 0.
    pub index: u32,
    /// Round, from 0; every round runs every (design, workload) that is in it once and the control twice.
    pub round: u32,
    /// Index into `Experiment::designs`.
    pub design: usize,
    /// Index into `Experiment::workloads`.
    pub workload: usize,
    /// Why it is run.
    pub role: Role,
    /// Seed of everything random in this trial.
    pub seed: u64,
}

//! From samples to answers: estimates with intervals, comparisons, steady state, when to stop, verdicts and the ladder that they
//! ask for, what a profile's jobs show together, and which member of an array differs from its siblings. Whatever concludes
//! something from what was measured lives here, as data with its evidence; how it is worded in a report belongs to
//! `ebbtide-report`, and what was measured to `ebbtide-model`. Pure.
//!
//! [`analyse`](analyse()) turns a [`Session`](ebbtide_model::session::Session) into an [`Analysis`]; [`stop::decide`] says after
//! each round whether the answer is good enough. The unit of all statistics is the trial. docs/statistics.md
//! derives what is computed here.

mod analyse;
pub mod below;
pub mod change;
pub mod compare;
pub mod course;
pub mod estimate;
#[cfg(test)]
mod fixtures;
pub mod ladder;
pub mod members;
pub mod metrics;
pub mod observe;
pub mod pace;
pub mod steady;
pub mod stop;
mod types;
mod undecided;
pub mod verdict;
pub mod waves;

pub use analyse::analyse;
pub use metrics::{metric, natural, primary};
pub use types::{
    AaPair, Analysis, ArrayBelow, Basis, Comparison, Conclusion, DesignResult, DeviceShare, Estimate,
    Evidence, MemberShare, RuledOut, Verdict, VerdictKind, Warning, WarningKind,
};
pub use undecided::{Undecided, unanswered, undecided};

#[cfg(test)]
mod tests;

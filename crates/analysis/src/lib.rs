//! Analysis: estimates with intervals, comparisons, steady state, verdicts. Pure.
//!
//! [`analyse`] turns a [`Session`](ebbtide_model::session::Session) into an [`Analysis`]; [`stop::decide`] says after
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

//! Analysis: estimates with intervals, comparisons, steady state, verdicts. Pure.
//!
//! [`analyse`] turns a [`Session`](crate::session::Session) into an [`Analysis`]; [`stop::decide`] says after
//! each round whether the answer is good enough. The unit of all statistics is the trial. docs/statistics.md
//! derives what is computed here.

mod analyse;
pub mod change;
pub mod compare;
pub mod estimate;
#[cfg(test)]
mod fixtures;
pub mod members;
pub mod metrics;
pub mod steady;
pub mod stop;
mod types;
pub mod verdict;

pub use analyse::{analyse, decided};
pub use metrics::{metric, primary};
pub use types::{
    AaPair, Analysis, Comparison, Conclusion, DesignResult, Estimate, Evidence, MemberShare, Metric,
    RuledOut, Verdict, VerdictKind, Warning, WarningKind,
};

#[cfg(test)]
mod tests;

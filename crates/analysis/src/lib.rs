//! From samples to answers: estimates with intervals, comparisons, steady state, when to stop, verdicts and the ladder that they
//! ask for, what a profile's jobs show together, and which member of an array differs from its siblings. Whatever concludes
//! something from what was measured lives here, as data with its evidence; how it is worded in a report belongs to
//! `ebbtide-report`, and what was measured to `ebbtide-model`. Pure.
//!
//! [`analyse`](analyse()) turns a [`Session`](ebbtide_model::session::Session) into an [`Analysis`]; [`stop::Decider`] says after
//! each round whether the answer is good enough. The unit of all statistics is the trial. docs/explanation/statistics.md
//! derives what is computed here.

mod analyse;
pub mod attribution;
pub mod below;
mod best;
pub mod between;
pub mod change;
pub mod changes;
pub mod compare;
pub mod conditions;
pub mod course;
pub mod estimate;
pub mod evidence;
pub mod factors;
mod facts;
#[cfg(test)]
mod fixtures;
mod judged;
pub mod ladder;
pub mod latency_target;
pub mod members;
pub mod metrics;
pub mod observe;
pub mod ordered;
pub mod pace;
pub mod race;
pub mod resources;
pub mod signed_rank;
pub mod steady;
pub mod stop;
mod trial_summary;
pub mod trials;
mod types;
mod undecided;
pub mod verdict;
pub mod waves;

pub use analyse::{OfDesign, analyse, of_design, together};
pub use best::Standing;
pub use evidence::{Check, Evidence, Unit};
pub use facts::elsewhere::{Elsewhere, order};
pub use facts::moved::tell_jobs_beside;
pub use judged::{Basis, Grounds, RuledOut, Verdict, VerdictKind};
pub use metrics::{metric, metrics, natural, primary};
pub use trial_summary::TrialSummary;
pub use types::{
    AaPair, Analysis, ArrayBelow, Comparison, Conclusion, DesignResult, DeviceShare, Estimate, MemberShare,
    Warning, WarningKind,
};
pub use undecided::{Undecided, unanswered, undecided};

#[cfg(test)]
mod tests;

//! Analysis: estimates with intervals, comparisons, steady state, verdicts. Pure.

mod types;

pub use types::{
    AaPair, Analysis, Comparison, Conclusion, DesignResult, Estimate, Evidence, MemberShare, Metric, Verdict,
    VerdictKind, Warning, WarningKind,
};

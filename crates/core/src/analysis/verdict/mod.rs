//! Verdicts: what limits a design under a workload, with the evidence.
//!
//! Each rule lives in a file of its own and is listed in [`rules`]: to add one, write the file, list it, add
//! its kind to [`VerdictKind`] and its page to docs/verdicts. A rule asserts only what its evidence
//! shows: an unsupported verdict is worse than `unknown`.

mod case;
mod unknown;

pub use case::Case;

use super::{Verdict, VerdictKind};

/// One cause that may limit a design.
pub trait Rule: Sync {
    /// What it asserts.
    fn kind(&self) -> VerdictKind;
    /// The verdict when the evidence supports it, otherwise `None`.
    fn judge(&self, case: &Case<'_>) -> Option<Verdict>;
}

/// Every rule, in the order in which equals are ranked.
pub fn rules() -> &'static [&'static dyn Rule] {
    &[]
}

/// Every verdict that the evidence supports, the cause that explains most first; `unknown` when none does.
pub fn judge(case: &Case<'_>) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = rules().iter().filter_map(|rule| rule.judge(case)).collect();
    verdicts.sort_by(|a, b| (b.explains * b.confidence).total_cmp(&(a.explains * a.confidence)));
    if verdicts.is_empty() {
        verdicts.push(unknown::verdict(case));
    }
    verdicts
}

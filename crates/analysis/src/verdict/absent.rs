//! Why a cause is not asserted.

use super::evidence;
use crate::{Evidence, Verdict, VerdictKind};

/// What a rule makes of a case.
pub type Judged = Result<Verdict, Absent>;

/// A cause that is not asserted: what was looked at, what it would have taken, and what was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Absent {
    /// A clause that a user reads, without a full stop.
    pub why: String,
    /// What was seen, each figure with what it would have taken.
    pub evidence: Vec<Evidence>,
}

impl Absent {
    /// Without a figure.
    pub fn because(why: impl Into<String>) -> Absent {
        Absent { why: why.into(), evidence: Vec::new() }
    }

    /// A rule that yields to another, which `why` it does.
    pub fn yields(to: VerdictKind, why: &str) -> Absent {
        Absent::because(format!("held back by `{}`: {why}", to.name()))
    }

    /// With a figure that was seen and what it would have had to be.
    pub fn seen(mut self, what: &str, value: f64, unit: &str, needed: f64) -> Absent {
        self.evidence.push(evidence(what, value, unit, Some(needed)));
        self
    }

    /// With a figure where it is known.
    pub fn seen_where_known(self, what: &str, value: Option<f64>, unit: &str, needed: f64) -> Absent {
        match value {
            Some(value) => self.seen(what, value, unit, needed),
            None => self,
        }
    }
}

//! `unknown`: none of the rules found evidence.

use super::Case;
use crate::analysis::{Verdict, VerdictKind};

/// The verdict that asserts nothing.
pub fn verdict(_case: &Case<'_>) -> Verdict {
    Verdict {
        kind: VerdictKind::Unknown,
        confidence: 0.0,
        explains: 0.0,
        sentence: "nothing that was measured shows what limits this design".into(),
        evidence: Vec::new(),
    }
}

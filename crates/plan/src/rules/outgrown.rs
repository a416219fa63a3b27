//! md over other hosts is the wrong answer to what is asked, whatever its volumes do.

use super::Shortfall;
use crate::candidates::Candidate;
use crate::outgrown::{network, outgrown};
use ebbtide_model::need::Need;

pub(super) fn judge(candidate: &Candidate<'_>, need: &Need) -> Option<Shortfall> {
    let first = outgrown(need, network(candidate.instance)).into_iter().next()?;
    Some(Shortfall::new(format!("md over hosts is outgrown: {}", first.rule), first.because, 0.0))
}

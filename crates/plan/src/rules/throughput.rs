//! A limit lets fewer sequential bytes through than are needed, or not for long enough.

use super::{Shortfall, too_little};
use crate::candidates::Candidate;
use ebbtide_model::need::Need;
use ebbtide_model::units::format_alike;

pub(super) fn judge(candidate: &Candidate<'_>, need: &Need) -> Option<Shortfall> {
    too_little(&candidate.sequential, need.throughput?, need, |gives, asked| {
        format_alike(gives, asked, "B/s")
    })
    .map(|(_, short)| short)
}

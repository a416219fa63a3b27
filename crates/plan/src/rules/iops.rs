//! A limit lets fewer operations through than are needed, or not for long enough.

use super::{Shortfall, too_little};
use crate::candidates::Candidate;
use ebbtide_model::need::Need;
use ebbtide_model::units::format_alike;

pub(super) fn judge(candidate: &Candidate<'_>, need: &Need) -> Option<Shortfall> {
    too_little(&candidate.random, need.iops?, need, |gives, asked| {
        let (gives, asked) = format_alike(gives, asked, "");
        (gives, format!("{asked} IOPS"))
    })
    .map(|(_, short)| short)
}

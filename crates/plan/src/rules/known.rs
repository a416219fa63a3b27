//! How fast its disks are from one end to the other nobody says: of most instances' own only operations are published.

use super::Shortfall;
use crate::candidates::Candidate;
use ebbtide_model::need::Need;

pub(super) fn judge(candidate: &Candidate<'_>, _: &Need) -> Option<Shortfall> {
    candidate.shape.throughput.is_none().then(|| {
        let what = format!("no source at hand has the throughput of {}", candidate.type_name());
        Shortfall::new("speed not known", what, 0.0)
    })
}

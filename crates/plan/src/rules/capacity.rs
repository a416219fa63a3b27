//! What is needed does not fit into volumes of this type and number.

use super::Shortfall;
use crate::candidates::Candidate;
use ebbtide_model::need::Need;
use ebbtide_model::units::Bytes;

pub(super) fn judge(candidate: &Candidate<'_>, need: &Need) -> Option<Shortfall> {
    let holds = candidate.size.0 as f64 * candidate.array.data_members();
    (holds < need.capacity.0 as f64).then(|| {
        let by = format!("hold {} of the {} needed", Bytes(holds as u64).short(), need.capacity.short());
        Shortfall::new(
            "too small: the largest volumes of the type in this number",
            by,
            holds / need.capacity.0 as f64,
        )
    })
}

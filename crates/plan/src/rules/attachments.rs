//! The instance takes fewer volumes, one of which is its root's.

use super::Shortfall;
use crate::candidates::{Candidate, Medium};
use ebbtide_model::need::Need;
use ebbtide_model::units::format_count;

pub(super) fn judge(candidate: &Candidate<'_>, _: &Need) -> Option<Shortfall> {
    let most = candidate.instance?.volumes?.attachments?.saturating_sub(1);
    let members = candidate.array.members / candidate.array.hosts;
    (candidate.medium != Medium::Local && members > most).then(|| {
        let by =
            format!("{} beside the root's of {members} can be attached", format_count(most.into(), "volume"));
        Shortfall::new("more volumes than the instance takes", by, f64::from(most) / f64::from(members))
    })
}

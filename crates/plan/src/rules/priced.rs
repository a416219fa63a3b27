//! Nobody knows what it costs, there or on that day.

use super::Shortfall;
use crate::candidates::{Candidate, Medium};
use ebbtide_model::need::Need;

pub(super) fn judge(candidate: &Candidate<'_>, need: &Need) -> Option<Shortfall> {
    if let (Medium::Ordered(record, _), Some(region)) = (candidate.medium, &need.region)
        && let Some(price) = record.price.as_ref().filter(|price| price.region != *region)
    {
        let by = format!("prices of {} are of {}, not of {region}", candidate.type_name(), price.region);
        return Some(Shortfall::new("no price is known in that region", by, 0.0));
    }
    candidate.price.is_none().then(|| {
        let by = format!("{} has no price in the catalogue for that day", candidate.type_name());
        Shortfall::new("no price is known", by, 0.0)
    })
}

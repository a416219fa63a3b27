//! It costs more than there is.

use super::Shortfall;
use crate::candidates::Candidate;
use ebbtide_model::need::Need;

pub(super) fn judge(candidate: &Candidate<'_>, need: &Need) -> Option<Shortfall> {
    let (price, budget) = (candidate.price?, need.budget_month?);
    // A hundredth of a cent is a matter of rounding.
    (price > budget + 1e-4).then(|| Shortfall {
        is_budget: true,
        ..Shortfall::new("over the budget", format!("${price:.2} a month of ${budget:.2}"), budget / price)
    })
}

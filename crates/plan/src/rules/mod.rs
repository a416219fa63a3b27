//! Why a design will not do: each rule a file with `judge`, which says by arithmetic what is missing, or nothing. None reads another.

mod attachments;
mod budget;
mod capacity;
mod iops;
mod known;
mod latency;
mod outgrown;
mod priced;
mod throughput;

use crate::bounds::{Bottleneck, Bound};
use crate::candidates::{Candidate, lasts, required};
use ebbtide_model::need::Need;
use ebbtide_model::units::format_hours;

/// What a design is short of.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortfall {
    /// The reason, the same for all designs of one kind: "the volumes' IOPS are too few".
    pub why: String,
    /// How short: "gives 3.00 k of the 22.0 k IOPS needed".
    pub by: String,
    /// What it has as a share of what is needed, 0 to 1: of several designs the one with the most is the nearest.
    pub has: f64,
    /// Whether money alone would mend it.
    pub is_budget: bool,
    /// Whether it is too slow in answering, and only that.
    pub is_latency: bool,
}

impl Shortfall {
    pub(crate) fn new(why: impl Into<String>, by: impl Into<String>, has: f64) -> Shortfall {
        Shortfall { why: why.into(), by: by.into(), has, is_budget: false, is_latency: false }
    }
}

type Rule = fn(&Candidate<'_>, &Need) -> Option<Shortfall>;

/// The rules; of several that a design breaks, the first is the one that is told.
const RULES: &[Rule] = &[
    outgrown::judge,
    capacity::judge,
    attachments::judge,
    known::judge,
    iops::judge,
    throughput::judge,
    latency::judge,
    priced::judge,
    budget::judge,
];

/// Everything that `candidate` is short of, in the order of the rules.
pub fn short_of(candidate: &Candidate<'_>, need: &Need) -> Vec<Shortfall> {
    RULES.iter().filter_map(|rule| rule(candidate, need)).collect()
}

/// The bound of `bounds` that lets `rate` through for the fewest hours, where these are too few.
fn too_little(
    bounds: &[Bound],
    rate: f64,
    need: &Need,
    words: impl Fn(f64, f64) -> (String, String),
) -> Option<(Bottleneck, Shortfall)> {
    let required = |bound: &Bound| required(need, bound, rate);
    let short = bounds.iter().filter(|bound| !lasts(bound, required(bound), need));
    let ratio = |bound: &Bound| bound.rate_for(need.hours_a_day) / required(bound);
    let bound = short.min_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let needed = required(bound);
    let hours = bound.hours(needed);
    let headroom = if bound.what.is_volumes() && need.headroom > 0.0 { ", with headroom" } else { "" };
    let (gives, asked) = words(bound.rate_for(need.hours_a_day), needed);
    let by = format!("gives {gives} of the {asked} needed{headroom}");
    let short = match hours > 0.0 {
        true => Shortfall::new(
            format!("burst credits: {} for too few hours a day", bound.what),
            format!("{by}; at that rate credits last {hours:.1} of {} a day", format_hours(need.hours_a_day)),
            ratio(bound),
        ),
        false => Shortfall::new(format!("too little: {}", bound.what), by, ratio(bound)),
    };
    Some((bound.what, short))
}

//! `volume-limit`: the working members are at their own limits.
//!
//! Derivation. A volume that grants `L` operations (or bytes) per second cannot be made to do more by any layout
//! above it. When every byte went through a member that used nearly all of its `L`, the array's rate is the
//! sum of the limits of the members that worked, and nothing but more or faster volumes (or, for a
//! linear array, a layout that works all of them) raises it. Known limits are those of the volume's shape or
//! type; an EBS volume also reports the time it spent above its limits (NVMe log page 0xD0).
//!
//! Where nobody says it, the limit is inferred from the ladder ([`saturated`]).
//!
//! A spindle has no such number, but one arm: random operations that wait in line for it keep it busy all the time, and
//! then its rate is one over the time that it takes for one of them, however many wait.

mod saturated;

use super::partial_stripe;
use crate::estimate::{median, middle};
use crate::evidence::{Check, Evidence, Unit, evidence, share_is};
use crate::facts::Facts;
use crate::facts::case::Case;
use crate::facts::exceeded::{EXCEEDED, longest_exceeded};
use crate::facts::rungs::NO_GAIN;
use crate::facts::served::SERVED_AT_ONCE;
use crate::facts::standing::{AT_DEVICES, BUSY};
use crate::facts::usage::{Counted, LimitUse, NEAR, REACHED};
use crate::judged::{Absent, Basis, Judged, Verdict, VerdictKind};
use ebbtide_model::units::{Bytes, format_latency};
use ebbtide_model::workload::Access;

/// Share of the stretches at a limit, from which on the one that lasts is told when both that and the burst rate were met:
/// one that straddles the step may be either.
const LASTING: f64 = 0.10;
/// Random operations in flight at a spindle from which on its arm is taken to work all the time: one is served, and another
/// waits. Hits of a cache in front of the arm take part of them, so it is more than the 1 of a queue that never empties.
pub const IN_LINE: f64 = 2.0;

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("use of the working members' limits, weighted by bytes", NEAR, Unit::Share, "from 95% on it is certain"),
    Check::at_least("or: share of the time above its limit that a volume reports", EXCEEDED, Unit::Share, "less is a moment"),
    Check::at_least("or: random operations in flight at each spindle", IN_LINE, Unit::Operations, "its arm works all the time"),
    Check::below("or inferred: rate with twice as many in flight over that with as many", NO_GAIN, Unit::Times, "short runs vary by some percent"),
    Check::at_least("and busy share of the least busy member's device", BUSY, Unit::Share, "it has no time to spare"),
    Check::at_least("and share of the operations in flight that are at the devices", AT_DEVICES, Unit::Share, "what waits above waits for something else"),
];

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let found = by_limits(case, facts).or_else(|| by_report(case)).or_else(|| by_arm(case, facts));
    found.map_or_else(|| saturated::judge(case, facts), Ok).map_err(|saturated| match facts.met {
        Some(met) => Absent::because(if met >= NEAR && facts.served_at_once(case) {
            SERVED_AT_ONCE
        } else {
            "the working members are below their known limits"
        })
        .seen("use of their limits, weighted by bytes", met, Unit::Share, NEAR),
        None => Absent {
            why: format!("no limit of a working member is known or reported, and {}", saturated.why),
            ..saturated
        },
    })
}

fn by_limits(case: &Case<'_>, facts: &Facts<'_>) -> Option<Verdict> {
    let met = facts.met.filter(|met| *met >= NEAR && !facts.served_at_once(case))?;
    let members = &case.result.members;
    let each = members.iter().enumerate();
    let full: Vec<AtLimit<'_>> =
        each.filter_map(|(index, member)| at_limit(facts, index, &member.name)).collect();
    let first = full.first()?;
    let mut rate = first.counted.unit().rate_in_words(first.limit);
    if let Some(lasts) = first.lasts {
        rate.push_str(&format!(
            " while its credits last ({} is what lasts)",
            first.counted.unit().rate_in_words(lasts)
        ));
    }
    // How many members work at one time, on average over the stretches: the inverse of the sum of squared shares is n for n equal
    // members, 1 for one.
    let at_a_time = median(facts.stretches.iter().filter_map(|stretches| {
        median(stretches.iter().map(|stretch| {
            let squares: f64 = stretch.iter().map(|m| m.share * m.share).sum();
            if squares > 0.0 { 1.0 / squares } else { 0.0 }
        }))
    }))?;
    let sentence = if members.len() > 1 && at_a_time < 1.5 {
        format!(
            "one member works at a time ({} of {} in these trials) and is at its limit of {rate}; the others wait: a \
             layout that uses all members at once would be faster",
            full.len(),
            members.len()
        )
    } else if full.len() < members.len() {
        format!(
            "{} of {} members are at their limit ({rate} for {}) and the others wait for them: faster ones \
             in their place would raise this{}",
            full.len(),
            members.len(),
            first.name,
            whole_stripes(case)
        )
    } else if members.len() > 1 {
        format!(
            "{0} of {0} members are at their limit ({rate} for {1}): only more or faster volumes would raise this",
            members.len(),
            first.name
        )
    } else {
        format!("{} is at its limit of {rate}: only more or faster volumes would raise this", first.name)
    };
    let mut figures = vec![share_is("use of the working members' limits, weighted by bytes", met, REACHED)];
    figures.extend(summarised(full));
    let confidence = if met >= REACHED { 0.95 } else { 0.7 };
    let verdict = Verdict::new(VerdictKind::VolumeLimit, confidence, met, sentence, figures);
    Some(verdict.known(Basis::Declared))
}

/// What else would give each member the same: writes of whole stripes, where they are not.
fn whole_stripes(case: &Case<'_>) -> String {
    let writes = case.workload.writes() && case.workload.access == Access::Sequential;
    let stripe = partial_stripe::stripe(&case.design.layout)
        .filter(|stripe| writes && !case.workload.is_multiple_of(*stripe));
    stripe.map_or(String::new(), |stripe| {
        format!(", and so would writes of {} or a multiple of it, aligned to it", Bytes(stripe))
    })
}

/// A member that is at its limit while it works.
struct AtLimit<'a> {
    name: &'a str,
    /// What it did per second of the time in which it was at the limit.
    rate: f64,
    limit: f64,
    counted: Counted,
    /// What lasts, where only credits give that limit.
    lasts: Option<f64>,
}

/// The limit that this member meets in most of the stretches in which it works as much as any other does.
fn at_limit<'a>(facts: &Facts<'_>, index: usize, name: &'a str) -> Option<AtLimit<'a>> {
    let mut uses: Vec<(LimitUse, Counted)> = Vec::new();
    for stretch in facts.stretches.iter().flatten() {
        let busiest = stretch.iter().map(|m| m.share).fold(0.0, f64::max);
        let working = stretch.get(index).filter(|m| m.share > 0.0 && 2.0 * m.share >= busiest);
        uses.extend(working.and_then(|member| member.used.fullest()));
    }
    median(uses.iter().map(|(used, _)| used.share)).filter(|share| *share >= NEAR)?;
    uses.retain(|(used, _)| used.share >= NEAR);
    // The limit that lasts is this rule's; what credits gave before they ran out is for `burst` to tell.
    let lasting = uses.iter().filter(|(used, _)| !used.burst()).count();
    let burst = (lasting as f64) < LASTING * uses.len() as f64;
    uses.retain(|(used, _)| used.burst() == burst);
    let iops = uses.iter().filter(|(_, counted)| *counted == Counted::Operations).count();
    let counted = if 2 * iops > uses.len() { Counted::Operations } else { Counted::Bytes };
    uses.retain(|(_, of)| *of == counted);
    let LimitUse { limit, lasts, .. } = uses.first()?.0;
    let lasts = burst.then_some(lasts);
    let rate = middle(uses.iter().map(|(used, _)| used.rate).collect())?;
    Some(AtLimit { name, rate, limit, counted, lasts })
}

/// A figure for each member; of three or more with the same limit, the lowest and the highest.
fn summarised(members: Vec<AtLimit<'_>>) -> Vec<Evidence> {
    let mut alike: Vec<Vec<AtLimit<'_>>> = Vec::new();
    for member in members {
        let same = |group: &&mut Vec<AtLimit<'_>>| {
            group.first().is_some_and(|first| first.limit == member.limit && first.counted == member.counted)
        };
        match alike.iter_mut().find(same) {
            Some(group) => group.push(member),
            None => alike.push(vec![member]),
        }
    }
    let figure = |member: &AtLimit<'_>, who: String| {
        let what = format!("rate of {who} while it worked, against its limit");
        evidence(what, member.rate, member.counted.unit(), Some(member.limit))
    };
    alike
        .into_iter()
        .flat_map(|mut group| {
            let number = group.len();
            if number < 3 {
                return group.iter().map(|member| figure(member, member.name.to_owned())).collect();
            }
            group.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            match (group.first(), group.last()) {
                (Some(slowest), Some(fastest)) if slowest.rate < fastest.rate => vec![
                    figure(slowest, format!("{}, the slowest of {number} members,", slowest.name)),
                    figure(fastest, format!("{}, the fastest of {number} members,", fastest.name)),
                ],
                (first, _) => {
                    first.map(|m| figure(m, format!("each of {number} members"))).into_iter().collect()
                }
            }
        })
        .collect()
}

fn by_report(case: &Case<'_>) -> Option<Verdict> {
    let limits =
        longest_exceeded(case, [("IOPS", |e| e.volume_iops), ("throughput", |e| e.volume_throughput)]);
    let (what, longest) = limits?;
    let sentence = format!(
        "a volume reports that demand was above its {what} limit for {:.0}% of the time{}",
        longest.share * 100.0,
        longest.stretch()
    );
    let figures = longest.evidence("volume's");
    Some(Verdict::new(VerdictKind::VolumeLimit, 0.9, longest.share, sentence, figures).known(Basis::Reported))
}

/// Spindles with operations waiting in line. Whether a volume is one is known from its shape or type only: what virtual
/// disks say of their rotation is no evidence.
fn by_arm(case: &Case<'_>, facts: &Facts<'_>) -> Option<Verdict> {
    let spindle = |name: &str| case.shape(name).is_some_and(|shape| shape.character.seek.is_some());
    let working: Vec<_> = case.working().collect();
    let in_line = working
        .iter()
        .map(|m| m.in_flight.filter(|_| spindle(&m.name)).unwrap_or(0.0))
        .min_by(f64::total_cmp)
        .filter(|least| *least >= IN_LINE)?;
    // A disk that was seen to idle is none whose arm works all the time.
    let idles = facts.devices.is_some_and(|at| at.least_busy < BUSY);
    if case.workload.access != Access::Random || !case.workload.direct || idles || facts.limited_above() {
        return None;
    }
    let slowest = working.iter().min_by(|a, b| a.iops.total_cmp(&b.iops))?;
    let each = 1e9 / slowest.iops;
    let who = match working.len() {
        1 => format!("{} is a spindle: its arm works", slowest.name),
        n => format!("all {n} members are spindles: their arms work"),
    };
    let sentence = format!(
        "{who} all the time, {} for each operation, while others wait in line: more operations in flight would only wait longer; more volumes would raise the rate",
        format_latency(each)
    );
    let what = "operations in flight at a member, the least of them";
    let figures = vec![
        evidence(what, in_line, Unit::Operations, Some(IN_LINE)),
        evidence("time per operation of the slowest member", each, Unit::Nanoseconds, None),
    ];
    let verdict = Verdict::new(VerdictKind::VolumeLimit, 0.8, 0.9, sentence, figures);
    Some(verdict.known(Basis::Declared))
}

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

use super::*;
use crate::estimate::middle;
use crate::facts::exceeded::{EXCEEDED, longest_exceeded};
use crate::facts::rungs::NO_GAIN;
use crate::facts::served::SERVED_AT_ONCE;
use crate::facts::standing::{AT_DEVICES, BUSY};
use crate::facts::usage::{Counted, LimitUse, NEAR, REACHED};
use ebbtide_model::units::{Bytes, format_latency};
use ebbtide_model::workload::Access;

checks! {
    USED: at_least("use of the working members' limits, weighted by bytes", NEAR, Share, "from 95% on it is certain");
    REPORTED: at_least("or: share of the time above its limit that a volume reports", EXCEEDED, Share, "less is a moment");
    // One is served, and another waits; hits of a cache in front of the arm take part of them, so it is more than the 1 of a queue that never empties.
    IN_LINE: at_least("or: random operations in flight at each spindle", 2.0, Operations, "its arm works all the time");
    FLAT: below("or inferred: rate with twice as many in flight over that with as many", NO_GAIN, Times, "short runs vary by some percent");
    WORKS: at_least("and busy share of the least busy member's device", BUSY, Share, "it has no time to spare");
    THERE: at_least("and share of the operations in flight that are at the devices", AT_DEVICES, Share, "what waits above waits for something else");
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let found = by_limits(case, facts).or_else(|| by_report(case)).or_else(|| by_arm(case, facts));
    found.map_or_else(|| saturated::judge(case, facts), Ok).map_err(|saturated| match facts.met {
        Some(met) => Absent::because(match USED.holds(met) && facts.served_at_once(case) {
            true => SERVED_AT_ONCE,
            false => "the working members are below their known limits",
        })
        .with([USED.missed(met)]),
        None => Absent {
            why: format!("no limit of a working member is known or reported, and {}", saturated.why),
            ..saturated
        },
    })
}

/// Writes of whole stripes give each member the same.
fn whole_stripes(case: &Case<'_>) -> String {
    let writes = case.workload.writes() && case.workload.access == Access::Sequential;
    let stripe = partial_stripe::stripe(&case.design.layout);
    stripe.filter(|stripe| writes && !case.workload.is_multiple_of(*stripe)).map_or(String::new(), |stripe| {
        format!(", and so would writes of {} or a multiple of it, aligned to it", Bytes(stripe))
    })
}

fn by_limits(case: &Case<'_>, facts: &Facts<'_>) -> Option<Verdict> {
    let met = facts.met.filter(|met| USED.holds(*met) && !facts.served_at_once(case))?;
    let members = &case.result.members;
    let each = members.iter().enumerate();
    let full: Vec<AtLimit<'_>> =
        each.filter_map(|(index, member)| at_limit(facts, index, &member.name)).collect();
    let AtLimit { name, used, counted } = full.first()?;
    let mut rate = counted.unit().rate_in_words(used.limit);
    if used.burst() {
        let lasts = counted.unit().rate_in_words(used.lasts);
        rate.push_str(&format!(" while its credits last ({lasts} is what lasts)"));
    }
    // How many members work at one time, on average over the stretches: the inverse of the sum of squared shares is n for n equal
    // members, 1 for one.
    let at_a_time = median(facts.stretches.iter().flatten().filter_map(|stretch| {
        let squares: f64 = stretch.iter().map(|m| m.share * m.share).sum();
        (squares > 0.0).then(|| 1.0 / squares)
    }))?;
    let (at_limit, all) = (full.len(), members.len());
    // What else would is said by the causes that lie deeper, and by designs that use the same volumes otherwise.
    let raise = "more or faster volumes would raise this";
    let sentence = if all == 1 {
        format!("{name} is at its limit of {rate}: {raise}")
    } else if at_a_time < 1.5 {
        format!(
            "one member works at a time ({at_limit} of {all} in these trials) and is at its limit of {rate}; the others wait: a \
             layout that uses all members at once would be faster"
        )
    } else if at_limit < all {
        format!(
            "{at_limit} of {all} members are at their limit ({rate} for {name}) and the others wait for them: faster ones \
             in their place would raise this{}",
            whole_stripes(case)
        )
    } else {
        format!("{all} of {all} members are at their limit ({rate} for {name}): {raise}")
    };
    let what = format!("rate of {name} while it worked, against its limit");
    let figures = vec![USED.figure(met), evidence(what, used.rate, counted.unit(), Some(used.limit))];
    let sure = if met >= REACHED { Sure::Certain } else { Sure::Possible };
    let verdict = Verdict::new(VerdictKind::VolumeLimit, sure, met, sentence, figures);
    Some(verdict.known(Basis::Declared))
}

/// A member that is at its limit while it works.
pub(super) struct AtLimit<'a> {
    name: &'a str,
    pub(super) used: LimitUse,
    pub(super) counted: Counted,
}

/// The limit that this member meets in most of the stretches in which it works as much as any other does.
pub(super) fn at_limit<'a>(facts: &Facts<'_>, index: usize, name: &'a str) -> Option<AtLimit<'a>> {
    let mut uses: Vec<(LimitUse, Counted)> = Vec::new();
    for stretch in facts.stretches.iter().flatten() {
        let busiest = stretch.iter().map(|m| m.share).fold(0.0, f64::max);
        let working = stretch.get(index).filter(|m| m.share > 0.0 && 2.0 * m.share >= busiest);
        uses.extend(working.and_then(|member| member.used.fullest()));
    }
    median(uses.iter().map(|(used, _)| used.share)).filter(|share| *share >= NEAR)?;
    uses.retain(|(used, _)| used.share >= NEAR);
    // What credits gave before they ran out is for `burst` to tell.
    let burst = uses.iter().all(|(used, _)| used.burst());
    let iops = uses.iter().filter(|(_, counted)| *counted == Counted::Operations).count();
    let counted = if 2 * iops > uses.len() { Counted::Operations } else { Counted::Bytes };
    uses.retain(|(used, of)| *of == counted && used.burst() == burst);
    let rate = middle(uses.iter().map(|(used, _)| used.rate).collect())?;
    Some(AtLimit { name, used: LimitUse { rate, ..uses.first()?.0 }, counted })
}

fn by_report(case: &Case<'_>) -> Option<Verdict> {
    let limits =
        longest_exceeded(case, [("IOPS", |e| e.volume_iops), ("throughput", |e| e.volume_throughput)]);
    let (what, share, when) = limits?;
    let percent = share * 100.0;
    let sentence = format!(
        "a volume reports that demand was above its {what} limit for {percent:.0}% of the time{when}"
    );
    let figures = vec![REPORTED.figure(share)];
    let verdict = Verdict::new(VerdictKind::VolumeLimit, Sure::Certain, share, sentence, figures);
    Some(verdict.known(Basis::Reported))
}

/// Spindles with operations waiting in line. Whether a volume is one is known from its shape or type only: what virtual
/// disks say of their rotation is no evidence.
fn by_arm(case: &Case<'_>, facts: &Facts<'_>) -> Option<Verdict> {
    let spindle = |name: &str| case.shape(name).is_some_and(|shape| shape.character.seek.is_some());
    let in_line = case.working().map(|m| m.in_flight.filter(|_| spindle(&m.name)).unwrap_or(0.0));
    let in_line = in_line.reduce(f64::min).filter(|least| IN_LINE.holds(*least))?;
    // A disk that was seen to idle is none whose arm works all the time.
    let idles = facts.devices.is_some_and(|at| at.least_busy < BUSY);
    if case.workload.access != Access::Random || !case.workload.direct || idles || facts.limited_above() {
        return None;
    }
    let slowest = case.working().min_by(|a, b| a.iops.total_cmp(&b.iops))?;
    let each = 1e9 / slowest.iops;
    let sentence = format!(
        "the arm of each spindle works all the time, {} for each operation, while others wait in line: more operations in flight would \
         only wait longer; more volumes would raise the rate",
        format_latency(each)
    );
    let what = "time per operation of the slowest member";
    let figures = vec![IN_LINE.figure(in_line), evidence(what, each, Unit::Nanoseconds, None)];
    let verdict = Verdict::new(VerdictKind::VolumeLimit, Sure::Likely, 0.9, sentence, figures);
    Some(verdict.known(Basis::Declared))
}

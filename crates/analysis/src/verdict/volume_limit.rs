//! `volume-limit`: the working members are at their own limits.
//!
//! Derivation. A volume that grants `L` operations (or bytes) per second cannot be made to do more by any layout
//! above it. When every byte went through a member that used nearly all of its `L`, the array's rate is the
//! sum of the limits of the members that worked, and nothing but more or faster volumes (or, for a
//! linear array, a layout that works all of them) raises it. Known limits are those of the volume's shape or
//! type; an EBS volume also reports the time it spent above its limits (NVMe log page 0xD0).
//!
//! Where nobody says it, the limit is inferred from the ladder ([`saturated`](super::saturated)).
//!
//! A spindle has no such number, but one arm: random operations that wait in line for it keep it busy all the time, and
//! then its rate is one over the time that it takes for one of them, however many wait.

use super::exceeded::longest_exceeded;
use super::usage::{self, Against, Resource};
use super::{Absent, Case, Judged, Rule, evidence, group_limit, limited_above, saturated};
use crate::estimate::median;
use crate::{Basis, Evidence, Verdict, VerdictKind};
use ebbtide_model::units::{format_iops, format_latency, format_throughput};
use ebbtide_model::workload::Access;

/// Use of the limits that counts as reached. A shaped volume holds its limit within 3% over 10 s, and up to two
/// more points go to the edges of a measurement of a second.
pub const REACHED: f64 = 0.95;
/// Between this and [`REACHED`] the limit is near: asserted with less confidence.
pub const NEAR: f64 = 0.90;
/// Share of the stretches at a limit, from which on the one that lasts is told when both that and the burst rate were met:
/// one that straddles the step may be either.
const LASTING: f64 = 0.10;
/// Random operations in flight at a spindle from which on its arm is taken to work all the time: one is served, and another
/// waits. Hits of a cache in front of the arm take part of them, so it is more than the 1 of a queue that never empties.
pub const IN_LINE: f64 = 2.0;

/// The figure by which the use of the limits keeps another cause from being asserted.
pub(super) const MET_BELOW: &str = "use of the working members' limits, which would have to be below";

/// Has another rule yield to this one where the working members are at their limits, or at those that a control group sets
/// them; `why` it does.
pub(super) fn yield_to(case: &Case<'_>, why: &str) -> Result<(), Absent> {
    yield_to_volumes(case, why)?;
    match group_limit::reached(case).as_deref() {
        Some([first, ..]) => Err(Absent::yields(VerdictKind::RateLimit, why).seen(
            &format!("{MET_BELOW}, of that of the control group on {}", first.device),
            first.share(),
            "share",
            NEAR,
        )),
        _ => Ok(()),
    }
}

/// The same of the volumes' own limits only.
pub(super) fn yield_to_volumes(case: &Case<'_>, why: &str) -> Result<(), Absent> {
    match usage::met(case).filter(|met| *met >= NEAR) {
        Some(met) => Err(Absent::yields(VerdictKind::VolumeLimit, why).seen(MET_BELOW, met, "share", NEAR)),
        None => Ok(()),
    }
}

#[derive(Debug)]
pub struct VolumeLimit;

impl Rule for VolumeLimit {
    fn kind(&self) -> VerdictKind {
        VerdictKind::VolumeLimit
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let found = by_limits(case).or_else(|| by_report(case)).or_else(|| by_arm(case));
        found.map_or_else(|| saturated::judge(case), Ok).map_err(|saturated| match usage::met(case) {
            Some(met) => Absent::because("the working members are below their known limits").seen(
                "use of their limits, weighted by bytes",
                met,
                "share",
                NEAR,
            ),
            None => Absent {
                why: format!("no limit of a working member is known or reported, and {}", saturated.why),
                ..saturated
            },
        })
    }
}

fn by_limits(case: &Case<'_>) -> Option<Verdict> {
    let met = usage::met(case).filter(|met| *met >= NEAR)?;
    let members = &case.result.members;
    let full: Vec<AtLimit<'_>> = members
        .iter()
        .enumerate()
        .filter_map(|(index, member)| at_limit(case, index, &member.name))
        .collect();
    let first = full.first()?;
    let mut rate = match first.resource {
        Resource::Iops => format!("{} operations/s", format_iops(first.limit)),
        Resource::Bytes => format_throughput(first.limit),
    };
    if first.burst {
        rate.push_str(" while its credits last");
    }
    // How many members work at one time, on average over the stretches.
    let at_a_time = case.median(|trial| {
        let counts: Vec<f64> = usage::by_stretch(case, trial)
            .iter()
            .map(|stretch| {
                // The inverse of the sum of squared shares: n for n equal members, 1 for one.
                let squares: f64 = stretch.iter().map(|m| m.share * m.share).sum();
                if squares > 0.0 { 1.0 / squares } else { 0.0 }
            })
            .collect();
        median(&counts)
    })?;
    let sentence = if members.len() > 1 && at_a_time < 1.5 {
        format!(
            "one member works at a time ({} of {} in these trials) and is at its limit of {rate}; the others wait: a \
             layout that works all members at once would be faster",
            full.len(),
            members.len()
        )
    } else if members.len() > 1 {
        format!(
            "{} of {} members are at their limit ({rate} for {}): only more or faster volumes raise this",
            full.len(),
            members.len(),
            first.name
        )
    } else {
        format!("{} is at its limit of {rate}: only more or faster volumes raise this", first.name)
    };
    let mut evidence: Vec<Evidence> =
        vec![evidence("use of the working members' limits, weighted by bytes", met, "share", Some(REACHED))];
    evidence.extend(summarised(full));
    Some(Verdict {
        kind: VerdictKind::VolumeLimit,
        basis: Some(Basis::Declared),
        confidence: if met >= REACHED { 0.95 } else { 0.7 },
        explains: met.min(1.0),
        sentence,
        evidence,
    })
}

/// A member that is at its limit while it works.
struct AtLimit<'a> {
    name: &'a str,
    /// What it did per second of the time in which it was at the limit.
    rate: f64,
    limit: f64,
    resource: Resource,
    /// Whether that is a limit that only credits give.
    burst: bool,
}

/// The limit that this member meets in most of the stretches in which it works as much as any other does.
fn at_limit<'a>(case: &Case<'_>, index: usize, name: &'a str) -> Option<AtLimit<'a>> {
    let mut uses: Vec<(Against, Resource)> = Vec::new();
    for trial in case.trials {
        for stretch in usage::by_stretch(case, trial) {
            let busiest = stretch.iter().map(|m| m.share).fold(0.0, f64::max);
            let working = stretch.get(index).filter(|m| m.share > 0.0 && 2.0 * m.share >= busiest);
            uses.extend(working.and_then(|member| member.used.fullest()));
        }
    }
    let shares: Vec<f64> = uses.iter().map(|(used, _)| used.share).collect();
    median(&shares).filter(|share| *share >= NEAR)?;
    uses.retain(|(used, _)| used.share >= NEAR);
    // The limit that lasts is this rule's; what credits gave before they ran out is for `burst` to tell.
    let lasting = uses.iter().filter(|(used, _)| !used.burst).count();
    let burst = (lasting as f64) < LASTING * uses.len() as f64;
    uses.retain(|(used, _)| used.burst == burst);
    let iops = uses.iter().filter(|(_, resource)| *resource == Resource::Iops).count();
    let resource = if 2 * iops > uses.len() { Resource::Iops } else { Resource::Bytes };
    uses.retain(|(_, of)| *of == resource);
    let limit = uses.first()?.0.limit;
    let rate = usage::middle(uses.iter().map(|(used, _)| used.rate).collect())?;
    Some(AtLimit { name, rate, limit, resource, burst })
}

/// A figure for each member; of three or more with the same limit, the lowest and the highest.
fn summarised(members: Vec<AtLimit<'_>>) -> Vec<Evidence> {
    let mut alike: Vec<Vec<AtLimit<'_>>> = Vec::new();
    for member in members {
        let same = |group: &&mut Vec<AtLimit<'_>>| {
            group
                .first()
                .is_some_and(|first| first.limit == member.limit && first.resource == member.resource)
        };
        match alike.iter_mut().find(same) {
            Some(group) => group.push(member),
            None => alike.push(vec![member]),
        }
    }
    let figure = |member: &AtLimit<'_>, who: String| {
        evidence(
            &format!("rate of {who} while it worked, against its limit"),
            member.rate,
            if member.resource == Resource::Iops { "ops/s" } else { "bytes/s" },
            Some(member.limit),
        )
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
    Some(Verdict {
        kind: VerdictKind::VolumeLimit,
        basis: Some(Basis::Reported),
        confidence: 0.9,
        explains: longest.share.min(1.0),
        sentence: format!(
            "a volume reports that demand was above its {what} limit for {:.0}% of the time{}",
            longest.share * 100.0,
            longest.stretch()
        ),
        evidence: longest.evidence("volume's"),
    })
}

/// Spindles with operations waiting in line. Whether a volume is one is known from its shape or type only: what virtual
/// disks say of their rotation is no evidence.
fn by_arm(case: &Case<'_>) -> Option<Verdict> {
    let spindle = |name: &str| {
        case.volume(name).and_then(|v| v.shape.as_ref()).is_some_and(|shape| shape.character.seek.is_some())
    };
    let working: Vec<_> = case.result.members.iter().filter(|m| m.iops > 0.0).collect();
    let in_line = working
        .iter()
        .map(|m| m.in_flight.filter(|_| spindle(&m.name)).unwrap_or(0.0))
        .min_by(f64::total_cmp)
        .filter(|least| *least >= IN_LINE)?;
    if case.workload.access != Access::Random || !case.workload.direct || limited_above(case) {
        return None;
    }
    let slowest = working.iter().min_by(|a, b| a.iops.total_cmp(&b.iops))?;
    let each = 1e9 / slowest.iops;
    let who = match working.len() {
        1 => format!("{} is a spindle: its arm works", slowest.name),
        n => format!("all {n} members are spindles: their arms work"),
    };
    Some(Verdict {
        kind: VerdictKind::VolumeLimit,
        basis: Some(Basis::Declared),
        confidence: 0.8,
        explains: 0.9,
        sentence: format!(
            "{who} all the time, {} for each operation, while others wait in line: more in flight would only wait longer, more \
             volumes raise this",
            format_latency(each)
        ),
        evidence: vec![
            evidence(
                "operations in flight at a member, the least of them",
                in_line,
                "operations",
                Some(IN_LINE),
            ),
            evidence("time per operation of the slowest member", each, "ns", None),
        ],
    })
}

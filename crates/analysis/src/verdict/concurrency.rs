//! `concurrency`: too few operations in flight.
//!
//! Derivation (Little's law): in a closed loop of `N` operations in flight, the rate is `N / latency`. While
//! latency is no more than the members need for one operation alone (their floor), no operation waits for
//! another, and twice the `N` gives twice the rate. When latency is well above the floor, operations already
//! wait, and more of them would wait longer. Behind a far-end cache the floor depends on what it holds; but when the
//! slowest operations take what one that misses it takes alone, none of them waited. Where nothing is known of the
//! floor there are two weaker grounds: members of a parallel layout that are idle because there are fewer operations
//! than members, and `N = 1`, at which nothing can wait for anything.
//!
//! After the last trial the same runs for a moment with twice and four times the operations in flight (the ladder): that
//! settles whether more of them help, and shows it where nothing else does.

use super::member::SlowMember;
use super::rungs::{More, Rungs};
use super::sync_writes::SyncWrites;
use super::{Absent, Case, Judged, Rule, cpu, evidence, limited_above, remote, shared_device, volume_limit};
use crate::ladder::in_flight;
use crate::members;
use crate::{ArrayBelow, Evidence, Verdict, VerdictKind};
use ebbtide_model::layout::{ArrayKind, LayoutNode};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::{Join, TrialSamples};
use ebbtide_model::units::format_latency;

/// Floor over mean latency from which on operations do not wait: at most 30% of the latency is waiting, and
/// the tool's own share of a latency of 100 us is already 10 to 20%.
pub const FLOOR_SHARE: f64 = 0.70;
/// Operations in flight per member below which members are idle for want of work.
pub const IDLE_MEMBERS: f64 = 0.75;

/// Rate with twice the operations in flight over that with as many below which they did not help; twice that for four times
/// as many. Double the rate is what Little's law promises; a probe of half a second varies by some percent.
pub const NO_GAIN: f64 = 1.10;
/// From this on it did, beyond doubt: half of what is promised.
pub const GAIN: f64 = 1.50;
/// From this on more in flight are a cause by themselves, where nothing is known of what one operation alone takes.
pub const MORE: f64 = 1.25;

/// Confidence of grounds that hold against a ladder that says nothing.
const SURE: f64 = 0.8;

#[derive(Debug)]
pub struct Concurrency;

/// Operations in flight that a closed loop keeps; `None` for open loops and loops that a rate or a pause
/// holds back.
fn kept_in_flight(case: &Case<'_>) -> Option<f64> {
    case.workload.is_free().then(|| f64::from(in_flight(case.workload)))
}

/// Mean latency of the members' operations and the floor of a typical member, in nanoseconds, for one trial; `None`
/// when the floor of a working member is unknown. The floor is the median over the members: what a slow
/// member needs beyond its siblings is its fault ([`member`](super::member)), not want of operations.
pub(super) fn latency_and_floor(case: &Case<'_>, trial: &TrialSamples) -> Option<(f64, f64)> {
    let (mut latency_sum, mut all_ops, mut floors) = (0.0, 0u64, Vec::new());
    for member in &trial.members {
        let (ops, _) = members::totals(member);
        if ops == 0 {
            continue;
        }
        let observed =
            trial.observed.as_ref().and_then(|o| o.members.iter().find(|m| m.member == member.name));
        let shape = case.volume(&member.name).and_then(|volume| volume.shape.as_ref());
        // A spindle's or a far cache's floor depends on where the operation goes.
        let shape = shape.filter(|s| s.character.seek.is_none() && s.character.cache.is_none());
        floors.push(match (observed.and_then(|m| m.floor), shape) {
            (Some(floor), _) => floor.0 as f64,
            (None, Some(shape)) => {
                let reads = member.ops.read.count.ops as f64 / ops as f64;
                shape.read_latency.mean() * reads + shape.write_latency.mean() * (1.0 - reads)
            }
            (None, None) => return None,
        });
        latency_sum += members::latency(member).sum() as f64;
        all_ops += ops;
    }
    let floor = crate::estimate::median(&floors).filter(|floor| *floor > 0.0)?;
    Some((latency_sum / all_ops as f64, floor))
}

/// [`latency_and_floor`] of the case: the median over its trials of each.
pub(super) fn latency_over_floor(case: &Case<'_>) -> Option<(f64, f64)> {
    let of = |value: fn((f64, f64)) -> f64| case.median(|t| latency_and_floor(case, t).map(value));
    of(|(latency, _)| latency).zip(of(|(_, floor)| floor))
}

/// What an operation takes that misses the far-end cache, in nanoseconds, of the slowest working member; `None` where one of
/// them has no such cache, or an arm.
fn miss(case: &Case<'_>) -> Option<f64> {
    let mut slowest = 0.0_f64;
    for member in case.result.members.iter().filter(|m| m.iops > 0.0) {
        let shape = case.volume(&member.name)?.shape.as_ref()?;
        if shape.character.cache.is_none() || shape.character.seek.is_some() {
            return None;
        }
        if case.workload.reads() {
            slowest = slowest.max(shape.read_latency.mean());
        }
        if case.workload.writes() {
            slowest = slowest.max(shape.write_latency.mean());
        }
    }
    (slowest > 0.0).then_some(slowest)
}

/// Whether the layout works its members at once.
pub(super) fn parallel(node: &LayoutNode) -> bool {
    match node {
        LayoutNode::Volume(_) => false,
        LayoutNode::Array { kind: ArrayKind::Linear, members } => members.iter().any(parallel),
        LayoutNode::Array { members, .. } => members.len() > 1,
    }
}

impl Rule for Concurrency {
    fn kind(&self) -> VerdictKind {
        VerdictKind::Concurrency
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let kept = kept_in_flight(case).ok_or_else(|| {
            Absent::because(
                "operations come at times of their own: the workload keeps no number of them in flight",
            )
        })?;
        volume_limit::yield_to(case, "more in flight would only wait longer")?;
        if SyncWrites.judge(case).is_ok() {
            return Err(Absent::yields(
                VerdictKind::SyncWrites,
                "it says what the one at a time consists of",
            ));
        }
        if let Some(busy) = cpu::pressed(case).filter(|busy| *busy >= cpu::THREAD_BUSY) {
            let what = "share of the time that the least idle load thread ran or waited to, which would have to be below";
            let why = "a load thread has little time left, of which latency may consist";
            return Err(Absent::because(why).seen(what, busy, "share", cpu::THREAD_BUSY));
        }
        if !case.workload.direct {
            let why = "through the page cache the kernel decides what is in flight at the volumes";
            return Err(Absent::because(why));
        }
        if remote::RemoteQueue.judge(case).is_ok() {
            return Err(Absent::yields(VerdictKind::RemoteQueue, "more in flight would wait at the client"));
        }
        let iops = case.result.metric(Metric::Iops).map(|estimate| estimate.median);
        let iops = iops.ok_or_else(|| Absent::because("no rate was measured"))?;
        let mut evidence_list = vec![
            evidence("operations in flight", kept, "operations", None),
            evidence("operations per second", iops, "ops/s", None),
        ];
        let rungs = Rungs::of(case);
        let base = rungs.as_ref().map_or(iops, |rungs| rungs.base);
        let floor = latency_over_floor(case);
        let mut by_ladder = false;
        let (explains, mut confidence, mut sentence) = if let Some((latency, floor)) =
            floor.filter(|(latency, floor)| *floor >= FLOOR_SHARE * latency)
        {
            evidence_list.push(evidence(
                "mean latency of the members, against what one operation alone takes",
                latency,
                "ns",
                Some(floor),
            ));
            let sentence = format!(
                "{} in flight do{} not fill the array: each takes {} where one alone takes {}, so none \
                 waits; a larger iodepth or more jobs raise the rate",
                operations(kept),
                if kept == 1.0 { "es" } else { "" },
                format_latency(latency),
                format_latency(floor)
            );
            ((floor / latency).min(1.0), 0.9, sentence)
        } else {
            far_misses(case, kept, &mut evidence_list)
                .or_else(|| idle_members(case, kept, &mut evidence_list))
                // Where the floor is known, something makes this one operation wait that is not another.
                .or_else(|| floor.is_none().then(|| one_at_a_time(case, kept)).flatten())
                .or_else(|| {
                    by_ladder = true;
                    more_helped(case, rungs.as_ref()?, kept)
                })
                .ok_or_else(|| waiting(case, floor))?
        };
        if let Some(more) = rungs.as_ref().and_then(|rungs| rungs.more(NO_GAIN)) {
            let (step, gain) = more.seen();
            let in_flight = step.rung.in_flight;
            // What is known of one operation alone holds unless the ladder says otherwise; the other grounds need it.
            let sure = confidence >= SURE;
            if matches!(more, More::Flat(..)) || (!sure && matches!(more, More::Unclear(..))) {
                let why =
                    "a short probe at the end of the session withdrew it: more in flight gave hardly more";
                let what =
                    format!("rate with {in_flight} in flight instead of {kept:.0}, over that with as many");
                return Err(Absent::because(why).seen(&what, gain, "times", NO_GAIN));
            }
            let what = format!("operations per second with {in_flight} in flight, in a short probe");
            evidence_list.push(evidence(&what, step.ops.rate, "ops/s", Some(base)));
            if matches!(more, More::Helped(..)) && gain >= GAIN {
                confidence = f64::max(confidence, 0.95);
                if !by_ladder {
                    sentence.push_str(&format!(
                        "; a short probe with {in_flight} in flight had {gain:.1} times the rate"
                    ));
                }
            }
        }
        if let Some((clause, figures)) = remote::round_trips(case, kept) {
            sentence.push_str(&clause);
            evidence_list.extend(figures);
        }
        // What an operation waits for a processor is none of what the array takes for it.
        let explains = explains * (1.0 - cpu::waited(case).unwrap_or(0.0));
        Ok(Verdict {
            kind: VerdictKind::Concurrency,
            basis: None,
            confidence,
            explains,
            sentence,
            evidence: evidence_list,
        })
    }
}

/// Why none of the grounds holds.
fn waiting(case: &Case<'_>, floor: Option<(f64, f64)>) -> Absent {
    let per_member = per_working_member(case);
    let idle = per_member.is_some_and(|each| each < IDLE_MEMBERS) && works_at_once(case);
    let why = if !idle {
        let alone = kept_in_flight(case) == Some(1.0);
        Absent::because(if alone {
            "one operation at a time takes longer than it has to: something else makes it wait"
        } else {
            "operations wait, and the members have enough of them"
        })
    } else if shared_device::shared(case).is_some() {
        Absent::yields(VerdictKind::SharedDevice, "more in flight would not work more disks")
    } else if limited_above(case) {
        Absent::yields(VerdictKind::InstanceLimit, "members idle while operations wait for the link")
    } else {
        Absent::yields(VerdictKind::Member, "members idle while operations wait for a slow one")
    };
    let below = ", which would have to be below";
    why.seen_where_known(
        "what one operation alone takes, of the members' mean latency",
        floor.map(|(latency, floor)| floor / latency),
        "share",
        FLOOR_SHARE,
    )
    .seen_where_known(
        &format!("operations in flight per working member{below}"),
        per_member,
        "operations",
        IDLE_MEMBERS,
    )
}

/// Those that work: how many, and the operations in flight at all of them. Of a single member that is an array of the host,
/// the array's devices.
fn workers(case: &Case<'_>) -> (usize, Option<f64>) {
    let all = |each: &[(f64, Option<f64>)]| {
        let known: Vec<f64> = each.iter().filter_map(|(_, in_flight)| *in_flight).collect();
        let working = each.iter().filter(|(iops, _)| *iops > 0.0).count();
        (working, (!known.is_empty()).then(|| known.iter().sum::<f64>()))
    };
    match array_alone(case) {
        Some(array) => all(&array.devices.iter().map(|d| (d.iops, d.in_flight)).collect::<Vec<_>>()),
        None => all(&case.result.members.iter().map(|m| (m.iops, m.in_flight)).collect::<Vec<_>>()),
    }
}

/// The array that is the design's one member.
fn array_alone<'a>(case: &Case<'a>) -> Option<&'a ArrayBelow> {
    case.result.below.first().filter(|_| case.result.members.len() == 1)
}

/// Whether the layout, or that of the array that is its one member, works its members at once.
fn works_at_once(case: &Case<'_>) -> bool {
    array_alone(case).map_or_else(|| parallel(&case.design.layout), |array| array.join.is_parallel())
}

/// Operations in flight per member that works, where there are several.
fn per_working_member(case: &Case<'_>) -> Option<f64> {
    let (working, in_flight) = workers(case);
    in_flight.filter(|_| working > 1).map(|all| all / working as f64)
}

fn operations(number: f64) -> String {
    format!("{number:.0} operation{}", if number == 1.0 { "" } else { "s" })
}

/// What a reason says: how much of the gap it explains, with which confidence, and its sentence.
type Contribution = (f64, f64, String);

/// The slowest operations take what a miss of the far-end cache takes alone.
fn far_misses(case: &Case<'_>, kept: f64, figures: &mut Vec<Evidence>) -> Option<Contribution> {
    let longest = case.result.metric(Metric::LatP99).map(|p99| p99.median);
    let (longest, miss) = longest
        .zip(miss(case))
        .filter(|(longest, miss)| longest.min(*miss) >= FLOOR_SHARE * longest.max(*miss))?;
    figures.push(evidence("99th percentile of latency, against a miss", longest, "ns", Some(miss)));
    let sentence = format!(
        "{} in flight do{} not fill the array: 99% take at most {} and one alone that misses the \
         volume's cache {}, so none waits; a larger iodepth or more jobs raise the rate",
        operations(kept),
        if kept == 1.0 { "es" } else { "" },
        format_latency(longest),
        format_latency(miss)
    );
    Some(((miss / longest).min(1.0), 0.8, sentence))
}

/// Members of a parallel layout have nothing to do: not where they wait for a slow one among them, for the link or for a
/// thread, or are one disk.
fn idle_members(case: &Case<'_>, kept: f64, figures: &mut Vec<Evidence>) -> Option<Contribution> {
    let (working, _) = workers(case);
    let per_member = per_working_member(case).filter(|each| *each < IDLE_MEMBERS)?;
    let elsewhere =
        || shared_device::shared(case).is_some() || limited_above(case) || SlowMember.judge(case).is_ok();
    if !works_at_once(case) || elsewhere() {
        return None;
    }
    // What the kernel counted at an array's devices is not all: operations that are elsewhere (a cache, a processor) are no
    // want of operations, and one that is written to copies or parity is several.
    if let Some(array) = array_alone(case) {
        let several = case.workload.writes() && !matches!(array.join, Join::Stripe { .. });
        if several || per_member * (working as f64) < FLOOR_SHARE * kept {
            return None;
        }
    }
    figures.push(evidence("operations in flight per working member", per_member, "operations", Some(1.0)));
    let sentence = format!(
        "{} in flight leave{} members idle: {per_member:.2} per member on average; a larger \
         iodepth or more jobs would work all {working}",
        operations(kept),
        if kept == 1.0 { "s" } else { "" },
    );
    Some((1.0 - per_member, 0.7, sentence))
}

/// More in flight had more of them done in the same time, whatever they wait for: but not for a processor, at each of whose
/// turns more of them can be taken care of.
fn more_helped(case: &Case<'_>, rungs: &Rungs<'_>, kept: f64) -> Option<Contribution> {
    let Some(More::Helped(step, gain)) = rungs.more(MORE) else { return None };
    if cpu::Cpu.judge(case).is_ok() {
        return None;
    }
    let sentence = format!(
        "{} in flight do{} not fill the array: more of them have more done, {:.0}% more with {} in flight",
        operations(kept),
        if kept == 1.0 { "es" } else { "" },
        (gain - 1.0) * 100.0,
        step.rung.in_flight
    );
    Some((1.0 - 1.0 / gain, 0.8, sentence))
}

/// With one in flight nothing can wait for anything, but for the arm of a disk that spins.
fn one_at_a_time(case: &Case<'_>, kept: f64) -> Option<Contribution> {
    let spins = case
        .trials
        .iter()
        .filter_map(|t| t.observed.as_ref())
        .any(|o| o.devices.iter().any(|device| device.rotational == Some(true)));
    let sentence =
        "one operation at a time: each waits for the one before it, and the volume is never asked for more";
    (kept == 1.0 && !spins).then(|| (0.5, 0.6, sentence.to_owned()))
}

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
//! Where it is cheap, a session ends with a short probe of the same with twice the operations in flight: it settles
//! whether more of them help.

use super::member::Member;
use super::{Absent, Case, Judged, Rule, cpu, evidence, limited_above, shared_device, volume_limit};
use crate::analysis::members;
use crate::analysis::{Evidence, Metric, Verdict, VerdictKind};
use crate::layout::{ArrayKind, LayoutNode};
use crate::samples::TrialSamples;
use crate::units::{Nanos, format_latency};
use crate::volume::Latency;
use crate::workload::{Arrival, IoEngine};

/// Floor over mean latency from which on operations do not wait: at most 30% of the latency is waiting, and
/// the tool's own share of a latency of 100 us is already 10 to 20%.
pub const FLOOR_SHARE: f64 = 0.70;
/// Operations in flight per member below which members are idle for want of work.
pub const IDLE_MEMBERS: f64 = 0.75;

/// Rate of the probe over that of the trials below which twice the operations in flight did not help. Double the rate
/// is what Little's law promises; a probe of half a second varies by some percent.
pub const NO_GAIN: f64 = 1.10;
/// From this on it did, beyond doubt: half of what is promised.
pub const GAIN: f64 = 1.50;

/// The rule.
#[derive(Debug)]
pub struct Concurrency;

/// Operations in flight that a closed loop keeps; `None` for open loops and loops that a rate or a pause
/// holds back.
fn kept_in_flight(case: &Case<'_>) -> Option<f64> {
    let workload = case.workload;
    let free =
        workload.arrival == Arrival::Closed && workload.rate.is_none() && workload.think_time == Nanos(0);
    let depth = if workload.ioengine == IoEngine::Psync { 1 } else { workload.iodepth };
    free.then(|| f64::from(depth) * f64::from(workload.numjobs))
}

/// Mean of a latency distribution in nanoseconds.
fn mean(latency: &Latency) -> f64 {
    match latency {
        Latency::Constant(value) => value.0 as f64,
        Latency::Lognormal { median, p99 } => {
            // p99 = median * exp(2.3263 sigma), mean = median * exp(sigma^2 / 2).
            let sigma = (p99.0.max(1) as f64 / median.0.max(1) as f64).ln().max(0.0) / 2.326_347_874;
            median.0 as f64 * (sigma * sigma / 2.0).exp()
        }
    }
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
                mean(&shape.read_latency) * reads + mean(&shape.write_latency) * (1.0 - reads)
            }
            (None, None) => return None,
        });
        latency_sum += members::latency(member).sum() as f64;
        all_ops += ops;
    }
    let floor = crate::analysis::estimate::median(&floors).filter(|floor| *floor > 0.0)?;
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
            slowest = slowest.max(mean(&shape.read_latency));
        }
        if case.workload.writes() {
            slowest = slowest.max(mean(&shape.write_latency));
        }
    }
    (slowest > 0.0).then_some(slowest)
}

/// Whether the layout works its members at once.
fn parallel(node: &LayoutNode) -> bool {
    match node {
        LayoutNode::Volume(_) => false,
        LayoutNode::Array { kind: ArrayKind::Linear, members } => members.iter().any(parallel),
        LayoutNode::Array { members, .. } => members.len() > 1,
    }
}

/// What the session's probe of this case saw: operations in flight, and per second.
fn probed(case: &Case<'_>) -> Option<(u32, f64)> {
    let probe = case.session.meta.depth_probes.iter();
    let mut probe = probe.filter(|p| p.design == case.design.name && p.workload == case.workload.name);
    let probe = probe.next()?;
    Some((probe.in_flight, probe.iops()?))
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
        if let Some(busy) = cpu::busiest_thread(case).filter(|busy| *busy >= cpu::THREAD_BUSY) {
            let what = "busy share of the busiest load thread, which would have to be below";
            let why = "a load thread has little time left, of which latency may consist";
            return Err(Absent::because(why).seen(what, busy, "share", cpu::THREAD_BUSY));
        }
        if !case.workload.direct {
            let why = "through the page cache the kernel decides what is in flight at the volumes";
            return Err(Absent::because(why));
        }
        let iops = case.result.metric(Metric::Iops).map(|estimate| estimate.median);
        let iops = iops.ok_or_else(|| Absent::because("no rate was measured"))?;
        let mut evidence_list = vec![
            evidence("operations in flight", kept, "operations", None),
            evidence("operations per second", iops, "ops/s", None),
        ];
        let floor = latency_over_floor(case);
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
                .ok_or_else(|| waiting(case, floor))?
        };
        if let Some((in_flight, probed)) = probed(case) {
            let gain = if iops > 0.0 { probed / iops } else { 0.0 };
            if gain < NO_GAIN {
                let why =
                    "a short probe at the end of the session withdrew it: more in flight gave hardly more";
                let what =
                    format!("rate with {in_flight} in flight instead of {kept:.0}, over that of the trials");
                return Err(Absent::because(why).seen(&what, gain, "times", NO_GAIN));
            }
            let what = format!("operations per second with {in_flight} in flight, in a short probe");
            evidence_list.push(evidence(&what, probed, "ops/s", Some(iops)));
            if gain >= GAIN {
                confidence = f64::max(confidence, 0.95);
                sentence.push_str(&format!(
                    "; a short probe with {in_flight} in flight had {gain:.1} times the rate"
                ));
            }
        }
        Ok(Verdict {
            kind: VerdictKind::Concurrency,
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
    let idle = per_member.is_some_and(|each| each < IDLE_MEMBERS) && parallel(&case.design.layout);
    let why = if !idle {
        Absent::because("operations wait, and the members have enough of them")
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

/// Operations in flight per member that works, where there are several.
fn per_working_member(case: &Case<'_>) -> Option<f64> {
    let working = case.result.members.iter().filter(|m| m.iops > 0.0).count();
    let known: Vec<f64> = case.result.members.iter().filter_map(|m| m.in_flight).collect();
    (working > 1 && !known.is_empty()).then(|| known.iter().sum::<f64>() / working as f64)
}

fn operations(number: f64) -> String {
    format!("{number:.0} operation{}", if number == 1.0 { "" } else { "s" })
}

/// What a ground says: how much of the gap it explains, with which confidence, and its sentence.
type Ground = (f64, f64, String);

/// The slowest operations take what a miss of the far-end cache takes alone.
fn far_misses(case: &Case<'_>, kept: f64, figures: &mut Vec<Evidence>) -> Option<Ground> {
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
fn idle_members(case: &Case<'_>, kept: f64, figures: &mut Vec<Evidence>) -> Option<Ground> {
    let working = case.result.members.iter().filter(|m| m.iops > 0.0).count();
    let per_member = per_working_member(case).filter(|each| *each < IDLE_MEMBERS)?;
    let elsewhere =
        || shared_device::shared(case).is_some() || limited_above(case) || Member.judge(case).is_ok();
    if !parallel(&case.design.layout) || elsewhere() {
        return None;
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

/// With one in flight nothing can wait for anything, but for the arm of a disk that spins.
fn one_at_a_time(case: &Case<'_>, kept: f64) -> Option<Ground> {
    let spins = case
        .trials
        .iter()
        .filter_map(|t| t.observed.as_ref())
        .any(|o| o.devices.iter().any(|device| device.rotational == Some(true)));
    let sentence =
        "one operation at a time: each waits for the one before it, and the volume is never asked for more";
    (kept == 1.0 && !spins).then(|| (0.5, 0.6, sentence.to_owned()))
}

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

use super::volume_limit::NEAR;
use super::{Case, Rule, cpu, evidence, shared_device, usage};
use crate::analysis::members;
use crate::analysis::{Metric, Verdict, VerdictKind};
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

    fn judge(&self, case: &Case<'_>) -> Option<Verdict> {
        let kept = kept_in_flight(case)?;
        let at_limit = usage::met(case).is_some_and(|met| met >= NEAR);
        // Through the page cache the kernel decides what is in flight at the volumes.
        if at_limit || cpu::thread_is_busy(case) || !case.workload.direct {
            return None;
        }
        let latency = case.median(|t| latency_and_floor(case, t).map(|(latency, _)| latency));
        let floor = case.median(|t| latency_and_floor(case, t).map(|(_, floor)| floor));
        let iops = case.result.metric(Metric::Iops)?.median;
        let mut evidence_list = vec![
            evidence("operations in flight", kept, "operations", None),
            evidence("operations per second", iops, "ops/s", None),
        ];
        let (explains, mut confidence, mut sentence) = if let Some((latency, floor)) = latency.zip(floor) {
            if floor < FLOOR_SHARE * latency {
                return None;
            }
            evidence_list.push(evidence(
                "mean latency of the members, against what one operation alone takes",
                latency,
                "ns",
                Some(floor),
            ));
            let sentence = format!(
                "{kept:.0} operations in flight do not fill the array: each takes {} where one alone takes {}, so none \
                 waits; a larger iodepth or more jobs raise the rate",
                format_latency(latency),
                format_latency(floor)
            );
            ((floor / latency).min(1.0), 0.9, sentence)
        } else {
            self.without_floor(case, kept, &mut evidence_list)?
        };
        if let Some((in_flight, probed)) = probed(case) {
            let gain = if iops > 0.0 { probed / iops } else { 0.0 };
            if gain < NO_GAIN {
                return None;
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
        Some(Verdict {
            kind: VerdictKind::Concurrency,
            confidence,
            explains,
            sentence,
            evidence: evidence_list,
        })
    }
}

impl Concurrency {
    fn without_floor(
        &self,
        case: &Case<'_>,
        kept: f64,
        evidence_list: &mut Vec<crate::analysis::Evidence>,
    ) -> Option<(f64, f64, String)> {
        let longest = case.result.metric(Metric::LatP99).map(|p99| p99.median);
        if let Some((longest, miss)) = longest
            .zip(miss(case))
            .filter(|(longest, miss)| longest.min(*miss) >= FLOOR_SHARE * longest.max(*miss))
        {
            evidence_list.push(evidence(
                "99th percentile of latency, against a miss",
                longest,
                "ns",
                Some(miss),
            ));
            let sentence = format!(
                "{kept:.0} operations in flight do not fill the array: 99% take at most {} and one alone that misses the \
                 volume's cache {}, so none waits; a larger iodepth or more jobs raise the rate",
                format_latency(longest),
                format_latency(miss)
            );
            return Some(((miss / longest).min(1.0), 0.8, sentence));
        }
        let working = case.result.members.iter().filter(|m| m.iops > 0.0).count();
        let busy = case.result.members.iter().filter_map(|m| m.in_flight).sum::<f64>();
        let per_member = busy / working.max(1) as f64;
        let known = case.result.members.iter().any(|m| m.in_flight.is_some());
        if known
            && working > 1
            && parallel(&case.design.layout)
            && per_member < IDLE_MEMBERS
            && shared_device::shared(case).is_none()
        {
            evidence_list.push(evidence(
                "operations in flight per working member",
                per_member,
                "operations",
                Some(1.0),
            ));
            let sentence = format!(
                "{kept:.0} operations in flight leave members idle: {per_member:.2} per member on average; a larger \
                 iodepth or more jobs would work all {working}"
            );
            return Some((1.0 - per_member, 0.7, sentence));
        }
        let spins = case
            .trials
            .iter()
            .filter_map(|t| t.observed.as_ref())
            .any(|o| o.devices.iter().any(|device| device.rotational == Some(true)));
        if kept == 1.0 && !spins {
            let sentence =
                "one operation at a time: each waits for the one before it, and the volume is never asked for more".to_owned();
            return Some((0.5, 0.6, sentence));
        }
        None
    }
}

//! `queue-limit`: the queue of a member's disk holds fewer requests than are asked for.
//!
//! Derivation. The kernel has a place for so many requests in each queue of a disk (`nr_requests`); whoever comes when all are
//! taken waits above it, where the device does not see it. Then the requests in flight at the device stand at what its
//! queue holds, however many operations are in flight, and by Little's law (`in flight = rate * latency`) more of them have
//! latency and nothing else. Whether the queue is what limits, or the device behind it, shows with fewer: a device that could
//! do more has clearly less done with half of the requests. One that does as much with half has no use for more
//! ([`volume-limit`](super::volume_limit)). In a device made of others (md, dm) operations have no place to take.

use super::concurrency::NO_GAIN;
use super::rungs::{More, Rungs, Step};
use super::{Absent, Case, Judged, Rule, evidence, saturated, volume_limit};
use crate::estimate::median;
use crate::ladder::in_flight;
use crate::{Basis, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::{DeviceObservation, Observation, TrialSamples};
use ebbtide_model::units::format_iops;

/// Mean requests in flight over what the queue holds from which on it counts as full: the places of requests that complete
/// together are empty until somebody comes for them.
pub const FULL: f64 = 0.75;
/// How far the most that was seen in flight may be from what the queue holds: it is counted without a lock.
pub const AT_ITS_END: f64 = 0.02;
/// Requests that are wanted over what the queue holds, from which on some wait above it.
pub const WANTED: f64 = 1.25;
/// Rate over that with half of the requests at the device, from which on the device had use for more: half of what Little's law
/// promises. By [`next_doubling`] twice as many would then still have a third more done.
pub const GROWS: f64 = 1.5;
/// The same from which on requests at the device hardly wait for one another, so that no rate is set behind it: twice would be in
/// proportion.
pub const IN_PROPORTION: f64 = 1.7;
/// How many times as many requests at the device the compared runs have at least.
const APART: f64 = 1.5;

/// Asserts that the queue of a member's disk holds fewer requests than are asked for.
#[derive(Debug)]
pub struct QueueLimit;

/// A disk's queue that was full.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Full {
    /// The disk's name.
    pub name: String,
    /// Requests that its queues held at once: each used one holds `each`.
    pub holds: f64,
    each: u32,
    device_depth: Option<u32>,
    /// Mean requests in flight at it.
    mean: f64,
    /// Requests at it for each operation of the array.
    pub per_operation: f64,
}

impl Full {
    /// Requests at the device with so many operations in flight.
    fn at_device(&self, operations: f64) -> f64 {
        self.wanted(operations).min(self.holds)
    }

    /// Requests that so many operations in flight have use for.
    pub fn wanted(&self, operations: f64) -> f64 {
        operations * self.per_operation
    }
}

/// Most requests that were seen in flight at the device with this index.
fn peak(observed: &Observation, index: usize) -> u64 {
    let seen = observed.series.iter().filter_map(|interval| interval.devices.get(index));
    seen.map(|device| device.in_flight).max().unwrap_or(0)
}

/// Requests for each operation of the array, and mean requests in flight.
fn use_of(trial: &TrialSamples, device: &DeviceObservation) -> Option<(f64, f64)> {
    let operations = trial.array.read.count.ops.saturating_add(trial.array.write.count.ops) as f64;
    let requests = device.total.ops.total() as f64;
    let seconds = trial.elapsed.as_secs_f64();
    let usable = operations > 0.0 && requests > 0.0 && seconds > 0.0;
    usable.then(|| (requests / operations, device.total.weighted.as_secs_f64() / seconds))
}

/// The queues that were full in a trial in which `kept` operations were in flight.
fn full_in(trial: &TrialSamples, kept: f64) -> Vec<Full> {
    let Some(observed) = trial.observed.as_deref() else { return Vec::new() };
    let judge = |(index, device): (usize, &DeviceObservation)| {
        let each = device.nr_requests.filter(|each| *each > 0)?;
        let queues = device.hardware_queues?;
        let (per_operation, mean) = use_of(trial, device)?;
        let peak = peak(observed, index) as f64;
        // A thread that moves from processor to processor uses several queues.
        let used = (peak / f64::from(each)).round();
        let holds = used * f64::from(each);
        let at_its_end = used >= 1.0 && used <= f64::from(queues) && (peak / holds - 1.0).abs() <= AT_ITS_END;
        let wanted = kept * per_operation;
        (at_its_end && mean >= FULL * holds && wanted >= WANTED * holds).then(|| Full {
            name: device.shown_name().to_owned(),
            holds,
            each,
            device_depth: device.device_depth,
            mean,
            per_operation,
        })
    };
    observed.devices.iter().enumerate().filter_map(judge).collect()
}

/// The queues that were full in more than half of the trials; the fullest first.
fn full_in_most(trials: &[&TrialSamples], kept: f64) -> Vec<Full> {
    let all: Vec<Vec<Full>> = trials.iter().map(|trial| full_in(trial, kept)).collect();
    let mut found: Vec<Full> = Vec::new();
    for full in all.iter().flatten() {
        let same = |other: &&Full| other.name == full.name && other.holds == full.holds;
        let trials_with_it: Vec<&Full> = all.iter().filter_map(|trial| trial.iter().find(same)).collect();
        if 2 * trials_with_it.len() > trials.len() && !found.iter().any(|known| known.name == full.name) {
            let of = |value: fn(&Full) -> f64| {
                median(&trials_with_it.iter().map(|full| value(full)).collect::<Vec<f64>>()).unwrap_or(0.0)
            };
            let (mean, per_operation) = (of(|full| full.mean), of(|full| full.per_operation));
            found.push(Full { mean, per_operation, ..full.clone() });
        }
    }
    found.sort_by(|a, b| (b.mean / b.holds).total_cmp(&(a.mean / a.holds)));
    found
}

/// Operations in flight with which the fullest queue of these trials, where one was full, is half full.
pub fn half_full(trials: &[&TrialSamples], kept: u32) -> Option<u32> {
    let full = full_in_most(trials, f64::from(kept)).into_iter().next()?;
    let half = full.holds / 2.0 / full.per_operation;
    (half.round() >= 1.0).then_some(half.round() as u32).filter(|half| *half < kept)
}

/// The queues that were full in the trials; where none was, those that were in the rung with the most in flight.
pub(super) fn full(case: &Case<'_>, rungs: Option<&Rungs<'_>>) -> Vec<Full> {
    let found = full_in_most(case.trials, f64::from(in_flight(case.workload)));
    match rungs.and_then(|rungs| rungs.deeper.last()) {
        Some(deepest) if found.is_empty() => {
            full_in_most(&[&deepest.rung.samples], f64::from(deepest.rung.in_flight))
        }
        _ => found,
    }
}

/// Why no queue is full: what is known of the one that was nearest to it.
fn none_full(case: &Case<'_>) -> Absent {
    let nearest = |trial: &TrialSamples| {
        let observed = trial.observed.as_deref()?;
        let with_queue = observed.devices.iter().filter(|device| device.hardware_queues.is_some());
        let shares = with_queue.filter_map(|device| {
            Some(use_of(trial, device)?.1 / f64::from(device.nr_requests.filter(|each| *each > 0)?))
        });
        shares.reduce(f64::max)
    };
    match case.median(nearest) {
        Some(share) => Absent::because("no queue of a member's disk is full").seen(
            "requests in flight at the fullest disk, over what one of its queues holds",
            share,
            "share",
            FULL,
        ),
        None => Absent::because("what the queues of the members' disks hold is not known"),
    }
}

/// How the rate grows at least, beyond what chance makes of it, with each doubling of the requests at the device below what its
/// queue holds, and the run with fewer.
fn growth<'a>(case: &Case<'_>, rungs: &Rungs<'a>, full: &Full) -> Option<(Step<'a>, f64)> {
    let here = full.at_device(f64::from(in_flight(case.workload)));
    let fewer = |step: &&Step<'_>| full.wanted(f64::from(step.rung.in_flight)) * APART <= here;
    let fewer = rungs.shallower.iter().rfind(fewer)?;
    let times = here / full.wanted(f64::from(fewer.rung.in_flight));
    Some((*fewer, rungs.surely_over(fewer).powf(1.0 / times.log2())))
}

/// What the next doubling of the requests at a device gives where the last one gave `grows`, both as factors of the rate. A device that
/// serves `most * n / (n + a)` with `n` requests, as one does that can work at several at once and has something that it cannot
/// share (Amdahl's law), has `2 (n + a) / (2 n + a)` for the last and `2 (2 n + a) / (4 n + a)` for the next.
fn next_doubling(grows: f64) -> f64 {
    if grows >= 2.0 {
        return 2.0;
    }
    let a = (2.0 * grows - 2.0).max(0.0) / (2.0 - grows);
    2.0 * (2.0 + a) / (4.0 + a)
}

/// How the rate grows with the requests at a device whose queue is full, where that is in proportion, and from when on it is.
pub(super) fn proportional(case: &Case<'_>, rungs: &Rungs<'_>) -> Option<(f64, f64)> {
    let queue = full(case, Some(rungs)).into_iter().next()?;
    let (_, grows) = growth(case, rungs, &queue).filter(|_| case.workload.is_free())?;
    (grows >= IN_PROPORTION).then_some((grows, IN_PROPORTION))
}

impl Rule for QueueLimit {
    fn kind(&self) -> VerdictKind {
        VerdictKind::QueueLimit
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        if !case.workload.is_free() {
            return Err(Absent::because("operations come at times of their own, and not as others complete"));
        }
        volume_limit::yield_to(case, "the members are at their limits")?;
        let rungs = Rungs::of(case);
        let queues = full(case, rungs.as_ref());
        let queue = queues.first().ok_or_else(|| none_full(case))?;
        let of = [
            format!("mean requests in flight at {}, against what its queue holds", queue.name),
            "rate for each doubling of the requests at the device, at least".to_owned(),
        ];
        let unknown = || {
            Absent::because(
                "a queue is full, but no short run with fewer at the device shows whether it could do more",
            )
            .seen(&of[0], queue.mean, "requests", queue.holds)
        };
        let rungs = rungs.as_ref().ok_or_else(unknown)?;
        let (fewer, grows) = growth(case, rungs, queue).ok_or_else(unknown)?;
        if grows < GROWS {
            let absent =
                Absent::because("fewer at the device have about as much done: it has no use for more");
            return Err(absent.seen(&of[1], grows, "times", GROWS));
        }
        if !rungs.repeat() {
            return Err(Absent::because(
                "the short run as deep as the trials has another rate than they: what else goes on hides it",
            ));
        }
        if let Some(More::Helped(step, gain)) = rungs.more(NO_GAIN) {
            let what = format!("rate with {} in flight over that with as many", step.rung.in_flight);
            let absent =
                Absent::because("more in flight have more done, so that the queue does not hold them back");
            return Err(absent.seen(&what, gain, "times", NO_GAIN));
        }
        // Processors without time are no reason: more at the device had more done meanwhile.
        saturated::yield_to_named(case, "that is what operations wait for")?;
        Ok(verdict(case, queue, &queues, (fewer, grows), &of[1]))
    }
}

/// `queue` is the first of `queues`.
fn verdict(
    case: &Case<'_>,
    queue: &Full,
    queues: &[Full],
    (fewer, grows): (Step<'_>, f64),
    growing: &str,
) -> Verdict {
    let kept = in_flight(case.workload);
    let iops = case.result.metric(Metric::Iops).map_or(0.0, |estimate| estimate.median);
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    let who = match queues.len() {
        1 => format!("the queue of {} is the limit: it holds {:.0} requests", queue.name, queue.holds),
        _ => format!(
            "the queues of {} are the limit: each holds {:.0} requests",
            names.join(", "),
            queue.holds
        ),
    };
    let nr_requests = if queue.holds > f64::from(queue.each) {
        format!("nr_requests {} in each of {:.0}", queue.each, queue.holds / f64::from(queue.each))
    } else {
        "nr_requests".to_owned()
    };
    let driver = queue
        .device_depth
        .map_or_else(String::new, |depth| format!(", of which the device takes {depth} (queue_depth)"));
    let wanted = queue.wanted(f64::from(kept));
    let waits = if wanted >= WANTED * queue.holds {
        format!("{kept} operations in flight want {wanted:.0}, and the others wait above it")
    } else {
        format!("{kept} operations in flight fill it, and more wait above it")
    };
    let mut figures: Vec<_> = queues
        .iter()
        .map(|queue| {
            let what = format!("mean requests in flight at {}, against what its queue holds", queue.name);
            evidence(&what, queue.mean, "requests", Some(queue.holds))
        })
        .collect();
    figures.push(evidence(
        "requests that the operations in flight want at a disk, against what its queue holds",
        wanted,
        "requests",
        Some(queue.holds),
    ));
    figures.push(evidence(
        &format!("rate, against that with {} in flight", fewer.rung.in_flight),
        iops,
        "ops/s",
        Some(fewer.ops.rate),
    ));
    figures.push(evidence(growing, grows, "times", Some(GROWS)));
    Verdict {
        kind: VerdictKind::QueueLimit,
        basis: Some(Basis::Inferred),
        confidence: 0.8,
        explains: (1.0 - 1.0 / next_doubling(grows)).clamp(0.0, 1.0),
        sentence: format!(
            "{who} ({nr_requests}){driver}; {waits}. {} operations/s, where {} in flight have {}: raise \
             /sys/block/{}/queue/nr_requests, use more volumes, or keep {:.0} in flight, which is as fast with less latency",
            format_iops(iops),
            fewer.rung.in_flight,
            format_iops(fewer.ops.rate),
            queue.name,
            (queue.holds / queue.per_operation).max(1.0),
        ),
        evidence: figures,
    }
}

//! `queue-limit`: the queue of a member's disk holds fewer requests than are asked for.
//!
//! Derivation. The kernel has a place for so many requests in each queue of a disk (`nr_requests`); whoever comes when all are
//! taken waits above it, where the device does not see it. Then the requests in flight at the device stand at what its
//! queue holds, however many operations are in flight, and by Little's law (`in flight = rate * latency`) more of them have
//! latency and nothing else. Whether the queue is what limits, or the device behind it, shows with fewer: a device that could
//! do more has clearly less done with half of the requests. One that does as much with half has no use for more
//! ([`volume-limit`](super::volume_limit)). In a device made of others (md, dm) operations have no place to take.

use crate::evidence::{Check, Evidence, Unit, evidence};
use crate::facts::Facts;
use crate::facts::case::Case;
use crate::facts::queues::{FULL, FullQueue, WANTED, growth, use_of};
use crate::facts::rungs::{MoreInFlight, NO_GAIN, Step};
use crate::judged::{Absent, Basis, Judged, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::format_iops;

/// Rate over that with half of the requests at the device, from which on the device had use for more: half of what Little's law
/// promises. By [`next_doubling`] twice as many would then still have a third more done.
pub const GROWS: f64 = 1.5;

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
        Some(share) => {
            let what = "requests in flight at the fullest disk, over what one of its queues holds";
            Absent::because("no queue of a member's disk is full").seen(what, share, Unit::Share, FULL)
        }
        None => Absent::because("what the queues of the members' disks hold is not known"),
    }
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

/// The name of the figure that says how full a queue is.
fn mean_at(queue: &FullQueue) -> String {
    format!("mean requests in flight at {}, against what its queue holds", queue.name)
}

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("mean requests in flight at a disk, of what its queue holds", FULL, Unit::Share, "places of those that complete together are empty for a moment"),
    Check::at_least("requests that the load wants there, of what it holds", WANTED, Unit::Times, "some wait above it"),
    GROWING,
    Check::below("rate with twice as many in flight over that with as many", NO_GAIN, Unit::Times, "they never reach the device"),
];
#[rustfmt::skip]
const GROWING: Check = Check::at_least("rate for each doubling of the requests at the device", GROWS, Unit::Times, "it had use for more: half of the most possible");

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if !case.keeps_in_flight() {
        return Err(Absent::because("operations come at times of their own, and not as others complete"));
    }
    facts.yield_to_limits("the members are at their limits")?;
    let queue = facts.full_queues.first().ok_or_else(|| none_full(case))?;
    let unknown = || {
        let why = "a queue is full, but no short run with fewer at the device shows whether it could do more";
        Absent::because(why).seen(mean_at(queue), queue.mean, Unit::Requests, queue.holds)
    };
    let rungs = facts.rungs.as_ref().ok_or_else(unknown)?;
    let (fewer, grows) = growth(case, rungs, queue).ok_or_else(unknown)?;
    let growing =
        GROWING.require(grows, "fewer at the device have about as much done: it has no use for more")?;
    if !rungs.repeat() {
        return Err(Absent::because(
            "the short run as deep as the trials has another rate than they: what else goes on hides it",
        ));
    }
    if let Some(MoreInFlight::Helped(step, gain)) = rungs.more(NO_GAIN) {
        let what = format!("rate with {} in flight over that with as many", step.rung.in_flight);
        let absent =
            Absent::because("more in flight raise the rate, so that the queue does not hold them back");
        return Err(absent.seen(what, gain, Unit::Times, NO_GAIN));
    }
    // Processors without time are no reason: more at the device had more done meanwhile.
    facts.yield_to_what_serves("that is what operations wait for")?;
    Ok(verdict(case, queue, &facts.full_queues, (fewer, grows, growing)))
}

/// `queue` is the first of `queues`.
fn verdict(
    case: &Case<'_>,
    queue: &FullQueue,
    queues: &[FullQueue],
    (fewer, grows, growing): (Step<'_>, f64, Evidence),
) -> Verdict {
    let kept = case.in_flight();
    let iops = case.metric(Metric::Iops).unwrap_or(0.0);
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
    let of_wanted = "requests that the operations in flight want at a disk, against what its queue holds";
    let of_rate = format!("rate, against that with {} in flight", fewer.rung.in_flight);
    let full = |queue: &FullQueue| evidence(mean_at(queue), queue.mean, Unit::Requests, Some(queue.holds));
    let mut figures: Vec<Evidence> = queues.iter().map(full).collect();
    figures.extend([
        evidence(of_wanted, wanted, Unit::Requests, Some(queue.holds)),
        evidence(of_rate, iops, Unit::OpsPerSecond, Some(fewer.ops.rate)),
        growing,
    ]);
    let sentence = format!(
        "{who} ({nr_requests}){driver}; {waits}. {} operations/s, where {} in flight have {}: raise \
         /sys/block/{}/queue/nr_requests, use more volumes, or keep {:.0} in flight, which is as fast with less latency",
        format_iops(iops),
        fewer.rung.in_flight,
        format_iops(fewer.ops.rate),
        queue.name,
        (queue.holds / queue.per_operation).max(1.0),
    );
    let explains = 1.0 - 1.0 / next_doubling(grows);
    Verdict::new(VerdictKind::QueueLimit, 0.8, explains, sentence, figures).known(Basis::Inferred)
}

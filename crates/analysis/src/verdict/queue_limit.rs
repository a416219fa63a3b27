//! `queue-limit`: the queue of a member's disk holds fewer requests than are asked for.
//!
//! Derivation. The kernel has a place for so many requests in each queue of a disk (`nr_requests`); whoever comes when all are
//! taken waits above it, where the device does not see it. Then the requests in flight at the device stand at what its
//! queue holds, however many operations are in flight, and by Little's law (`in flight = rate * latency`) more of them have
//! latency and nothing else. Whether the queue is what limits, or the device behind it, shows with fewer: a device that could
//! do more has clearly less done with half of the requests. One that does as much with half has no use for more
//! ([`volume-limit`](super::volume_limit)). In a device made of others (md, dm) operations have no place to take.

use super::*;
use crate::facts::queues::{FULL, FullQueue, WANTED, growth};
use crate::facts::rungs::{MoreInFlight, NO_GAIN};
use ebbtide_model::units::format_iops;

checks! {
    IS_FULL: at_least("mean requests in flight at a disk, of what its queue holds", FULL, Share, "places of those that complete together are empty for a moment");
    IS_WANTED: at_least("requests that the load wants there, of what it holds", WANTED, Times, "some wait above it");
    // Half of what Little's law promises.
    GROWING: at_least("rate for each doubling of the requests at the device", 1.5, Times, "it had use for more: half of the most possible");
    FLAT: below("rate with twice as many in flight over that with as many", NO_GAIN, Times, "they never reach the device");
}
// Half of what Little's law promises.

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if !case.keeps_in_flight() {
        return Err(Absent::because("operations come at times of their own, and not as others complete"));
    }
    let queue = facts
        .full_queues
        .first()
        .ok_or_else(|| Absent::unmeasured("no queue of a member's disk is known to be full"))?;
    let full = |queue: &FullQueue| {
        let what = format!("mean requests in flight at {}, against what its queue holds", queue.name);
        evidence(what, queue.mean, Unit::Requests, Some(queue.holds))
    };
    let unknown = || {
        let why = "a queue is full, but no short run with fewer at the device shows whether it could do more";
        Absent::because(why).with([full(queue)])
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
    let iops = case.metric(Metric::Iops).unwrap_or(0.0);
    let names: Vec<&str> = facts.full_queues.iter().map(|queue| queue.name.as_str()).collect();
    let wanted = queue.wanted(f64::from(case.in_flight()));
    let driver = queue
        .device_depth
        .map_or_else(String::new, |depth| format!(", of which the device takes {depth} (queue_depth)"));
    let of_wanted = "requests that the operations in flight want at a disk, against what its queue holds";
    let of_rate = format!("rate, against that with {} in flight", fewer.rung.in_flight);
    let mut figures: Vec<Evidence> = facts.full_queues.iter().map(full).collect();
    figures.extend([
        evidence(of_wanted, wanted, Unit::Requests, Some(queue.holds)),
        evidence(of_rate, iops, Unit::OpsPerSecond, Some(fewer.ops.rate)),
        growing,
    ]);
    let sentence = format!(
        "the queue of {} is the limit: it holds {:.0} requests (nr_requests {}){driver}; {} operations in flight want {wanted:.0}, and \
         more wait above it. {} operations/s, where {} in flight have {}: raise \
         /sys/block/{}/queue/nr_requests, use more volumes, or keep {:.0} in flight, which is as fast with less latency",
        names.join(", "),
        queue.holds,
        queue.each,
        case.in_flight(),
        format_iops(iops),
        fewer.rung.in_flight,
        format_iops(fewer.ops.rate),
        queue.name,
        (queue.holds / queue.per_operation).max(1.0),
    );
    // Twice as many again would have at most what the last doubling gave.
    let explains = 1.0 - 1.0 / grows.min(2.0);
    let verdict = Verdict::new(VerdictKind::QueueLimit, Sure::Likely, explains, sentence, figures);
    Ok(verdict.known(Basis::Inferred))
}

//! The volume itself is the limit, which nobody declared: inferred from the ladder.
//!
//! Derivation. In a closed loop of `N` operations the rate is `N / latency`. Where two and four times the `N` leave the rate
//! as it is; only the latency grows: something serves at its own pace, however many wait. That it is the members'
//! devices shows in where the operations are: they are always busy, and what is in flight waits at them, not above
//! (a lock in a file system, a throttle, a thread without time) nor below a link or a slow member that is known. The knee is
//! the fewest in flight that have this rate.

use super::*;
use crate::DeviceShare;
use crate::facts::calls::{AT_SERVER, LINK, figures, fullest_link, place, typical};
use crate::facts::rungs::{MoreInFlight, Rungs, Step};
use crate::facts::standing::{HOST_BUSY, at_devices_is, least_busy_is};
use crate::facts::{queues, standing};
use crate::metrics::natural;
use ebbtide_model::session::Rung;
use ebbtide_model::units::format_iops;

/// Share of the highest rate from which on a rung has it.
const PLATEAU: f64 = 0.90;
/// Requests of a device in a rung from which on they are a rate.
const LEAST_REQUESTS: f64 = 20.0;
/// Share of the operations in flight that are at a device for which the others of its array wait.
const WAITED_FOR: f64 = 0.70;
/// Its requests over those of its siblings: beyond the 10% by which equals at their limit differ while the queue is with one of them.
const MORE: f64 = 1.2;
/// Busy share of its siblings, as a part of its own, up to which they have time to spare.
const SPARE: f64 = 0.80;

/// What more in flight gained, as a figure.
fn gained_is(gain: f64, needed: f64) -> Evidence {
    let what = "most that more in flight gained, over the rate with as many or fewer; none is gained below";
    evidence(what, gain, Unit::Times, Some(needed))
}

/// Why the ladder does not say that more in flight have no more done.
fn unclear(rungs: &Rungs<'_>, more: &MoreInFlight<'_>) -> Absent {
    let (step, gain) = more.seen();
    if !rungs.repeat() {
        let why = "the short run with as many in flight as the trials had another rate than they, so that what more in \
                   flight do is hidden by what else varies";
        let what = "rate of that short run over that of the trials, which may be as much more or less";
        return Absent::because(why).seen(what, rungs.repeated(), Unit::Times, rungs.may_differ());
    }
    let why = match more {
        MoreInFlight::Helped(..) => "more in flight raise the rate",
        _ => "whether more in flight raise the rate is hidden by what else varies",
    };
    Absent::because(why).with([gained_is(gain, rungs.needed(&step, NO_GAIN))])
}

/// That one device of an array of the host serves no faster, and all wait for it, because it is given more of the load than its siblings; nothing where that
/// does not show.
///
/// Derivation. A linear array of two disks of different size gives one of them more of the random operations, and all that go one after
/// the other; the array then gets through what that one does, divided by its share, and the other has time to spare. Nearly all operations
/// in flight are at it (Little's law), it is busy all the time and its siblings are not. That it is given more tells it from a slow one,
/// which has as much to do as its siblings, and from equals at their limit, at which the queue stays with one for a turn.
fn by_hot(case: &Case<'_>, facts: &Facts<'_>) -> Option<Judged> {
    let (rungs, array) = (facts.rungs.as_ref()?, case.result.below.iter().find(|a| a.join.of_equals())?);
    let mut devices: Vec<&DeviceShare> = array.devices.iter().collect();
    devices.sort_by(|a, b| a.in_flight.unwrap_or(0.0).total_cmp(&b.in_flight.unwrap_or(0.0)));
    let (hot, siblings) = devices.split_last()?;
    let usual = |of: fn(&DeviceShare) -> f64| median(siblings.iter().map(|device| of(device)));
    let (busy, siblings_busy) = (hot.busy?, usual(|device| device.busy.unwrap_or(0.0))?);
    let waits = (hot.in_flight? / case.kept().max(1.0)).min(1.0);
    let is_hot = waits >= WAITED_FOR && busy >= BUSY && siblings_busy <= SPARE * busy;
    if !is_hot || hot.iops < MORE * usual(|device| device.iops)? {
        return None;
    }
    let name = &hot.name;
    let rate_in = |step: &Step<'_>| {
        let samples = &step.rung.samples;
        let device = samples.observed.as_ref()?.devices.iter().find(|device| device.shown_name() == name)?;
        let requests = device.total.ops.total() as f64;
        (requests >= LEAST_REQUESTS).then(|| requests / samples.elapsed.as_secs_f64())
    };
    let deeper = rungs.deeper.iter().chain(&rungs.untold);
    let rates: Vec<(&Step<'_>, f64)> = deeper.filter_map(|step| Some((step, rate_in(step)?))).collect();
    let (deepest, rate) = rates.last()?;
    if rates.iter().any(|(step, rate)| rate / hot.iops >= rungs.needed(step, NO_GAIN)) {
        return None;
    }
    if let Err(absent) = yield_to_others(case, facts) {
        return Some(Err(absent));
    }
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let all: f64 = devices.iter().map(|device| device.iops).sum();
    let in_flight = deepest.rung.in_flight;
    let sentence = format!(
        "{name}, one of the {} devices of {}, is the limit: it has {} of the requests, and serves {} requests/s of them with {} in \
         flight and {} with {in_flight}; it is busy {} of the time, the others {}, and {} of the operations in flight wait there: spread evenly, all \
         would have as much to do",
        devices.len(),
        array.name,
        percent(hot.iops / all),
        format_iops(hot.iops),
        case.in_flight(),
        format_iops(*rate),
        percent(busy),
        percent(siblings_busy),
        percent(waits),
    );
    let of_rates = format!("requests per second of {name} with {in_flight} in flight");
    let figures = vec![
        evidence(of_rates, *rate, Unit::RequestsPerSecond, Some(hot.iops)),
        share_is(format!("busy share of {name}"), busy, BUSY),
        evidence("busy share of its siblings", siblings_busy, Unit::Share, None),
        share_is(format!("share of the operations in flight that are at {name}"), waits, WAITED_FOR),
    ];
    let sure = if rates.len() > 1 { Sure::Likely } else { Sure::Possible };
    let found = Verdict::new(VerdictKind::VolumeLimit, sure, waits, sentence, figures);
    Some(Ok(found.known(Basis::Inferred)))
}

/// Whether the ladder shows that the members' devices serve no faster.
pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if let Some(judged) = by_hot(case, facts) {
        return judged;
    }
    let unseen = || Absent::unmeasured("no short runs with more in flight had enough operations for a rate");
    let rungs = facts.rungs.as_ref().filter(|rungs| !rungs.deeper.is_empty()).ok_or_else(unseen)?;
    let more = rungs.more(NO_GAIN).ok_or_else(unseen)?;
    let MoreInFlight::Flat(step, gain) = more else { return Err(unclear(rungs, &more)) };
    let needed = rungs.needed(&step, NO_GAIN);
    yield_to_others(case, facts)?;
    facts.yield_to(VerdictKind::QueueLimit, "more in flight do not reach the device")?;
    facts
        .yield_to(VerdictKind::Readahead, "what is in flight at the disks is what the kernel reads ahead")?;
    let Some(devices) = facts.devices else { return by_server(case, gain, needed) };
    let kept = case.in_flight();
    let served: Vec<&Rung> = rungs.depths().iter().map(|step| step.rung).collect();
    let (knee, deepest) = knee(&served).zip(served.last().copied()).ok_or_else(unseen)?;
    let highest = deepest.iops().unwrap_or(0.0);
    if served.len() > 1 && knee.in_flight >= deepest.in_flight {
        let why = "only the most in flight had this rate, so that yet more may raise it further";
        return Err(Absent::because(why).with([gained_is(gain, needed)]));
    }
    let wanted = f64::from(knee.in_flight);
    let too_many = |queue: &&queues::FullQueue| queue.wanted(wanted) > queue.holds * (1.0 + queues::COUNTED);
    if let Some(queue) = facts.full_queues.first().filter(too_many) {
        let name = &queue.name;
        let what =
            format!("requests that the fewest with this rate want, against what the queue of {name} holds");
        let why =
            "no more reach the device than its queue holds, and whether it could serve more is not known";
        return Err(Absent::because(why).seen(what, queue.wanted(wanted), Unit::Requests, queue.holds));
    }
    // Behind a full queue nothing else can be at the device.
    let at_devices = if facts.full_queues.is_empty() { devices.share } else { 1.0 };
    if devices.least_busy < BUSY || at_devices < AT_DEVICES {
        let why = "more in flight do not raise the rate, but wait above the members' devices, which have time to spare";
        let figures = [least_busy_is(devices.least_busy), at_devices_is(at_devices)];
        return Err(Absent::because(why).with(figures));
    }
    // Of a single rung the trials are the other.
    let (fewest, base, latency) = if served.len() == 1 {
        (kept, rungs.base, case.median(|trial| trial.latency().mean()))
    } else {
        (knee.in_flight, knee.iops().unwrap_or(0.0), knee.samples.latency().mean())
    };
    let (unit, bytes) = match natural(case.workload) {
        Metric::Throughput => (Unit::BytesPerSecond, case.workload.mean_bs()),
        _ => (Unit::OpsPerSecond, 1.0),
    };
    let (rate, reference) = (highest * bytes, base * bytes);
    let of_rates = format!("rate with {} in flight, against that with {fewest}", deepest.in_flight);
    let of_queue = "requests in flight at the members' devices, against operations in flight";
    let mut figures = vec![
        evidence(of_rates, rate, unit, Some(reference)),
        gained_is(gain, needed),
        least_busy_is(devices.least_busy),
        evidence(of_queue, devices.queue, Unit::Requests, Some(f64::from(kept))),
    ];
    let mut grows = String::new();
    if let Some((deep, knee)) = deepest.samples.latency().mean().zip(latency) {
        let what = "mean latency with the most in flight, against the fewest that have this rate";
        figures.push(evidence(what, deep, Unit::Nanoseconds, Some(knee)));
        grows = format!(" for {:.1} times the latency", deep / knee);
    }
    let mut processors = String::new();
    if let Some(busy) = facts.host_busy {
        figures.push(share_is("busy share of all cores", busy, HOST_BUSY));
        processors = format!(", the processors {:.0}%", busy * 100.0);
    }
    // A mapping or an array of the kernel is busy with whatever is below it.
    let (volumes, disks) = match (devices.number, standing::served_here(case)) {
        (1, Some(software)) => ("the volume itself is the limit".to_owned(), format!("{software} is")),
        (1, None) => ("the volume itself is the limit".to_owned(), "its disk is".to_owned()),
        (number, _) => {
            (format!("the {number} volumes themselves are the limit"), "their disks are".to_owned())
        }
    };
    let sentence = format!(
        "{volumes}: {} with {fewest} in flight and {} with {}{grows}; {disks} busy {:.0}% \
         of the time with a queue of {:.0}{processors}",
        unit.rate_in_words(reference),
        unit.rate_in_words(rate),
        deepest.in_flight,
        devices.least_busy * 100.0,
        devices.queue,
    );
    // With one rung only a moment in which others were at work looks the same.
    let sure = if rungs.deeper.len() > 1 { Sure::Likely } else { Sure::Possible };
    Ok(verdict(sure, gain, sentence, figures))
}

fn verdict(sure: Sure, gain: f64, sentence: String, figures: Vec<Evidence>) -> Verdict {
    let explains = (2.0 - gain).clamp(0.5, 1.0);
    Verdict::new(VerdictKind::VolumeLimit, sure, explains, sentence, figures).known(Basis::Inferred)
}

/// Has it yield to what is known to serve no faster, or to have been in the way, and to processors without time.
fn yield_to_others(case: &Case<'_>, facts: &Facts<'_>) -> Result<(), Absent> {
    facts.yield_to_a_busy_thread()?;
    // Busy with what neither the load nor its devices wait for, they are no part of it.
    let in_the_way = facts.waited.is_none() || standing::served_here(case).is_some();
    if let Some(busy) = facts.host_busy.filter(|busy| *busy >= HOST_BUSY && in_the_way) {
        let what = "busy share of all cores, which would have to be below";
        let absent = Absent::because("the processors have little time left, which the devices may wait for");
        return Err(absent.seen(what, busy, Unit::Share, HOST_BUSY));
    }
    facts.yield_to_what_serves("that is what more in flight would wait for")
}

/// The fewest in flight that have the rate of the most.
fn knee<'a>(rungs: &[&'a Rung]) -> Option<&'a Rung> {
    let most = rungs.iter().filter_map(|rung| rung.iops()).reduce(f64::max)?;
    rungs.iter().copied().find(|rung| rung.iops().is_some_and(|rate| rate >= PLATEAU * most))
}

/// That the server is what serves no faster, where the ladder shows that more in flight, which gained so much at most, are of no use.
fn by_server(case: &Case<'_>, gain: f64, needed: f64) -> Judged {
    let unseen =
        || Absent::unmeasured("the devices of the members were not observed, so that it may be anything");
    let (place, each) = place(case).zip(typical(case)).ok_or_else(unseen)?;
    let calls = each.at_server / case.kept().max(1.0);
    let share = each.round_trip / each.whole;
    let mut list = vec![
        share_is("share of a call's time that it was at the server or on the way", share, AT_SERVER),
        share_is("calls at the server or on the way, of the operations in flight", calls, AT_SERVER),
    ];
    if share.min(calls) < AT_SERVER {
        let why = "more in flight do not raise the rate, but wait at this client";
        return Err(Absent::because(why).with(list));
    }
    list.push(gained_is(gain, needed));
    list.extend(figures(&each));
    let link = fullest_link(case).filter(|(_, share)| *share >= LINK);
    let which = link.map_or_else(
        || "the server or the way to it".to_owned(),
        |(name, share)| format!("{name}, at {:.0}% of its speed,", share * 100.0),
    );
    let sentence = format!(
        "{} is the limit: more in flight hardly raised the rate ({gain:.2} times), and calls are at the server or on the way for {:.0}% of \
         their time, {} each: {which} serves no faster",
        place.source,
        share * 100.0,
        format_latency(each.round_trip)
    );
    Ok(verdict(Sure::Possible, gain, sentence, list))
}

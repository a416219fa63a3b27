//! `remote-queue`: requests to a file server wait at the client before they are sent.
//!
//! Derivation. NFS counts for each call how long it waited for a slot or for its connection (queue), and how long its answer took
//! from when it was sent (round trip: the way there and back, and the server's own time). By Little's law as many calls are at the
//! server as calls a second times their round trip. Where most of a call's time passes before it is sent, the client does not
//! let more of them out at a time, and what is in flight beyond that waits for its turn. A server that is full looks the same, but
//! its answers took less time while there were fewer of them: a short run with fewer in flight tells (the ladder), and without
//! one nothing is asserted. The counters are of the mount, whoever used it.

use crate::evidence::{Check, Unit, evidence, share_is};
use crate::facts::Facts;
use crate::facts::calls::{LINK, at_server, at_server_in, each, figures, fullest_link, place, typical};
use crate::facts::case::Case;
use crate::facts::rungs::{MoreInFlight, NO_GAIN};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use ebbtide_model::units::format_latency;

/// Share of a call's time that must have passed before it was sent: most of it.
pub const QUEUED: f64 = 0.50;
/// Calls at the server in the short run with fewer, over those of the trials, up to which they are fewer.
pub const FEWER: f64 = 0.70;
/// Round trip over that with fewer calls at the server up to which the server's answers took no longer.
pub const NO_LONGER: f64 = 1.10;

/// Calls at the server and their round trip in nanoseconds in the short run with the fewest at the server, where they were fewer
/// than `at_server`.
fn with_fewer(case: &Case<'_>, facts: &Facts<'_>, at_server: f64) -> Option<(f64, f64)> {
    let seen = facts.rungs.as_ref()?.shallower.iter().filter_map(|step| {
        let samples = &step.rung.samples;
        Some((at_server_in(case, samples)?, each(case, samples)?.round_trip))
    });
    let fewest = seen.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (fewest.0 <= FEWER * at_server).then_some(fewest)
}

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    WAITS_HERE,
    Check::below("calls at the server in a short run with fewer, over those of the trials", FEWER, Unit::Share, "clearly fewer"),
    NO_SLOWER,
];
#[rustfmt::skip]
const WAITS_HERE: Check = Check::at_least("share of a call's time that passed before it was sent", QUEUED, Unit::Share, "most of it");
#[rustfmt::skip]
const NO_SLOWER: Check = Check::below("round trip over that with fewer calls at the server", NO_LONGER, Unit::Times, "the server is not what is full");

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let place = place(case).ok_or_else(|| Absent::because("not all members are on a network file system"))?;
    let Some(each) = typical(case) else {
        let why = format!("too few calls of {} were counted to tell where they wait", place.fstype);
        return Err(Absent::because(why));
    };
    facts.yield_to_limits("the members are at their limits, wherever their calls wait")?;
    facts.yield_to_set_rate("a queue does not make a rate even")?;
    facts.yield_to(VerdictKind::Cpu, "who sends the calls may wait for a processor")?;
    let queued = each.queued / each.whole;
    let why = "calls are sent soon, and what they wait for is the server or the way to it";
    let waits_here = WAITS_HERE.require(queued, why)?;
    if !case.workload.direct {
        let why = "through the page cache the kernel decides how many calls wait for their turn";
        return Err(Absent::because(why).with([waits_here]));
    }
    if let Some(MoreInFlight::Helped(step, gain)) = facts.rungs.as_ref().and_then(|rungs| rungs.more(NO_GAIN))
    {
        let what = format!("rate with {} in flight over that with as many, at most", step.rung.in_flight);
        let why = "more in flight raise the rate, so that the client lets more of them out";
        return Err(Absent::because(why).seen(&what, gain, Unit::Times, NO_GAIN));
    }
    let link = fullest_link(case);
    if let Some((name, share)) = link.as_ref().filter(|(_, share)| *share >= LINK) {
        let why = format!("{name} is full, and calls wait for it before they are sent");
        let what = "share of the interface's speed, which would have to be below";
        return Err(Absent::because(why).seen(what, *share, Unit::Share, LINK));
    }
    let at_server = at_server(case).unwrap_or(0.0);
    let (fewer, then) = with_fewer(case, facts, at_server).ok_or_else(|| {
        let why = "calls wait at the client, but no short run had so few at the server that it shows whether it answers more of \
                   them as fast";
        let calls =
            "calls at the server or on the way, on average, of which a short run would have to have at most";
        let absent = Absent::because(why).with([waits_here.clone()]);
        absent.seen(calls, at_server, Unit::Calls, FEWER * at_server)
    })?;
    let why = "calls wait at the client, but the server's answers take longer the more of them it has";
    NO_SLOWER.require(each.round_trip / then.max(1.0), why)?;
    let mut list = vec![waits_here];
    list.extend(figures(&each));
    let of_calls = "calls at the server or on the way, against a short run with fewer";
    let of_answers = "round trip, against that with fewer";
    list.push(evidence(of_calls, at_server, Unit::Calls, Some(fewer)));
    list.push(evidence(of_answers, each.round_trip, Unit::Nanoseconds, Some(then)));
    list.extend(link.map(|(name, share)| {
        let what = format!("share of {name}'s speed, which would have to be below");
        share_is(what, share, LINK)
    }));
    let connections = match place.connections {
        Some(1) => " over one connection".to_owned(),
        Some(several) => format!(" over {several} connections"),
        None => String::new(),
    };
    let sentence = format!(
        "calls to {} wait at this client for {:.0}% of their time, {} each, before they are sent: {at_server:.0} at a time are at the \
             server{connections}, answered in {} each, no later than {fewer:.0} at a time ({}); more connections (mount option nconnect) \
             or slots (max_session_slots of nfs, tcp_max_slot_table_entries of sunrpc) would raise the rate",
        place.source,
        queued * 100.0,
        format_latency(each.queued),
        format_latency(each.round_trip),
        format_latency(then)
    );
    Ok(Verdict::new(VerdictKind::RemoteQueue, 0.8, queued, sentence, list))
}

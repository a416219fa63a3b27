//! `remote-queue`: requests to a file server wait at the client before they are sent.
//!
//! Derivation. NFS counts for each call how long it waited for a slot or for its connection (queue), and how long its answer took
//! from when it was sent (round trip: the way there and back, and the server's own time). By Little's law as many calls are at the
//! server as calls a second times their round trip. Where most of a call's time passes before it is sent, the client does not
//! let more of them out at a time, and what is in flight beyond that waits for its turn. A server that is full looks the same, but
//! its answers took less time while there were fewer of them: a short run with fewer in flight tells (the ladder), and without
//! one nothing is asserted. The counters are of the mount, whoever used it.

use super::*;
use crate::facts::calls::{LINK, each, figures, fullest_link, place, typical};
use crate::facts::rungs::{MoreInFlight, NO_GAIN};
use ebbtide_model::units::format_latency;

checks! {
    WAITS_HERE: at_least("share of a call's time that passed before it was sent", 0.50, Share, "most of it");
    FEWER: below("calls at the server in a short run with fewer, over those of the trials", 0.70, Share, "clearly fewer");
    NO_SLOWER: below("round trip over that with fewer calls at the server", 1.10, Times, "the server is not what is full");
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let place = place(case).ok_or_else(|| Absent::because("not all members are on a network file system"))?;
    let each_call = typical(case)
        .ok_or_else(|| Absent::unmeasured("too few calls were counted to tell where they wait"))?;
    let queued = each_call.queued / each_call.whole;
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
    if let Some((name, share)) = fullest_link(case).filter(|(_, share)| *share >= LINK) {
        let why = format!("{name} is full, and calls wait for it before they are sent");
        let what = "share of the interface's speed, which would have to be below";
        return Err(Absent::because(why).seen(what, share, Unit::Share, LINK));
    }
    let at_server = each_call.at_server;
    // Calls at the server and their round trip, in the short run with the fewest.
    let shallower = facts.rungs.iter().flat_map(|rungs| &rungs.shallower);
    let shallower = shallower.filter_map(|step| each(case, &step.rung.samples));
    let shallower = shallower.map(|calls| (calls.at_server, calls.round_trip));
    let fewest = shallower.min_by(|a, b| a.0.total_cmp(&b.0));
    let (fewer, then) = fewest.filter(|(calls, _)| FEWER.holds(calls / at_server)).ok_or_else(|| {
        let why = "calls wait at the client, but no short run had so few at the server that it shows whether it answers more of \
                   them as fast";
        Absent::because(why).with([waits_here.clone()])
    })?;
    let why = "calls wait at the client, but the server's answers take longer the more of them it has";
    let mut list = vec![waits_here, NO_SLOWER.require(each_call.round_trip / then.max(1.0), why)?];
    list.extend(figures(&each_call));
    let of_calls = "calls at the server or on the way, against a short run with fewer";
    list.push(evidence(of_calls, at_server, Unit::Calls, Some(fewer)));
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
        format_latency(each_call.queued),
        format_latency(each_call.round_trip),
        format_latency(then)
    );
    Ok(Verdict::new(VerdictKind::RemoteQueue, Sure::Likely, queued, sentence, list))
}

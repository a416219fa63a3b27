//! `remote-queue`: requests to a file server wait at the client before they are sent.
//!
//! Derivation. NFS counts for each call how long it waited for a slot or for its connection (queue), and how long its answer took
//! from when it was sent (round trip: the way there and back, and the server's own time). By Little's law as many calls are at the
//! server as calls a second times their round trip. Where most of a call's time passes before it is sent, the client does not
//! let more of them out at a time, and what is in flight beyond that waits for its turn. A server that is full looks the same, but
//! its answers took less time while there were fewer of them: a short run with fewer in flight tells (the ladder), and without
//! one nothing is asserted. The counters are of the mount, whoever used it.

use super::concurrency::NO_GAIN;
use super::rungs::{More, Rungs};
use super::{Absent, Case, Judged, Rule, cpu, evidence, rate_limit, volume_limit};
use crate::ladder::in_flight;
use crate::{Basis, Evidence, Verdict, VerdictKind, members};
use ebbtide_model::samples::{CallUse, RemoteUse, TrialSamples};
use ebbtide_model::units::{Nanos, format_iops, format_latency};
use ebbtide_model::workload::OpKind;

/// Share of a call's time that must have passed before it was sent: most of it.
pub const QUEUED: f64 = 0.50;
/// Share of a call's time that it must be at the server or on the way, for the server to be what serves no faster; and share
/// of an operation's latency that its calls must be, for them to be what it consists of.
pub const AT_SERVER: f64 = 0.50;
/// Calls at the server in the short run with fewer, over those of the trials, up to which they are fewer.
pub const FEWER: f64 = 0.70;
/// Round trip over that with fewer calls at the server up to which the server's answers took no longer.
pub const NO_LONGER: f64 = 1.10;
/// Fewest calls of a trial whose mean is worth telling.
const LEAST_CALLS: u64 = 20;
/// Share of an interface's speed from which on it may be what calls wait for.
pub const LINK: f64 = 0.80;
/// An operation is one call up to this many on average: attributes and others' calls are few.
const ONE_CALL: f64 = 1.1;

#[derive(Debug)]
pub struct RemoteQueue;

/// What a trial's calls took, in nanoseconds each.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Each {
    calls: f64,
    queued: f64,
    round_trip: f64,
    whole: f64,
    /// Calls for each operation of the load.
    per_operation: f64,
    /// Share of the calls that were sent again.
    resent: f64,
}

/// The mounts that the members that worked are on, each once; nothing where one of them is on none.
fn mounts(trial: &TrialSamples) -> Option<Vec<&RemoteUse>> {
    let observed = trial.observed.as_ref()?;
    let mut found: Vec<&RemoteUse> = Vec::new();
    for member in trial.members.iter().filter(|member| members::totals(member).0 > 0) {
        let remote = observed.members.iter().find(|m| m.member == member.name)?.remote.as_ref()?;
        if found.iter().all(|known| known.mountpoint != remote.mountpoint) {
            found.push(remote);
        }
    }
    (!found.is_empty()).then_some(found)
}

fn each(case: &Case<'_>, trial: &TrialSamples) -> Option<Each> {
    let kinds = [(OpKind::Read, case.workload.reads()), (OpKind::Write, case.workload.writes())];
    let mut sum = CallUse::default();
    for mount in mounts(trial)? {
        let calls = mount.calls.as_ref()?;
        for (kind, _) in kinds.iter().filter(|(_, used)| *used) {
            let of = calls.get(*kind);
            sum = CallUse {
                calls: sum.calls.saturating_add(of.calls),
                sent: sum.sent.saturating_add(of.sent),
                queued: sum.queued.plus(of.queued),
                round_trip: sum.round_trip.plus(of.round_trip),
                whole: sum.whole.plus(of.whole),
            };
        }
    }
    let operations = trial.array.read.count.ops.saturating_add(trial.array.write.count.ops);
    if sum.calls < LEAST_CALLS || sum.whole == Nanos(0) || operations == 0 {
        return None;
    }
    let calls = sum.calls as f64;
    Some(Each {
        calls,
        queued: sum.queued.0 as f64 / calls,
        round_trip: sum.round_trip.0 as f64 / calls,
        whole: sum.whole.0 as f64 / calls,
        per_operation: calls / operations as f64,
        resent: sum.sent.saturating_sub(sum.calls) as f64 / calls,
    })
}

/// Medians over the trials.
fn typical(case: &Case<'_>) -> Option<Each> {
    let of = |value: fn(&Each) -> f64| case.median(|trial| each(case, trial).map(|each| value(&each)));
    Some(Each {
        calls: of(|e| e.calls)?,
        queued: of(|e| e.queued)?,
        round_trip: of(|e| e.round_trip)?,
        whole: of(|e| e.whole)?,
        per_operation: of(|e| e.per_operation)?,
        resent: of(|e| e.resent)?,
    })
}

/// Calls of a trial that are at the server, or on the way there and back, on average.
fn at_server_in(case: &Case<'_>, trial: &TrialSamples) -> Option<f64> {
    let each = each(case, trial)?;
    Some(each.calls * each.round_trip / 1e9 / trial.elapsed.as_secs_f64())
}

/// The same of the trials: their median.
fn at_server(case: &Case<'_>) -> Option<f64> {
    case.median(|trial| at_server_in(case, trial))
}

/// Calls at the server and their round trip in nanoseconds in the short run with the fewest at the server, where they were fewer
/// than `at_server`.
fn with_fewer(case: &Case<'_>, at_server: f64) -> Option<(f64, f64)> {
    let rungs = Rungs::of(case)?;
    let seen = rungs.shallower.iter().filter_map(|step| {
        let samples = &step.rung.samples;
        Some((at_server_in(case, samples)?, each(case, samples)?.round_trip))
    });
    let fewest = seen.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (fewest.0 <= FEWER * at_server).then_some(fewest)
}

/// What the members are on, where all of them are on network file systems: that of the first.
fn place<'a>(case: &Case<'a>) -> Option<&'a RemoteUse> {
    case.trials.iter().find_map(|trial| mounts(trial)?.first().copied())
}

/// The fullest network interface: its name and the share of its speed, of the busier direction.
fn fullest_link(case: &Case<'_>) -> Option<(String, f64)> {
    let names = case.trials.iter().filter_map(|t| t.observed.as_ref()).flat_map(|o| &o.network);
    let share = |name: &str| {
        case.median(|trial| {
            let used = trial.observed.as_ref()?.network.iter().find(|used| used.interface == name)?;
            let bits = 8.0 * used.sent.max(used.received) as f64 / trial.elapsed.as_secs_f64();
            Some(bits / used.speed_bits.filter(|speed| *speed > 0)? as f64)
        })
    };
    let shares = names.filter_map(|used| Some((used.interface.clone(), share(&used.interface)?)));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The figures of a call.
fn figures(each: &Each) -> Vec<Evidence> {
    let mut figures = vec![
        evidence(
            "time of a call from when it was sent until its answer (round trip)",
            each.round_trip,
            "ns",
            None,
        ),
        evidence("time of a call before it was sent", each.queued, "ns", None),
        evidence("calls for each operation", each.per_operation, "calls", None),
    ];
    if each.resent > 0.0 {
        figures.push(evidence("calls that were sent again, of all", each.resent, "share", None));
    }
    figures
}

impl Rule for RemoteQueue {
    fn kind(&self) -> VerdictKind {
        VerdictKind::RemoteQueue
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let place =
            place(case).ok_or_else(|| Absent::because("not all members are on a network file system"))?;
        let Some(each) = typical(case) else {
            let why = format!("too few calls of {} were counted to tell where they wait", place.fstype);
            return Err(Absent::because(why));
        };
        volume_limit::yield_to(case, "the members are at their limits, wherever their calls wait")?;
        if rate_limit::find(case).is_ok() {
            return Err(Absent::yields(VerdictKind::RateLimit, "a queue does not make a rate even"));
        }
        if cpu::Cpu.judge(case).is_ok() {
            return Err(Absent::yields(VerdictKind::Cpu, "who sends the calls may wait for a processor"));
        }
        let what = "share of a call's time that passed before it was sent";
        let queued = each.queued / each.whole;
        if queued < QUEUED {
            let why = "calls are sent soon, and what they wait for is the server or the way to it";
            return Err(Absent::because(why).seen(what, queued, "share", QUEUED));
        }
        if !case.workload.direct {
            let why = "through the page cache the kernel decides how many calls wait for their turn";
            return Err(Absent::because(why).seen(what, queued, "share", QUEUED));
        }
        if let Some(More::Helped(step, gain)) = Rungs::of(case).and_then(|rungs| rungs.more(NO_GAIN)) {
            let what = format!("rate with {} in flight over that with as many, at most", step.rung.in_flight);
            let why = "more in flight have more done, so that the client lets more of them out";
            return Err(Absent::because(why).seen(&what, gain, "times", NO_GAIN));
        }
        let link = fullest_link(case);
        if let Some((name, share)) = link.as_ref().filter(|(_, share)| *share >= LINK) {
            let why = format!("{name} is full, and calls wait for it before they are sent");
            let what = "share of the interface's speed, which would have to be below";
            return Err(Absent::because(why).seen(what, *share, "share", LINK));
        }
        let at_server = at_server(case).unwrap_or(0.0);
        let (fewer, then) = with_fewer(case, at_server).ok_or_else(|| {
            let why = "calls wait at the client, but no short run had so few at the server that it shows whether it answers more of \
                       them as fast";
            Absent::because(why).seen(what, queued, "share", QUEUED).seen(
                "calls at the server or on the way, on average, of which a short run would have to have at most",
                at_server,
                "calls",
                FEWER * at_server,
            )
        })?;
        let longer = each.round_trip / then.max(1.0);
        if longer > NO_LONGER {
            let why =
                "calls wait at the client, but the server's answers take longer the more of them it has";
            let what = format!(
                "round trip with {at_server:.0} calls at the server over that with {fewer:.0}, which would have to be at most"
            );
            return Err(Absent::because(why).seen(&what, longer, "times", NO_LONGER));
        }
        let mut list = vec![evidence(what, queued, "share", Some(QUEUED))];
        list.extend(figures(&each));
        list.push(evidence(
            "calls at the server or on the way, against a short run with fewer",
            at_server,
            "calls",
            Some(fewer),
        ));
        list.push(evidence("round trip, against that with fewer", each.round_trip, "ns", Some(then)));
        list.extend(link.map(|(name, share)| {
            evidence(
                &format!("share of {name}'s speed, which would have to be below"),
                share,
                "share",
                Some(LINK),
            )
        }));
        let connections = match place.connections {
            Some(1) => " over one connection".to_owned(),
            Some(several) => format!(" over {several} connections"),
            None => String::new(),
        };
        let sentence = format!(
            "calls to {} wait at this client for {:.0}% of their time, {} each, before they are sent: {at_server:.0} at a time are at the \
             server{connections}, answered in {} each, no later than {fewer:.0} at a time ({}); more connections (mount option nconnect) \
             or slots (max_session_slots of nfs, tcp_max_slot_table_entries of sunrpc) would have more done",
            place.source,
            queued * 100.0,
            format_latency(each.queued),
            format_latency(each.round_trip),
            format_latency(then)
        );
        Ok(Verdict {
            kind: VerdictKind::RemoteQueue,
            basis: None,
            confidence: 0.8,
            explains: queued.min(1.0),
            sentence,
            evidence: list,
        })
    }
}

/// What an operation consists of, where it is calls to a server: a clause for a sentence that says that too few are in flight, with its
/// figures.
pub(super) fn round_trips(case: &Case<'_>, kept: f64) -> Option<(String, Vec<Evidence>)> {
    let (place, each) = (place(case)?, typical(case)?);
    let latency = case.median(|trial| trial.latency().mean())?;
    // Calls of one operation go out together: one round trip is the least of it.
    if each.round_trip < AT_SERVER * latency {
        return None;
    }
    let most = kept / (each.round_trip / 1e9);
    let what = if each.per_operation <= ONE_CALL {
        "one round trip".to_owned()
    } else {
        format!("{:.1} calls, a round trip at least,", each.per_operation)
    };
    let clause = format!(
        "; each operation is {what} to {} of {}: {kept:.0} in flight have at most {} a second",
        place.source,
        format_latency(each.round_trip),
        format_iops(most)
    );
    Some((clause, figures(&each)))
}

/// That the server is what serves no faster, where the ladder shows that more in flight, which gained so much at most, are of no use.
pub(super) fn serves_no_faster(case: &Case<'_>, gain: f64) -> Judged {
    let unseen =
        || Absent::because("the devices of the members were not observed, so that it may be anything");
    let (place, each) = place(case).zip(typical(case)).ok_or_else(unseen)?;
    let at_server = at_server(case).ok_or_else(unseen)?;
    let (share, kept) = (each.round_trip / each.whole, f64::from(in_flight(case.workload)));
    let shares = [
        ("share of a call's time that it was at the server or on the way", share),
        ("calls at the server or on the way, of the operations in flight", at_server / kept.max(1.0)),
    ];
    if let Some((what, seen)) = shares.into_iter().find(|(_, share)| *share < AT_SERVER) {
        let why = "more in flight have no more done, but wait at this client";
        return Err(Absent::because(why).seen(what, seen, "share", AT_SERVER));
    }
    let mut list: Vec<Evidence> =
        shares.iter().map(|(what, share)| evidence(what, *share, "share", Some(AT_SERVER))).collect();
    list.push(evidence(
        "most that more in flight gained, over the rate with as many",
        gain,
        "times",
        Some(NO_GAIN),
    ));
    list.extend(figures(&each));
    let link = fullest_link(case).filter(|(_, share)| *share >= LINK);
    let which = link.map_or_else(
        || "the server or the way to it".to_owned(),
        |(name, share)| format!("{name}, at {:.0}% of its speed,", share * 100.0),
    );
    let sentence = format!(
        "{} is the limit: more in flight have hardly more done ({gain:.2} times), and calls are at the server or on the way for {:.0}% of \
         their time, {} each: {which} serves no faster",
        place.source,
        share * 100.0,
        format_latency(each.round_trip)
    );
    Ok(Verdict {
        kind: VerdictKind::VolumeLimit,
        basis: Some(Basis::Inferred),
        confidence: 0.7,
        explains: (2.0 - gain).clamp(0.5, 1.0),
        sentence,
        evidence: list,
    })
}

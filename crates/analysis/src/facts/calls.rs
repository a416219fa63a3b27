//! Calls to file servers, as NFS counts them: how long one waited at the client, and how long its answer took.

use super::*;
use crate::members;
use crate::metrics::operations;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{CallUse, NetworkUse, RemoteUse};
use ebbtide_model::units::{format_iops, format_latency};

/// Share of a call's time that it must be at the server or on the way, for the server to be what serves no faster; and share
/// of an operation's latency that its calls must be, for them to be what it consists of.
pub const AT_SERVER: f64 = 0.50;
/// Fewest calls of a trial whose mean is worth telling.
const LEAST_CALLS: f64 = 20.0;
/// Share of an interface's speed from which on it may be what calls wait for.
pub const LINK: f64 = 0.80;
/// An operation is one call up to this many on average: attributes and others' calls are few.
const ONE_CALL: f64 = 1.1;

/// What a trial's calls took, in nanoseconds each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallTimes {
    pub queued: f64,
    pub round_trip: f64,
    pub whole: f64,
    /// Calls for each operation of the load.
    pub per_operation: f64,
    /// Share of the calls that were sent again.
    resent: f64,
    /// Calls that are at the server, or on the way there and back, on average.
    pub at_server: f64,
}

/// The mounts that the members that worked are on, each once; nothing where one of them is on none.
fn mounts(trial: &TrialSamples) -> Option<Vec<&RemoteUse>> {
    let observed = trial.observed.as_ref()?;
    let worked = trial.members.iter().filter(|member| members::totals(member).ops > 0);
    let remote = worked.map(|member| observed.member(&member.name)?.remote.as_ref());
    let mut found = remote.collect::<Option<Vec<&RemoteUse>>>()?;
    found.sort_by_key(|mount| &mount.mountpoint);
    found.dedup_by_key(|mount| &mount.mountpoint);
    Some(found)
}

pub fn each(case: &Case<'_>, trial: &TrialSamples) -> Option<CallTimes> {
    let mut used: Vec<CallUse> = Vec::new();
    for mount in mounts(trial)? {
        let PerOp { read, write } = mount.calls?;
        used.extend(case.workload.reads().then_some(read));
        used.extend(case.workload.writes().then_some(write));
    }
    let sum = |of: fn(&CallUse) -> u64| used.iter().map(of).sum::<u64>() as f64;
    let (calls, whole, operations) = (sum(|u| u.calls), sum(|u| u.whole.0), operations(trial));
    let known = calls >= LEAST_CALLS && whole > 0.0 && operations > 0;
    known.then(|| CallTimes {
        queued: sum(|u| u.queued.0) / calls,
        round_trip: sum(|u| u.round_trip.0) / calls,
        whole: whole / calls,
        per_operation: calls / operations as f64,
        resent: (sum(|u| u.sent) / calls - 1.0).max(0.0),
        at_server: sum(|u| u.round_trip.0) / trial.elapsed.0 as f64,
    })
}

/// Those of the trial in the middle.
pub fn typical(case: &Case<'_>) -> Option<CallTimes> {
    let seen = |trial: &TrialSamples| each(case, trial).into_iter().collect();
    in_most(case.trials, seen, |_, _| true, |each| each.round_trip).pop()
}

/// What the members are on, where all of them are on network file systems: that of the first.
pub fn place<'a>(case: &Case<'a>) -> Option<&'a RemoteUse> {
    case.trials.iter().find_map(|trial| mounts(trial)?.first().copied())
}

/// The fullest network interface: its name and the share of its speed, of the busier direction.
pub fn fullest_link(case: &Case<'_>) -> Option<(String, f64)> {
    let shares = |trial: &TrialSamples| -> Vec<(String, f64)> {
        let network = trial.observed.iter().flat_map(|observed| &observed.network);
        let share = |used: &NetworkUse| {
            let bits = 8.0 * used.sent.max(used.received) as f64 / trial.elapsed.as_secs_f64();
            Some((used.interface.clone(), bits / used.speed_bits.filter(|speed| *speed > 0)? as f64))
        };
        network.filter_map(share).collect()
    };
    let each = in_most(case.trials, shares, |a, b| a.0 == b.0, |(_, share)| *share);
    each.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The figures of a call.
pub fn figures(each: &CallTimes) -> Vec<Evidence> {
    let sent = "time of a call from when it was sent until its answer (round trip)";
    let mut figures = vec![
        evidence(sent, each.round_trip, Unit::Nanoseconds, None),
        evidence("time of a call before it was sent", each.queued, Unit::Nanoseconds, None),
        evidence("calls for each operation", each.per_operation, Unit::Calls, None),
    ];
    if each.resent > 0.0 {
        figures.push(evidence("calls that were sent again, of all", each.resent, Unit::Share, None));
    }
    figures
}

/// What an operation consists of, where it is calls to a server: a clause for a sentence that says that too few are in flight, with its
/// figures.
pub fn round_trips(case: &Case<'_>, kept: f64) -> Option<(String, Vec<Evidence>)> {
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

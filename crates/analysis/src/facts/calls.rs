//! Calls to file servers, as NFS counts them: how long one waited at the client, and how long its answer took.

use super::case::Case;
use crate::evidence::{Evidence, Unit, evidence};
use crate::members;
use crate::metrics::operations;
use ebbtide_model::samples::{CallUse, RemoteUse, TrialSamples};
use ebbtide_model::units::{Nanos, format_iops, format_latency};
use ebbtide_model::workload::OpKind;

/// Share of a call's time that it must be at the server or on the way, for the server to be what serves no faster; and share
/// of an operation's latency that its calls must be, for them to be what it consists of.
pub const AT_SERVER: f64 = 0.50;
/// Fewest calls of a trial whose mean is worth telling.
const LEAST_CALLS: u64 = 20;
/// Share of an interface's speed from which on it may be what calls wait for.
pub const LINK: f64 = 0.80;
/// An operation is one call up to this many on average: attributes and others' calls are few.
const ONE_CALL: f64 = 1.1;

/// What a trial's calls took, in nanoseconds each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallTimes {
    pub calls: f64,
    pub queued: f64,
    pub round_trip: f64,
    pub whole: f64,
    /// Calls for each operation of the load.
    pub per_operation: f64,
    /// Share of the calls that were sent again.
    pub resent: f64,
}

/// The mounts that the members that worked are on, each once; nothing where one of them is on none.
fn mounts(trial: &TrialSamples) -> Option<Vec<&RemoteUse>> {
    let observed = trial.observed.as_ref()?;
    let mut found: Vec<&RemoteUse> = Vec::new();
    for member in trial.members.iter().filter(|member| members::totals(member).ops > 0) {
        let remote = observed.member(&member.name)?.remote.as_ref()?;
        if found.iter().all(|known| known.mountpoint != remote.mountpoint) {
            found.push(remote);
        }
    }
    (!found.is_empty()).then_some(found)
}

pub fn each(case: &Case<'_>, trial: &TrialSamples) -> Option<CallTimes> {
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
    let operations = operations(trial);
    if sum.calls < LEAST_CALLS || sum.whole == Nanos(0) || operations == 0 {
        return None;
    }
    let calls = sum.calls as f64;
    Some(CallTimes {
        calls,
        queued: sum.queued.0 as f64 / calls,
        round_trip: sum.round_trip.0 as f64 / calls,
        whole: sum.whole.0 as f64 / calls,
        per_operation: calls / operations as f64,
        resent: sum.sent.saturating_sub(sum.calls) as f64 / calls,
    })
}

/// Medians over the trials.
pub fn typical(case: &Case<'_>) -> Option<CallTimes> {
    let of = |value: fn(&CallTimes) -> f64| case.median(|trial| each(case, trial).map(|each| value(&each)));
    Some(CallTimes {
        calls: of(|e| e.calls)?,
        queued: of(|e| e.queued)?,
        round_trip: of(|e| e.round_trip)?,
        whole: of(|e| e.whole)?,
        per_operation: of(|e| e.per_operation)?,
        resent: of(|e| e.resent)?,
    })
}

/// Calls of a trial that are at the server, or on the way there and back, on average.
pub fn at_server_in(case: &Case<'_>, trial: &TrialSamples) -> Option<f64> {
    let each = each(case, trial)?;
    Some(each.calls * each.round_trip / 1e9 / trial.elapsed.as_secs_f64())
}

/// The same of the trials: their median.
pub fn at_server(case: &Case<'_>) -> Option<f64> {
    case.median(|trial| at_server_in(case, trial))
}

/// What the members are on, where all of them are on network file systems: that of the first.
pub fn place<'a>(case: &Case<'a>) -> Option<&'a RemoteUse> {
    case.trials.iter().find_map(|trial| mounts(trial)?.first().copied())
}

/// The fullest network interface: its name and the share of its speed, of the busier direction.
pub fn fullest_link(case: &Case<'_>) -> Option<(String, f64)> {
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
pub fn figures(each: &CallTimes) -> Vec<Evidence> {
    let mut figures = vec![
        evidence(
            "time of a call from when it was sent until its answer (round trip)",
            each.round_trip,
            Unit::Nanoseconds,
            None,
        ),
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

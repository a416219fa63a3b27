//! Workloads that have all that they ask for.

use super::*;
use ebbtide_model::metric::Metric;
use ebbtide_model::units::{Nanos, format_throughput};
use ebbtide_model::workload::{Arrival, Workload};

/// An open loop that completes this share of what arrives is served: nothing limits it.
pub const SERVED: f64 = 0.98;

/// Why a limit that is near is not asserted of a load that is served at once ([`Facts::served_at_once`](super::Facts::served_at_once)).
pub const SERVED_AT_ONCE: &str = "the load has all that it asks for, and does not wait for it";

/// Pausing for this share of the time a job does mostly that.
const PAUSING: f64 = 0.5;

/// Share of what a workload asks for below which all of its places are taken all the time: what arrives waits for one.
const BEHIND: f64 = 0.95;

/// Operations per second that arrive, where they come at times of their own.
fn arriving(workload: &Workload) -> Option<f64> {
    match workload.arrival {
        Arrival::Fixed { iops } | Arrival::Poisson { iops } => Some(iops),
        Arrival::Closed => None,
    }
}

/// Operations per second that completed, and that arrived, where they come at times of their own.
pub fn arrivals(case: &Case<'_>) -> Option<(f64, f64)> {
    Some((case.metric(Metric::Iops)?, arriving(case.workload)?))
}

/// Whether nothing but the completion of operations holds back the next one of `workload`, of which `done` operations per second completed:
/// it is held to nothing, or asks for more than is served.
pub fn keeps_in_flight(workload: &Workload, done: Option<f64>) -> bool {
    let rate = workload.rate.map(|rate| rate.0 as f64 / workload.mean_bs());
    let asked = arriving(workload).into_iter().chain(rate).reduce(f64::min);
    let behind = |asked: f64| done.is_some_and(|done| done < BEHIND * asked);
    workload.think_time == Nanos(0) && asked.is_none_or(behind)
}

/// Whether the workload has all that it asks for: an open loop whose operations are served as they arrive, or a limit of its own.
pub fn served(case: &Case<'_>) -> bool {
    arrivals(case).is_some_and(|(done, asked)| done >= SERVED * asked) || own_limit(case).is_some()
}

/// What the workload holds itself back with, where it does: a `rate` that is reached, or a `thinktime` with which its jobs mostly
/// pause. In words, with the figure that shows it.
pub fn own_limit(case: &Case<'_>) -> Option<(String, Evidence)> {
    own_rate(case).or_else(|| own_pauses(case))
}

fn own_rate(case: &Case<'_>) -> Option<(String, Evidence)> {
    let rate = case.workload.rate?.0 as f64;
    let moved = case.metric(Metric::Throughput).filter(|moved| *moved >= SERVED * rate)?;
    let (own, does) = (format_throughput(rate), format_throughput(moved));
    let not = case.measured();
    let sentence = format!("the workload's own `rate` of {own} limits it, not {not}: it moved {does}");
    let what = "throughput against the workload's `rate`";
    Some((sentence, evidence(what, moved, Unit::BytesPerSecond, Some(rate))))
}

fn own_pauses(case: &Case<'_>) -> Option<(String, Evidence)> {
    let (own, jobs) = (case.workload.think_time, f64::from(case.workload.numjobs.max(1)));
    let share = (case.metric(Metric::Iops)? * own.as_secs_f64() / jobs).min(1.0);
    let (not, percent) = (case.measured(), share * 100.0);
    let sentence = format!(
        "the workload's own `thinktime` of {own} limits it, not {not}: its jobs pause for {percent:.0}% of the time"
    );
    let figure = || share_is("share of the time that jobs pause", share, PAUSING);
    (share >= PAUSING).then(|| (sentence, figure()))
}

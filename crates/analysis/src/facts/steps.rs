//! Steps down in the rate of a trial, from one level to another that lasts, and whether volumes have credits that would explain
//! them.

use super::case::Case;
use crate::change::{self, Step};
use crate::metrics::natural;
use crate::waves;
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::{Interval, TrialSamples};
use ebbtide_model::units::Nanos;

/// Operations that a point of the series must hold on average.
const POINT_OPS: u64 = 5;
/// Most points of a series; more are put together.
const MAX_POINTS: usize = 200;
/// Share of the trials that must show the step when nothing else is known of the volumes.
pub const REPEATED: f64 = 0.5;

/// A step down with the time at which it came.
#[derive(Debug, Clone, Copy)]
pub struct StepDown {
    /// Since the start of the measurement.
    pub seconds: f64,
    /// Bytes or operations per second.
    pub step: Step,
}

/// Rates of a trial by points, with the time at the end of each, in bytes or operations per second.
pub fn points(trial: &TrialSamples, metric: Metric) -> (Vec<f64>, Vec<f64>) {
    let count = |i: &Interval| match metric {
        Metric::Throughput => i.array.total().bytes,
        _ => i.array.total().ops,
    };
    let ops: u64 = trial.series.iter().map(|i| i.array.total().ops).sum();
    let most = MAX_POINTS.min((ops / POINT_OPS) as usize).max(1);
    let width = trial.series.len().div_ceil(most).max(1);
    let (mut times, mut rates, mut start) = (Vec::new(), Vec::new(), 0u64);
    for chunk in trial.series.chunks_exact(width) {
        let Some(last) = chunk.last() else { break };
        let seconds = last.end.0.saturating_sub(start) as f64 / 1e9;
        start = last.end.0;
        if seconds > 0.0 {
            times.push(last.end.as_secs_f64());
            rates.push(chunk.iter().map(count).sum::<u64>() as f64 / seconds);
        }
    }
    (times, rates)
}

/// The step down that a trial shows in `metric` per second.
pub fn down(trial: &TrialSamples, metric: Metric) -> Option<StepDown> {
    let (times, rates) = points(trial, metric);
    let step = change::step(&rates).filter(|step| step.after < step.before)?;
    // What goes down and up again and again did not run out of anything when it went down last.
    if waves::waves(&rates).is_some() {
        return None;
    }
    Some(StepDown { seconds: *times.get(step.at.checked_sub(1)?)?, step })
}

/// When a trial slowed down in a step, from the start of the measurement; nothing where it did not.
pub fn step_down(case: &Case<'_>, trial: &TrialSamples) -> Option<Nanos> {
    down(trial, metric_of(case)).map(|down| Nanos::from_secs_f64(down.seconds))
}

/// What the rate of a workload is counted in.
pub fn metric_of(case: &Case<'_>) -> Metric {
    if natural(case.workload) == Metric::Throughput { Metric::Throughput } else { Metric::Iops }
}

/// Whether the working volumes, or a link of theirs, have burst credits: `None` when that is unknown of some.
pub fn have_credits(case: &Case<'_>) -> Option<bool> {
    let mut any = false;
    for member in case.working() {
        let shape = case.shape(&member.name)?;
        let link = shape.link.and_then(|link| case.experiment.links.get(link));
        let limits = [
            shape.iops,
            shape.throughput,
            link.and_then(|link| link.iops),
            link.and_then(|link| link.throughput),
        ];
        any |= limits.into_iter().flatten().any(|l| l.burst_rate.is_some_and(|burst| burst > l.rate));
    }
    Some(any)
}

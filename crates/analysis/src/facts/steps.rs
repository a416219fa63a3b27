//! Steps down in the rate of a trial, from one level to another that lasts, and whether volumes have credits that would explain
//! them.

use super::*;
use crate::change::{self, Step};
use crate::metrics::natural;
use crate::waves;
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::Interval;
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
    let mut start = Nanos(0);
    let point = |chunk: &[Interval]| {
        let end = chunk.last()?.end;
        let seconds = end.0.saturating_sub(start.0) as f64 / 1e9;
        start = end;
        let done: u64 = chunk.iter().map(count).sum();
        (seconds > 0.0).then(|| (end.as_secs_f64(), done as f64 / seconds))
    };
    trial.series.chunks_exact(width).filter_map(point).unzip()
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
        let of_link = link.map_or([None; 2], |link| [link.iops, link.throughput]);
        let mut limits = [[shape.iops, shape.throughput], of_link].into_iter().flatten().flatten();
        any |= limits.any(|limit| limit.burst_rate.is_some_and(|burst| burst > limit.rate));
    }
    Some(any)
}

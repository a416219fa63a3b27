//! Metrics of one trial, recomputed from its samples.

use ebbtide_model::experiment::Answer;
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::{Histogram, TrialSamples};
use ebbtide_model::workload::Workload;

/// Operations in flight that `workload` keeps, over all jobs.
pub fn in_flight(workload: &Workload) -> u32 {
    workload.depth().saturating_mul(workload.numjobs)
}

/// Operations that completed in a trial, reads and writes together.
pub fn operations(samples: &TrialSamples) -> u64 {
    samples.array.counts().total().ops
}

/// The value of each of [`Metric::ALL`] in one trial; see [`metric`].
pub fn metrics(samples: &TrialSamples) -> [Option<f64>; Metric::ALL.len()] {
    let latency = samples.latency();
    Metric::ALL.map(|m| value(samples, m, &latency))
}

/// The value of `metric` in one trial; `None` when the trial has no measured time or completed nothing
/// that the metric could rest on.
pub fn metric(samples: &TrialSamples, metric: Metric) -> Option<f64> {
    value(samples, metric, &samples.latency())
}

fn value(samples: &TrialSamples, metric: Metric, latency: &Histogram) -> Option<f64> {
    let seconds = samples.elapsed.as_secs_f64();
    let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
    match metric {
        Metric::Throughput => rate(samples.array.counts().total().bytes),
        Metric::Iops => rate(operations(samples)),
        Metric::LatP50 => latency.percentile(50.0).map(|v| v as f64),
        Metric::LatP99 => latency.percentile(99.0).map(|v| v as f64),
    }
}

/// The metric that decides when a workload has been measured often enough, and how designs compare: the one that the
/// experiment asks for, else the one that suits the workload.
pub fn primary(answer: &Answer, workload: &Workload) -> Metric {
    answer.metric.unwrap_or_else(|| natural(workload))
}

/// The metric that suits a workload.
pub fn natural(workload: &Workload) -> Metric {
    Metric::natural(workload)
}

//! Metrics of one trial, recomputed from its samples.

use ebbtide_model::experiment::Answer;
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::workload::{Access, Arrival, Workload};

/// The value of `metric` in one trial; `None` when the trial has no measured time or completed nothing
/// that the metric could rest on.
pub fn metric(samples: &TrialSamples, metric: Metric) -> Option<f64> {
    let seconds = samples.elapsed.as_secs_f64();
    let (read, write) = (&samples.array.read.count, &samples.array.write.count);
    let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
    match metric {
        Metric::Throughput => rate(read.bytes.saturating_add(write.bytes)),
        Metric::Iops => rate(read.ops.saturating_add(write.ops)),
        Metric::LatP50 => samples.latency().percentile(50.0).map(|v| v as f64),
        Metric::LatP99 => samples.latency().percentile(99.0).map(|v| v as f64),
    }
}

/// The metric that decides when a workload has been measured often enough, and how designs compare: the one that the
/// experiment asks for, else the one that suits the workload.
pub fn primary(answer: &Answer, workload: &Workload) -> Metric {
    answer.metric.unwrap_or_else(|| natural(workload))
}

/// The metric that suits a workload.
///
/// In a closed loop the rate is the answer: bytes for sequential access, operations for random access. When
/// arrivals are given (open loop, or a closed loop held back by a rate) the rate is the question and the 99th
/// percentile of latency is the answer.
pub fn natural(workload: &Workload) -> Metric {
    match (workload.arrival, workload.rate, workload.access) {
        (Arrival::Fixed { .. } | Arrival::Poisson { .. }, _, _) | (_, Some(_), _) => Metric::LatP99,
        (Arrival::Closed, None, Access::Sequential) => Metric::Throughput,
        (Arrival::Closed, None, Access::Random) => Metric::Iops,
    }
}

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

/// The metrics that one trial of `workload` has, with their values; see [`metric`].
pub fn metrics(workload: &Workload, samples: &TrialSamples) -> Vec<(Metric, f64)> {
    let latency = samples.latency();
    let all = Metric::of(workload).into_iter();
    all.filter_map(|metric| Some((metric, value(samples, metric, &latency)?))).collect()
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
        Metric::Time => (seconds > 0.0).then_some(samples.elapsed.0 as f64),
        Metric::Own(figure) => {
            samples.execution.figures.iter().find_map(|(of, value)| (*of == figure).then_some(*value))
        }
    }
}

/// The metric that decides when a workload has been measured often enough, and how designs compare: the one that the
/// experiment asks for, else the one that suits the workload.
pub fn primary(answer: &Answer, workload: &Workload) -> Metric {
    let asked = answer.metric.filter(|asked| Metric::of(workload).contains(asked));
    asked.unwrap_or_else(|| natural(workload))
}

/// The metric that suits a workload.
pub fn natural(workload: &Workload) -> Metric {
    Metric::natural(workload)
}

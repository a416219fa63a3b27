//! A trial by its figures, without its samples: what estimates, comparisons, races and decisions rest on.

use crate::metrics::metrics;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::DepthFound;
use ebbtide_model::schedule::{Role, Trial};
use ebbtide_model::session::{Outcome, TrialRecord};

/// A trial by its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSummary {
    /// Its place in the session, its design and its workload.
    pub trial: Trial,
    /// Its metrics; nothing of one that failed or took no time.
    pub(crate) values: Option<Vec<(Metric, f64)>>,
    /// Seconds of I/O, warm-up included; 0 of one that failed.
    pub io_seconds: f64,
    /// The iodepth that was found to keep a latency, where that was looked for and one does.
    pub depth: Option<u32>,
}

impl TrialSummary {
    /// The figures of a trial of `experiment`.
    pub fn of(experiment: &Experiment, record: &TrialRecord) -> TrialSummary {
        let trial = record.trial;
        let mut depth = None;
        let (values, io_seconds) = match &record.outcome {
            Outcome::Samples(samples) => {
                depth = match samples.execution.depth {
                    Some(DepthFound::Found(depth) | DepthFound::Open(depth)) => Some(depth),
                    Some(DepthFound::None) | None => None,
                };
                let load = experiment.load(trial.design, trial.workload);
                let warm_up = load.map_or(0.0, |load| load.warm_up.as_secs_f64());
                let asked = load.or_else(|| experiment.workloads.first());
                let values = asked.filter(|_| samples.elapsed.0 > 0).map(|asked| metrics(asked, samples));
                let measured = samples.execution.searched.unwrap_or(samples.elapsed);
                (values, measured.as_secs_f64() + warm_up)
            }
            Outcome::Failed(_) => (None, 0.0),
        };
        TrialSummary { trial, values, io_seconds, depth }
    }

    /// Whether it measured something.
    pub fn has_figures(&self) -> bool {
        self.values.is_some()
    }

    /// The value of `metric`, where it was measured.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.values.as_ref()?.iter().find_map(|(m, value)| (*m == metric).then_some(*value))
    }

    /// Whether it is no second run of the control.
    pub fn is_candidate(&self) -> bool {
        self.trial.role == Role::Candidate
    }

    /// Whether it measures its design under this workload, and is no second run of the control.
    pub fn measures(&self, workload: usize) -> bool {
        self.trial.workload == workload && self.is_candidate()
    }
}

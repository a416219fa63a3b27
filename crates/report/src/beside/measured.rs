//! What a session measured, as far as a comparison needs it.

use super::model::ComparedSession;
use ebbtide_analysis::estimate::{estimate, median};
use ebbtide_analysis::{Estimate, TrialSummary};
use ebbtide_model::metric::Metric;

/// A design of a session under a workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// Index of the design in its experiment.
    pub(super) design: usize,
    /// Index of the workload in its experiment.
    pub(super) workload: usize,
    /// The trials that gave samples, in the order in which they ran.
    trials: Vec<TrialSummary>,
    pub(super) failed: usize,
}

impl Measured {
    /// Everything that a side measured, by design, then by workload; none without a trial.
    pub(super) fn all(side: &ComparedSession<'_>) -> Vec<Measured> {
        let experiment = &side.session.experiment;
        let workloads = experiment.workloads.len();
        let mut asked: Vec<Vec<TrialSummary>> = vec![Vec::new(); experiment.designs.len() * workloads];
        for ran in side.trials.iter().filter(|ran| ran.trial.workload < workloads && ran.is_candidate()) {
            if let Some(trials) = asked.get_mut(ran.trial.design * workloads + ran.trial.workload) {
                trials.push(ran.clone());
            }
        }
        let measured = |(place, asked): (usize, Vec<TrialSummary>)| {
            let (design, workload) = (place / workloads, place % workloads);
            let counts = side.design.is_none_or(|only| only == experiment.designs[design].name);
            if asked.is_empty() || !counts {
                return None;
            }
            let trials: Vec<TrialSummary> = asked.iter().filter(|ran| ran.has_figures()).cloned().collect();
            Some(Measured { design, workload, failed: asked.len() - trials.len(), trials })
        };
        asked.into_iter().enumerate().filter_map(measured).collect()
    }

    /// Trials that gave samples.
    pub(super) fn trials(&self) -> usize {
        self.trials.len()
    }

    /// Values of `metric` with their rounds.
    pub(super) fn rounds(&self, metric: Metric) -> Vec<(u32, f64)> {
        self.trials.iter().filter_map(|ran| Some((ran.trial.round, ran.value(metric)?))).collect()
    }

    /// Values of `metric` in the order in which they were measured.
    pub(super) fn values(&self, metric: Metric) -> Vec<f64> {
        self.rounds(metric).into_iter().map(|(_, value)| value).collect()
    }

    /// The iodepth that was found to keep a latency, in words: the median and, where trials differ, from which to which.
    pub(super) fn depth(&self) -> Option<String> {
        let depths: Vec<u32> = self.trials.iter().filter_map(|ran| ran.depth).collect();
        let middle = median(depths.iter().map(|depth| f64::from(*depth)))?;
        let (least, most) = (depths.iter().min()?, depths.iter().max()?);
        let range = if least == most { String::new() } else { format!(" ({least} to {most})") };
        Some(format!("{}{range}", middle.round()))
    }

    /// Median of `metric` with its interval at `level`.
    pub(super) fn estimate(&self, metric: Metric, level: f64) -> Option<Estimate> {
        estimate(&self.values(metric), level)
    }
}

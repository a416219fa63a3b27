//! What a rule may look at.

use crate::DesignResult;
use ebbtide_model::backend::BackendKind;
use ebbtide_model::experiment::{Design, Experiment, Volume};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::session::Session;
use ebbtide_model::workload::Workload;

/// One design under one workload: the trials, what was computed from them, and what the experiment says.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// All trials, for rules that look beyond this design and workload.
    pub session: &'a Session,
    /// What the session's experiment says.
    pub experiment: &'a Experiment,
    /// The design that is judged.
    pub design: &'a Design,
    /// The workload that it ran.
    pub workload: &'a Workload,
    /// Samples of its trials as a candidate, in the order in which they ran; at least one.
    pub trials: &'a [&'a TrialSamples],
    /// Estimates and member shares.
    pub result: &'a DesignResult,
}

impl<'a> Case<'a> {
    /// The case of design and workload with these indices.
    ///
    /// # Panics
    /// When the experiment has no such design or workload.
    pub fn new(
        session: &'a Session,
        design: usize,
        workload: usize,
        trials: &'a [&'a TrialSamples],
        result: &'a DesignResult,
    ) -> Self {
        let experiment = &session.experiment;
        Self {
            session,
            experiment,
            design: &experiment.designs[design],
            workload: &experiment.workloads[workload],
            trials,
            result,
        }
    }

    /// The volume of that name.
    pub fn volume(&self, name: &str) -> Option<&'a Volume> {
        self.experiment.volumes.iter().find(|volume| volume.name == name)
    }

    /// Whether this tool itself holds that volume to a shape, which has the speed of its own beside any other use of
    /// the disk below. Simulated and real volumes share what they are with all who use them.
    pub fn slowed_by_tool(&self, name: &str) -> bool {
        self.session.meta.backend == BackendKind::Files
            && self.volume(name).is_some_and(|v| v.shape.is_some())
    }

    /// Median over the trials of what `value` makes of each; `None` when it makes nothing of any.
    pub fn median(&self, value: impl Fn(&TrialSamples) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.trials.iter().filter_map(|trial| value(trial)).collect();
        crate::estimate::median(&values)
    }
}

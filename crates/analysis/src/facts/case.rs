//! The case that rules judge: one design under one workload, and what they may ask of it.

use super::elsewhere::Elsewhere;
use super::served::keeps_in_flight;
use crate::metrics::in_flight;
use crate::{DesignResult, MemberShare, estimate};
use ebbtide_model::backend::BackendKind;
use ebbtide_model::experiment::{Design, Experiment, Volume};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::session::{SessionMeta, TrialRecord};
use ebbtide_model::units::Nanos;
use ebbtide_model::volume::Shape;
use ebbtide_model::workload::Workload;

/// One design under one workload: the trials, what was computed from them, and what the experiment says.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// What is known of the session beside its trials.
    pub meta: &'a SessionMeta,
    /// All trials of the design, for rules that look beyond this workload.
    pub records: &'a [&'a TrialRecord],
    /// What other designs show, for rules that look beyond this one.
    pub elsewhere: &'a Elsewhere,
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
    /// The volume of that name.
    pub fn volume(&self, name: &str) -> Option<&'a Volume> {
        self.experiment.volumes.iter().find(|volume| volume.name == name)
    }

    /// The shape of the volume of that name, where it has one.
    pub fn shape(&self, name: &str) -> Option<&'a Shape> {
        self.volume(name)?.shape.as_ref()
    }

    /// Members that did something.
    pub fn working(&self) -> impl Iterator<Item = &'a MemberShare> + use<'a> {
        self.result.members.iter().filter(|member| member.iops > 0.0)
    }

    /// What is measured, in words: one volume, or an array of several.
    pub fn measured(&self) -> &'static str {
        let several = self.result.members.len() > 1 || !self.result.below.is_empty();
        if several { "the array" } else { "the volume" }
    }

    /// Operations in flight that the workload keeps.
    pub fn in_flight(&self) -> u32 {
        in_flight(self.workload)
    }

    /// The same as a number that may be multiplied.
    pub fn kept(&self) -> f64 {
        f64::from(self.in_flight())
    }

    /// Whether nothing but the completion of operations holds back the next one.
    pub fn keeps_in_flight(&self) -> bool {
        keeps_in_flight(self.workload, self.metric(Metric::Iops))
    }

    /// Whether each job has one operation in flight at most, which waits for none of its own.
    pub fn one_at_a_time(&self) -> bool {
        self.in_flight() <= self.workload.numjobs
    }

    /// Median over the trials of `metric`.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        self.result.metric(metric).map(|estimate| estimate.median)
    }

    /// Whether this tool itself holds that volume to a shape, which has the speed of its own beside any other use of
    /// the disk below. Simulated and real volumes share what they are with all who use them.
    pub fn slowed_by_tool(&self, name: &str) -> bool {
        matches!(self.meta.backend, BackendKind::Files | BackendKind::Bench) && self.shape(name).is_some()
    }

    /// Median over the trials of what `value` makes of each; `None` when it makes nothing of any.
    pub fn median(&self, value: impl Fn(&TrialSamples) -> Option<f64>) -> Option<f64> {
        estimate::median(self.trials.iter().filter_map(|trial| value(trial)))
    }

    /// What `seen` makes of the trial that is in the middle by `value`, of two the one with less.
    pub fn in_the_middle<T>(
        &self,
        seen: impl Fn(&TrialSamples) -> Option<T>,
        value: impl Fn(&T) -> f64,
    ) -> Option<T> {
        let mut all: Vec<T> = self.trials.iter().filter_map(|trial| seen(trial)).collect();
        all.sort_by(|a, b| value(a).total_cmp(&value(b)));
        let middle = all.len().checked_sub(1)? / 2;
        Some(all.swap_remove(middle))
    }
}

/// Share of the measurement that `time` is.
pub fn part(trial: &TrialSamples, time: Nanos) -> f64 {
    time.as_secs_f64() / trial.elapsed.as_secs_f64()
}

/// What more than half of these trials show, each thing as it is in the one of them that is in the middle by `value`. `seen` finds each once in a trial.
pub fn in_most<T>(
    trials: &[&TrialSamples],
    seen: impl Fn(&TrialSamples) -> Vec<T>,
    same: impl Fn(&T, &T) -> bool,
    value: impl Fn(&T) -> f64,
) -> Vec<T> {
    let mut each: Vec<Vec<T>> = Vec::new();
    for found in trials.iter().flat_map(|trial| seen(trial)) {
        match each.iter_mut().find(|known| same(&known[0], &found)) {
            Some(known) => known.push(found),
            None => each.push(vec![found]),
        }
    }
    each.retain(|known| 2 * known.len() > trials.len());
    let middle = |mut known: Vec<T>| {
        known.sort_by(|a, b| value(a).total_cmp(&value(b)));
        known.swap_remove((known.len() - 1) / 2)
    };
    each.into_iter().map(middle).collect()
}

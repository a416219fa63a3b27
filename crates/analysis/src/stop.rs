//! When a session may stop.
//!
//! Stopping at the first round whose interval is narrow enough picks the rounds in which the interval is
//! narrow by luck: a 95% interval then covers the median in 92 to 94% of sessions. Two things pay for the
//! early looks: they are made at growing distances only ([`LOOK_GROWTH`]), and each must pass at a level
//! higher than the one reported ([`INNER_RISK`]). docs/statistics.md has the measured coverage of this and of
//! what was tried instead. The last look, at the most rounds or at the end of the budget, is not chosen by
//! the data and is made at the reported level itself.

use super::Estimate;
use super::estimate::{estimate, least_trials};
use super::metrics::{metric, primary};
use ebbtide_model::experiment::{Answer, Experiment};
use ebbtide_model::metric::Metric;
use ebbtide_model::plan::Role;
use ebbtide_model::session::{Ending, Outcome, TrialRecord};
use ebbtide_model::units::Nanos;

/// Each look comes when there are this many times the trials of the look before (measured: docs/statistics.md).
pub const LOOK_GROWTH: f64 = 1.25;
/// An early look uses an interval with this share of the reported risk: at 95%, one of 96%. Six trials
/// still suffice (their range covers the median with 96.9%).
pub const INNER_RISK: f64 = 0.8;

/// Why a session ends without its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `trials_max` rounds have run.
    Rounds,
    /// The time budget is spent.
    Budget,
}

/// What comes after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Another round is needed, and may begin.
    Continue,
    /// Every interval is narrow enough.
    Reached,
    /// It ends although some interval is too wide.
    NotReached(Limit),
}

impl Decision {
    /// How a session ends by it; `None` where another round follows.
    pub const fn ending(self) -> Option<Ending> {
        match self {
            Decision::Continue => None,
            Decision::Reached => Some(Ending::Reached),
            Decision::NotReached(_) => Some(Ending::NotReached),
        }
    }
}

/// How far one design under one workload has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Index into `Experiment::designs`.
    pub design: usize,
    /// Index into `Experiment::workloads`.
    pub workload: usize,
    /// The metric that decides.
    pub metric: Metric,
    /// Its estimate at the reported level; `None` while no trial gave samples.
    pub estimate: Option<Estimate>,
    /// Trials that failed.
    pub failed: u32,
    /// Values, one per trial.
    values: Vec<f64>,
}

impl Point {
    /// A point of these values, one per trial, of an experiment with a single one.
    pub fn of(values: Vec<f64>, level: f64) -> Self {
        let estimate = estimate(&values, level);
        Point { design: 0, workload: 0, metric: Metric::Throughput, estimate, failed: 0, values }
    }

    /// Whether the interval at `level` is as narrow as `precision`. A point whose every trial failed asks for
    /// nothing more: further rounds would not help.
    fn narrow(&self, level: f64, precision: f64) -> bool {
        if self.values.is_empty() && self.failed > 0 {
            return true;
        }
        estimate(&self.values, level)
            .and_then(|estimate| estimate.relative_half_width())
            .is_some_and(|half| half <= precision)
    }
}

/// Every design under every workload, from the trials so far; for progress as well as for [`decide`].
pub fn points(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<Point> {
    let mut points = Vec::with_capacity(experiment.designs.len() * experiment.workloads.len());
    for design in 0..experiment.designs.len() {
        for (workload, asked) in experiment.workloads.iter().enumerate() {
            let metric_asked = primary(&experiment.answer, asked);
            let (mut values, mut failed) = (Vec::new(), 0);
            for record in trials {
                let trial = &record.trial;
                if trial.design != design || trial.workload != workload || trial.role != Role::Candidate {
                    continue;
                }
                match &record.outcome {
                    Outcome::Samples(samples) => values.extend(metric(samples, metric_asked)),
                    Outcome::Failed(_) => failed += 1,
                }
            }
            let estimate = estimate(&values, experiment.answer.level);
            points.push(Point { design, workload, metric: metric_asked, estimate, failed, values });
        }
    }
    points
}

/// Whether to look after `rounds` rounds: at `first`, then whenever their number has grown by [`LOOK_GROWTH`].
fn is_look(rounds: u32, first: u32) -> bool {
    let mut look = first;
    while look < rounds {
        look = ((f64::from(look) * LOOK_GROWTH).ceil() as u32).max(look + 1);
    }
    look == rounds
}

/// The decision after `rounds` rounds that took `elapsed` in all.
pub fn decide(experiment: &Experiment, trials: &[TrialRecord], rounds: u32, elapsed: Nanos) -> Decision {
    decide_points(&points(experiment, trials), &experiment.answer, rounds, elapsed)
}

/// How a session ends after `rounds` rounds that took `elapsed` in all; `None` where another round follows.
pub fn ending(
    experiment: &Experiment,
    trials: &[TrialRecord],
    rounds: u32,
    elapsed: Nanos,
) -> Option<Ending> {
    decide(experiment, trials, rounds, elapsed).ending()
}

/// As [`decide`], from points that were already computed.
pub fn decide_points(points: &[Point], answer: &Answer, rounds: u32, elapsed: Nanos) -> Decision {
    let narrow = |level| points.iter().all(|point| point.narrow(level, answer.precision));
    let limit = match (rounds >= answer.trials_max, elapsed >= answer.budget) {
        (true, _) => Some(Limit::Rounds),
        (false, true) => Some(Limit::Budget),
        (false, false) => None,
    };
    if let Some(limit) = limit {
        return if narrow(answer.level) { Decision::Reached } else { Decision::NotReached(limit) };
    }
    let inner = 1.0 - INNER_RISK * (1.0 - answer.level);
    let least = least_trials(inner).map_or(u32::MAX, |n| n as u32);
    if is_look(rounds, answer.trials_min.max(least)) && narrow(inner) {
        return Decision::Reached;
    }
    Decision::Continue
}

#[cfg(test)]
#[path = "stop_tests.rs"]
mod tests;

//! When a session may stop.
//!
//! Stopping at the first round whose interval is narrow enough picks the rounds in which the interval is
//! narrow by luck: a 95% interval then covers the median in 92 to 94% of sessions. Two things pay for the
//! early looks: they are made at growing distances only ([`LOOK_GROWTH`]), and each must pass at a level
//! higher than the one reported ([`INNER_RISK`]). docs/explanation/statistics.md has the measured coverage of this and of
//! what was tried instead. The last look, at the most rounds or at the end of the budget, is not chosen by
//! the data and is made at the reported level itself.
//!
//! With several designs an early look also asks that every comparison with the control, and with the design that is ahead, can be
//! concluded, by the width of its interval alone: a rule
//! that looked for a winner would find one.
//!
//! A sweep is decided by its race instead: the evidence of that may be looked at after every round, and it asks for no precision.

use super::best::{ByRound, ahead, pairs};
use super::compare::{Margins, family, level_of_each, ratio};
use super::estimate::{estimate_of_sorted, least_trials};
use super::metrics::primary;
use super::race::{Contest, Cost};
use super::{Estimate, TrialSummary};
use ebbtide_model::experiment::{Answer, Experiment};
use ebbtide_model::metric::Metric;
use ebbtide_model::schedule::Referee;
use ebbtide_model::session::{Ending, TrialRecord};
use ebbtide_model::units::Nanos;

/// Each look comes when there are this many times the trials of the look before (measured: docs/explanation/statistics.md).
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
    /// Another round would take more than a sweep's share of the full grid's I/O.
    Share,
}

/// What comes after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Another round is needed, and may begin.
    Continue,
    /// Every interval is narrow enough and every comparison settled, or the race is decided.
    Reached,
    /// It ends although some interval is too wide, or several designs are left.
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
    /// Trials that failed, or took no time.
    pub failed: u32,
    /// Values, one per trial, ascending.
    values: Vec<f64>,
}

impl Point {
    /// A point of these values, one per trial, of an experiment with a single one.
    pub fn of(values: Vec<f64>, level: f64) -> Self {
        let mut point = Point::new(0, 0, Metric::Throughput);
        values.into_iter().for_each(|value| point.insert(value));
        point.estimate = estimate_of_sorted(&point.values, level);
        point
    }

    fn new(design: usize, workload: usize, metric: Metric) -> Self {
        Point { design, workload, metric, estimate: None, failed: 0, values: Vec::new() }
    }

    fn insert(&mut self, value: f64) {
        if value.is_finite() {
            let place = self.values.partition_point(|known| *known <= value);
            self.values.insert(place, value);
        }
    }

    /// Whether the interval at `level` is as narrow as `precision`. A point whose every trial failed asks for
    /// nothing more: further rounds would not help.
    fn narrow(&self, level: f64, precision: f64) -> bool {
        if self.values.is_empty() && self.failed > 0 {
            return true;
        }
        estimate_of_sorted(&self.values, level)
            .and_then(|estimate| estimate.relative_half_width())
            .is_some_and(|half| half <= precision)
    }
}

/// Every design under every workload, from the trials so far: each is looked at once, when it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimates {
    /// By design, then by workload.
    points: Vec<Point>,
    /// The same: the value of each round.
    by_round: Vec<ByRound>,
    workloads: usize,
    level: f64,
}

impl Estimates {
    /// Before the first trial of `experiment`.
    pub fn new(experiment: &Experiment) -> Self {
        let workloads = || experiment.workloads.iter().enumerate();
        let points = (0..experiment.designs.len()).flat_map(|design| {
            workloads()
                .map(move |(index, asked)| Point::new(design, index, primary(&experiment.answer, asked)))
        });
        let points: Vec<Point> = points.collect();
        Estimates {
            by_round: vec![ByRound::new(); points.len()],
            points,
            workloads: experiment.workloads.len(),
            level: experiment.answer.level,
        }
    }

    /// Takes in a trial that ended.
    pub fn add(&mut self, ran: &TrialSummary) {
        let trial = &ran.trial;
        let Some(place) = self.place(trial.design, trial.workload).filter(|_| ran.is_candidate()) else {
            return;
        };
        let point = &mut self.points[place];
        point.failed += u32::from(!ran.has_figures());
        if let Some(value) = ran.value(point.metric) {
            point.insert(value);
            point.estimate = estimate_of_sorted(&point.values, self.level);
            self.by_round[place].insert(trial.round, value);
        }
    }

    fn place(&self, design: usize, workload: usize) -> Option<usize> {
        let place = design.checked_mul(self.workloads)?.checked_add(workload)?;
        (workload < self.workloads && place < self.points.len()).then_some(place)
    }

    /// How far a design has come under a workload; nothing where there is no such.
    pub fn point(&self, design: usize, workload: usize) -> Option<&Point> {
        self.points.get(self.place(design, workload)?)
    }

    /// By design, then by workload.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The decision after `rounds` rounds of `experiment` that took `elapsed` in all.
    pub fn decide(&self, experiment: &Experiment, rounds: u32, elapsed: Nanos) -> Decision {
        let decision = decide_points(&self.points, &experiment.answer, rounds, elapsed);
        let last = rounds >= experiment.answer.trials_max || elapsed >= experiment.answer.budget;
        if decision == Decision::Reached && !last && !self.settled(experiment) {
            return Decision::Continue;
        }
        decision
    }

    /// Whether every comparison with the control, and of the design that is ahead with the others, is known well enough for a
    /// conclusion wherever it lies, at the level of an early look. One without any pair, whose trials all failed, asks for nothing more.
    fn settled(&self, experiment: &Experiment) -> bool {
        let inner = 1.0 - INNER_RISK * (1.0 - experiment.answer.level);
        let level = level_of_each(inner, family(experiment));
        let margins = Margins::of(&experiment.answer);
        (0..self.workloads).all(|workload| {
            let values: Vec<&ByRound> = self.by_round.iter().skip(workload).step_by(self.workloads).collect();
            let Some(metric) = self.points.get(workload).map(|point| point.metric) else { return true };
            let control = experiment.control;
            // Against the control, and what is ahead against those that are left.
            let ahead = ahead(&values, metric).filter(|ahead| *ahead != control);
            let others = |one: usize| {
                (0..values.len()).filter(move |other| *other != one).map(move |other| (one, other))
            };
            let of_ahead = ahead.into_iter().flat_map(others).filter(|(_, other)| *other != control);
            others(control).chain(of_ahead).all(|(one, other)| {
                let pairs = values.get(one).map_or_else(Vec::new, |one| pairs(values[other], one));
                ratio(&pairs, level).is_none_or(|seen| margins.settled(&seen))
            })
        })
    }
}

/// Whether to look after `rounds` rounds: at `first`, then whenever their number has grown by [`LOOK_GROWTH`].
pub fn is_look(rounds: u32, first: u32) -> bool {
    let mut look = first;
    while look < rounds {
        look = ((f64::from(look) * LOOK_GROWTH).ceil() as u32).max(look + 1);
    }
    look == rounds
}

/// Decides after each round who runs on, and whether the session does. Reads each trial once and keeps its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Decider {
    race: Option<Contest>,
    /// What the trials of a race cost.
    cost: Cost,
    standing: Estimates,
    /// Those that ended since the last decision.
    newest: Vec<TrialSummary>,
    /// Trials that have been taken in.
    seen: usize,
}

impl Decider {
    /// For a session of `experiment`, before its first trial.
    pub fn new(experiment: &Experiment) -> Decider {
        Decider {
            race: Contest::new(experiment),
            cost: Cost::default(),
            standing: Estimates::new(experiment),
            newest: Vec::new(),
            seen: 0,
        }
    }

    /// The race, where the experiment has a sweep.
    pub fn race(&self) -> Option<&Contest> {
        self.race.as_ref()
    }

    /// How far each design has come under each workload.
    pub fn standing(&self) -> &Estimates {
        &self.standing
    }

    /// Trials that have been taken in.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Takes in a trial of `experiment` that ended.
    pub fn add(&mut self, experiment: &Experiment, record: &TrialRecord) {
        let ran = TrialSummary::of(experiment, record);
        self.standing.add(&ran);
        self.newest.push(ran);
        self.seen += 1;
    }

    /// What comes after `rounds` rounds that took `elapsed` in all; asked after each round, when all its trials have been taken in.
    pub fn decide(&mut self, experiment: &Experiment, rounds: u32, elapsed: Nanos) -> Decision {
        let newest = std::mem::take(&mut self.newest);
        let Some(race) = &mut self.race else {
            return self.standing.decide(experiment, rounds, elapsed);
        };
        race.add_round(&newest);
        newest.iter().for_each(|ran| self.cost.add(ran));
        let share = race.sweep().budget.is_some_and(|share| {
            let next = self.cost.of_round(|design| race.runs(design));
            self.cost.spent() + next > share * self.cost.of_grid(experiment.answer.trials_max)
        });
        let limit = limit(&experiment.answer, rounds, elapsed).or(share.then_some(Limit::Share));
        // Whether it is decided costs more to find out than who has lost.
        let decided =
            limit.is_some() || (rounds >= experiment.answer.trials_min && race.left().len() <= MOST_EQUAL);
        match limit {
            _ if decided && race.standing().decided => Decision::Reached,
            Some(limit) => Decision::NotReached(limit),
            None => Decision::Continue,
        }
    }
}

/// Of more designs it is not asked after each round whether they are all equal: that takes far more rounds than to tell some of them apart.
const MOST_EQUAL: usize = 16;

impl Referee for Decider {
    fn runs(&self, design: usize) -> bool {
        self.race.as_ref().is_none_or(|race| race.runs(design))
    }

    fn after(
        &mut self,
        experiment: &Experiment,
        trials: &[TrialRecord],
        rounds: u32,
        elapsed: Nanos,
    ) -> Option<Ending> {
        let newest = trials.get(self.seen..).unwrap_or_default();
        newest.iter().for_each(|record| self.add(experiment, record));
        self.decide(experiment, rounds, elapsed).ending()
    }
}

fn limit(answer: &Answer, rounds: u32, elapsed: Nanos) -> Option<Limit> {
    match (rounds >= answer.trials_max, elapsed >= answer.budget) {
        (true, _) => Some(Limit::Rounds),
        (false, true) => Some(Limit::Budget),
        (false, false) => None,
    }
}

/// Whether `points` are known well enough after `rounds` rounds that took `elapsed` in all, or a limit came first.
pub fn decide_points(points: &[Point], answer: &Answer, rounds: u32, elapsed: Nanos) -> Decision {
    let narrow = |level| points.iter().all(|point| point.narrow(level, answer.precision));
    if let Some(limit) = limit(answer, rounds, elapsed) {
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

//! What came of a race: recomputed from the trials that a session stored, so that there is one truth.

use super::contest::{Contest, Gone};
use super::figures::Figures;
use super::{Cost, interval};
use crate::TrialSummary;
use crate::estimate::median;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::sweep::{Goal, Objective};

/// How far one design of a sweep came.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// Index of the design in the experiment.
    pub design: usize,
    /// Rounds in which it ran and was in the race.
    pub rounds: u32,
    /// After which round it left, from 1 (0: before the first), and why.
    pub gone: Option<(u32, Gone)>,
    /// Medians of each figure that counts, in its own unit.
    pub figures: Vec<(Goal, Option<f64>)>,
    /// Median over the rounds that it shares with the leader of what it is worth over what that is worth; 1 for the leader itself.
    pub ratio: Option<f64>,
    /// Its interval, which holds at any round with the probability of the race; an end that nothing bounds yet is infinite.
    pub interval: Option<(f64, f64)>,
}

/// What came of a race.
#[derive(Debug, Clone, PartialEq)]
pub struct Raced {
    /// What makes one design better than another.
    pub objective: Objective,
    /// Index of the workload that decides.
    pub workload: usize,
    /// Probability with which the best may have been dropped.
    pub error: f64,
    /// Ratio, less 1, within which two designs are as good as each other.
    pub indifference: f64,
    /// Whether more rounds could change nothing that matters.
    pub decided: bool,
    /// The design that is best so far; of a front, where none is, the best of its first figure.
    pub leader: Option<usize>,
    /// Designs that are left, the leader first.
    pub left: Vec<usize>,
    /// All designs of the sweep, those that are left first, then those that left last; of each the better ones first.
    pub lanes: Vec<Lane>,
    /// Rounds that every design left in the race has run.
    pub rounds: u32,
    /// The most rounds that were allowed.
    pub rounds_max: u32,
    /// Seconds of I/O that the session cost, warm-up included.
    pub io_seconds: f64,
    /// Seconds that it would have cost had no design left, in as many rounds as the one that ran most.
    pub grid_io_seconds: f64,
    /// The share of the full grid's seconds that it was allowed, in (0, 1], where it was asked to keep one.
    pub budget: Option<f64>,
    /// Seconds that the full grid would have cost: every design once in each of the most rounds that were allowed, nothing twice.
    pub full_grid_io_seconds: f64,
}

impl Raced {
    /// The design that is better than all others, or alone keeps the limits.
    pub fn winner(&self) -> Option<usize> {
        self.left.first().copied().filter(|_| self.left.len() == 1 && self.decided)
    }

    /// Those of which each may be the best; none where there is a winner.
    pub fn tied(&self) -> &[usize] {
        if self.winner().is_some() { &[] } else { &self.left }
    }
}

/// What came of the race of `experiment` in `trials`, in the order in which they ran; nothing where it has no sweep.
pub fn of_trials(experiment: &Experiment, trials: &[TrialSummary]) -> Option<Raced> {
    let mut contest = Contest::new(experiment)?;
    for round in trials.chunk_by(|one, other| one.trial.round == other.trial.round) {
        contest.add_round(round);
    }
    Some(raced(&contest, trials, experiment.answer.trials_max))
}

fn raced(contest: &Contest, trials: &[TrialSummary], rounds_max: u32) -> Raced {
    let sweep = contest.sweep();
    let standing = contest.standing();
    let goals = goals(&sweep.objective);
    let of_arm: Vec<Vec<Figures>> = sweep
        .arms
        .iter()
        .enumerate()
        .map(|(number, arm)| {
            let last = contest.gone(number).map_or(contest.rounds(), |(round, _)| round);
            let own = trials.iter().filter(|ran| {
                ran.trial.design == arm.design && ran.trial.round < last && ran.measures(sweep.workload)
            });
            own.map(|ran| Figures::new(arm, ran)).collect()
        })
        .collect();
    let middle = |arm: usize, goal: Goal| median(of_arm[arm].iter().filter_map(|one| one.value(goal)));
    let worth = |arm: usize| median(of_arm[arm].iter().filter_map(|one| one.worth(&sweep.objective)));
    let lane = |arm: usize| {
        let differences = standing.leader.and_then(|leader| contest.differences(arm, leader));
        let own = standing.leader == Some(arm);
        let ratio = differences.as_ref().and_then(median).map(f64::exp);
        let (low, high) = match &differences {
            Some(differences) if !own => interval(differences, sweep.error),
            _ => (0.0, 0.0),
        };
        Lane {
            design: sweep.arms[arm].design,
            rounds: of_arm[arm].len() as u32,
            gone: contest.gone(arm),
            figures: goals.iter().map(|goal| (*goal, middle(arm, *goal))).collect(),
            interval: ratio.filter(|_| !own).map(|_| (low.exp(), high.exp())),
            ratio,
        }
    };
    let mut order: Vec<usize> = (0..sweep.arms.len()).collect();
    let rank = |arm: &usize| {
        let round = contest.gone(*arm).map_or(u32::MAX, |(round, _)| round);
        (standing.leader == Some(*arm), round, worth(*arm).unwrap_or(0.0))
    };
    let mut ranked: Vec<_> = order.drain(..).map(|arm| (rank(&arm), arm)).collect();
    ranked.sort_by(|(a, _), (b, _)| b.0.cmp(&a.0).then(b.1.cmp(&a.1)).then(b.2.total_cmp(&a.2)));
    let lanes: Vec<Lane> = ranked.iter().map(|(_, arm)| lane(*arm)).collect();
    let cost = Cost::of(trials);
    Raced {
        objective: sweep.objective.clone(),
        workload: sweep.workload,
        error: sweep.error,
        indifference: sweep.indifference,
        decided: standing.decided,
        leader: standing.leader.map(|arm| sweep.arms[arm].design),
        left: lanes.iter().filter(|lane| lane.gone.is_none()).map(|lane| lane.design).collect(),
        lanes,
        rounds: contest.rounds(),
        rounds_max,
        io_seconds: cost.spent(),
        grid_io_seconds: cost.of_rounds(cost.rounds()),
        budget: sweep.budget,
        full_grid_io_seconds: cost.of_grid(rounds_max),
    }
}

/// The figures that an objective rests on, each once.
fn goals(objective: &Objective) -> Vec<Goal> {
    let mut goals = match objective {
        Objective::Best(goal) => vec![*goal],
        Objective::Within { best, limits } => {
            std::iter::once(*best).chain(limits.iter().map(|limit| limit.of)).collect()
        }
        Objective::Weighted(goals) => goals.iter().map(|(goal, _)| *goal).collect(),
        Objective::Pareto(goals) => goals.clone(),
    };
    let mut seen = Vec::new();
    goals.retain(|goal| !seen.contains(goal) && (seen.push(*goal), true).1);
    goals
}

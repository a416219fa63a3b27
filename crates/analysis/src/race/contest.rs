//! The race of a sweep: from the trials of a round to who is left.
//!
//! With limits ("most IOPS while p99 stays under 5 ms") three statements share the error probability: half of it is the race's, a quarter that a
//! design which keeps the limits is sent off for breaking one, a quarter that one which breaks them counts as keeping them when places are judged.

use super::evidence::Evidence;
use super::figures::Figures;
use super::front::Front;
use super::{Race, RaceState, Rules};
use crate::TrialSummary;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::sweep::{Goal, Limit, Objective, Sweep};

/// Why a design is no longer in the race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// Some rival is better by more than the margin.
    Lost,
    /// It breaks a limit.
    Limit(Goal),
    /// Each of its first trials failed.
    Failed,
}

/// How sure it is that each design keeps the limits.
#[derive(Debug, Clone, PartialEq)]
struct Limits {
    limits: Vec<Limit>,
    /// Of each design and limit: that it breaks it, and that it keeps it.
    evidence: Vec<Vec<[Evidence; 2]>>,
    /// Which a design breaks.
    broken: Vec<Option<Goal>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Best { race: Race, limits: Limits },
    Front(Front),
}

/// The race of one sweep, from its first round to its last.
#[derive(Debug, Clone, PartialEq)]
pub struct Contest {
    sweep: Sweep,
    /// Index of the design that runs whatever becomes of it.
    control: usize,
    kind: Kind,
    rounds: u32,
    /// Of each arm: whether a trial of it ever gave figures.
    ran: Vec<bool>,
}

/// A design of which so many trials failed, and none did not, leaves.
const FAILED: u32 = 3;

/// Share of the error that is for sending off, and for taking as kept.
const OF_LIMITS: f64 = 0.25;

impl Contest {
    /// The race that `experiment` asks for; nothing where it has no sweep.
    pub fn new(experiment: &Experiment) -> Option<Contest> {
        let sweep = experiment.sweep.clone()?;
        let rules = Rules { error: sweep.error, indifference: sweep.indifference };
        let number = sweep.arms.len();
        let of_designs = experiment.shared_builds();
        let build = |(arm, of): (usize, &ebbtide_model::sweep::SweptDesign)| {
            of_designs.as_ref().and_then(|builds| builds.get(of.design).copied()).unwrap_or(arm)
        };
        let builds: Vec<usize> = sweep.arms.iter().enumerate().map(build).collect();
        let kind = match &sweep.objective {
            Objective::Pareto(goals) => {
                let measured = goals.iter().filter(|goal| **goal != Goal::Price).count();
                let priced = measured < goals.len();
                let prices =
                    priced.then(|| sweep.arms.iter().map(|arm| arm.price.unwrap_or(f64::INFINITY)).collect());
                Kind::Front(Front::new(number, measured, prices, rules))
            }
            Objective::Within { limits, .. } => {
                let rules = Rules { error: rules.error * (1.0 - 2.0 * OF_LIMITS), ..rules };
                let limits = Limits {
                    evidence: vec![vec![Default::default(); limits.len()]; number],
                    broken: vec![None; number],
                    limits: limits.clone(),
                };
                Kind::Best { race: Race::new(number, rules).on_builds(&builds), limits }
            }
            Objective::Best(_) | Objective::Weighted(_) => {
                let limits = Limits {
                    limits: Vec::new(),
                    evidence: vec![Vec::new(); number],
                    broken: vec![None; number],
                };
                Kind::Best { race: Race::new(number, rules).on_builds(&builds), limits }
            }
        };
        let ran = vec![false; number];
        let mut contest = Contest { sweep, control: experiment.control, kind, rounds: 0, ran };
        contest.judge_limits();
        Some(contest)
    }

    /// The sweep whose designs race.
    pub fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// Whole rounds so far.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Whether `design` runs in the next round: it is still in the race, or never was, or is the control.
    pub fn runs(&self, design: usize) -> bool {
        let arm = self.sweep.arms.iter().position(|arm| arm.design == design);
        design == self.control || arm.is_none_or(|arm| self.gone(arm).is_none())
    }

    /// Arms that are left, by number.
    pub fn left(&self) -> Vec<usize> {
        match &self.kind {
            Kind::Best { race, .. } => race.left(),
            Kind::Front(front) => front.left(),
        }
    }

    /// After which round, from 1, an arm left, and why; 0 is before the first.
    pub fn gone(&self, arm: usize) -> Option<(u32, Gone)> {
        match &self.kind {
            Kind::Best { race, limits } => {
                let dropped = race.dropped_in(arm)?;
                let broken = limits.broken.get(arm).copied().flatten();
                let exact = matches!(broken, Some(Goal::Price));
                Some((
                    if exact { 0 } else { dropped + 1 },
                    broken.map_or(self.lost_or_failed(arm), Gone::Limit),
                ))
            }
            Kind::Front(front) => Some((front.dropped_in(arm)? + 1, self.lost_or_failed(arm))),
        }
    }

    /// What has no figure cannot lose.
    fn lost_or_failed(&self, arm: usize) -> Gone {
        if self.ran[arm] { Gone::Lost } else { Gone::Failed }
    }

    /// Takes the trials of a whole round in. One that a stop cut short, in which not all that are left ran, says nothing: whether it
    /// was taken is returned.
    pub fn add_round(&mut self, trials: &[TrialSummary]) -> bool {
        let of_arm = |arm: &ebbtide_model::sweep::SweptDesign| {
            trials.iter().find(|ran| ran.trial.design == arm.design && ran.measures(self.sweep.workload))
        };
        let found: Vec<Option<&TrialSummary>> = self.sweep.arms.iter().map(of_arm).collect();
        if self.left().into_iter().any(|arm| found[arm].is_none()) {
            return false;
        }
        let figures: Vec<Option<Figures>> =
            self.sweep.arms.iter().zip(&found).map(|(arm, ran)| Some(Figures::new(arm, (*ran)?))).collect();
        match (&mut self.kind, &self.sweep.objective) {
            (Kind::Front(front), Objective::Pareto(goals)) => {
                let measured = goals.iter().filter(|goal| **goal != Goal::Price);
                let of = |figures: &Figures| measured.clone().map(|goal| figures.merit(*goal)).collect();
                front.add_round(&figures.iter().map(|one| one.as_ref().and_then(of)).collect::<Vec<_>>());
            }
            (Kind::Best { race, limits }, objective) => {
                for (arm, figures) in figures.iter().enumerate() {
                    let Some(figures) = figures.as_ref().filter(|_| race.is_in(arm)) else { continue };
                    limits.add(arm, figures);
                }
                let worth = |one: &Option<Figures>| one.as_ref().and_then(|one| one.worth(objective));
                race.add_round(&figures.iter().map(worth).collect::<Vec<_>>());
            }
            (Kind::Front(_), _) => {}
        }
        self.rounds += 1;
        for (arm, (ran, figures)) in self.ran.iter_mut().zip(&figures).enumerate() {
            *ran |= figures.as_ref().is_some_and(Figures::ran);
            if !*ran && self.rounds >= FAILED {
                match &mut self.kind {
                    Kind::Best { race, .. } => race.withdraw(arm),
                    Kind::Front(front) => front.withdraw(arm),
                }
            }
        }
        self.judge_limits();
        true
    }

    /// Sends off what surely breaks a limit, and tells the race how sure it is of the others.
    fn judge_limits(&mut self) {
        let (Kind::Best { race, limits }, error) = (&mut self.kind, self.sweep.error) else { return };
        let number = self.sweep.arms.len();
        for (arm, of) in self.sweep.arms.iter().enumerate() {
            if limits.limits.is_empty() || !race.is_in(arm) {
                continue;
            }
            limits.broken[arm] =
                limits.broken_by(arm, of.price, limits.limits.len() as f64 / (OF_LIMITS * error));
            if limits.broken[arm].is_some() {
                race.withdraw(arm);
                continue;
            }
            let kept = limits.kept(arm);
            race.trust(arm, kept, kept >= number as f64 / (OF_LIMITS * error));
        }
    }

    /// Where it stands; designs by the number of their arm. With limits it is decided only when all that are left are shown to keep them.
    pub fn standing(&self) -> RaceState {
        match &self.kind {
            Kind::Front(front) => front.standing(),
            Kind::Best { race, limits } => {
                let mut standing = race.standing();
                if limits.limits.is_empty() {
                    return standing;
                }
                let seems_to_keep = |arm: &usize| limits.kept(*arm) >= 1.0;
                standing.leader = race.ranked().into_iter().find(seems_to_keep).or(standing.leader);
                let sure = 1.0 / self.sweep.error;
                // Nobody left is an answer too: no design keeps the limits.
                standing.decided = standing.left.is_empty()
                    || (standing.decided && standing.left.iter().all(|arm| limits.kept(*arm) >= sure));
                standing
            }
        }
    }

    /// Logarithms of the ratios of what arm `a` is worth over `b`, of the rounds in which both were in the race; nothing of a front.
    pub fn differences(&self, a: usize, b: usize) -> Option<Vec<f64>> {
        match &self.kind {
            Kind::Best { race, .. } => Some(race.differences(a, b)),
            Kind::Front(_) => None,
        }
    }
}

impl Limits {
    fn add(&mut self, arm: usize, figures: &Figures) {
        for (limit, [breaks, keeps]) in self.limits.iter().zip(&mut self.evidence[arm]) {
            if limit.of == Goal::Price {
                continue;
            }
            let Some(value) = figures.value(limit.of) else { continue };
            let over = libm::log(value / limit.bound) * if limit.of.lower_is_better() { 1.0 } else { -1.0 };
            breaks.add(over);
            keeps.add(-over);
        }
    }

    /// The limit that `arm` breaks with evidence of `enough`; a price is known.
    fn broken_by(&self, arm: usize, price: Option<f64>, enough: f64) -> Option<Goal> {
        let broken =
            self.limits.iter().zip(&self.evidence[arm]).find(|(limit, [breaks, _])| match limit.of {
                Goal::Price => price.is_some_and(|price| !limit.keeps(price)),
                Goal::Measured(_) => breaks.value() >= enough,
            });
        broken.map(|(limit, _)| limit.of)
    }

    /// The evidence that `arm` keeps every limit.
    fn kept(&self, arm: usize) -> f64 {
        let measured =
            self.limits.iter().zip(&self.evidence[arm]).filter(|(limit, _)| limit.of != Goal::Price);
        measured.map(|(_, [_, keeps])| keeps.value()).fold(f64::INFINITY, f64::min)
    }
}

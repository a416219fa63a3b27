//! Racing: which of many designs is the best, where those that have lost leave before the end.
//!
//! A round runs every design that is still in the race once, in a fresh random order. After each, design `j` has lost when
//! the evidence that some rival is better than it by more than the indifference margin reaches `1 / error`. That evidence is
//! the mean of three, each valid by the random order alone, so that the best design is ever dropped with a probability of at most
//! `error`, however many rivals and rounds there are and however they depend on one another:
//!
//! - its places among all that are left ([`Places`]), which tells the slow ones of many in a few rounds;
//! - its places among the quarter that was best before the round;
//! - its paired differences to each rival ([`Evidence`]), the mean over all, which tells few that are close.
//!
//! Nobody who left comes back.
//!
//! What is left at the end is the answer: one design, or a tie. A difference within the margin, which nobody minds, drops nobody and
//! makes no winner, however sure it is.

mod contest;
mod cost;
mod evidence;
mod figures;
mod front;
mod outcome;

pub use contest::{Contest, Gone};
pub use cost::Cost;
pub use evidence::{Evidence, Places, interval};
pub use figures::Figures;
pub use outcome::{Lane, Raced, of_trials};

use crate::estimate::median;
use std::collections::BTreeMap;

/// The field of the best is one in so many of those that are left.
const BEST: usize = 4;

/// What a race is held by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Probability with which the best design may be dropped, and with which a tie's bound may be wrong, in (0, 1).
    pub error: f64,
    /// Ratio, less 1, within which two designs are as good as each other, for example 0.02.
    pub indifference: f64,
}

/// A race on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Race {
    rules: Rules,
    /// `evidence[i][j]`: that design `i` is better than `j` by more than the margin.
    evidence: Vec<Vec<Evidence>>,
    /// Of each design: its places among all that were left, and among the best of them.
    places: Vec<[Places; 2]>,
    /// Logarithm of each round's value, greater is better; nothing where it did not run, or failed.
    values: Vec<Vec<Option<f64>>>,
    /// The round, from 0, after which a design left.
    dropped: Vec<Option<u32>>,
    /// Of each design: evidence that it may be preferred at all.
    trust: Vec<f64>,
    /// Of each design: whether that is beyond doubt.
    trusted: Vec<bool>,
    /// Of each design: its build, where those of one build run one after the other; else all differ.
    builds: Vec<usize>,
}

/// Where a race stands.
#[derive(Debug, Clone, PartialEq)]
pub struct RaceState {
    /// The best so far, by the medians of the rounds that it shares with others; nothing before the first round.
    pub leader: Option<usize>,
    /// Those that are left; the best is one of them.
    pub left: Vec<usize>,
    /// Whether more rounds can change nothing that matters: one design is left, or each of them is within the margin of the leader.
    pub decided: bool,
}

impl RaceState {
    /// The one that is better than all others, where there is one.
    pub fn winner(&self) -> Option<usize> {
        self.leader.filter(|_| self.left.len() == 1)
    }
}

impl Race {
    /// A race of `designs` designs.
    pub fn new(designs: usize, rules: Rules) -> Race {
        Race {
            rules,
            evidence: vec![vec![Evidence::default(); designs]; designs],
            places: vec![Default::default(); designs],
            values: Vec::new(),
            dropped: vec![None; designs],
            trust: vec![f64::INFINITY; designs],
            trusted: vec![true; designs],
            builds: (0..designs).collect(),
        }
    }

    /// The same where designs with the same number in `builds` share a build in each round, and run one after the other.
    pub fn on_builds(mut self, builds: &[usize]) -> Race {
        for (of, build) in self.builds.iter_mut().zip(builds) {
            *of = *build;
        }
        self
    }

    /// Says how strong the evidence is that `design` may be preferred at all, where that has to be shown: only by that much it counts
    /// against others. The smaller of two pieces of evidence is evidence that both hold. `surely` has it among those by whose places others are judged.
    pub fn trust(&mut self, design: usize, evidence: f64, surely: bool) {
        if let (Some(trust), Some(trusted)) = (self.trust.get_mut(design), self.trusted.get_mut(design)) {
            (*trust, *trusted) = (evidence, surely);
        }
    }

    /// Takes `design` out for another reason than that it lost, after the rounds so far.
    pub fn withdraw(&mut self, design: usize) {
        let last = (self.values.len() as u32).saturating_sub(1);
        if let Some(dropped) = self.dropped.get_mut(design) {
            dropped.get_or_insert(last);
        }
    }

    /// Whether design number `design` is still in it.
    pub fn is_in(&self, design: usize) -> bool {
        self.dropped.get(design).is_some_and(Option::is_none)
    }

    /// The designs that are still in it.
    pub fn left(&self) -> Vec<usize> {
        (0..self.dropped.len()).filter(|design| self.is_in(*design)).collect()
    }

    /// The round, from 0, after which a design left.
    pub fn dropped_in(&self, design: usize) -> Option<u32> {
        self.dropped.get(design).copied().flatten()
    }

    /// Rounds in which a design ran.
    pub fn rounds_of(&self, design: usize) -> u32 {
        self.values.iter().filter(|round| round.get(design).is_some_and(Option::is_some)).count() as u32
    }

    /// Takes a round in: a positive figure for each design that ran, of which more is better. Drops who has lost.
    ///
    /// A design that failed has no figure; one that fails while others run is not dropped for it.
    pub fn add_round(&mut self, figures: &[Option<f64>]) {
        let number = self.dropped.len();
        let value = |design: usize| {
            let figure = figures.get(design).copied().flatten().filter(|_| self.is_in(design))?;
            (figure > 0.0 && figure.is_finite()).then(|| figure.ln())
        };
        let round: Vec<Option<f64>> = (0..number).map(value).collect();
        let margin = self.margin();
        for i in 0..number {
            for j in (0..number).filter(|j| *j != i) {
                if let (Some(a), Some(b)) = (round[i], round[j]) {
                    self.evidence[i][j].add(a - b - margin);
                }
            }
        }
        let left = self.left();
        // The best first, by the rounds before this one.
        let ranked = self.ranked();
        let unranked = left.iter().filter(|design| !ranked.contains(design));
        let of_trust: Vec<usize> =
            ranked.iter().chain(unranked).copied().filter(|design| self.trusted[*design]).collect();
        let mut best: Vec<usize> = ranked.iter().copied().filter(|design| self.trusted[*design]).collect();
        best.truncate(best.len().div_ceil(BEST));
        for j in &left {
            for (places, field) in self.places[*j].iter_mut().zip([&of_trust, &best]) {
                let Some(own) = round[*j] else { continue };
                let field: Vec<usize> =
                    field.iter().copied().filter(|design| round[*design].is_some()).collect();
                let field = rivals(*j, &field, &self.builds);
                let better = field.iter().filter_map(|i| round[*i]).filter(|rival| rival - margin > own);
                places.add(better.count(), field.len());
            }
        }
        self.values.push(round);
        let this = self.values.len() as u32 - 1;
        let lost: Vec<usize> = self.left().into_iter().filter(|design| self.has_lost(*design)).collect();
        // Whoever all of them have lost to is still there, unless chance let everyone lose.
        if lost.len() < self.left().len() {
            lost.into_iter().for_each(|design| self.dropped[design] = Some(this));
        }
    }

    /// The indifference margin of a difference of logarithms.
    fn margin(&self) -> f64 {
        self.rules.indifference.max(0.0).ln_1p()
    }

    fn has_lost(&self, design: usize) -> bool {
        let rivals = self.dropped.len().saturating_sub(1);
        if rivals == 0 {
            return false;
        }
        let against = (0..self.dropped.len()).filter(|i| *i != design);
        let better = |i: usize| self.evidence[i][design].value().min(self.trust[i]);
        let pairs = against.map(better).sum::<f64>() / rivals as f64;
        let [all, best] = &self.places[design];
        (pairs + all.value() + best.value()) / 3.0 >= 1.0 / self.rules.error
    }

    /// Logarithms of the ratios of `a` over `b`, of the rounds in which both ran.
    pub fn differences(&self, a: usize, b: usize) -> Vec<f64> {
        let both = |round: &Vec<Option<f64>>| Some((*round.get(a)?)? - (*round.get(b)?)?);
        self.values.iter().filter_map(both).collect()
    }

    /// The designs that are left and have run, the best first: by the medians of how far ahead of the middle of the field they were in
    /// each round, so that a slow minute harms nobody.
    pub fn ranked(&self) -> Vec<usize> {
        let left: Vec<usize> = self.left().into_iter().filter(|design| self.rounds_of(*design) > 0).collect();
        let ahead_of_middle = |round: &Vec<Option<f64>>| {
            let all: Vec<f64> = left.iter().filter_map(|design| round[*design]).collect();
            let middle = median(&all);
            left.iter().map(|design| Some(round[*design]? - middle?)).collect::<Vec<_>>()
        };
        let ahead: Vec<Vec<Option<f64>>> = self.values.iter().map(ahead_of_middle).collect();
        let score = |place: usize| {
            let own: Vec<f64> = ahead.iter().filter_map(|round| round[place]).collect();
            median(&own).unwrap_or(f64::NEG_INFINITY)
        };
        let mut scored: Vec<(f64, usize)> =
            left.iter().enumerate().map(|(place, design)| (score(place), *design)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        scored.into_iter().map(|(_, design)| design).collect()
    }

    /// Where it stands after the rounds so far.
    pub fn standing(&self) -> RaceState {
        let Some(leader) = self.ranked().first().copied() else {
            return RaceState { leader: None, left: self.left(), decided: false };
        };
        let margin = self.margin();
        let within = |design: &usize| {
            let (low, high) = interval(&self.differences(leader, *design), self.rules.error);
            *design == leader || (low >= -margin && high <= margin)
        };
        let left = self.left();
        let decided = left.iter().all(within);
        RaceState { leader: Some(leader), left, decided }
    }
}

/// Those of `field`, the best first, among which the place of `design` is uniform where none is better than another. What runs on one
/// build shares its luck and its minutes, and builds of different numbers of designs are not alike: of each other build count as many
/// as `field` has of the design's own, itself included, and none where it has fewer. Where each design has a build of its own, or all
/// builds as many designs, these are all.
fn rivals(design: usize, field: &[usize], builds: &[usize]) -> Vec<usize> {
    let mut of_build: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for other in field.iter().filter(|other| **other != design) {
        of_build.entry(builds[*other]).or_default().push(*other);
    }
    let siblings = of_build.remove(&builds[design]).unwrap_or_default();
    let own = siblings.len() + 1;
    let others = of_build.into_values().filter(|of| of.len() >= own).flat_map(|of| of.into_iter().take(own));
    siblings.into_iter().chain(others).collect()
}

#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod tests;

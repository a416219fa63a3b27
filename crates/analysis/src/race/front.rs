//! A race in which several figures count and none outweighs another: who is left is a Pareto front.
//!
//! Design `j` leaves when the evidence that some rival is better than it by more than the margin in every figure that is measured, and no
//! dearer, is strong enough. For one rival that evidence is the least of those of the figures: under "not better in at least one" it is no more than that one's.
//! Of all rivals the mean counts, as in [`Race`](super::Race). Every design of the front stays with the promised probability, all of them together: that is
//! what the bound is divided by their number for.

use super::evidence::{Evidence, interval};
use super::{RaceState, Rules};
use crate::estimate::median;

/// The designs of which none is better in one thing without being worse in another.
#[derive(Debug, Clone, PartialEq)]
pub struct Front {
    rules: Rules,
    /// `evidence[i][j][goal]`: that design `i` is better than `j` in that goal by more than the margin.
    evidence: Vec<Vec<Vec<Evidence>>>,
    /// Of each design, where prices count: its own.
    prices: Option<Vec<f64>>,
    /// Of each round and design: the logarithms of its figures.
    values: Vec<Vec<Option<Vec<f64>>>>,
    dropped: Vec<Option<u32>>,
}

impl Front {
    /// Of `designs` designs and so many measured goals; `prices` where they count too.
    pub fn new(designs: usize, goals: usize, prices: Option<Vec<f64>>, rules: Rules) -> Front {
        Front {
            rules,
            evidence: vec![vec![vec![Evidence::default(); goals]; designs]; designs],
            prices,
            values: Vec::new(),
            dropped: vec![None; designs],
        }
    }

    fn margin(&self) -> f64 {
        self.rules.indifference.max(0.0).ln_1p()
    }

    /// Whether `i` costs no more than `j`, as far as that counts.
    fn no_dearer(&self, i: usize, j: usize) -> bool {
        self.prices.as_ref().is_none_or(|prices| prices[i] <= prices[j])
    }

    /// Takes a round in: of each design that ran its figures, of which more is better, all positive.
    pub fn add_round(&mut self, figures: &[Option<Vec<f64>>]) {
        let margin = self.margin();
        let number = self.dropped.len();
        let logs = |design: usize| {
            let own = figures.get(design)?.as_ref().filter(|_| self.dropped[design].is_none())?;
            let usable = own.iter().all(|figure| *figure > 0.0 && figure.is_finite());
            usable.then(|| own.iter().map(|figure| figure.ln()).collect::<Vec<f64>>())
        };
        let round: Vec<Option<Vec<f64>>> = (0..number).map(logs).collect();
        for (i, a) in round.iter().enumerate() {
            for (j, b) in round.iter().enumerate().filter(|(j, _)| *j != i) {
                let (Some(a), Some(b)) = (a, b) else { continue };
                for (evidence, (a, b)) in self.evidence[i][j].iter_mut().zip(a.iter().zip(b)) {
                    evidence.add(a - b - margin);
                }
            }
        }
        self.values.push(round);
        let this = self.values.len() as u32 - 1;
        let lost: Vec<usize> = self.left().into_iter().filter(|design| self.has_lost(*design)).collect();
        if lost.len() < self.left().len() {
            lost.into_iter().for_each(|design| self.dropped[design] = Some(this));
        }
    }

    /// How strong the evidence is that `i` is preferable to `j` in everything.
    fn preferable(&self, i: usize, j: usize) -> f64 {
        if !self.no_dearer(i, j) {
            return 0.0;
        }
        let goals = &self.evidence[i][j];
        let least = goals.iter().map(Evidence::value).fold(f64::INFINITY, f64::min);
        let cheaper = self.prices.as_ref().is_some_and(|prices| prices[i] < prices[j]);
        // Where nothing is measured, prices alone decide.
        if goals.is_empty() && !cheaper { 0.0 } else { least }
    }

    fn has_lost(&self, design: usize) -> bool {
        let number = self.dropped.len();
        let rivals = (0..number).filter(|i| *i != design);
        let sum: f64 = rivals.map(|i| self.preferable(i, design)).sum();
        number > 1 && sum / (number - 1) as f64 >= number as f64 / self.rules.error
    }

    /// Takes `design` out for another reason than that it lost, after the rounds so far.
    pub fn withdraw(&mut self, design: usize) {
        let last = (self.values.len() as u32).saturating_sub(1);
        if let Some(dropped) = self.dropped.get_mut(design) {
            dropped.get_or_insert(last);
        }
    }

    /// The designs that are still in it.
    pub fn left(&self) -> Vec<usize> {
        (0..self.dropped.len()).filter(|design| self.dropped[*design].is_none()).collect()
    }

    /// The round, from 0, after which a design left.
    pub fn dropped_in(&self, design: usize) -> Option<u32> {
        self.dropped.get(design).copied().flatten()
    }

    /// Differences of the logarithms of a goal's figures, of the rounds in which both ran.
    fn differences(&self, i: usize, j: usize, goal: usize) -> Vec<f64> {
        let both = |round: &Vec<Option<Vec<f64>>>| {
            Some(round.get(i)?.as_ref()?.get(goal)? - round.get(j)?.as_ref()?.get(goal)?)
        };
        self.values.iter().filter_map(both).collect()
    }

    /// Whether it is shown that `i` is not preferable to `j`: dearer, or in some figure not better by more than the margin.
    fn shown_not_preferable(&self, i: usize, j: usize) -> bool {
        let goals = self.evidence[i][j].len();
        let not_better =
            |goal: usize| interval(&self.differences(i, j, goal), self.rules.error).1 <= self.margin();
        !self.no_dearer(i, j) || (0..goals).any(not_better)
    }

    /// Where it stands: decided when each of those that are left is shown to be preferable to the others in something. Nobody leads; the
    /// first is the best of the first figure.
    pub fn standing(&self) -> RaceState {
        let left = self.left();
        let first = |design: usize| {
            let own: Vec<f64> =
                self.values.iter().filter_map(|round| round[design].as_ref()?.first().copied()).collect();
            median(&own).unwrap_or(f64::NEG_INFINITY)
        };
        let leader = left.iter().copied().max_by(|a, b| first(*a).total_cmp(&first(*b)));
        let decided = !self.values.is_empty()
            && left.iter().all(|i| left.iter().all(|j| i == j || self.shown_not_preferable(*i, *j)));
        RaceState { leader, left, decided }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::normal;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    const RULES: Rules = Rules { error: 0.05, indifference: 0.02 };

    fn race(designs: &[(f64, f64)], prices: Option<Vec<f64>>, cv: f64, rounds: u32, seed: u64) -> Front {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut front = Front::new(designs.len(), 2, prices, RULES);
        for _ in 0..rounds {
            let mut noisy = |value: f64| value * (cv * normal(&mut rng)).exp();
            let round: Vec<_> = designs.iter().map(|(a, b)| Some(vec![noisy(*a), noisy(*b)])).collect();
            front.add_round(&round);
            if front.standing().decided {
                break;
            }
        }
        front
    }

    #[test]
    fn what_is_worse_in_everything_leaves_and_what_is_best_in_something_stays() {
        let front = race(&[(100.0, 50.0), (50.0, 100.0), (40.0, 40.0)], None, 0.05, 60, 1);
        assert_eq!(front.left(), [0, 1]);
        assert!(front.standing().decided && front.dropped_in(2).is_some());
        // Worse in both and cheaper is a choice as well; worse and dearer is none.
        let designs = [(100.0, 100.0), (50.0, 50.0), (60.0, 60.0)];
        let front = race(&designs, Some(vec![10.0, 5.0, 12.0]), 0.05, 60, 2);
        assert_eq!(front.left(), [0, 1]);
    }

    #[test]
    fn a_front_keeps_its_promise() {
        let designs = [(100.0, 100.0), (103.0, 97.0), (97.0, 103.0), (100.0, 100.0)];
        let lost = (0..60).filter(|seed| race(&designs, None, 0.1, 40, 100 + seed).left().len() < 4).count();
        assert!(lost <= 3, "{lost}");
    }

    #[test]
    fn a_failed_trial_says_nothing() {
        let mut front = Front::new(2, 1, None, RULES);
        (0..30).for_each(|_| front.add_round(&[Some(vec![1.0]), None]));
        front.add_round(&[Some(vec![f64::NAN]), Some(vec![-1.0])]);
        assert_eq!(front.left(), [0, 1]);
        assert!(!front.standing().decided);
    }
}

//! What mattered in a sweep: how much each level of a factor makes of the objective's figure, and which two factors need each other.
//!
//! Rounds are blocks, designs are treatments (the randomised complete block design): `ln y = round + design + error`. The random order within
//! a round makes the errors of its trials exchangeable, however neighbours in time correlate, so that one variance from what round and design do not
//! explain serves all contrasts of designs, with Student's quantiles (Fisher's argument; Hinkelmann and Kempthorne, *Design and Analysis of Experiments*, 2008, ch. 9).
//! A main effect is what least squares make of the designs' own effects when factors add up: over a full grid the difference of two levels' means. Designs are taken as they
//! are, all of those of the sweep: what does not add up is no error of it, and is looked for in pairs of levels, of which all are fitted at once.
//!
//! Where designs share builds ([`Builds::Shared`](ebbtide_model::sweep::Builds)) the order is restricted, and errors on one build are alike: a split plot (as above, ch. 13). What builds
//! differ by from round to round is one variance, what designs on a build do another, and a contrast takes of each as much as it is between and within builds, with Satterthwaite's
//! degrees of freedom (*Biometrics Bulletin* 2, 1946).
//!
//! Only rounds in which nobody had left yet are used. Who leaves early was unlucky too, and who stays was lucky: with later rounds the effects would be exaggerated.

mod split;

use crate::TrialSummary;
use crate::estimate::student;
use crate::race::{Contest, Figures};
use ebbtide_model::experiment::Experiment;
use split::Split;

/// A level of a factor against the factor's first that occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// Index of the factor.
    pub factor: usize,
    /// Index of the level.
    pub level: usize,
    /// Index of the level that it is held against.
    pub against: usize,
}

/// What a level does, or two levels together beyond what each does alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// One of a main effect, two of an interaction.
    pub terms: Vec<Term>,
    /// What it makes of the objective's figure: 1.47 for 47% more, of a latency too.
    pub ratio: f64,
    /// Interval of that; absent where rounds and designs are too few for one.
    pub interval: Option<(f64, f64)>,
}

impl Effect {
    /// Whether it can be told from none.
    pub fn distinguishable(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }
}

/// Which factors of a sweep changed the figure, and by how much.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Factors {
    /// Of each factor and level but the first, as far as the designs tell them apart.
    pub effects: Vec<Effect>,
    /// Those pairs that can be told from none, the largest first; all of them together are wrong with the probability that is left of the level.
    pub interactions: Vec<Effect>,
    /// Rounds that they rest on.
    pub rounds: u32,
}

/// Figures of a sweep: of each round and design the logarithm, where it ran.
#[derive(Debug, Clone, Copy)]
pub struct Grid<'a> {
    /// Of each design its level of each factor; nothing where the factor does not apply.
    pub levels: &'a [Vec<Option<usize>>],
    /// Of each round and design.
    pub rounds: &'a [Vec<Option<f64>>],
    /// The number of each design's build, where those of one ran one after the other on it; empty where the order was free.
    pub builds: &'a [usize],
}

/// What mattered in the sweep of `experiment`, by its `trials` in the order in which they ran; nothing where it has none.
pub fn of_trials(experiment: &Experiment, trials: &[TrialSummary]) -> Option<Factors> {
    let mut contest = Contest::new(experiment)?;
    let sweep = experiment.sweep.as_ref()?;
    let mut rounds = Vec::new();
    for ran in trials.chunk_by(|one, other| one.trial.round == other.trial.round) {
        let worth = |arm: &ebbtide_model::sweep::SweptDesign| {
            let own =
                ran.iter().find(|one| one.trial.design == arm.design && one.measures(sweep.workload))?;
            Some(libm::log(Figures::new(arm, own).figure(&sweep.objective)?))
        };
        let round: Vec<Option<f64>> = sweep.arms.iter().map(worth).collect();
        if !contest.add_round(ran) {
            break;
        }
        rounds.push(round);
        // What only fails has no figure anyway, and what never ran was chosen without one.
        let lost = (0..sweep.arms.len()).filter_map(|arm| contest.gone(arm)).any(|(round, _)| round > 0);
        if lost {
            break;
        }
    }
    let levels: Vec<_> = sweep.arms.iter().map(|arm| arm.levels.clone()).collect();
    let builds = experiment.shared_builds().unwrap_or_default();
    let builds: Vec<usize> = sweep.arms.iter().filter_map(|arm| builds.get(arm.design).copied()).collect();
    Some(Grid { levels: &levels, rounds: &rounds, builds: &builds }.factors(experiment.answer.level))
}

/// Effects of designs, and what their contrasts vary by.
struct Designs {
    /// Numbers of the designs that ran.
    which: Vec<usize>,
    effects: Vec<f64>,
    /// The inverse of the normal equations, row by row.
    inverse: Vec<Vec<f64>>,
    variance: f64,
    freedom: f64,
    /// What the errors are, where designs share builds.
    split: Option<Split>,
}

impl Grid<'_> {
    /// Main effects and interactions, with intervals at `level`.
    pub fn factors(&self, level: f64) -> Factors {
        let Some(designs) = self.designs() else { return Factors::default() };
        let mains = self.columns(&designs.which);
        let vectors: Vec<Vec<f64>> = mains.iter().map(|(_, column)| column.clone()).collect();
        let found = mains.iter().zip(coefficients(&vectors));
        let effects =
            found.filter_map(|((term, _), weights)| Some(designs.effect(vec![*term], &weights?, level)));
        let mut pairs = Vec::new();
        for (at, (one, first)) in mains.iter().enumerate() {
            for (other, second) in mains[at + 1..].iter().filter(|(other, _)| other.factor != one.factor) {
                let product: Vec<f64> = first.iter().zip(second).map(|(a, b)| a * b).collect();
                pairs.push((vec![*one, *other], product));
            }
        }
        // All of them are asked, so that together they are held to the level.
        let each = 1.0 - (1.0 - level) / pairs.len().max(1) as f64;
        // And all at once: where some combinations are left out, one would else take the blame for another.
        let mut all = vectors.clone();
        all.extend(pairs.iter().map(|(_, product)| product.clone()));
        let weights = if all.len() <= MOST_COLUMNS { coefficients(&all) } else { Vec::new() };
        let found = pairs.into_iter().zip(weights.into_iter().skip(mains.len()));
        let mut interactions: Vec<Effect> = found
            .filter_map(|((terms, _), weights)| Some(designs.effect(terms, &weights?, each)))
            .filter(Effect::distinguishable)
            .collect();
        let size = |effect: &Effect| libm::fabs(libm::log(effect.ratio));
        interactions.sort_by(|a, b| size(b).total_cmp(&size(a)));
        Factors { effects: effects.collect(), interactions, rounds: self.rounds.len() as u32 }
    }

    /// Least squares of round and design; nothing where fewer than two designs ran.
    fn designs(&self) -> Option<Designs> {
        let ran =
            |design: &usize| self.rounds.iter().any(|round| round.get(*design).is_some_and(Option::is_some));
        let which: Vec<usize> = (0..self.levels.len()).filter(ran).collect();
        let number = which.len();
        if number < 2 {
            return None;
        }
        // The normal equations with the rounds eliminated, made regular by the mean of all effects being 0.
        let mut matrix = vec![vec![1.0 / number as f64; number]; number];
        let mut right = vec![0.0; number];
        let (mut cells, mut rounds) = (0usize, 0usize);
        let of_rounds: Vec<Vec<(usize, f64)>> = self
            .rounds
            .iter()
            .map(|round| {
                which.iter().enumerate().filter_map(|(at, design)| Some((at, round[*design]?))).collect()
            })
            .filter(|round: &Vec<(usize, f64)>| !round.is_empty())
            .collect();
        for round in &of_rounds {
            let size = round.len() as f64;
            let mean = round.iter().map(|(_, value)| value).sum::<f64>() / size;
            for (at, value) in round {
                right[*at] += value - mean;
                matrix[*at][*at] += 1.0;
                round.iter().for_each(|(other, _)| matrix[*at][*other] -= 1.0 / size);
            }
            cells += round.len();
            rounds += 1;
        }
        let inverse = inverse(matrix)?;
        let effects: Vec<f64> =
            inverse.iter().map(|row| row.iter().zip(&right).map(|(a, b)| a * b).sum()).collect();
        let of_round = |round: &Vec<(usize, f64)>| {
            let left: Vec<f64> = round.iter().map(|(at, value)| value - effects[*at]).collect();
            let mean = left.iter().sum::<f64>() / left.len() as f64;
            left.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>()
        };
        let freedom = (cells + 1).saturating_sub(rounds + number) as f64;
        let variance = of_rounds.iter().map(of_round).sum::<f64>() / freedom.max(1.0);
        let split = (!self.builds.is_empty()).then(|| {
            let of_round = |round: &Vec<Option<f64>>| which.iter().map(|design| round[*design]).collect();
            let whole: Vec<Vec<f64>> = self.rounds.iter().filter_map(of_round).collect();
            Split::of(&whole, &which.iter().map(|design| self.builds[*design]).collect::<Vec<usize>>())
        });
        Some(Designs { which, effects, inverse, variance, freedom, split })
    }

    /// Of each factor and each level that occurs but the first: which of `designs` have it, less the share of those that it applies to.
    fn columns(&self, designs: &[usize]) -> Vec<(Term, Vec<f64>)> {
        let factors = self.levels.first().map_or(0, Vec::len);
        let mut columns = Vec::new();
        for factor in 0..factors {
            let own: Vec<Option<usize>> =
                designs.iter().map(|design| self.levels[*design].get(factor).copied().flatten()).collect();
            let mut found: Vec<usize> = own.iter().copied().flatten().collect();
            let applies = found.len() as f64;
            found.sort_unstable();
            found.dedup();
            let Some((against, others)) = found.split_first() else { continue };
            for level in others {
                let share = own.iter().filter(|own| **own == Some(*level)).count() as f64 / applies;
                let value = |own: &Option<usize>| own.map_or(0.0, |own| f64::from(own == *level) - share);
                columns.push((
                    Term { factor, level: *level, against: *against },
                    own.iter().map(value).collect(),
                ));
            }
        }
        columns
    }
}

impl Designs {
    /// The effect with these weights of the designs' own.
    fn effect(&self, terms: Vec<Term>, weights: &[f64], level: f64) -> Effect {
        let log: f64 = weights.iter().zip(&self.effects).map(|(weight, effect)| weight * effect).sum();
        let (spread, freedom) = match &self.split {
            Some(split) => split.of_contrast(weights),
            None => {
                let of_row = |row: &Vec<f64>| row.iter().zip(weights).map(|(a, b)| a * b).sum::<f64>();
                let rows = self.inverse.iter().zip(weights);
                let spread: f64 = rows.map(|(row, weight)| weight * of_row(row)).sum();
                (self.variance * spread.max(0.0), self.freedom)
            }
        };
        let half = student(freedom, level).map(|quantile| quantile * libm::sqrt(spread));
        let interval = half.map(|half| (libm::exp(log - half), libm::exp(log + half)));
        Effect { terms, ratio: libm::exp(log), interval }
    }
}

/// The weights with which each of `columns` has its coefficient in a least-squares fit of all of them and a constant. Nothing for one
/// that others explain, and nothing for those others either: they cannot be told apart.
fn coefficients(columns: &[Vec<f64>]) -> Vec<Option<Vec<f64>>> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    // Of length 1 and without the constant (Frisch and Waugh 1933).
    let mut lengths = Vec::new();
    let plain: Vec<Vec<f64>> = columns
        .iter()
        .map(|column| {
            let mean = column.iter().sum::<f64>() / column.len() as f64;
            let centred: Vec<f64> = column.iter().map(|value| value - mean).collect();
            let (length, before) = (libm::sqrt(dot(&centred, &centred)), libm::sqrt(dot(column, column)));
            let length = if length * length > NOTHING * before * before { length } else { 0.0 };
            lengths.push(length);
            centred.iter().map(|value| if length > 0.0 { value / length } else { 0.0 }).collect()
        })
        .collect();
    // A column that earlier ones explain has no pivot.
    let products = plain.iter().map(|own| plain.iter().map(|other| dot(own, other)).collect()).collect();
    let Eliminated { matrix, inverse, free } = eliminated(products);
    let one = |at: usize| {
        let explains = free.iter().any(|free| libm::fabs(matrix[at][*free]) > libm::sqrt(NOTHING));
        if explains || free.contains(&at) {
            return None;
        }
        let mut weights = vec![0.0; plain[at].len()];
        for (column, own) in plain.iter().zip(&inverse[at]) {
            weights.iter_mut().zip(column).for_each(|(sum, value)| *sum += own * value / lengths[at]);
        }
        Some(weights)
    };
    (0..columns.len()).map(one).collect()
}

/// Levels and pairs of levels beyond which pairs are not looked at: the time for them grows with the cube.
const MOST_COLUMNS: usize = 600;
/// Less of a column than this, squared, is rounding.
const NOTHING: f64 = 1e-9;

/// The inverse of a positive definite `matrix`; nothing where it has none.
pub(crate) fn inverse(matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let Eliminated { inverse, free, .. } = eliminated(matrix);
    free.is_empty().then_some(inverse)
}

/// What elimination makes of a symmetric matrix without negative eigenvalues.
struct Eliminated {
    /// The unit matrix but in the columns without a pivot: these say what the earlier ones make of them.
    matrix: Vec<Vec<f64>>,
    /// The inverse, of the part that has pivots.
    inverse: Vec<Vec<f64>>,
    /// The columns without a pivot.
    free: Vec<usize>,
}

/// Elimination beside the unit matrix (Gauss and Jordan).
fn eliminated(mut matrix: Vec<Vec<f64>>) -> Eliminated {
    let number = matrix.len();
    let mut inverse: Vec<Vec<f64>> =
        (0..number).map(|row| (0..number).map(|column| f64::from(row == column)).collect()).collect();
    let mut free = Vec::new();
    for pivot in 0..number {
        let by = matrix[pivot][pivot];
        if by <= NOTHING {
            free.push(pivot);
            continue;
        }
        let (row, of_inverse) = (matrix[pivot].clone(), inverse[pivot].clone());
        for other in 0..number {
            let factor = if other == pivot { 1.0 - 1.0 / by } else { matrix[other][pivot] / by };
            if factor == 0.0 {
                continue;
            }
            matrix[other].iter_mut().zip(&row).for_each(|(value, own)| *value -= factor * own);
            inverse[other].iter_mut().zip(&of_inverse).for_each(|(value, own)| *value -= factor * own);
        }
    }
    Eliminated { matrix, inverse, free }
}

#[cfg(test)]
mod tests;

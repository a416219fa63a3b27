//! How the best of many designs is looked for: as those did who tried, and as is done instead. Two tables of docs/statistics.md hold the
//! methods against nights whose truth is known: made-up ones ([`made_up`]), and the Heroku night on the simulator ([`night`]).

pub mod made_up;
pub mod night;

use ebbtide_analysis::estimate::median;
use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A standard normal number (Box and Muller).
pub fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    let mut unit = || ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let radius = (-2.0 * unit().ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * unit()).cos()
}

/// Where designs can be tried, one trial after the other.
trait Night {
    /// How many designs there are.
    fn designs(&self) -> usize;

    /// A trial of a design: a positive figure, more is better.
    fn trial(&mut self, design: usize) -> f64;

    /// A trial of each of `which`, in a fresh random order; by the number of the design.
    fn round(&mut self, which: &[usize]) -> Vec<Option<f64>>;
}

/// The greatest of `figures`, by number.
fn best(figures: &[f64]) -> usize {
    (0..figures.len()).max_by(|a, b| figures[*a].total_cmp(&figures[*b])).unwrap_or(0)
}

/// Each design so many times in a row, the best mean wins.
fn in_a_row(night: &mut impl Night, times: usize) -> usize {
    let figures: Vec<f64> =
        (0..night.designs()).map(|design| (0..times).map(|_| night.trial(design)).sum::<f64>()).collect();
    best(&figures)
}

/// All designs in so many rounds, the best median wins.
fn grid(night: &mut impl Night, rounds: usize) -> usize {
    let all: Vec<usize> = (0..night.designs()).collect();
    let rounds: Vec<_> = (0..rounds).map(|_| night.round(&all)).collect();
    let middle = |design: usize| {
        let figures: Vec<f64> = rounds.iter().filter_map(|round| round[design]).collect();
        median(&figures).unwrap_or(0.0)
    };
    best(&all.iter().map(|design| middle(*design)).collect::<Vec<f64>>())
}

/// Sequential halving (Karnin, Koren and Somekh, ICML 2013) of so many trials: as many in each of log2(k) stages, after which the better
/// half by the medians of all rounds so far stays.
fn halving(night: &mut impl Night, trials: usize) -> usize {
    let mut left: Vec<usize> = (0..night.designs()).collect();
    let mut rounds: Vec<Vec<Option<f64>>> = Vec::new();
    let stages = (left.len() as f64).log2().ceil();
    while left.len() > 1 {
        let number = (trials as f64 / stages / left.len() as f64).floor().max(1.0) as usize;
        rounds.extend((0..number).map(|_| night.round(&left)).collect::<Vec<_>>());
        let score = |design: usize| {
            let ahead: Vec<f64> = rounds
                .iter()
                .filter_map(|round| {
                    let others: Vec<f64> = left.iter().filter_map(|other| round[*other]).collect();
                    Some((round[design]? / median(&others)?).ln())
                })
                .collect();
            median(&ahead).unwrap_or(f64::NEG_INFINITY)
        };
        let mut ranked: Vec<(usize, f64)> = left.iter().map(|design| (*design, score(*design))).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        left = ranked.iter().take(left.len().div_ceil(2)).map(|(design, _)| *design).collect();
    }
    left.first().copied().unwrap_or(0)
}

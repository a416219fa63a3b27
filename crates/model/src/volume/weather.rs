//! Moods, drift and birth quality: factors as a function of (volume, instant).
//!
//! A trial must be able to begin at any instant of a virtual month without walking there, so that trials
//! can run in any order and on any thread. Time is cut into blocks of [`BLOCK_CYCLES`] mean cycles of the
//! chain; in each block the chain starts from its stationary distribution with a seed of its own. Since dwell
//! times are exponential, that differs from one endless chain only in cutting one dwell per block short.

use super::character::{Birth, Drift, Mood};
use super::latency::normal_quantile;
use crate::units::{Instant, Nanos};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Mean visits to states per block, where all states are entered about as often.
const BLOCK_CYCLES: u64 = 256;

/// Most visits in the mean to states that stand for one of [`BLOCK_CYCLES`].
const VISITS_PER_CYCLE: f64 = 16.0;

/// Steps that the drift takes per timescale.
const DRIFT_STEPS: u64 = 32;

/// What latency and rates are multiplied by at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Factors {
    pub(super) rate: f64,
    pub(super) latency: f64,
    /// First instant at which they may differ.
    pub(super) until: Instant,
}

#[derive(Debug, Clone)]
pub(super) struct Weather {
    seed: u64,
    moods: Vec<Mood>,
    drift: Option<Drift>,
    birth: (f64, f64),
    /// Length of a block.
    block: Nanos,
    chain: Option<Chain>,
}

/// The chain within one block.
#[derive(Debug, Clone)]
struct Chain {
    rng: Xoshiro256PlusPlus,
    block: u64,
    state: usize,
    /// When the state began, and when it ends.
    begin: Instant,
    end: Instant,
}

/// A uniform number in (0, 1).
fn open_unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
}

/// A seed for `purpose` number `n` of the volume with `seed`.
pub(super) fn derive(seed: u64, purpose: u64, n: u64) -> u64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(
        seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n.wrapping_mul(0xd1b5_4a32_d192_ed03),
    );
    rng.next_u64()
}

fn normal(seed: u64, purpose: u64, n: u64) -> f64 {
    normal_quantile(open_unit(&mut Xoshiro256PlusPlus::seed_from_u64(derive(seed, purpose, n))))
}

/// Length of a block. Where moods that last long are hardly ever entered, a mean over moods would be a mean of nothing: what a
/// visit lasts bounds the visits of a block, and with them the steps to any instant of it.
fn block_of(moods: &[Mood]) -> Nanos {
    let cycle: u64 = moods.iter().fold(0, |sum, mood| sum.saturating_add(mood.dwell.0.max(1)));
    let mean = (cycle / moods.len().max(1) as u64).max(1);
    let total: f64 = moods.iter().map(|mood| mood.weight).sum();
    let entries = |mood: &Mood| mood.weight * (total - mood.weight);
    let visits: f64 = moods.iter().map(entries).sum();
    let visit = moods.iter().map(|mood| entries(mood) * mood.dwell.0 as f64).sum::<f64>() / visits;
    // A chain of one mood has no visits.
    let most = if visit.is_finite() { (visit * VISITS_PER_CYCLE) as u64 } else { u64::MAX };
    Nanos(mean.min(most).max(1)).times(BLOCK_CYCLES)
}

impl Weather {
    /// The weather of the volume with `seed`; absent where nothing of it ever changes or differs.
    pub(super) fn new(seed: u64, moods: &[Mood], drift: Option<Drift>, birth: Option<Birth>) -> Option<Self> {
        if moods.is_empty() && drift.is_none() && birth.is_none() {
            return None;
        }
        let factor = |sigma: f64, purpose| libm::exp(sigma * normal(seed, purpose, 0));
        Some(Weather {
            seed,
            moods: moods.to_vec(),
            drift: drift.filter(|drift| drift.timescale.0 >= DRIFT_STEPS),
            birth: birth.map_or((1.0, 1.0), |b| (factor(b.rate_sigma, 1), factor(b.latency_sigma, 2))),
            block: block_of(moods),
            chain: None,
        })
    }

    /// The factors at `now`. Instants may go back; going forward is cheap.
    pub(super) fn at(&mut self, now: Instant) -> Factors {
        let mut factors = Factors { rate: self.birth.0, latency: self.birth.1, until: Instant::NEVER };
        if let Some(drift) = self.drift {
            let step = drift.timescale.0 / DRIFT_STEPS;
            let index = now.0 / step;
            let (knot, within) = (index / DRIFT_STEPS, (index % DRIFT_STEPS) as f64 / DRIFT_STEPS as f64);
            let (before, after) = (normal(self.seed, 3, knot), normal(self.seed, 3, knot + 1));
            // Scaled so that the variance between two independent knots is that of the knots.
            let spread = libm::sqrt((1.0 - within) * (1.0 - within) + within * within);
            let value = (before * (1.0 - within) + after * within) / spread;
            factors.rate *= libm::exp(drift.sigma * value);
            factors.until = Instant::START + Nanos(step).times(index + 1);
        }
        if self.moods.len() == 1 {
            factors.rate *= self.moods[0].rate;
            factors.latency *= self.moods[0].latency;
        } else if !self.moods.is_empty() {
            let (state, end) = self.state_at(now);
            factors.rate *= self.moods[state].rate;
            factors.latency *= self.moods[state].latency;
            factors.until = factors.until.min(end);
        }
        factors
    }

    /// Index of the mood at `now`, and when it ends.
    pub(super) fn state_at(&mut self, now: Instant) -> (usize, Instant) {
        let block = now.0 / self.block.0;
        let begin = Instant::START + self.block.times(block);
        let mut chain = match self.chain.take() {
            Some(chain) if chain.block == block && chain.begin <= now => chain,
            _ => self.enter(block, begin),
        };
        let block_end = begin + self.block;
        while chain.end <= now {
            let others = self.total_weight() - self.moods[chain.state].weight;
            let mut rest = open_unit(&mut chain.rng) * others;
            let current = chain.state;
            for (index, mood) in self.moods.iter().enumerate().filter(|(index, _)| *index != current) {
                chain.state = index;
                rest -= mood.weight;
                if rest < 0.0 {
                    break;
                }
            }
            chain.begin = chain.end;
            chain.end += self.dwell(chain.state, &mut chain.rng);
        }
        let found = (chain.state, chain.end.min(block_end));
        self.chain = Some(chain);
        found
    }

    /// The chain at the start of a block, in a state drawn from the stationary distribution: the chain of
    /// entries is reversible with weights w (W - w), each visit counts with its dwell.
    fn enter(&self, block: u64, begin: Instant) -> Chain {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(derive(self.seed, 4, block));
        let total = self.total_weight();
        let share = |mood: &Mood| mood.weight * (total - mood.weight) * mood.dwell.0 as f64;
        let mut rest = open_unit(&mut rng) * self.moods.iter().map(share).sum::<f64>();
        let mut state = 0;
        for (index, mood) in self.moods.iter().enumerate() {
            state = index;
            rest -= share(mood);
            if rest < 0.0 {
                break;
            }
        }
        let end = begin + self.dwell(state, &mut rng);
        Chain { rng, block, state, begin, end }
    }

    fn dwell(&self, state: usize, rng: &mut Xoshiro256PlusPlus) -> Nanos {
        let mean = self.moods[state].dwell.0.max(1) as f64;
        Nanos(((-libm::log(open_unit(rng)) * mean) as u64).max(1))
    }

    fn total_weight(&self) -> f64 {
        self.moods.iter().map(|mood| mood.weight).sum()
    }
}

/// Share of time that each mood has in the long run.
pub fn mood_shares(moods: &[Mood]) -> Vec<f64> {
    if moods.len() == 1 {
        return vec![1.0];
    }
    let total: f64 = moods.iter().map(|mood| mood.weight).sum();
    let shares: Vec<f64> =
        moods.iter().map(|mood| mood.weight * (total - mood.weight) * mood.dwell.as_secs_f64()).collect();
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moods() -> Vec<Mood> {
        let mood = |name: &str, dwell, weight, rate| Mood {
            name: name.into(),
            dwell: Nanos::from_secs(dwell),
            weight,
            rate,
            latency: 1.0 / rate,
        };
        vec![mood("good", 600, 3.0, 1.0), mood("busy", 120, 2.0, 0.7), mood("bad", 60, 1.0, 0.25)]
    }

    fn weather(seed: u64) -> Weather {
        Weather::new(seed, &moods(), Some(Drift { sigma: 0.1, timescale: Nanos::from_secs(86_400) }), None)
            .expect("has moods")
    }

    #[test]
    fn long_run_shares_are_those_of_the_chain() {
        let mut seen = [0u64; 3];
        let mut weather = weather(5);
        let (mut now, month) = (Instant::START, Instant::START + Nanos::from_secs(90 * 86_400));
        while now < month {
            let (state, end) = weather.state_at(now);
            seen[state] += (end.min(month) - now).0;
            now = end;
        }
        for (share, seen) in mood_shares(&moods()).iter().zip(seen) {
            let seen = seen as f64 / month.0 as f64;
            assert!((seen / share - 1.0).abs() < 0.1, "{seen} against {share}");
        }
    }

    #[test]
    fn any_instant_gives_the_same_factors_in_any_order() {
        let instants: Vec<Instant> = (0..2000).map(|i| Instant(i * 37 * Nanos::PER_SECOND)).collect();
        let mut forward = weather(9);
        let there: Vec<Factors> = instants.iter().map(|t| forward.at(*t)).collect();
        for (instant, factors) in instants.iter().zip(&there).rev().step_by(13) {
            let mut fresh = weather(9);
            assert_eq!(fresh.at(*instant), *factors);
            // What holds until `until` is the same in between.
            let middle = *instant + Nanos((factors.until - *instant).0 / 2);
            assert_eq!(fresh.at(middle), *factors);
        }
    }

    #[test]
    fn going_back_in_time_is_the_same_path() {
        let mut weather = weather(1);
        let first = weather.at(Instant(10));
        weather.at(Instant(3_600 * Nanos::PER_SECOND));
        assert_eq!(weather.at(Instant(10)), first);
    }
}

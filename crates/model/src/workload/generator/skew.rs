//! Draws blocks of a region as a distribution has them.

use super::random::below;
use crate::workload::Distribution;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Rounds of the permutation that scatters hot blocks: from four on, a Feistel network is one of the pseudo-random ones
/// (Luby and Rackoff 1988).
const ROUNDS: usize = 4;
/// Uniform numbers whose mean stands for a normal one, as in fio.
const UNIFORMS: u32 = 12;

/// Draws numbers of blocks below `blocks`.
#[derive(Debug, Clone)]
pub(super) struct Skew {
    blocks: u64,
    law: Law,
    scatter: Scatter,
}

#[derive(Debug, Clone)]
enum Law {
    Uniform,
    Zipf(Zipf),
    Pareto {
        power: f64,
    },
    Normal {
        /// Share of the region.
        deviation: f64,
    },
    /// By share of the operations up to its end: first block and number of blocks.
    Zoned(Vec<(f64, u64, u64)>),
}

/// A number in [0, 1).
fn uniform(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

impl Skew {
    /// Of `blocks` blocks, at least 1; `seed` decides which are hot.
    pub(super) fn new(distribution: &Distribution, blocks: u64, seed: u64) -> Skew {
        let law = match distribution {
            Distribution::Uniform => Law::Uniform,
            Distribution::Zipf { theta } => Law::Zipf(Zipf::new(*theta, blocks)),
            Distribution::Pareto { h } => Law::Pareto { power: libm::log(*h) / libm::log1p(-h) },
            Distribution::Normal { deviation } => Law::Normal { deviation: deviation / 100.0 },
            Distribution::Zoned { zones } => {
                let (mut operations, mut region) = (0.0, 0.0);
                let mut first = 0;
                let mut cut = Vec::new();
                for zone in zones {
                    operations += zone.operations / 100.0;
                    region += zone.region / 100.0;
                    let end = ((blocks as f64 * region).round() as u64).min(blocks);
                    // One that is smaller than a block has the block in which it lies.
                    let start = first.min(blocks - 1);
                    cut.push((operations, start, (end - first).max(1)));
                    first = end;
                }
                Law::Zoned(cut)
            }
        };
        Skew { blocks, law, scatter: Scatter::new(blocks, seed) }
    }

    pub(super) fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let last = self.blocks - 1;
        let rank = match &self.law {
            Law::Uniform => return below(rng, self.blocks),
            Law::Zoned(zones) => {
                let at = uniform(rng);
                let zone = zones.iter().find(|(until, ..)| at < *until).or(zones.last());
                let (first, blocks) = zone.map_or((0, self.blocks), |(_, first, blocks)| (*first, *blocks));
                return first + below(rng, blocks);
            }
            Law::Zipf(zipf) => zipf.draw(rng) - 1,
            Law::Pareto { power } => (self.blocks as f64 * libm::pow(uniform(rng), *power)) as u64,
            Law::Normal { deviation } => {
                let sum: f64 = (0..UNIFORMS).map(|_| uniform(rng)).sum();
                let moved = deviation * (uniform(rng) - 0.5);
                ((sum / f64::from(UNIFORMS) + moved) * self.blocks as f64).max(0.0) as u64
            }
        };
        self.scatter.at(rank.min(last))
    }
}

/// Exact draws from a Zipf distribution in constant time and memory, whatever the exponent: rejection-inversion (Hörmann
/// and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996).
#[derive(Debug, Clone)]
struct Zipf {
    theta: f64,
    most: u64,
    /// The integral of x^-theta up to 1.5, less the first one's weight, and up to half beyond the last.
    from: f64,
    to: f64,
    /// Distance from a whole number up to which it is taken without a look at its weight.
    squeeze: f64,
}

impl Zipf {
    fn new(theta: f64, most: u64) -> Zipf {
        let mut zipf = Zipf { theta, most, from: 0.0, to: 0.0, squeeze: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(most as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Of the first `most` whole numbers from 1 on.
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        loop {
            let area = self.to + uniform(rng) * (self.from - self.to);
            let x = self.inverse(area);
            let nearest = ((x + 0.5) as u64).clamp(1, self.most);
            let k = nearest as f64;
            if k - x <= self.squeeze || area >= self.integral(k + 0.5) - self.weight(k) {
                return nearest;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// The integral of the weight from 1 to `x`: (x^(1 - theta) - 1) / (1 - theta), or the logarithm where theta is 1.
    fn integral(&self, x: f64) -> f64 {
        let (log, one) = (libm::log(x), 1.0 - self.theta);
        if (one * log).abs() < 1e-8 { log } else { libm::expm1(one * log) / one }
    }

    fn inverse(&self, area: f64) -> f64 {
        let one = 1.0 - self.theta;
        let scaled = (area * one).max(-1.0);
        if scaled.abs() < 1e-8 { libm::exp(area) } else { libm::exp(libm::log1p(scaled) / one) }
    }
}

/// A permutation of the numbers below `blocks`: a Feistel network over the next power of four, walked until it comes back
/// into the range (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
#[derive(Debug, Clone)]
struct Scatter {
    blocks: u64,
    half: u32,
    keys: [u64; ROUNDS],
}

impl Scatter {
    fn new(blocks: u64, seed: u64) -> Scatter {
        let bits = u64::BITS - blocks.saturating_sub(1).leading_zeros();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Scatter { blocks, half: bits.div_ceil(2).max(1), keys: [0; ROUNDS].map(|_: u64| rng.next_u64()) }
    }

    fn at(&self, mut number: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        loop {
            let (mut left, mut right) = (number >> self.half, number & mask);
            for key in self.keys {
                let mut mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                mixed ^= mixed >> 32;
                mixed = mixed.wrapping_mul(0xd1b5_4a32_d192_ed03);
                (left, right) = (right, left ^ ((mixed >> 32) & mask));
            }
            number = left << self.half | right;
            if number < self.blocks {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests;

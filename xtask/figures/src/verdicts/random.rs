//! What cases are drawn with: the same draws for the same seed.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Draws of one case.
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }
    /// Log-uniform.
    pub fn about(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }
    /// One of the whole numbers from 0 to `number` - 1.
    pub fn below(&mut self, number: usize) -> usize {
        (self.0.next_u64() % number as u64) as usize
    }
    pub fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}

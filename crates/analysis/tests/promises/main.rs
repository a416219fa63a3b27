//! What the statistics promise, over many made-up sessions: apart from the unit tests, so that what draws thousands of samples is optimised.

mod attribution;
mod between;
mod factors;
mod race;

use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A standard normal variate (Box and Muller).
fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    let mut uniform = || ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (2.0 * std::f64::consts::PI * uniform()).cos()
}

//! Random numbers of a job.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A generator of random numbers for one purpose of one job.
pub(super) fn stream(seed: u64, job: u32, purpose: u64) -> Xoshiro256PlusPlus {
    // `seed_from_u64` mixes with SplitMix64; the odd multiplier (2^64 / golden ratio) keeps neighbours apart.
    Xoshiro256PlusPlus::seed_from_u64(
        seed.wrapping_add((u64::from(job) * 4 + purpose).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    )
}

/// A number below `n`, by multiplication; the bias is below `n` / 2^64.
#[inline]
pub(super) fn below(rng: &mut Xoshiro256PlusPlus, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

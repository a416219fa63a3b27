//! Drawing service latencies: the same figures on any machine (libm, not the platform's math library).

use super::Latency;
use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Quantile of the standard normal distribution at 0.99.
const Z_99: f64 = 2.326_347_874_040_841;

/// Segments of the quantile table; its outermost two are computed exactly instead.
const SEGMENTS: usize = 256;

/// Draws from one distribution, in nanoseconds.
#[derive(Debug, Clone)]
pub(super) enum Sampler {
    Constant(f64),
    Lognormal {
        median: f64,
        sigma: f64,
        /// Quantiles at i / SEGMENTS; the value at 0 and at SEGMENTS is never read.
        table: Box<[f32; SEGMENTS + 1]>,
    },
}

impl Sampler {
    pub(super) fn new(latency: &Latency) -> Self {
        match *latency {
            Latency::Constant(value) => Sampler::Constant(value.0 as f64),
            Latency::Lognormal { median, p99 } if p99 <= median || median.0 == 0 => {
                Sampler::Constant(median.0 as f64)
            }
            Latency::Lognormal { median, p99 } => {
                let sigma = libm::log(p99.0 as f64 / median.0 as f64) / Z_99;
                let median = median.0 as f64;
                let mut table = Box::new([0f32; SEGMENTS + 1]);
                for (i, value) in table.iter_mut().enumerate().take(SEGMENTS).skip(1) {
                    *value = quantile(median, sigma, i as f64 / SEGMENTS as f64) as f32;
                }
                Sampler::Lognormal { median, sigma, table }
            }
        }
    }

    /// One latency in nanoseconds, not negative.
    #[inline]
    pub(super) fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Sampler::Constant(value) => *value,
            Sampler::Lognormal { median, sigma, table } => {
                let bits = rng.next_u64();
                let segment = (bits >> 56) as usize;
                let within = ((bits << 8) >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
                if segment == 0 || segment == SEGMENTS - 1 {
                    // A hair inward, so that neither 0 nor 1 is ever asked for.
                    let p = (segment as f64 + within.clamp(1e-12, 1.0 - 1e-12)) / SEGMENTS as f64;
                    return quantile(*median, *sigma, p);
                }
                let (low, high) = (f64::from(table[segment]), f64::from(table[segment + 1]));
                low + (high - low) * within
            }
        }
    }
}

fn quantile(median: f64, sigma: f64, p: f64) -> f64 {
    median * libm::exp(sigma * normal_quantile(p))
}

/// Quantile of the standard normal distribution for 0 < p < 1: rational approximation of P. J. Acklam
/// (2003), relative error below 1.2e-9.
pub fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    const TAIL: f64 = 0.02425;
    let horner = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    if p < TAIL {
        let q = libm::sqrt(-2.0 * libm::log(p));
        horner(&C, q) / horner(&D, q)
    } else if p > 1.0 - TAIL {
        let q = libm::sqrt(-2.0 * libm::log(1.0 - p));
        -horner(&C, q) / horner(&D, q)
    } else {
        let q = p - 0.5;
        let r = q * q;
        horner(&A, r) * q / horner(&B, r)
    }
}

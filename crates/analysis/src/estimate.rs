//! Medians with exact order-statistic intervals (docs/explanation/statistics.md).
//!
//! The number of trials below the true median is binomial(n, 1/2) whatever the distribution, so
//! `[x_(l), x_(n-l+1)]` covers the median with probability `1 - 2 * sum_{k<l} C(n,k) / 2^n`. No normal
//! approximation: that one asks for ranks outside the sample below n = 8.

use super::Estimate;
use std::borrow::Borrow;

/// The largest `l >= 1` for which `[x_(l), x_(n-l+1)]` covers the median of `n` independent trials with
/// probability at least `level`; `None` when even the whole range does not.
///
/// `level` outside (0, 1) gives `None`.
pub fn interval_rank(n: usize, level: f64) -> Option<usize> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    // The term C(n,k) and their sum, both divided by 2^scale; only multiplications and divisions, so the
    // relative error stays below 2 n ulp.
    let (mut term, mut tail, mut scale) = (1.0f64, 0.0f64, 0i32);
    let mut rank = None;
    for l in 1..=n.div_ceil(2) {
        tail += term; // sum_{k<l}
        let exponent = i64::from(scale) - n as i64 + 1; // twice the tail
        let both_tails = libm::ldexp(tail, exponent.max(i64::from(i32::MIN)) as i32);
        if 1.0 - both_tails < level {
            break;
        }
        rank = Some(l);
        term *= (n - l + 1) as f64 / l as f64;
        if tail.max(term) > 1e250 {
            let by = 512;
            term = libm::ldexp(term, -by);
            tail = libm::ldexp(tail, -by);
            scale += by;
        }
    }
    rank
}

/// The least number of trials for which an interval at `level` exists: 6 at 95%, 8 at 99%; `None` for a
/// level outside (0, 1).
pub fn least_trials(level: f64) -> Option<usize> {
    // 1 - 2 / 2^n >= level; f64 tells levels up to 1 - 2^-53 from 1.
    (level > 0.0 && level < 1.0).then(|| (1..=60).find(|n| interval_rank(*n, level).is_some()))?
}

/// The median of `sorted` (the mean of the two in the middle for an even number); `None` when empty.
pub fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let upper = *sorted.get(n / 2)?;
    if n % 2 == 1 {
        return Some(upper);
    }
    let lower = sorted[n / 2 - 1];
    Some(lower + (upper - lower) / 2.0)
}

/// The median of `values`; `None` when there are none. Values that are not finite are left out.
pub fn median(values: impl IntoIterator<Item = impl Borrow<f64>>) -> Option<f64> {
    let mut values = finite(values);
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    // Long series are not sorted for the two in the middle.
    let is_odd = values.len() % 2 == 1;
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(lower + (upper - lower) / 2.0)
}

/// Mean of the middle half of these values: a rate that is told. A stretch of time holds a whole number of operations; where
/// these are few the median is one of a few numbers, up to 5% off.
pub fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let edge = values.len() / 4;
    let middle = values.get(edge..values.len() - edge).filter(|middle| !middle.is_empty())?;
    Some(middle.iter().sum::<f64>() / middle.len() as f64)
}

fn finite(values: impl IntoIterator<Item = impl Borrow<f64>>) -> Vec<f64> {
    values.into_iter().map(|value| *value.borrow()).filter(|value| value.is_finite()).collect()
}

fn sorted(values: impl IntoIterator<Item = impl Borrow<f64>>) -> Vec<f64> {
    let mut sorted = finite(values);
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Median and interval of `values` (one per trial) at `level`; `None` when there are no values. Values
/// that are not finite are left out.
pub fn estimate(values: &[f64], level: f64) -> Option<Estimate> {
    estimate_of_sorted(&sorted(values), level)
}

/// The same of values that are finite and in ascending order.
pub fn estimate_of_sorted(sorted: &[f64], level: f64) -> Option<Estimate> {
    let median = median_of_sorted(sorted)?;
    let interval = interval_rank(sorted.len(), level).map(|l| (sorted[l - 1], sorted[sorted.len() - l]));
    Some(Estimate { trials: sorted.len() as u32, median, interval, ci_level: level })
}

/// Correlation of each value with the one before it, 0 for independent ones; `None` below three values or when
/// they are all equal.
pub fn lag1_autocorrelation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let covariance: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    // The mean of equal values may be off in its last digit, and their variance is not 0 then.
    let vary = values.iter().any(|value| *value != values[0]);
    (values.len() >= 3 && vary && variance > 0.0).then(|| covariance / variance)
}

/// The distance from 0 beyond which, on both sides together, a normal variate is with this probability: 1.96 for 0.05.
pub fn normal_outside(chance: f64) -> f64 {
    let (mut below, mut above) = (0.0f64, 40.0f64);
    for _ in 0..80 {
        let middle = f64::midpoint(below, above);
        if libm::erfc(middle / std::f64::consts::SQRT_2) > chance { below = middle } else { above = middle }
    }
    below
}

/// What both tails of Student's distribution with `freedom` degrees of freedom leave `level` between, for example 1.96 for 0.95 and
/// many; `None` below 5 degrees, where what follows is no longer right to a hundredth, and for a level outside (0, 1).
///
/// Expansion about the normal quantile (Abramowitz and Stegun 26.7.5).
pub fn student(freedom: f64, level: f64) -> Option<f64> {
    if !(level > 0.0 && level < 1.0 && freedom >= 5.0) {
        return None;
    }
    let z = normal_outside(1.0 - level);
    let power = |n: i32| z.powi(n);
    let terms = [
        (power(3) + z) / 4.0,
        (5.0 * power(5) + 16.0 * power(3) + 3.0 * z) / 96.0,
        (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * z) / 384.0,
        (79.0 * power(9) + 776.0 * power(7) + 1482.0 * power(5) - 1920.0 * power(3) - 945.0 * z) / 92160.0,
    ];
    Some(terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom) + z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every one of the 2^n equally likely ways in which n trials fall below or above the median.
    fn coverage_by_enumeration(n: usize, l: usize) -> f64 {
        let covered = (0u32..1 << n)
            .filter(|sides| {
                let below = sides.count_ones() as usize;
                // x_(l) is below the median and x_(n-l+1) above it.
                below >= l && below <= n - l
            })
            .count();
        covered as f64 / f64::from(1u32 << n)
    }

    #[test]
    fn ranks_agree_with_enumeration() {
        for n in 1usize..=16 {
            for level in [0.5, 0.8, 0.9, 0.95, 0.96875, 0.99, 0.999] {
                let expected = (1..=n.div_ceil(2)).filter(|l| coverage_by_enumeration(n, *l) >= level).max();
                assert_eq!(interval_rank(n, level), expected, "n {n} level {level}");
            }
        }
    }

    #[test]
    fn ranks_agree_with_exact_fractions() {
        // Computed with exact fractions of whole binomial coefficients.
        for (n, rank) in [
            (5, None),
            (6, Some(1)),
            (8, Some(1)),
            (9, Some(2)),
            (20, Some(6)),
            (100, Some(40)),
            (1000, Some(469)),
            (5000, Some(2431)),
        ] {
            assert_eq!(interval_rank(n, 0.95), rank, "n {n}");
        }
        assert_eq!(least_trials(0.95), Some(6));
        assert_eq!(least_trials(0.99), Some(8));
        assert_eq!(least_trials(1.0), None);
    }

    #[test]
    fn large_n_neither_overflows_nor_loses_the_rank() {
        // The normal approximation is good to about one rank there: n/2 - 0.98 sqrt(n).
        for n in [1000usize, 5000, 100_000] {
            let rank = interval_rank(n, 0.95).expect("exists") as f64;
            let approximate = n as f64 / 2.0 - 0.98 * (n as f64).sqrt();
            assert!((rank - approximate).abs() < 2.0, "n {n}: {rank} against {approximate}");
        }
    }

    #[test]
    fn quantiles_of_student_are_those_of_the_tables() {
        for (freedom, level, quantile) in [
            (5.0, 0.95, 2.571),
            (10.0, 0.95, 2.228),
            (10.0, 0.99, 3.169),
            (30.0, 0.95, 2.042),
            (1e9, 0.95, 1.960),
        ] {
            let found = student(freedom, level).expect("is one");
            assert!((found - quantile).abs() < 0.006, "{freedom} {level}: {found}");
        }
        assert_eq!((student(4.0, 0.95), student(9.0, 1.0)), (None, None));
    }

    #[test]
    fn no_data_is_not_zero() {
        assert_eq!(estimate(&[], 0.95), None);
        assert_eq!(estimate(&[f64::NAN], 0.95), None);
        let five = estimate(&[5.0, 1.0, 4.0, 2.0, 3.0], 0.95).expect("has a median");
        assert_eq!((five.median, five.interval), (3.0, None));
        let six = estimate(&[6.0, 5.0, 1.0, 4.0, 2.0, 3.0], 0.95).expect("has a median");
        assert_eq!((six.median, six.interval), (3.5, Some((1.0, 6.0))));
    }

    #[test]
    fn neighbours_that_depend_on_each_other_correlate() {
        let alternating = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0];
        let drifting = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        assert!(lag1_autocorrelation(&alternating).expect("varies") < -0.8);
        assert!(lag1_autocorrelation(&drifting).expect("varies") > 0.5);
        assert_eq!(lag1_autocorrelation(&[1.0, 1.0, 1.0]), None);
        assert_eq!(lag1_autocorrelation(&[999.5f64.ln(); 12]), None);
        assert_eq!(lag1_autocorrelation(&[1.0, 2.0]), None);
    }

    proptest! {
        #[test]
        fn a_median_is_that_of_what_is_sorted(values in prop::collection::vec(
            prop_oneof![-9i8..9, Just(i8::MAX)].prop_map(|n| if n == i8::MAX { f64::NAN } else { f64::from(n) / 3.0 }),
            0..40,
        )) {
            prop_assert_eq!(median(&values), median_of_sorted(&sorted(&values)));
        }

        #[test]
        fn an_interval_holds_its_median_and_widens_with_the_level(
            values in prop::collection::vec(-1e9f64..1e9, 1..200), level in 0.01f64..0.98
        ) {
            let narrow = estimate(&values, level).expect("values");
            let wide = estimate(&values, level + 0.019).expect("values");
            if let Some((low, high)) = narrow.interval {
                prop_assert!(low <= narrow.median && narrow.median <= high);
                if let Some((lower, higher)) = wide.interval {
                    prop_assert!(lower <= low && high <= higher);
                }
            } else {
                prop_assert!(wide.interval.is_none());
            }
        }

        #[test]
        fn any_level_is_answered(n in 0usize..300, level: f64) {
            if let Some(rank) = interval_rank(n, level) {
                prop_assert!(rank >= 1 && 2 * rank <= n + 1);
            }
        }
    }
}

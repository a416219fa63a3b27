//! The exact interval of Wilcoxon's signed ranks, about the estimate of Hodges and Lehmann (docs/explanation/statistics.md).
//!
//! For `n` values that are symmetric about their centre, each of the `2^n` ways in which their signs may fall is equally likely. The
//! number `W` of means of two values (each with itself too: Walsh averages) below the centre then has the distribution of a sum of
//! those ranks `1..n` for which a coin falls heads, and the `k`-th smallest and `k`-th largest of the `n (n + 1) / 2` averages hold
//! the centre between them with probability `1 - 2 P(W < k)`. No normal approximation.

use crate::estimate::{estimate, median_of_sorted};

/// With more values than this the interval is that of the median by order statistics: there are too many averages, and enough
/// values for either.
pub(crate) const MOST: usize = 100;

/// The centre of symmetry of values, and where it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Centre {
    /// The median of the means of two (Hodges and Lehmann 1963).
    pub value: f64,
    /// Interval; nothing with too few values for its level.
    pub interval: Option<(f64, f64)>,
}

/// The centre of `values` with its interval at `level`; `None` without values. Values that are not finite are left out.
pub fn centre(values: &[f64], level: f64) -> Option<Centre> {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    if finite.len() > MOST {
        return estimate(&finite, level).map(|e| Centre { value: e.median, interval: e.interval });
    }
    let averages = averages(&finite);
    let value = median_of_sorted(&averages)?;
    let interval = rank(finite.len(), level).map(|k| (averages[k - 1], averages[averages.len() - k]));
    Some(Centre { value, interval })
}

/// The means of two of `values`, each with itself too, ascending.
pub(crate) fn averages(values: &[f64]) -> Vec<f64> {
    let mut averages: Vec<f64> = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (index, one) in values.iter().enumerate() {
        averages.extend(values[index..].iter().map(|other| one + (other - one) / 2.0));
    }
    averages.sort_by(f64::total_cmp);
    averages
}

/// The chance of each number of averages below the centre of `n` values, from 0 to `most`.
pub(crate) fn chances(n: usize, most: usize) -> Vec<f64> {
    let mut chance = vec![0.0f64; most + 1];
    chance[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..=most).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |rest| chance[rest]);
            chance[sum] = (chance[sum] + with) / 2.0;
        }
    }
    chance
}

/// The largest `k >= 1` for which `1 - 2 P(W < k)` of `n` values is at least `level`; `None` where there is none.
///
/// `level` outside (0, 1) gives `None`.
fn rank(n: usize, level: f64) -> Option<usize> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    let mut below = 0.0;
    let mut found = None;
    // Sums beyond the middle never count.
    for (sum, chance) in chances(n, n * (n + 1) / 4).iter().enumerate() {
        below += chance;
        if 1.0 - 2.0 * below < level {
            break;
        }
        found = Some(sum + 1);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::interval_rank;
    use proptest::prelude::*;

    /// Of all ways in which the signs of `1..n` may fall, the share in which the ranks below the centre sum to at least `k` on
    /// either side.
    fn coverage_by_enumeration(n: usize, k: usize) -> f64 {
        let all = n * (n + 1) / 2;
        let covered = (0u32..1 << n)
            .filter(|signs| {
                let below: usize = (0..n).filter(|i| signs >> i & 1 == 1).map(|i| i + 1).sum();
                below >= k && all - below >= k
            })
            .count();
        covered as f64 / f64::from(1u32 << n)
    }

    #[test]
    fn ranks_agree_with_enumeration() {
        for n in 1usize..=14 {
            for level in [0.5, 0.75, 0.95, 0.9875, 0.999] {
                let most = (n * (n + 1) / 2).div_ceil(2);
                let expected = (1..=most).filter(|k| coverage_by_enumeration(n, *k) >= level).max();
                assert_eq!(rank(n, level), expected, "n {n} level {level}");
            }
        }
    }

    #[test]
    fn it_exists_from_as_many_values_as_the_sign_interval() {
        for n in 1..60 {
            for level in [0.75, 0.95, 0.975, 0.9875, 0.9999] {
                assert_eq!(
                    rank(n, level).is_some(),
                    interval_rank(n, level).is_some(),
                    "n {n} level {level}"
                );
            }
        }
        assert_eq!(rank(8, f64::NAN), None);
    }

    #[test]
    fn the_centre_is_the_median_of_the_means_of_two() {
        // 1 2 6: 1, 1.5, 2, 3.5, 4, 6.
        assert_eq!(centre(&[6.0, 1.0, 2.0], 0.95).map(|c| (c.value, c.interval)), Some((2.75, None)));
        assert_eq!(centre(&[], 0.95), None);
        assert_eq!(centre(&[f64::NAN], 0.95), None);
    }

    proptest! {
        #[test]
        fn an_interval_holds_its_centre_and_moves_with_the_values(
            values in prop::collection::vec(-10.0f64..10.0, 1..130), by in -5.0f64..5.0
        ) {
            let seen = centre(&values, 0.95).expect("values");
            let moved: Vec<f64> = values.iter().map(|value| value + by).collect();
            let moved = centre(&moved, 0.95).expect("values");
            prop_assert!((moved.value - seen.value - by).abs() < 1e-9);
            if let (Some((low, high)), Some((low2, high2))) = (seen.interval, moved.interval) {
                prop_assert!(low <= seen.value && seen.value <= high);
                prop_assert!((low2 - low - by).abs() < 1e-9 && (high2 - high - by).abs() < 1e-9);
            }
        }
    }
}

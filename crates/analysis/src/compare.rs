//! Ratios of two designs, paired by round.
//!
//! Neighbouring trials on real volumes are not independent (a volume has good and bad minutes), but what
//! a round does to one design it does to the other. So each round gives one number, `d = ln(A / B)`; the
//! effect is `exp(median d)` with the exact interval of the median. The unit is the round, never the second.

use super::Conclusion;
use super::estimate::{estimate, interval_rank};
use ebbtide_model::metric::Metric;

/// A ratio with its interval, over rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median over rounds.
    pub ratio: f64,
    /// Exact interval at the level asked for.
    pub interval: Option<(f64, f64)>,
    /// Rounds it rests on.
    pub rounds: u32,
}

/// Each side of a comparison is known within `precision`, so their ratio is within about twice that: an
/// interval of the ratio inside `1 ± EQUIVALENCE * precision` says that no larger difference was seen.
pub const EQUIVALENCE: f64 = 2.0;

/// The ratio `a / b` over pairs `(a, b)` of the same round; `None` without pairs. Pairs with a value that is
/// not positive and finite have no ratio and are left out.
pub fn ratio(pairs: &[(f64, f64)], level: f64) -> Option<Ratio> {
    let logs = logs(pairs);
    let of_logs = estimate(&logs, level)?;
    Some(Ratio {
        ratio: of_logs.median.exp(),
        interval: of_logs.interval.map(|(low, high)| (low.exp(), high.exp())),
        rounds: of_logs.trials,
    })
}

fn logs(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs
        .iter()
        .filter(|(a, b)| *a > 0.0 && *b > 0.0 && a.is_finite() && b.is_finite())
        .map(|(a, b)| (a / b).ln())
        .collect()
}

/// What `ratio` allows to say about `metric` when differences below `precision` do not matter.
pub fn conclude(metric: Metric, ratio: &Ratio, precision: f64) -> Conclusion {
    let Some((low, high)) = ratio.interval else { return Conclusion::Inconclusive };
    let margin = EQUIVALENCE * precision;
    match (low > 1.0, high < 1.0) {
        (true, _) if metric.lower_is_better() => Conclusion::Slower,
        (true, _) => Conclusion::Faster,
        (_, true) if metric.lower_is_better() => Conclusion::Faster,
        (_, true) => Conclusion::Slower,
        _ if high <= 1.0 + margin && low >= 1.0 / (1.0 + margin) => Conclusion::NoDifference,
        _ => Conclusion::Inconclusive,
    }
}

/// Whether the pairs exclude the ratio 1 when `looks` such questions are asked at once (Bonferroni): each is
/// put at level `1 - (1 - level) / looks`, or at the highest level that the number of rounds allows when that
/// is lower. `None` when even `level` itself has no interval.
pub fn excludes_one(pairs: &[(f64, f64)], level: f64, looks: usize) -> Option<bool> {
    let mut logs = logs(pairs);
    logs.sort_by(f64::total_cmp);
    interval_rank(logs.len(), level)?;
    let strict = 1.0 - (1.0 - level) / looks.max(1) as f64;
    let rank = interval_rank(logs.len(), strict).unwrap_or(1);
    Some(logs[rank - 1] > 0.0 || logs[logs.len() - rank] < 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rounds(ratios: &[f64]) -> Vec<(f64, f64)> {
        // The machine is twice as fast in every other round: pairing takes that out.
        ratios
            .iter()
            .zip([1.0, 2.0].into_iter().cycle())
            .map(|(r, speed)| (r * speed * 10.0, speed * 10.0))
            .collect()
    }

    #[test]
    fn direction_follows_the_metric() {
        let pairs = rounds(&[1.2, 1.3, 1.25, 1.22, 1.28, 1.21]);
        let seen = ratio(&pairs, 0.95).expect("pairs");
        assert!((seen.ratio - 1.235).abs() < 0.01, "{seen:?}");
        assert_eq!(conclude(Metric::Iops, &seen, 0.05), Conclusion::Faster);
        assert_eq!(conclude(Metric::LatP99, &seen, 0.05), Conclusion::Slower);
        let inverse: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        let seen = ratio(&inverse, 0.95).expect("pairs");
        assert_eq!(conclude(Metric::Iops, &seen, 0.05), Conclusion::Slower);
        assert_eq!(conclude(Metric::LatP50, &seen, 0.05), Conclusion::Faster);
    }

    #[test]
    fn too_few_or_too_wide_is_inconclusive_and_narrow_is_no_difference() {
        let five = ratio(&rounds(&[1.2, 1.3, 1.25, 1.22, 1.28]), 0.95).expect("pairs");
        assert_eq!(conclude(Metric::Iops, &five, 0.05), Conclusion::Inconclusive);
        let wide = ratio(&rounds(&[0.7, 1.3, 1.0, 0.9, 1.1, 1.05]), 0.95).expect("pairs");
        assert_eq!(conclude(Metric::Iops, &wide, 0.05), Conclusion::Inconclusive);
        let narrow = ratio(&rounds(&[0.98, 1.03, 1.0, 0.99, 1.01, 1.02]), 0.95).expect("pairs");
        assert_eq!(conclude(Metric::Iops, &narrow, 0.05), Conclusion::NoDifference);
    }

    #[test]
    fn asking_more_questions_needs_more_evidence() {
        // 8 rounds above 1 and one below: excluded at 95% (ranks 2 and 8 of 9), not at 99.5% (1 and 9).
        let pairs = rounds(&[1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 0.9]);
        assert_eq!(excludes_one(&pairs, 0.95, 1), Some(true));
        assert_eq!(excludes_one(&pairs, 0.95, 10), Some(false));
        assert_eq!(excludes_one(&pairs[..5], 0.95, 1), None);
    }

    proptest! {
        #[test]
        fn swapping_the_sides_inverts_the_ratio(values in prop::collection::vec((0.1f64..10.0, 0.1f64..10.0), 1..40)) {
            let swapped: Vec<_> = values.iter().map(|(a, b)| (*b, *a)).collect();
            let (one, other) = (ratio(&values, 0.95).expect("pairs"), ratio(&swapped, 0.95).expect("pairs"));
            prop_assert!((one.ratio * other.ratio - 1.0).abs() < 1e-9);
            if let (Some((low, high)), Some((low2, high2))) = (one.interval, other.interval) {
                prop_assert!((low * high2 - 1.0).abs() < 1e-9 && (high * low2 - 1.0).abs() < 1e-9);
            }
        }

        #[test]
        fn no_values_panic(values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20), level: f64) {
            if let Some(seen) = ratio(&values, level) {
                let _ = conclude(Metric::Iops, &seen, 0.05);
            }
            let _ = excludes_one(&values, level, 3);
        }
    }
}

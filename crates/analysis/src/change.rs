//! One change point in a short series: a step from one plateau to another.
//!
//! The split is the one that maximises the energy statistic of e-divisive (Matteson & James, JASA 2014)
//! between the two sides,
//!
//! ```text
//! Q = 2/(m+n) sum |Xi - Yj| - 2m/((m+n)(n-1)) sum |Xi - Xk| - 2n/((m+n)(m-1)) sum |Yj - Yk|
//! ```
//!
//! with n values in X and m in Y. e-divisive then asks by permutation whether Q is large, which on
//! autocorrelated series (and the seconds of a trial are) raises a false alarm in most of them. Here the question
//! is narrower: whether there are two flat plateaus far apart compared with how flat they are. Medians and
//! median deviations answer it, so that single spikes are neither plateaus nor noise.

use super::estimate::{median, middle};

/// Least points on either side: fewer are a spike.
pub const MIN_SIDE: usize = 4;
/// Least distance of the plateaus relative to the higher one.
pub const MIN_STEP: f64 = 0.20;
/// Least distance of the plateaus in standard deviations of the noisier one. With it, series of independent,
/// lognormal and autocorrelated noise show a step in under 2% (a test of this module).
pub const MIN_DEVIATIONS: f64 = 5.0;
/// Median absolute deviation of a normal distribution to its standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Where a series changes its level and stays there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Index of the first value after it.
    pub at: usize,
    /// Median of the values before it, in their own unit.
    pub before: f64,
    /// Median of the values from it on, in their own unit.
    pub after: f64,
}

/// The split that maximises Q: the index of the first value of the second side.
fn best_split(values: &[f64]) -> Option<usize> {
    let len = values.len();
    if len < 2 * MIN_SIDE {
        return None;
    }
    // Sums of distances within the two sides and between them, moved from split to split.
    let distances_to =
        |value: f64, side: &[f64]| -> f64 { side.iter().map(|other| (value - other).abs()).sum::<f64>() };
    let (mut within_left, mut between) = (0.0, 0.0);
    let mut within_right: f64 = (0..len).map(|i| distances_to(values[i], &values[i + 1..])).sum();
    let mut best: Option<(f64, usize)> = None;
    for split in 1..=len - MIN_SIDE {
        let moved = values[split - 1];
        let (to_left, to_right) =
            (distances_to(moved, &values[..split - 1]), distances_to(moved, &values[split..]));
        within_left += to_left;
        within_right -= to_right;
        between += to_right - to_left;
        if split < MIN_SIDE {
            continue;
        }
        let (n, m) = (split as f64, (len - split) as f64);
        let q = 2.0 / (m + n) * between
            - 2.0 * m / ((m + n) * (n - 1.0)) * within_left
            - 2.0 * n / ((m + n) * (m - 1.0)) * within_right;
        if best.is_none_or(|(most, _)| q > most) {
            best = Some((q, split));
        }
    }
    best.map(|(_, split)| split)
}

/// The step between two plateaus that `values` show, up or down; `None` when they show none.
pub fn step(values: &[f64]) -> Option<Step> {
    let at = best_split(values)?;
    let (left, right) = values.split_at(at);
    let (before, after) = (median(left)?, median(right)?);
    let deviation = |side: &[f64], level: f64| {
        let deviations: Vec<f64> = side.iter().map(|value| (value - level).abs()).collect();
        median(&deviations).map(|mad| mad * MAD_TO_SIGMA)
    };
    let noise = deviation(left, before)?.max(deviation(right, after)?);
    let distance = (before - after).abs();
    // What comes in lots is mostly nothing on one side of a split and mostly a lot on the other, by chance: the medians are
    // far apart then, and the means of the middle halves are not.
    let (middle_before, middle_after) = (middle(left.to_vec())?, middle(right.to_vec())?);
    let lots = (middle_before - middle_after).abs() < MIN_STEP * middle_before.max(middle_after)
        || (middle_before > middle_after) != (before > after);
    (!lots
        && distance >= MIN_STEP * before.max(after)
        && distance > 0.0
        && distance >= MIN_DEVIATIONS * noise)
        .then_some(Step { at, before, after })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::normal;
    use proptest::prelude::*;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Q by its definition.
    fn q(values: &[f64], split: usize) -> f64 {
        let (x, y) = values.split_at(split);
        let (n, m) = (x.len() as f64, y.len() as f64);
        let between: f64 = x.iter().flat_map(|a| y.iter().map(move |b| (a - b).abs())).sum();
        let within = |side: &[f64]| -> f64 {
            side.iter().enumerate().flat_map(|(i, a)| side[..i].iter().map(move |b| (a - b).abs())).sum()
        };
        2.0 / (m + n) * between
            - 2.0 * m / ((m + n) * (n - 1.0)) * within(x)
            - 2.0 * n / ((m + n) * (m - 1.0)) * within(y)
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let values: Vec<f64> = (0..20).map(|i| if i < 8 { 100.0 } else { 50.0 } + f64::from(i % 3)).collect();
        let found = step(&values).expect("a step");
        assert_eq!(found.at, 8);
        assert!((found.before - 101.0).abs() < 1.1 && (found.after - 51.0).abs() < 1.1, "{found:?}");
    }

    #[test]
    fn spikes_drifts_and_small_steps_are_none() {
        let flat = |i: i32| 100.0 + f64::from(i % 3);
        let spike: Vec<f64> = (0..20).map(|i| if i == 9 || i == 14 { 20.0 } else { flat(i) }).collect();
        let drift: Vec<f64> = (0..20).map(|i| 100.0 - 3.0 * f64::from(i)).collect();
        let small: Vec<f64> = (0..20).map(|i| if i < 9 { 100.0 } else { 90.0 }).collect();
        // Now a lot and now a little, or nothing.
        let lots: Vec<f64> = (0..20).map(|i| if i % 2 == 0 { 140.0 } else { 60.0 }).collect();
        for series in [spike, drift, small, lots, vec![5.0; 20], vec![100.0, 100.0, 50.0, 50.0], vec![]] {
            assert_eq!(step(&series), None, "{series:?}");
        }
    }

    #[test]
    fn noise_of_any_kind_seldom_looks_like_a_step() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for (kind, phi, lognormal) in
            [("independent", 0.0, false), ("lognormal", 0.0, true), ("AR(1)", 0.5, false)]
        {
            for length in [10, 50] {
                let alarms = (0..400)
                    .filter(|_| {
                        let mut state = 0.0;
                        let values: Vec<f64> = (0..length)
                            .map(|_| {
                                state = phi * state + normal(&mut rng) * (1.0f64 - phi * phi).sqrt();
                                if lognormal { 100.0 * (0.3 * state).exp() } else { 100.0 + 20.0 * state }
                            })
                            .collect();
                        step(&values).is_some()
                    })
                    .count();
                assert!(alarms <= 8, "{kind}, {length} points: {alarms} of 400");
            }
        }
    }

    proptest! {
        #[test]
        fn the_split_maximises_q(values in prop::collection::vec(0.0f64..100.0, 8..30)) {
            let best = best_split(&values).expect("long enough");
            let most = (MIN_SIDE..=values.len() - MIN_SIDE).map(|s| q(&values, s)).fold(f64::NEG_INFINITY, f64::max);
            prop_assert!((q(&values, best) - most).abs() <= 1e-9 * most.abs().max(1.0));
        }
    }
}

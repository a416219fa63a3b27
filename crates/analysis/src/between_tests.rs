//! Slow oracles, and what the methods hold on made-up trials with fixed seeds.

use super::*;
use crate::fixtures::normal;
use crate::signed_rank::centre;
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Every way to give `n` of `n + m` places to the one side.
fn splits(n: usize, m: usize) -> impl Iterator<Item = Vec<bool>> {
    (0u32..1 << (n + m))
        .filter(move |sides| sides.count_ones() as usize == n)
        .map(move |sides| (0..n + m).map(|place| sides >> place & 1 == 1).collect())
}

/// Pairs in which the place of the one side is after that of the other.
fn inversions(places: &[bool]) -> usize {
    (0..places.len())
        .flat_map(|i| (0..i).map(move |j| (i, j)))
        .filter(|&(i, j)| places[i] && !places[j])
        .count()
}

/// Share of all orders with at most `count` inversions.
fn by_enumeration(n: usize, m: usize, count: usize) -> f64 {
    let all: Vec<usize> = splits(n, m).map(|places| inversions(&places)).collect();
    all.iter().filter(|u| **u <= count).count() as f64 / all.len() as f64
}

#[test]
fn counts_agree_with_every_order_of_the_trials() {
    for n in 1..=5 {
        for m in 1..=5 {
            for (count, chance) in mann_whitney(n, m).into_iter().enumerate() {
                assert!((chance - by_enumeration(n, m, count)).abs() < 1e-9, "{n} {m} {count}: {chance}");
            }
        }
    }
}

#[test]
fn pairs_have_the_interval_of_a_sessions_own_comparisons() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    for rounds in [1, 2, 5, 6, 9, 20, 60, 100, 101, 150] {
        let pairs: Vec<(f64, f64)> = (0..rounds).map(|_| (1.0, normal(&mut rng).exp())).collect();
        let logs: Vec<f64> = pairs.iter().map(|(_, b)| b.ln()).collect();
        let shift = Shift::paired(&pairs).unwrap();
        for level in [0.5, 0.9, 0.95, 0.99] {
            let own = centre(&logs, level).unwrap();
            assert!((shift.estimate() - own.value).abs() < 1e-12, "{rounds}");
            match (shift.interval(level), own.interval) {
                (None, None) => {}
                (Some((low, high)), Some((l, h))) => {
                    assert!((low - l).abs() < 1e-12 && (high - h).abs() < 1e-12, "{rounds} {level}");
                }
                other => panic!("{rounds} {level}: {other:?}"),
            }
        }
    }
    assert!(Shift::paired(&vec![(1.0, 2.0); 5000]).unwrap().interval(0.95).is_some());
}

/// For counts that are not counted out, the normal approximation never claims more.
#[test]
fn the_normal_approximation_is_on_the_safe_side() {
    for (n, m) in [(1, 120), (2, 60), (5, 30), (12, 12), (40, 50)] {
        let exact = mann_whitney(n, m);
        let (mean, sigma) = ((n * m) as f64 / 2.0, ((n * m * (n + m + 1)) as f64 / 12.0).sqrt());
        for (u, chance) in exact.iter().enumerate().filter(|(_, chance)| **chance <= 0.025) {
            let approximate = normal_below((u as f64 + 0.5 - mean) / sigma);
            assert!(approximate > chance * 0.98, "{n} {m} {u}: {approximate} against {chance}");
        }
    }
}

#[test]
fn too_few_trials_have_no_interval_however_different() {
    let interval = |n: usize, m: usize| Shift::apart(&vec![1.0; n], &vec![2.0; m]).unwrap().interval(0.95);
    assert_eq!(interval(3, 3), None);
    assert!(interval(4, 4).is_some());
    assert_eq!(interval(1, 38), None);
    assert!(interval(1, 39).is_some(), "one of 40 places at either end is 5%");
    assert_eq!(Shift::apart(&[], &[1.0]), None);
    assert_eq!(Shift::apart(&[f64::NAN, -1.0], &[1.0]), None);
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.5f64..2.0, 1..6)
}

proptest! {
    /// A bound is inside the interval just where a permutation test keeps it.
    #[test]
    fn the_interval_is_what_a_permutation_test_keeps(a in values(), b in values(), bound in -1.5f64..1.5, level in 0.5f64..0.99) {
        let shift = Shift::apart(&a, &b).unwrap();
        let below = b.iter().flat_map(|b| a.iter().map(move |a| b.ln() - a.ln())).filter(|d| *d <= bound).count();
        let above = a.len() * b.len() - below;
        let (p_above, p_below) = (by_enumeration(a.len(), b.len(), below), by_enumeration(a.len(), b.len(), above));
        prop_assert!((shift.p_above(bound) - p_above).abs() < 1e-9);
        prop_assert!((shift.p_below(bound) - p_below).abs() < 1e-9);
        let kept = p_above > (1.0 - level) / 2.0 && p_below > (1.0 - level) / 2.0;
        match shift.interval(level) {
            Some((low, high)) => prop_assert_eq!((low..=high).contains(&bound), kept),
            None => prop_assert!(kept, "where there is no interval nothing is excluded"),
        }
    }

    #[test]
    fn swapping_the_sides_inverts_and_a_factor_multiplies(a in values(), b in values(), factor in 0.2f64..5.0) {
        let (one, other) = (Shift::apart(&a, &b).unwrap(), Shift::apart(&b, &a).unwrap());
        prop_assert!((one.estimate() + other.estimate()).abs() < 1e-9);
        let scaled: Vec<f64> = b.iter().map(|v| v * factor).collect();
        let more = Shift::apart(&a, &scaled).unwrap();
        prop_assert!((more.estimate() - one.estimate() - factor.ln()).abs() < 1e-9);
        if let (Some((l, h)), Some((l2, h2))) = (one.interval(0.8), other.interval(0.8)) {
            prop_assert!((l + h2).abs() < 1e-9 && (h + l2).abs() < 1e-9);
        }
    }

    /// Holm is the closed test of Bonferroni: a row stays when every group that it is in is rejected.
    #[test]
    fn holm_agrees_with_all_groups(chances in prop::collection::vec(0.0f64..1.0, 1..7)) {
        for (index, adjusted) in holm(&chances).into_iter().enumerate() {
            let slow = (1u32..1 << chances.len())
                .filter(|group| group >> index & 1 == 1)
                .map(|group| {
                    let least = (0..chances.len()).filter(|i| group >> i & 1 == 1).map(|i| chances[i]).fold(1.0, f64::min);
                    (least * f64::from(group.count_ones())).min(1.0)
                })
                .fold(0.0, f64::max);
            prop_assert!((adjusted - slow).abs() < 1e-12, "{chances:?}");
        }
    }
}

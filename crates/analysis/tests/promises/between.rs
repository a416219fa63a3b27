//! How often comparisons between sessions are right.

use super::normal;
use ebbtide_analysis::Conclusion;
use ebbtide_analysis::between::{Bounds, Gate, Question, Shift, Trials, compare};
use ebbtide_model::metric::Metric;
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

fn ask(metric: Metric, a: &[f64], b: &[f64]) -> Question {
    Question { metric, trials: Trials::Apart(a.to_vec(), b.to_vec()), source: 0 }
}

const BOUNDS: Bounds = Bounds { level: 0.95, indifference: 0.02, threshold: 0.05 };

#[test]
fn worse_beyond_the_threshold_is_a_regression_and_direction_follows_the_metric() {
    let a = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2];
    let by = |factor: f64| a.map(|v| v * factor);
    let answer = |metric, factor| compare(&[ask(metric, &a, &by(factor))], BOUNDS)[0];
    let seen = |metric, factor| {
        let answered = answer(metric, factor);
        (answered.conclusion, answered.gate)
    };
    assert_eq!(seen(Metric::Iops, 0.8), (Conclusion::Slower, Gate::Regression));
    assert_eq!(seen(Metric::Iops, 1.25), (Conclusion::Faster, Gate::Pass));
    assert_eq!(seen(Metric::LatP99, 1.25), (Conclusion::Slower, Gate::Regression));
    assert_eq!(seen(Metric::LatP99, 0.8), (Conclusion::Faster, Gate::Pass));
    assert_eq!(seen(Metric::Iops, 1.0), (Conclusion::NoDifference, Gate::Pass));
    assert_eq!(
        seen(Metric::Iops, 0.965),
        (Conclusion::Slower, Gate::Pass),
        "slower, and within the threshold"
    );
    assert_eq!(seen(Metric::Iops, 0.95).1, Gate::Undecided, "the interval straddles the threshold");
    let same = answer(Metric::Iops, 1.0);
    assert!((same.ratio.unwrap() - 1.0).abs() < 1e-12 && same.bound().unwrap() < 0.03, "{same:?}");
    assert!(same.detectable.unwrap() > 0.02 && same.detectable.unwrap() < 0.08, "{same:?}");
    let few = compare(&[ask(Metric::Iops, &a, &[50.0])], BOUNDS)[0];
    assert_eq!(
        (few.interval, few.conclusion, few.gate, few.detectable),
        (None, Conclusion::Inconclusive, Gate::Undecided, None)
    );
    assert!((few.ratio.unwrap() - 0.5).abs() < 0.01, "the ratio is still told");
    let none = compare(&[ask(Metric::Iops, &a, &[])], BOUNDS)[0];
    assert_eq!((none.ratio, none.gate), (None, Gate::Undecided));
}

#[test]
fn more_rows_need_more_evidence() {
    let (a, b) = ([1.0, 1.03, 1.01, 1.02], [0.5, 0.53, 0.51, 0.52]);
    let alone = compare(&[ask(Metric::Iops, &a, &b)], BOUNDS);
    assert_eq!(alone[0].gate, Gate::Regression, "two of 70 orders: 2.9%");
    let three =
        compare(&[ask(Metric::Iops, &a, &b), ask(Metric::Iops, &a, &a), ask(Metric::Iops, &a, &a)], BOUNDS);
    assert_eq!(
        (three[0].gate, three[0].conclusion),
        (Gate::Undecided, Conclusion::Inconclusive),
        "8.6% among three"
    );
    assert_eq!(three[0].interval, alone[0].interval, "its own interval stays what it is");
    assert_eq!(three[0].detectable, None, "no difference could have shown among three");
}

/// AR(1) logarithms with standard deviation `sigma`.
fn series(rng: &mut Xoshiro256PlusPlus, n: usize, sigma: f64, phi: f64) -> Vec<f64> {
    let mut state = normal(rng);
    (0..n)
        .map(|_| {
            state = phi * state + (1.0 - phi * phi).sqrt() * normal(rng);
            (sigma * state).exp()
        })
        .collect()
}

/// Share of families of equals with some false claim.
fn false_claims(families: u32, rows: usize, n: usize, sigma: f64, phi: f64) -> (f64, f64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20_261_123);
    let bounds = Bounds { indifference: 0.0, threshold: 0.0, ..BOUNDS };
    let (mut claims, mut regressions) = (0, 0);
    for _ in 0..families {
        let questions: Vec<Question> = (0..rows)
            .map(|_| ask(Metric::Iops, &series(&mut rng, n, sigma, phi), &series(&mut rng, n, sigma, phi)))
            .collect();
        let answers = compare(&questions, bounds);
        claims += u32::from(
            answers.iter().any(|a| matches!(a.conclusion, Conclusion::Faster | Conclusion::Slower)),
        );
        regressions += u32::from(answers.iter().any(|a| a.gate == Gate::Regression));
    }
    (f64::from(claims) / f64::from(families), f64::from(regressions) / f64::from(families))
}

/// Without any margin, so that each false claim is chance: 2000 families, standard error at most 0.5 points.
#[test]
fn equals_are_called_different_at_most_at_the_nominal_rate() {
    for (rows, n) in [(1, 6), (1, 12), (4, 8), (16, 10)] {
        let (claims, regressions) = false_claims(2000, rows, n, 0.07, 0.0);
        assert!(claims <= 0.05 + 0.01, "{rows} rows of {n}: {claims}");
        assert!(regressions <= 0.025 + 0.01, "{rows} rows of {n}: {regressions}");
    }
}

#[test]
fn what_is_called_detectable_is_detected_in_most_cases() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
    let (mut detected, mut told) = (0, 0);
    for _ in 0..600 {
        let a = series(&mut rng, 10, 0.07, 0.0);
        let b = series(&mut rng, 10, 0.07, 0.0);
        let Some(by) = compare(&[ask(Metric::Iops, &a, &b)], BOUNDS)[0].detectable else { continue };
        told += 1;
        // As much as it says, in another such comparison.
        let slower: Vec<f64> = series(&mut rng, 10, 0.07, 0.0).iter().map(|v| v / (1.0 + by)).collect();
        let again = compare(&[ask(Metric::Iops, &series(&mut rng, 10, 0.07, 0.0), &slower)], BOUNDS)[0];
        detected += u32::from(again.conclusion == Conclusion::Slower);
    }
    let share = f64::from(detected) / f64::from(told);
    assert!(told > 550 && (0.70..0.95).contains(&share), "{share} of {told}");
}

#[test]
fn correlated_trials_widen_the_interval() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let (a, b) = (series(&mut rng, 40, 0.07, 0.8), series(&mut rng, 40, 0.07, 0.8));
    let seen = compare(&[ask(Metric::Iops, &a, &b)], BOUNDS)[0];
    let plain = Shift::apart(&a, &b).unwrap().interval(0.95).unwrap();
    let (low, high) = seen.interval.unwrap();
    assert!(seen.correlation > 0.5 && high.ln() - low.ln() > 1.5 * (plain.1 - plain.0), "{seen:?} {plain:?}");
}

proptest! {
    #[test]
    fn no_values_panic(
        a in prop::collection::vec(any::<f64>(), 0..8), b in prop::collection::vec(any::<f64>(), 0..8),
        level: f64, indifference: f64, threshold: f64,
    ) {
        let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
        let paired = Question { metric: Metric::LatP99, trials: Trials::Paired(pairs), source: 1 };
        for answered in compare(&[ask(Metric::Iops, &a, &b), paired], Bounds { level, indifference, threshold }) {
            let _ = answered.bound();
        }
    }
}

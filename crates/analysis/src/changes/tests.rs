use super::detect::{examine, normal_of_student, threshold};
use super::hours::{HOUR_NS, Hour, hours};
use super::noise::Noise;
use super::*;
use crate::fixtures::normal;
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Seconds between values: a quarter of an hour.
const EVERY: u64 = 900;
const OF_DAY: usize = 96;
/// 2026-01-01 00:00 UTC, in seconds since the epoch.
const BEGIN: u64 = 1_767_225_600;

fn at(index: usize) -> UnixTime {
    UnixTime::from_secs(BEGIN + index as u64 * EVERY)
}

/// AR(1) of standard deviation 1.
fn correlated(rng: &mut Xoshiro256PlusPlus, phi: f64, length: usize) -> Vec<f64> {
    let mut state = normal(rng);
    let next = |_| {
        state = phi * state + (1.0 - phi * phi).sqrt() * normal(rng);
        state
    };
    (0..length).map(next).collect()
}

/// Days of values about 100 that vary by 10%, with a daily cycle of as much; `level` multiplies each.
fn series(seed: u64, phi: f64, days: usize, level: impl Fn(usize) -> f64) -> Vec<Point> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let noise = correlated(&mut rng, phi, days * OF_DAY);
    let value = |(index, noise): (usize, &f64)| {
        let hour = index as f64 / OF_DAY as f64 * std::f64::consts::TAU;
        Point { at: at(index), value: 100.0 * (0.1 * noise + 0.1 * hour.sin()).exp() * level(index) }
    };
    noise.iter().enumerate().map(value).collect()
}

#[test]
fn an_hour_is_the_median_of_what_counts() {
    let values = [5.0, 1e9, 7.0, f64::NAN, 0.0, -3.0, 6.0];
    let mut points: Vec<Point> =
        (0..).zip(values).map(|(second, value)| Point { at: UnixTime::from_secs(second), value }).collect();
    points.push(Point { at: UnixTime::from_secs(7200), value: 0.0 });
    points.push(Point { at: UnixTime::from_secs(10_800), value: 1.0 });
    let found = hours(&points);
    assert_eq!(found.iter().map(|hour| hour.number).collect::<Vec<_>>(), [0, 3]);
    assert!((found[0].log - 6.5f64.ln()).abs() < 1e-12 && found[1].log == 0.0);
}

#[test]
fn the_variance_of_a_mean_is_that_of_the_process() {
    for phi in [0.0, 0.5, 0.9] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let noise = correlated(&mut rng, phi, 90 * DAY);
        let log = |(index, noise): (usize, &f64)| {
            // A nightly backup, and a change of level half way.
            let night = if index % DAY == 2 { -2.0 } else { 0.0 };
            let level = if index < 45 * DAY { 0.0 } else { 3.0 };
            Hour { number: index as u64, log: 0.1 * (noise + night + level) }
        };
        let hours: Vec<Hour> = noise.iter().enumerate().map(log).collect();
        let seen = Noise::of(&hours);
        for length in [1u32, 6, 12, 24, 96] {
            // Of AR(1): the sum of all its correlations.
            let n = f64::from(length);
            let sum: f64 = (1..length).map(|lag| (1.0 - f64::from(lag) / n) * phi.powf(f64::from(lag))).sum();
            let expected = 0.01 / n * (1.0 + 2.0 * sum);
            let ratio = seen.of_mean(length as usize) / expected;
            assert!((0.75..1.6).contains(&ratio), "phi {phi}, {length} hours: {ratio}");
        }
        let at_night = seen.rest(Hour { number: 2, log: 0.0 }) - seen.rest(Hour { number: 3, log: 0.0 });
        assert!((at_night - 0.2).abs() < 0.05, "{at_night}");
    }
}

#[test]
fn the_threshold_is_that_of_its_arithmetic() {
    let looks = 8766.0 * 11.0;
    let exceeded = libm::erfc(threshold() / std::f64::consts::SQRT_2) * looks;
    assert!((exceeded - FALSE_ALARMS).abs() < 1e-9, "{exceeded}");
    // Quantiles of Student's distribution and the normal one that leave as much outside.
    for (freedom, t, z) in
        [(10.0, 2.228, 1.960), (10.0, 4.587, 3.291), (30.0, 3.646, 3.291), (5.0, 6.869, 3.291)]
    {
        let seen = normal_of_student(t, freedom);
        assert!((seen - z).abs() < 0.03, "{freedom}: {seen} instead of {z}");
    }
}

#[test]
fn years_without_a_change_have_none() {
    for phi in [0.0, 0.5, 0.9] {
        let told: usize = (0..3).map(|seed| find(&series(seed, phi, 365, |_| 1.0)).len()).sum();
        assert!(told <= 1, "phi {phi}: {told} in 3 years");
    }
}

#[test]
fn a_lasting_change_is_told_with_its_moment_and_size() {
    let step = 40 * OF_DAY + 17;
    for phi in [0.0, 0.5, 0.9] {
        let changes = find(&series(5, phi, 80, |index| if index < step { 1.0 } else { 0.37 }));
        let [change] = changes.as_slice() else { panic!("phi {phi}: {changes:?}") };
        assert_eq!(change.at, at(step), "phi {phi}");
        assert!(change.ci.0 <= 0.37 && 0.37 <= change.ci.1, "{change:?}");
        assert!((change.ratio() - 0.37).abs() < 0.03 && (change.before - 100.0).abs() < 6.0, "{change:?}");
        assert!((11.0..30.0).contains(&(change.delay_s() / 3600.0)), "{change:?}");
    }
}

#[test]
fn what_does_not_last_is_none() {
    let away = |from: usize, hours: usize| {
        let from = 30 * OF_DAY + from;
        move |index: usize| if (from..from + 4 * hours).contains(&index) { 0.05 } else { 1.0 }
    };
    let spike = series(6, 0.5, 60, |index| if index % 700 == 650 { 100.0 } else { 1.0 });
    assert_eq!(find(&spike), []);
    for hours in [1, 3, 6, 8] {
        assert_eq!(find(&series(7, 0.5, 60, away(13, hours))), [], "{hours} hours");
    }
    // Three days are two changes.
    let changes = find(&series(7, 0.5, 60, away(13, 72)));
    let moments: Vec<UnixTime> = changes.iter().map(|change| change.at).collect();
    assert_eq!(moments, [at(30 * OF_DAY + 13), at(33 * OF_DAY + 13)]);
}

#[test]
fn what_happens_in_the_first_week_is_normal_and_what_comes_later_is_told() {
    let level = |index: usize| match index / OF_DAY {
        0..3 => 1.0,
        3..40 => 0.5,
        _ => 0.2,
    };
    let changes = find(&series(8, 0.5, 60, level));
    assert_eq!(changes.iter().map(|change| change.at).collect::<Vec<_>>(), [at(40 * OF_DAY)], "{changes:?}");
    let early = find(&series(8, 0.5, 30, |index| if index < 9 * OF_DAY { 1.0 } else { 0.5 }));
    assert_eq!(early.iter().map(|change| change.at).collect::<Vec<_>>(), [at(9 * OF_DAY)], "{early:?}");
}

#[test]
fn what_was_told_stays_and_needs_nothing_later() {
    let all = series(9, 0.9, 200, |index| [1.0, 0.7, 1.0, 1.4][index / (50 * OF_DAY)]);
    let changes = find(&all);
    assert_eq!(changes.len(), 3, "{changes:?}");
    for days in (10..200).step_by(9) {
        let until = at(days * OF_DAY);
        let known = changes.iter().filter(|change| change.told <= until);
        let then = find(&all[..days * OF_DAY]);
        assert_eq!(
            then.iter().map(|c| c.told).collect::<Vec<_>>(),
            known.clone().map(|c| c.told).collect::<Vec<_>>()
        );
        // The moment is that at which the levels part best, which become known better.
        let near = |(one, other): (&Change, &Change)| one.at.0.abs_diff(other.at.0) <= 5 * HOUR_NS;
        assert!(then.iter().zip(known).all(near), "{days} days: {then:?}");
    }
}

#[test]
fn medians_of_hours_tell_the_same() {
    let all = series(10, 0.5, 100, |index| if index < 50 * OF_DAY + 2 { 1.0 } else { 0.8 });
    let examined = examine(&all);
    let point = |hour: &Hour| Point { at: UnixTime(hour.number * HOUR_NS), value: hour.log.exp() };
    let rolled: Vec<Point> = examined.hours.iter().map(point).collect();
    let (fine, coarse) = (&examined.changes, find(&rolled));
    assert_eq!(fine.len(), 1);
    assert_eq!(coarse.len(), 1);
    assert_eq!(fine[0].told, coarse[0].told);
    assert!(fine[0].at.0.abs_diff(coarse[0].at.0) <= 2 * HOUR_NS);
    assert!((fine[0].ratio() - coarse[0].ratio()).abs() < 1e-9);
}

#[test]
fn siblings_tell_whose_change_it_was() {
    let step = |index: usize| if index < 30 * OF_DAY { 1.0 } else { 0.37 };
    let of = |seed: u64, group: &str, changes: bool| {
        let points = series(seed, 0.5, 60, |index| if changes { step(index) } else { 1.0 });
        Series::new(group.to_owned(), &points)
    };
    // One of eight volumes changes on host a, all three on host b, the only one on host c.
    let mut all: Vec<Series> = (0..8).map(|seed| of(seed, "a", seed == 5)).collect();
    all.extend((8..11).map(|seed| of(seed, "b", true)));
    all.push(of(11, "c", true));
    let told = together(&all);
    let siblings = |series: usize| {
        told.iter().find(|told| told.series == series).map(|told| (told.siblings, told.change.at))
    };
    let moment = at(30 * OF_DAY);
    assert_eq!(told.len(), 5);
    assert_eq!(siblings(5), Some((Some(Siblings { known: 7, changed: 0 }), moment)));
    for series in 8..11 {
        assert_eq!(siblings(series), Some((Some(Siblings { known: 2, changed: 2 }), moment)));
    }
    assert_eq!(siblings(11), Some((None, moment)));
    assert!(!Siblings { known: 7, changed: 3 }.same() && Siblings { known: 7, changed: 4 }.same());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_series_panics(
        values in prop::collection::vec((any::<u64>(), any::<f64>()), 0..60),
        every in 1u64..20_000_000_000_000, seed: u64, spread in 0.0f64..400.0
    ) {
        let wild: Vec<Point> = values.iter().map(|(at, value)| Point { at: UnixTime(*at), value: *value }).collect();
        find(&wild);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let point = |index: u64| Point { at: UnixTime(index * every), value: (spread * normal(&mut rng)).exp() };
        let long: Vec<Point> = (0..1500).map(point).collect();
        find(&long);
    }

    #[test]
    fn unit_and_order_do_not_matter(seed in 0u64..1000, unit in 1e-6f64..1e9) {
        let plain = series(seed, 0.5, 30, |index| if index < 15 * OF_DAY { 1.0 } else { 1.5 });
        let mut other: Vec<Point> =
            plain.iter().map(|point| Point { value: point.value * unit, ..*point }).collect();
        other.reverse();
        let (plain, other) = (find(&plain), find(&other));
        prop_assert_eq!(plain.len(), other.len());
        for (one, other) in plain.iter().zip(&other) {
            prop_assert_eq!((one.at, one.told), (other.at, other.told));
            prop_assert!((one.ratio() - other.ratio()).abs() < 1e-9);
        }
    }

    #[test]
    fn equal_values_have_no_change(value in 1e-9f64..1e12, days in 1usize..40) {
        let points: Vec<Point> = (0..days * OF_DAY).map(|index| Point { at: at(index), value }).collect();
        prop_assert_eq!(find(&points), []);
    }
}

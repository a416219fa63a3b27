//! The stop rule: its cases, and its coverage by simulation.

use super::*;
use crate::fixtures::{normal, session, trial};
use ebbtide_model::testing::experiment;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

fn answer(precision: f64, trials_max: u32) -> Answer {
    Answer {
        level: 0.95,
        precision,
        indifference: 0.02,
        trials_min: 6,
        trials_max,
        budget: Nanos::from_secs(3600),
        budget_asked: true,
        rest: Nanos(0),
        metric: None,
    }
}

fn point(values: &[f64], failed: u32) -> Point {
    Point { metric: Metric::Iops, failed, ..Point::of(values.to_vec(), 0.95) }
}

#[test]
fn looks_grow_apart() {
    let looks: Vec<u32> = (1..=60).filter(|n| is_look(*n, 6)).collect();
    assert_eq!(looks, [6, 8, 10, 13, 17, 22, 28, 35, 44, 55]);
}

#[test]
fn narrow_stops_wide_goes_on_until_a_limit() {
    let narrow = point(&[100.0, 101.0, 99.0, 100.5, 99.5, 100.2], 0);
    let wide = point(&[100.0, 150.0, 70.0, 120.0, 90.0, 100.0], 0);
    let one = std::slice::from_ref(&narrow);
    let answer = answer(0.05, 20);
    let start = Nanos(0);
    assert_eq!(decide_points(one, &answer, 5, start), Decision::Continue);
    assert_eq!(decide_points(one, &answer, 6, start), Decision::Reached);
    assert_eq!(decide_points(one, &answer, 7, start), Decision::Continue, "7 is no look");
    let both = [narrow.clone(), wide];
    assert_eq!(decide_points(&both, &answer, 6, start), Decision::Continue);
    assert_eq!(decide_points(&both, &answer, 20, start), Decision::NotReached(Limit::Rounds));
    assert_eq!(decide_points(&both, &answer, 7, answer.budget), Decision::NotReached(Limit::Budget));
    assert_eq!(decide_points(one, &answer, 7, answer.budget), Decision::Reached);
    // A design that always fails does not hold the others back; one without any trial yet does.
    assert_eq!(decide_points(&[narrow.clone(), point(&[], 6)], &answer, 6, start), Decision::Reached);
    assert_eq!(decide_points(&[narrow.clone(), point(&[], 0)], &answer, 6, start), Decision::Continue);
}

#[test]
fn trials_become_points() {
    let mut asked = experiment(2, 1);
    asked.answer = answer(0.05, 20);
    let session = session(&asked, 6, |t| {
        if t.design == 1 && t.round == 0 { Err("EIO".into()) } else { Ok(trial(&[("a", 1000, 1_000_000)])) }
    });
    let mut decider = Decider::new(&asked);
    session.trials.iter().for_each(|record| decider.add(&asked, record));
    let points = decider.standing().points();
    assert_eq!(points.len(), 2);
    assert_eq!((points[0].values.len(), points[0].failed), (6, 0), "the control's second runs do not count");
    assert_eq!((points[1].values.len(), points[1].failed), (5, 1));
    let decision = decider.decide(&asked, 6, Nanos(0));
    assert_eq!(decision, Decision::Continue, "five trials have no interval");
}

/// Made-up sessions: the standard error of a coverage of 95% is 0.5 points.
const SESSIONS: u32 = 2000;

/// Share of [`SESSIONS`] made-up sessions of lognormal trials (median 1) whose final interval covers 1, and the
/// mean number of rounds, under the rule of this module or, when `naive`, stopping at the first narrow interval.
fn coverage(cv: f64, precision: f64, naive: bool) -> (f64, f64) {
    let answer = answer(precision, 400);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20_261_121);
    let sigma = (1.0 + cv * cv).ln().sqrt();
    let (mut covered, mut rounds) = (0u32, 0usize);
    for _ in 0..SESSIONS {
        let mut point = point(&[], 0);
        loop {
            point.insert((sigma * normal(&mut rng)).exp());
            let n = point.values.len() as u32;
            let stop = if naive {
                n >= 6 && point.narrow(answer.level, precision)
            } else {
                decide_points(std::slice::from_ref(&point), &answer, n, Nanos(0)) != Decision::Continue
            };
            if stop {
                break;
            }
        }
        rounds += point.values.len();
        let interval = estimate_of_sorted(&point.values, answer.level).and_then(|e| e.interval);
        covered += u32::from(interval.is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high));
    }
    (f64::from(covered) / f64::from(SESSIONS), rounds as f64 / f64::from(SESSIONS))
}

#[test]
fn early_looks_are_paid_for() {
    // The seed is fixed, so the figures are too.
    for (cv, precision) in [(0.067, 0.05), (0.10, 0.05), (0.20, 0.10)] {
        let (naive, _) = coverage(cv, precision, true);
        let (paid, _) = coverage(cv, precision, false);
        assert!(paid >= 0.95 - 0.015, "CV {cv}: coverage {paid}");
        assert!(paid > naive, "CV {cv}: {paid} against {naive} without paying");
    }
}

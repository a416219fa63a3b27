//! Whom a race drops, over many of them.

use super::normal;
use ebbtide_analysis::race::{Race, Rules};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

const RULES: Rules = Rules { error: 0.05, indifference: 0.02 };

/// Rounds of designs that are so fast, with independent noise of `cv` and a machine whose speed wanders.
fn race(speeds: &[f64], cv: f64, rounds: u32, seed: u64) -> Race {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut race = Race::new(speeds.len(), RULES);
    let mut mood = 0.0;
    for _ in 0..rounds {
        mood = 0.9 * mood + 0.1 * normal(&mut rng);
        let figures: Vec<Option<f64>> =
            speeds.iter().map(|speed| Some(speed * (mood + cv * normal(&mut rng)).exp())).collect();
        race.add_round(&figures);
        if race.standing().decided {
            break;
        }
    }
    race
}

#[test]
fn the_fastest_of_four_wins_and_the_others_leave_at_different_times() {
    let race = race(&[100.0, 150.0, 60.0, 140.0], 0.05, 60, 1);
    let standing = race.standing();
    assert_eq!((standing.winner(), standing.left), (Some(1), vec![1]));
    assert!(race.dropped_in(2) < race.dropped_in(3), "{:?} {:?}", race.dropped_in(2), race.dropped_in(3));
    assert_eq!(race.dropped_in(1), None);
    assert_eq!(race.rounds_of(2), race.dropped_in(2).expect("left") + 1);
}

#[test]
fn equals_tie_and_are_decided_by_the_margin_alone() {
    let even = race(&[100.0, 100.0], 0.01, 200, 2);
    let standing = even.standing();
    assert_eq!((standing.winner(), standing.left, standing.decided), (None, vec![0, 1], true));
    // With noise the same takes more rounds than there are: not decided, and no winner either.
    let noisy = race(&[100.0, 100.0], 0.2, 20, 3);
    let standing = noisy.standing();
    assert_eq!((standing.winner(), standing.decided), (None, false));
}

/// One percent is less than anybody minds, however sure it is.
#[test]
fn a_sure_difference_within_the_margin_makes_no_winner() {
    let mut close = Race::new(2, RULES);
    for round in 0..60 {
        let noise = 0.001 * f64::from(round % 5 - 2);
        close.add_round(&[Some(100.0 * (1.0 + noise)), Some(101.0)]);
    }
    assert_eq!(close.dropped_in(0), None);
    let standing = close.standing();
    assert_eq!((standing.winner(), standing.left, standing.decided), (None, vec![0, 1], true));
}

/// Builds of one and of fifteen designs whose luck outweighs all else: the lone one is dropped no more often than promised. Places among
/// all that ran would drop it in one race of thirteen.
#[test]
fn a_build_s_luck_drops_nobody_too_often() {
    let builds: Vec<usize> = (0..16).map(|design| usize::from(design > 0)).collect();
    let dropped = |seed: u64| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut race = Race::new(16, Rules { error: 0.05, indifference: 0.0 }).on_builds(&builds);
        for _ in 0..20 {
            let luck = [0, 1].map(|_| 0.1 * normal(&mut rng));
            let figure = |design: usize| Some((luck[builds[design]] + 0.05 * normal(&mut rng)).exp());
            race.add_round(&(0..16).map(figure).collect::<Vec<_>>());
        }
        !race.is_in(0)
    };
    let count = (0..300).filter(|seed| dropped(*seed)).count();
    assert!(count <= 15, "{count} of 300");
}

#[test]
fn a_failed_trial_neither_wins_nor_loses() {
    let mut race = Race::new(2, RULES);
    for round in 0..12 {
        race.add_round(&[Some(100.0), (round % 3 == 0).then_some(200.0)]);
    }
    assert_eq!(race.rounds_of(1), 4);
    assert_eq!(race.dropped_in(0), None, "four rounds together are too few");
    let mut alone = Race::new(1, RULES);
    alone.add_round(&[Some(1.0)]);
    assert_eq!(alone.standing().winner(), Some(0));
    let mut none = Race::new(2, RULES);
    none.add_round(&[None, Some(f64::NAN)]);
    assert_eq!(none.standing().leader, None);
}

/// Over many races the best is dropped no more often than promised, and equals have no winner.
#[test]
fn promises_over_many_races_hold() {
    let (mut lost, mut named) = (0, 0);
    for seed in 0..100 {
        let best = race(&[104.0, 100.0, 100.0, 95.0], 0.07, 30, 100 + seed);
        lost += u32::from(!best.is_in(0));
        named += u32::from(race(&[100.0; 4], 0.07, 30, 500 + seed).standing().winner().is_some());
    }
    assert!(lost <= 5 && named <= 5, "{lost} {named}");
}

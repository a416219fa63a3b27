//! What factors and pairs of them are found to do, over many grids.

use super::normal;
use ebbtide_analysis::factors::{Effect, Factors, Grid, Term};
use ebbtide_analysis::race::{Race, Rules};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// All combinations of so many levels.
fn full(sizes: &[usize]) -> Vec<Vec<Option<usize>>> {
    sizes.iter().fold(vec![Vec::new()], |all: Vec<Vec<Option<usize>>>, size| {
        let with = |one: &Vec<Option<usize>>, level| [one.as_slice(), &[Some(level)]].concat();
        all.iter().flat_map(|one| (0..*size).map(move |level| with(one, level))).collect()
    })
}

/// Rounds in a random order on a machine of a mood that wanders slowly: neighbours correlate.
struct Machine {
    rng: Xoshiro256PlusPlus,
    mood: f64,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        Machine { rng: Xoshiro256PlusPlus::seed_from_u64(seed), mood: 0.0 }
    }

    fn round(&mut self, logs: &[f64], which: &[usize]) -> Vec<Option<f64>> {
        let mut order = which.to_vec();
        for last in (1..order.len()).rev() {
            order.swap(last, (self.rng.next_u64() % (last as u64 + 1)) as usize);
        }
        let mut round = vec![None; logs.len()];
        for design in order {
            self.mood = 0.95 * self.mood + 0.045 * 0.312 * normal(&mut self.rng);
            round[design] = Some(logs[design] + self.mood + 0.055 * normal(&mut self.rng));
        }
        round
    }
}

#[test]
fn what_does_not_apply_and_what_cannot_be_told_apart() {
    // The chunk (factor 1) is that of stripes only; factor 2 is always as factor 0 is.
    let levels =
        vec![vec![Some(0), None, Some(0)], vec![Some(1), Some(0), Some(1)], vec![Some(1), Some(1), Some(1)]];
    let rounds: Vec<Vec<Option<f64>>> = (0..5)
        .map(|round| {
            [0.0, 0.5, 0.7].iter().map(|log| Some(log + 0.001 * f64::from(round * round % 3))).collect()
        })
        .collect();
    let found = Grid { levels: &levels, rounds: &rounds, builds: &[] }.factors(0.95);
    assert_eq!(found.effects.len(), 1, "{found:?}");
    assert_eq!(found.effects[0].terms[0].factor, 1);
    assert!((found.effects[0].ratio.ln() - 0.2).abs() < 0.01);
    // Without the third factor, a stripe is worth what its mean is.
    let two: Vec<Vec<Option<usize>>> = levels.iter().map(|levels| levels[..2].to_vec()).collect();
    let found = Grid { levels: &two, rounds: &rounds, builds: &[] }.factors(0.95);
    assert!((found.effects[0].ratio.ln() - 0.6).abs() < 0.01, "{found:?}");
    assert_eq!(Grid { levels: &two, rounds: &[], builds: &[] }.factors(0.95), Factors::default());
    assert_eq!(
        Grid { levels: &two, rounds: &[vec![Some(1.0), None, None]], builds: &[] }.factors(0.95),
        Factors::default()
    );
}

#[test]
fn a_failed_trial_is_missing_and_no_more() {
    let levels = full(&[2, 2]);
    let logs = [0.0, 0.1, 0.3, 0.4];
    let rounds: Vec<Vec<Option<f64>>> = (0..6)
        .map(|round| {
            (0..4).map(|at| (round != 2 || at != 3).then_some(logs[at] + 0.05 * f64::from(round))).collect()
        })
        .collect();
    let found = Grid { levels: &levels, rounds: &rounds, builds: &[] }.factors(0.95);
    assert!((found.effects[0].ratio.ln() - 0.3).abs() < 1e-9, "{found:?}");
    assert!((found.effects[1].ratio.ln() - 0.1).abs() < 1e-9);
}

#[test]
fn two_that_need_each_other_are_found_and_no_others() {
    let levels = full(&[2, 2, 3]);
    let logs: Vec<f64> =
        levels.iter().map(|own| if own[0] == Some(1) && own[2] == Some(2) { 0.3 } else { 0.0 }).collect();
    let (mut found, mut others) = (0, 0);
    for seed in 0..60 {
        let mut machine = Machine::new(seed);
        let all: Vec<usize> = (0..12).collect();
        let rounds: Vec<_> = (0..6).map(|_| machine.round(&logs, &all)).collect();
        let factors = Grid { levels: &levels, rounds: &rounds, builds: &[] }.factors(0.95);
        let is_it = |effect: &&Effect| {
            effect.terms.iter().map(|term| (term.factor, term.level)).collect::<Vec<_>>() == [(0, 1), (2, 2)]
        };
        found += usize::from(factors.interactions.iter().any(|effect| is_it(&effect)));
        others += usize::from(factors.interactions.iter().any(|effect| !is_it(&effect)));
    }
    assert!(found == 60 && others <= 6, "{found} {others}");
}

/// With combinations left out, what two factors do together is not laid on two others.
#[test]
fn where_combinations_are_left_out_no_pair_takes_the_blame_of_another() {
    let mut levels = full(&[2, 2, 3]);
    levels.retain(|own| (own[0], own[1]) != (Some(0), Some(1)));
    // Factors 1 and 2 together, and strongly; factors 0 and 1 cannot be told together at all.
    let log = |own: &Vec<Option<usize>>| {
        f64::from(own[1] == Some(0) && own[2] == Some(2)) * 0.3 + f64::from(own[0] == Some(1)) * 0.2
    };
    let logs: Vec<f64> = levels.iter().map(log).collect();
    let all: Vec<usize> = (0..levels.len()).collect();
    let (mut found, mut others) = (0, 0);
    for seed in 0..60 {
        let mut machine = Machine::new(500 + seed);
        let rounds: Vec<_> = (0..10).map(|_| machine.round(&logs, &all)).collect();
        for effect in (Grid { levels: &levels, rounds: &rounds, builds: &[] }).factors(0.95).interactions {
            let factors: Vec<usize> = effect.terms.iter().map(|term| term.factor).collect();
            found += usize::from(factors == [1, 2] && effect.terms[1].level == 2);
            others += usize::from(factors != [1, 2]);
        }
    }
    assert!(found == 60 && others <= 4, "{found} {others}");
}

/// Coverage of the main effects of 48 designs in a race, and how far off they are on the average: from the rounds before anybody left, and
/// from all.
#[test]
fn main_effects_of_a_race_cover_the_truth_and_all_rounds_would_exaggerate() {
    let planted: [&[f64]; 5] = [&[1.0, 1.02], &[1.0, 2.02], &[0.90, 1.0, 1.08], &[1.0, 0.97], &[0.96, 1.09]];
    let levels = full(&planted.map(<[f64]>::len));
    let of = |own: &Vec<Option<usize>>| {
        planted.iter().zip(own).map(|(levels, level)| levels[level.expect("applies")].ln()).sum::<f64>()
    };
    let logs: Vec<f64> = levels.iter().map(of).collect();
    let (mut covered, mut asked) = ([0u32; 2], 0u32);
    let mut off: [Vec<f64>; 2] = Default::default();
    for seed in 0..150 {
        let mut machine = Machine::new(9_000 + seed);
        let mut race = Race::new(logs.len(), Rules { error: 0.05, indifference: 0.02 });
        let (mut rounds, mut whole) = (Vec::new(), 0);
        while rounds.len() < 16 {
            let all = race.left().len() == logs.len();
            let round = machine.round(&logs, &race.left());
            race.add_round(&round.iter().map(|log| log.map(f64::exp)).collect::<Vec<_>>());
            rounds.push(round);
            whole += usize::from(all);
        }
        for (which, rounds) in [&rounds[..whole], &rounds[..]].into_iter().enumerate() {
            for effect in (Grid { levels: &levels, rounds, builds: &[] }).factors(0.95).effects {
                let Term { factor, level, against } = effect.terms[0];
                let truth = planted[factor][level] / planted[factor][against];
                let (low, high) = effect.interval.expect("has one");
                covered[which] += u32::from(low <= truth && truth <= high);
                asked += u32::from(which == 0);
                // Outwards, so that exaggeration is above 0.
                off[which].push((effect.ratio / truth).ln() * (truth - 1.0).signum());
            }
        }
    }
    let share = covered.map(|covered| f64::from(covered) / f64::from(asked));
    let bias = off.map(|off| off.iter().sum::<f64>() / off.len() as f64);
    assert!(share[0] > 0.93 && share[0] < 0.975, "{share:?}");
    assert!(bias[0].abs() < 0.0005 && bias[1] > 0.001 && share[1] < share[0], "{bias:?} {share:?}");
}

/// Four builds of four designs: two factors between builds, two on each. A build's luck is larger than what is a trial's own, and
/// no part of what varies on it.
#[test]
fn on_shared_builds_effects_between_builds_and_on_them_cover_the_truth() {
    let levels = full(&[2, 2, 2, 2]);
    let builds: Vec<usize> = (0..16).map(|design| design / 4).collect();
    let truth = [0.05, 0.0, 0.02, 0.0];
    let logs =
        |at: usize| (0..4).map(|factor| truth[factor] * levels[at][factor].unwrap_or(0) as f64).sum::<f64>();
    let (mut covered, mut as_if_free, mut widths) = ([0u32; 4], [0u32; 4], [0.0f64; 4]);
    let sessions = 300;
    for seed in 0..sessions {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rounds: Vec<Vec<Option<f64>>> = (0..6)
            .map(|_| {
                let luck = [0; 4].map(|_| 0.06 * normal(&mut rng));
                (0..16).map(|at| Some(logs(at) + luck[builds[at]] + 0.03 * normal(&mut rng))).collect()
            })
            .collect();
        let holds = |of: &Effect| {
            let (low, high) = of.interval.expect("has one");
            let truth = truth[of.terms[0].factor].exp();
            low <= truth && truth <= high
        };
        for (builds, count) in [(&builds[..], &mut covered), (&[], &mut as_if_free)] {
            for effect in (Grid { levels: &levels, rounds: &rounds, builds }).factors(0.95).effects {
                count[effect.terms[0].factor] += u32::from(holds(&effect));
                let (low, high) = effect.interval.expect("has one");
                widths[effect.terms[0].factor] += if builds.is_empty() { 0.0 } else { (high / low).ln() };
            }
        }
    }
    // 95% of 300 are 285, with a standard error of 4.
    assert!(covered.iter().all(|count| (273..=297).contains(count)), "{covered:?}");
    assert!(widths[0] > 2.0 * widths[2], "on a build more is known: {widths:?}");
    // One variance for all would be wrong of both.
    assert!(as_if_free[0] < 260 && as_if_free[2] > 295, "{as_if_free:?}");
}

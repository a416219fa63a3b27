//! Races of whole sessions, made up.

use super::contest::Gone;
use super::{Contest, Raced, of_trials};
use crate::TrialSummary;
use crate::fixtures::{normal, raced, session, trial};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::session::Session;
use ebbtide_model::sweep::{Goal, Limit, Objective};
use ebbtide_model::testing::sweep;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

fn of_session(session: &Session) -> Option<Raced> {
    let ran: Vec<TrialSummary> =
        session.trials.iter().map(|record| TrialSummary::of(&session.experiment, record)).collect();
    of_trials(&session.experiment, &ran)
}

const IOPS: Goal = Goal::Measured(Metric::Iops);
const P99: Goal = Goal::Measured(Metric::LatP99);

/// Designs of so many operations per second, with so many milliseconds each.
fn machine(designs: &[(f64, f64)], cv: f64, seed: u64) -> impl FnMut(&Trial) -> Result<TrialSamples, String> {
    let designs = designs.to_vec();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    move |asked| {
        let (iops, millis) = designs[asked.design];
        let mut noisy = |value: f64| value * (cv * normal(&mut rng)).exp();
        Ok(trial(&[("v", noisy(iops) as u64, noisy(millis * 1e6) as u64)]))
    }
}

fn asked(objective: Objective, rounds: u32) -> Experiment {
    let mut experiment = sweep(&[("chunk", &["64KiB", "256KiB"]), ("filesystem", &["ext4", "xfs"])]);
    experiment.sweep.as_mut().expect("is one").objective = objective;
    experiment.answer.trials_max = rounds;
    experiment
}

#[test]
fn the_best_wins_whoever_left_ran_no_more_and_the_control_ran_on() {
    let asked = asked(Objective::Best(IOPS), 60);
    let speeds = [(400.0, 1.0), (1000.0, 1.0), (1300.0, 1.0), (700.0, 1.0)];
    let session = raced(&asked, machine(&speeds, 0.05, 1));
    let found = of_session(&session).expect("a sweep");
    assert_eq!((found.winner(), found.tied(), found.decided), (Some(2), &[][..], true));
    let rounds = session.trials.last().expect("has some").trial.round + 1;
    for lane in &found.lanes {
        let ran = session.trials.iter().filter(|record| record.trial.design == lane.design).count() as u32;
        let counted = if lane.design == 0 { 2 * rounds } else { lane.rounds };
        assert_eq!(ran, counted, "{lane:?}");
        assert!(lane.rounds <= rounds);
        assert_eq!(lane.gone.map(|(round, _)| round), (lane.design != 2).then_some(lane.rounds));
    }
    assert_eq!(found.lanes[0].design, 2);
    assert_eq!((found.lanes[0].ratio, found.lanes[0].interval), (Some(1.0), None));
    let slowest = found.lanes.iter().find(|lane| lane.design == 0).expect("is there");
    assert!((slowest.ratio.expect("ran") - 0.31).abs() < 0.05, "{slowest:?}");
    // Two seconds of load and half a second of warm-up each.
    assert!((found.io_seconds - 2.5 * session.trials.len() as f64).abs() < 1e-9);
    assert!((found.grid_io_seconds - 2.5 * f64::from(5 * rounds)).abs() < 1e-9);
    // The control's second runs are none of a plain grid.
    assert!((found.full_grid_io_seconds - 2.5 * f64::from(4 * 60)).abs() < 1e-9);
}

/// Equals, so that none leaves: 5 trials a round, the control's second among them.
#[test]
fn a_share_of_the_grid_ends_it_and_changes_nothing_before() {
    let even = [(1000.0, 1.0); 4];
    let mut asked = asked(Objective::Best(IOPS), 60);
    let free = raced(&asked, machine(&even, 0.1, 12));
    asked.answer.trials_min = 20;
    for (budget, rounds) in [(0.2, 9), (0.1, 4), (0.001, 1), (1.0, 48)] {
        asked.sweep.as_mut().expect("is one").budget = Some(budget);
        let kept = raced(&asked, machine(&even, 0.1, 12));
        assert_eq!(kept.trials, free.trials[..kept.trials.len()]);
        let found = of_session(&kept).expect("a sweep");
        // 2.5 s a trial; a fifth of 240 trials are 48, and 9 rounds are 45.
        assert_eq!((found.rounds, found.winner(), found.decided), (rounds, None, false), "{budget}");
        assert_eq!(found.io_seconds, 2.5 * f64::from(5 * rounds));
        assert_eq!((found.budget, found.full_grid_io_seconds), (Some(budget), 600.0));
    }
}

#[test]
fn a_round_that_was_cut_short_changes_nothing() {
    let asked = asked(Objective::Best(IOPS), 60);
    let mut session =
        raced(&asked, machine(&[(400.0, 1.0), (1000.0, 1.0), (900.0, 1.0), (700.0, 1.0)], 0.05, 2));
    // A round and a trial of the next.
    let of_round = |session: &ebbtide_model::session::Session, round: u32| {
        session.trials.iter().filter(|record| record.trial.round == round).count()
    };
    session.trials.truncate((0..4).map(|round| of_round(&session, round)).sum::<usize>() + 1);
    let cut = of_session(&session).expect("a sweep");
    session.trials.pop();
    let whole = of_session(&session).expect("a sweep");
    assert_eq!((cut.rounds, &cut.left, &cut.lanes), (4, &whole.left, &whole.lanes));
}

#[test]
fn equals_are_a_tie_and_too_few_rounds_decide_nothing() {
    let even = [(1000.0, 1.0); 4];
    let found =
        of_session(&raced(&asked(Objective::Best(IOPS), 200), machine(&even, 0.005, 3))).expect("a sweep");
    assert_eq!((found.winner(), found.left.len(), found.decided), (None, 4, true));
    let found =
        of_session(&raced(&asked(Objective::Best(IOPS), 5), machine(&even, 0.1, 4))).expect("a sweep");
    assert_eq!((found.winner(), found.tied().len(), found.decided), (None, 4, false));
    assert_eq!(found.rounds, 5);
}

#[test]
fn the_fastest_that_keeps_the_limit_wins_and_what_breaks_it_drives_nobody_out() {
    // The second is the fastest by far and too slow to answer; the third is the best that is not.
    let speeds = [(800.0, 2.0), (2000.0, 8.0), (1000.0, 3.0), (900.0, 9.0)];
    let limits = vec![Limit { of: P99, bound: 5e6 }];
    let found = of_session(&raced(
        &asked(Objective::Within { best: IOPS, limits: limits.clone() }, 80),
        machine(&speeds, 0.05, 5),
    ))
    .expect("a sweep");
    assert_eq!((found.winner(), found.decided), (Some(2), true));
    let why = |design| found.lanes.iter().find(|lane| lane.design == design).and_then(|lane| lane.gone);
    assert_eq!([1, 3].map(|design| why(design).map(|(_, why)| why)), [Some(Gone::Limit(P99)); 2]);
    assert_eq!(why(0).map(|(_, why)| why), Some(Gone::Lost));
    // Where none keeps it, that is the answer.
    let none = asked(Objective::Within { best: IOPS, limits: vec![Limit { of: P99, bound: 1e6 }] }, 80);
    let found = of_session(&raced(&none, machine(&speeds, 0.05, 6))).expect("a sweep");
    assert_eq!((found.winner(), found.left.as_slice(), found.decided), (None, &[][..], true));
}

/// The best of those that keep a limit stays, also beside faster ones that are just beyond it.
#[test]
fn with_limits_the_promise_holds() {
    let speeds = [(900.0, 4.0), (1000.0, 4.5), (1500.0, 5.2), (1400.0, 5.1)];
    let asked = asked(Objective::Within { best: IOPS, limits: vec![Limit { of: P99, bound: 5e6 }] }, 25);
    let lost = (0..40).filter(|seed| {
        let found = of_session(&raced(&asked, machine(&speeds, 0.07, 100 + seed))).expect("a sweep");
        !found.left.contains(&1)
    });
    assert!(lost.count() <= 2);
}

#[test]
fn products_weigh_and_a_front_keeps_both() {
    // Four times the operations at twice the time.
    let speeds = [(250.0, 1.0), (1000.0, 2.0), (900.0, 1.9), (200.0, 2.0)];
    let both = |weight| asked(Objective::Weighted(vec![(IOPS, 1.0), (P99, weight)]), 80);
    for (weight, best) in [(1.0, 1), (3.0, 0)] {
        let found = of_session(&raced(&both(weight), machine(&speeds, 0.03, 7))).expect("a sweep");
        assert_eq!(found.winner(), Some(best), "{weight}");
    }
    let found = of_session(&raced(&asked(Objective::Pareto(vec![IOPS, P99]), 60), machine(&speeds, 0.03, 8)));
    let found = found.expect("a sweep");
    assert_eq!((found.winner(), found.left.len(), found.decided), (None, 3, true), "{found:?}");
    assert!(!found.left.contains(&3));
    assert_eq!(found.lanes[0].figures.iter().map(|(goal, _)| *goal).collect::<Vec<_>>(), [IOPS, P99]);
}

#[test]
fn what_only_fails_leaves_and_what_is_too_dear_never_runs() {
    let mut asked =
        asked(Objective::Within { best: IOPS, limits: vec![Limit { of: Goal::Price, bound: 50.0 }] }, 60);
    for (arm, price) in asked.sweep.as_mut().expect("is one").arms.iter_mut().zip([10.0, 20.0, 100.0, 30.0]) {
        arm.price = Some(price);
    }
    let mut real = machine(&[(400.0, 1.0), (1000.0, 1.0), (3000.0, 1.0), (700.0, 1.0)], 0.05, 9);
    let session = raced(&asked, |trial| if trial.design == 3 { Err("EIO".to_owned()) } else { real(trial) });
    let found = of_session(&session).expect("a sweep");
    assert_eq!(found.winner(), Some(1));
    let gone = |design| found.lanes.iter().find(|lane| lane.design == design).and_then(|lane| lane.gone);
    assert_eq!(gone(3), Some((3, Gone::Failed)));
    assert_eq!(gone(2), Some((0, Gone::Limit(Goal::Price))));
    assert!(session.trials.iter().all(|record| record.trial.design != 2));
}

#[test]
fn without_a_sweep_there_is_no_race() {
    let mut experiment = asked(Objective::Best(IOPS), 2);
    experiment.sweep = None;
    let plain = session(&experiment, 2, machine(&[(1.0, 1.0); 4], 0.0, 1));
    assert_eq!(of_session(&plain), None);
    assert_eq!(Contest::new(&experiment), None);
}

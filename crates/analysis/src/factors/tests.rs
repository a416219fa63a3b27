use super::*;
use crate::fixtures::normal;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

#[test]
fn over_a_full_grid_effects_are_differences_of_means() {
    let levels: Vec<Vec<Option<usize>>> =
        (0..2).flat_map(|a| (0..3).map(move |b| vec![Some(a), Some(b)])).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let rounds: Vec<Vec<Option<f64>>> =
        (0..4).map(|_| levels.iter().map(|_| Some(normal(&mut rng))).collect()).collect();
    let found = Grid { levels: &levels, rounds: &rounds, builds: &[] }.factors(0.95);
    let mean = |factor: usize, level: usize| {
        let own = levels.iter().enumerate().filter(|(_, own)| own[factor] == Some(level));
        let values: Vec<f64> =
            own.flat_map(|(design, _)| rounds.iter().filter_map(move |round| round[design])).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let terms: Vec<Vec<Term>> = found.effects.iter().map(|effect| effect.terms.clone()).collect();
    let term = |factor, level| vec![Term { factor, level, against: 0 }];
    assert_eq!(terms, [term(0, 1), term(1, 1), term(1, 2)]);
    for effect in &found.effects {
        let Term { factor, level, against } = effect.terms[0];
        let expected = (mean(factor, level) - mean(factor, against)).exp();
        assert!((effect.ratio / expected - 1.0).abs() < 1e-9, "{effect:?} {expected}");
        let (low, high) = effect.interval.expect("has one");
        assert!(low < effect.ratio && effect.ratio < high);
    }
    // The interval of a difference of two means of 12 with the variance that rounds and designs leave.
    let (low, high) = found.effects[0].interval.expect("has one");
    let design = |design: usize| rounds.iter().filter_map(|round| round[design]).sum::<f64>() / 4.0;
    let of_round = |round: &Vec<Option<f64>>| round.iter().flatten().sum::<f64>() / 6.0;
    let all = rounds.iter().map(of_round).sum::<f64>() / 4.0;
    let rest = rounds.iter().flat_map(|round| {
        (0..6).map(|at| round[at].expect("ran") - design(at) - of_round(round) + all).collect::<Vec<_>>()
    });
    let variance = rest.map(|value| value * value).sum::<f64>() / 15.0;
    let half = student(15.0, 0.95).expect("is one") * (variance * 2.0 / 12.0).sqrt();
    assert!(((high / low).ln() / 2.0 - half).abs() < 1e-9);
}

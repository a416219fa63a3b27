//! How often the best of many designs is found, by several methods, on figures whose truth is known: a table of docs/statistics.md.
//!
//! The truth is a night of 48 designs whose factors act as in the published one (`docs/studies/heroku-night.md`): effects on reading
//! are those of a least-squares fit of the logarithm of its figures. Trials vary as those of a real disk did: by 7%, and neighbours
//! correlate with 0.38.

use super::{Night, grid, halving, in_a_row, normal};
use ebbtide_analysis::estimate::median;
use ebbtide_analysis::race::{Evidence, Race, Rules};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt::Write as _;

/// Nights of each row.
const NIGHTS: u64 = 300;
/// Rounds of the full grid, with which each design is known to within about 2%.
const GRID_ROUNDS: usize = 40;
/// Share of the grid's trials that a race and halving may use.
const SHARE: f64 = 0.2;
/// Standard deviations of what a trial shares with its neighbours and of what is its own, of a logarithm; what is shared decays so much
/// from trial to trial.
const MOOD: f64 = 0.045;
const OWN: f64 = 0.055;
const DECAY: f64 = 0.95;
/// By how much the best is ahead of what the factors make of it, in the nights with a clear winner.
const AHEAD: f64 = 1.10;
const RULES: Rules = Rules { error: 0.05, indifference: 0.02 };

/// Scheduler, file system, members, chunk and readahead: what each level makes of the rate.
const FACTORS: [&[f64]; 5] = [&[1.0, 1.02], &[1.0, 2.02], &[0.90, 1.0, 1.08], &[1.0, 0.97], &[0.96, 1.09]];

/// The rates of all combinations.
fn designs() -> Vec<f64> {
    FACTORS.iter().fold(vec![1.0], |rates, levels| {
        rates.iter().flat_map(|rate| levels.iter().map(move |level| rate * level)).collect()
    })
}

/// A machine on which designs of these rates run one after the other.
struct Machine<'a> {
    rates: &'a [f64],
    rng: Xoshiro256PlusPlus,
    mood: f64,
    trials: usize,
}

impl Machine<'_> {
    fn new(rates: &[f64], seed: u64) -> Machine<'_> {
        Machine { rates, rng: Xoshiro256PlusPlus::seed_from_u64(seed), mood: 0.0, trials: 0 }
    }
}

impl Night for Machine<'_> {
    fn designs(&self) -> usize {
        self.rates.len()
    }

    fn trial(&mut self, design: usize) -> f64 {
        let new = normal(&mut self.rng);
        self.mood = DECAY * self.mood + (1.0 - DECAY * DECAY).sqrt() * MOOD * new;
        self.trials += 1;
        self.rates[design] * (self.mood + OWN * normal(&mut self.rng)).exp()
    }

    fn round(&mut self, which: &[usize]) -> Vec<Option<f64>> {
        let mut order = which.to_vec();
        for last in (1..order.len()).rev() {
            order.swap(last, (self.rng.next_u64() % (last as u64 + 1)) as usize);
        }
        let mut round = vec![None; self.rates.len()];
        for design in order {
            round[design] = Some(self.trial(design));
        }
        round
    }
}

/// Nights of each figure of the second table, and their rounds.
const EQUAL_NIGHTS: u64 = 400;
const EQUAL_ROUNDS: usize = 24;

/// How often the first of equal designs, the one whose build has the fewest, is dropped, with a margin of 0: at worst as often as the error.
/// `sizes` are the designs of each build, which in each round has a luck of its own with this standard deviation.
fn first_dropped(sizes: &[usize], luck: f64, in_turn: bool, judged_by_builds: bool) -> u32 {
    let builds: Vec<usize> =
        sizes.iter().enumerate().flat_map(|(build, size)| std::iter::repeat_n(build, *size)).collect();
    let rates = vec![1.0; builds.len()];
    let night = |seed: u64| {
        let mut machine = Machine::new(&rates, 20_000 + seed);
        let mut race = Race::new(builds.len(), Rules { indifference: 0.0, ..RULES });
        if judged_by_builds {
            race = race.on_builds(&builds);
        }
        for _ in 0..EQUAL_ROUNDS {
            let left = race.left();
            let turns: Vec<u64> = sizes.iter().map(|_| machine.rng.next_u64()).collect();
            let of_build: Vec<f64> = sizes.iter().map(|_| luck * normal(&mut machine.rng)).collect();
            let mut order: Vec<(u64, u64, usize)> = left
                .iter()
                .map(|design| {
                    (if in_turn { turns[builds[*design]] } else { 0 }, machine.rng.next_u64(), *design)
                })
                .collect();
            order.sort_unstable();
            let mut round = vec![None; builds.len()];
            for (_, _, design) in order {
                let own = luck * normal(&mut machine.rng);
                let shift = if in_turn { of_build[builds[design]] } else { own };
                round[design] = Some(shift.exp() * machine.trial(design));
            }
            race.add_round(&round);
        }
        race.dropped_in(0).is_some()
    };
    (0..EQUAL_NIGHTS).filter(|seed| night(*seed)).count() as u32
}

/// What sharing builds does to the promise.
pub fn builds_table() -> String {
    let mut out = format!(
        "{EQUAL_NIGHTS} nights a figure of {EQUAL_ROUNDS} rounds, 13 to 16 equal designs, error {:.0}%, margin 0: how often the first of them is dropped. Standard error at most \
         1.3 points.\n\n\
         | designs of the builds | luck of a build | a build each, free order | shared builds | shared, places among all |\n\
         | --- | ---: | ---: | ---: | ---: |\n",
        RULES.error * 100.0
    );
    for sizes in [&[4, 4, 4, 4][..], &[1, 4, 4, 4], &[1, 15], &[1, 2, 4, 8]] {
        for luck in [0.03, 0.10] {
            let share = |in_turn, judged| {
                f64::from(first_dropped(sizes, luck, in_turn, judged)) / EQUAL_NIGHTS as f64 * 100.0
            };
            let names: Vec<String> = sizes.iter().map(usize::to_string).collect();
            let _ = writeln!(
                out,
                "| {} | {:.0}% | {:.1}% | {:.1}% | {:.1}% |",
                names.join(", "),
                luck * 100.0,
                share(false, false),
                share(true, true),
                share(true, false)
            );
        }
    }
    out
}

/// Trials that a share of the grid has.
fn budget(rates: &[f64]) -> usize {
    (SHARE * (rates.len() * GRID_ROUNDS) as f64) as usize
}

/// The designs that a race of a share of the grid's trials leaves.
fn race(machine: &mut Machine<'_>) -> Vec<usize> {
    let mut race = Race::new(machine.rates.len(), RULES);
    while machine.trials + race.left().len() <= budget(machine.rates) && race.left().len() > 1 {
        race.add_round(&machine.round(&race.left()));
        if race.left().len() < 5 && race.standing().decided {
            break;
        }
    }
    race.left()
}

/// The same by the pairs alone, without places.
fn pairs_alone(machine: &mut Machine<'_>) -> Vec<usize> {
    let number = machine.rates.len();
    let margin = RULES.indifference.ln_1p();
    let mut evidence = vec![vec![Evidence::default(); number]; number];
    let mut left: Vec<usize> = (0..number).collect();
    while machine.trials + left.len() <= budget(machine.rates) && left.len() > 1 {
        let round = machine.round(&left);
        for i in &left {
            for j in left.iter().filter(|j| *j != i) {
                if let (Some(a), Some(b)) = (round[*i], round[*j]) {
                    evidence[*i][*j].add((a / b).ln() - margin);
                }
            }
        }
        let against = |j: usize| (0..number).filter(|i| *i != j).map(|i| evidence[i][j].value()).sum::<f64>();
        let stays = |j: &usize| against(*j) / ((number - 1) as f64) < 1.0 / RULES.error;
        let stay: Vec<usize> = left.iter().copied().filter(stays).collect();
        if !stay.is_empty() {
            left = stay;
        }
    }
    left
}

/// The table as Markdown.
pub fn table() -> String {
    let night = designs();
    let equal = vec![1.0; night.len()];
    let fastest = night.iter().copied().fold(0.0, f64::max);
    let ahead: Vec<f64> =
        night.iter().map(|rate| if *rate == fastest { rate * AHEAD } else { *rate }).collect();
    let mut out = format!(
        "{NIGHTS} nights a row, {} designs; the full grid is {GRID_ROUNDS} interleaved rounds. Right is a winner within {:.0}% of the best, or a tie that \
         holds the best. Standard error at most 2.9 points.\n\n\
         | method | right | names a winner | designs still in, median | of the grid's trials | the best is {:.0}% ahead: names it | all equal: names a winner |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        night.len(),
        RULES.indifference * 100.0,
        (AHEAD - 1.0) * 100.0,
    );
    // What a method holds for the best, on a fresh machine.
    type Method = fn(&mut Machine<'_>) -> Vec<usize>;
    let methods: [(&str, Method); 6] = [
        ("one run each", |machine| vec![in_a_row(machine, 1)]),
        ("three runs in a row each, averaged", |machine| vec![in_a_row(machine, 3)]),
        ("the full grid, highest median", |machine| vec![grid(machine, GRID_ROUNDS)]),
        ("sequential halving", |machine| vec![halving(machine, budget(machine.rates))]),
        ("race", race),
        ("race by the pairs alone", pairs_alone),
    ];
    for (name, method) in methods {
        let (mut right, mut named, mut found, mut false_winners) = (0, 0, 0, 0);
        let (mut held, mut trials) = (Vec::new(), Vec::new());
        for seed in 0..NIGHTS {
            let mut machine = Machine::new(&night, seed);
            let said = method(&mut machine);
            let good = |design: &usize| night[*design] * (1.0 + RULES.indifference) >= fastest;
            let holds = said.iter().any(|design| night[*design] == fastest);
            right += u32::from(if said.len() == 1 { good(&said[0]) } else { holds });
            named += u32::from(said.len() == 1);
            held.push(said.len() as f64);
            trials.push(machine.trials as f64);
            let one = method(&mut Machine::new(&ahead, seed));
            found += u32::from(one.len() == 1 && night[one[0]] == fastest);
            false_winners += u32::from(method(&mut Machine::new(&equal, 10_000 + seed)).len() == 1);
        }
        let share = |count: u32| f64::from(count) / NIGHTS as f64 * 100.0;
        let of_grid = median(&trials).unwrap_or(0.0) / (night.len() * GRID_ROUNDS) as f64;
        let _ = writeln!(
            out,
            "| {name} | {:.1}% | {:.1}% | {:.0} | {:.1}% | {:.1}% | {:.1}% |",
            share(right),
            share(named),
            median(&held).unwrap_or(0.0),
            of_grid * 100.0,
            share(found),
            share(false_winners)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::best;
    use super::*;

    /// What the page promises of a race, on a few nights.
    #[test]
    fn a_race_holds_the_best_with_a_fifth_of_the_grid() {
        let night = designs();
        assert_eq!(night.len(), 48);
        let fastest = best(&night);
        for seed in 0..20 {
            let mut machine = Machine::new(&night, seed);
            let held = race(&mut machine);
            assert!(held.contains(&fastest) && machine.trials <= budget(&night), "{seed}: {held:?}");
            assert!(held.len() <= night.len() / 2, "{seed}: {held:?}");
            assert!(race(&mut Machine::new(&vec![1.0; night.len()], seed)).len() > 1, "{seed}");
        }
    }

    #[test]
    fn trials_vary_as_those_of_a_real_disk() {
        let mut machine = Machine::new(&[1.0], 7);
        let logs: Vec<f64> = (0..20_000).map(|_| machine.trial(0).ln()).collect();
        let of =
            |lag: usize| logs.iter().zip(&logs[lag..]).map(|(a, b)| a * b).sum::<f64>() / logs.len() as f64;
        let (sd, correlation) = (of(0).sqrt(), of(1) / of(0));
        assert!((sd - 0.07).abs() < 0.005 && (correlation - 0.38).abs() < 0.03, "{sd} {correlation}");
    }
}

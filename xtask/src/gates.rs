//! What `ebb compare` gets right and wrong between sessions whose truth is known: a table of docs/statistics.md.
//!
//! Trials are lognormal and vary by 7%, as those of a real disk did; where they correlate, neighbours do so with 0.38, also as measured.

use crate::races::normal;
use ebbtide_analysis::Conclusion;
use ebbtide_analysis::between::{Answered, Bounds, Gate, Question, Trials, compare};
use ebbtide_model::metric::Metric;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt::Write as _;

/// Comparisons of each cell.
const COMPARISONS: u32 = 1000;
/// Coefficient of variation of a trial.
const VARIATION: f64 = 0.07;
/// Correlation of neighbours, where there is any.
const CORRELATION: f64 = 0.38;
/// What `ebb compare` uses by itself.
const BOUNDS: Bounds = Bounds { level: 0.95, indifference: 0.02, threshold: 0.05 };
/// Without any margin every difference that is claimed among equals is chance.
const NO_MARGIN: Bounds = Bounds { level: 0.95, indifference: 0.0, threshold: 0.0 };

/// What is common to the comparisons of a row.
struct Case {
    rows: usize,
    rounds: usize,
    correlation: f64,
    /// Standard deviation of what a whole session shares, of the logarithm.
    hour: f64,
}

/// Logarithms of a session: each trial with what it shares with its neighbours, all with what its hour gives.
fn session(rng: &mut Xoshiro256PlusPlus, case: &Case, hour: f64, speed: f64) -> Vec<f64> {
    let phi = case.correlation;
    let mut state = normal(rng);
    (0..case.rounds)
        .map(|_| {
            state = phi * state + (1.0 - phi * phi).sqrt() * normal(rng);
            speed * (VARIATION * state + hour).exp()
        })
        .collect()
}

/// Share of comparisons in which `seen` holds for the answers, the first row being so fast in the second session and all others equal.
fn share(case: &Case, speed: f64, bounds: Bounds, seen: impl Fn(&[Answered]) -> bool) -> f64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20_261_123);
    let mut count = 0;
    for _ in 0..COMPARISONS {
        let hours = [case.hour * normal(&mut rng), case.hour * normal(&mut rng)];
        let questions: Vec<Question> = (0..case.rows)
            .map(|row| {
                let of = |rng: &mut _, hour, speed| session(rng, case, hour, speed);
                let a = of(&mut rng, hours[0], 1.0);
                let b = of(&mut rng, hours[1], if row == 0 { speed } else { 1.0 });
                Question { metric: Metric::Iops, trials: Trials::Apart(a, b), source: 1 }
            })
            .collect();
        count += u32::from(seen(&compare(&questions, bounds)));
    }
    f64::from(count) / f64::from(COMPARISONS)
}

fn claims(answers: &[Answered]) -> bool {
    answers.iter().any(|a| matches!(a.conclusion, Conclusion::Faster | Conclusion::Slower))
}

fn fails(answers: &[Answered]) -> bool {
    answers.iter().any(|a| a.gate == Gate::Regression)
}

fn passes(answers: &[Answered]) -> bool {
    answers.iter().all(|a| a.gate == Gate::Pass)
}

/// The table, in Markdown.
pub fn table() -> String {
    let mut out = format!(
        "{COMPARISONS} comparisons a cell of two sessions (standard error at most 1.6 points), trials vary by {:.0}%. Equal: both sessions \
         are of the same thing. Slower: the first row of the second session is that much slower.\n\n\
         | trials | comparisons in a report | rounds | equal, no margin: some false faster or slower | equal: some false faster or slower | \
         equal: exit 1 | equal: exit 0 | 10% slower: called slower | 20% slower: exit 1 | 6% slower: exit 0 |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        VARIATION * 100.0
    );
    let case = |rows, rounds, correlation, hour| Case { rows, rounds, correlation, hour };
    for (name, case) in [
        ("independent", case(1, 6, 0.0, 0.0)),
        ("independent", case(1, 12, 0.0, 0.0)),
        ("independent", case(1, 24, 0.0, 0.0)),
        ("independent", case(8, 6, 0.0, 0.0)),
        ("independent", case(8, 12, 0.0, 0.0)),
        ("neighbours correlate", case(1, 6, CORRELATION, 0.0)),
        ("neighbours correlate", case(1, 12, CORRELATION, 0.0)),
        ("neighbours correlate", case(1, 24, CORRELATION, 0.0)),
        ("neighbours correlate", case(8, 12, CORRELATION, 0.0)),
        ("hours differ by 3%", case(8, 12, 0.0, 0.03)),
    ] {
        let first =
            |wanted: fn(&Answered) -> bool| move |answers: &[Answered]| answers.first().is_some_and(wanted);
        let cells = [
            share(&case, 1.0, NO_MARGIN, claims),
            share(&case, 1.0, BOUNDS, claims),
            share(&case, 1.0, BOUNDS, fails),
            share(&case, 1.0, BOUNDS, passes),
            share(&case, 1.0 / 1.10, BOUNDS, first(|a| a.conclusion == Conclusion::Slower)),
            share(&case, 0.8, BOUNDS, first(|a| a.gate == Gate::Regression)),
            share(&case, 0.94, BOUNDS, passes),
        ];
        let _ = write!(out, "| {name} | {} | {} |", case.rows, case.rounds);
        for cell in cells {
            let _ = write!(out, " {:.1}% |", cell * 100.0);
        }
        out.push('\n');
    }
    out
}

//! `cargo xtask statistics`: what the intervals cover, and how often equals get a winner.
//!
//! Writes the tables of docs/statistics.md. Everything is drawn from fixed seeds: the figures are the same everywhere.

use crate::attribution;
use crate::changes;
use crate::claims;
use crate::gates;
use crate::pages::{between, read, root, write};
use crate::races::{made_up, night, normal};
use ebbtide_analysis::estimate::{estimate, median};
use ebbtide_analysis::stop::{Decider, Decision, Point, decide_points, is_look};
use ebbtide_analysis::{Conclusion, analyse, metric};
use ebbtide_model::backend::Control;
use ebbtide_model::experiment::{Answer, Experiment};
use ebbtide_model::metric::Metric;
use ebbtide_model::schedule::{Role, Trial};
use ebbtide_model::units::Nanos;
use ebbtide_sim::{session, simulate};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Made-up sessions of a row of the first table.
const SESSIONS: u64 = 5000;
/// Seed of made-up trials.
const SEED: u64 = 20_261_121;
/// Simulated sessions of a row with moody volumes.
const SIMULATED: u64 = 400;
/// By how much the two speeds of a volume differ from what is between them, and how much trials at one of them vary.
const SPEEDS: f64 = 0.10;
const WITHIN: f64 = 0.01;
/// Rest between trials of 20 s that makes [`OFTEN_TIMES`] of them as long as one with an hour's rest.
const OFTEN: &str = "342s";
const OFTEN_TIMES: u32 = 10;
/// Difference that somebody without intervals takes for one.
const DIFFERENT: f64 = 0.05;

/// A volume of 2009 with moods and two designs that are equal: the same volume twice. Trials are far apart or not.
fn moody(rest: &str) -> String {
    format!(
        "name = \"moody\"\n[volumes.vol]\nsize = \"1GiB\"\n[volumes.vol.shape]\niops = 60\nlatency = \"2ms\"\n\
         drift = {{ sigma = 0.04, timescale = \"6h\" }}\n[volumes.vol.shape.moods]\ngood = {{ dwell = \"20m\" }}\n\
         busy = {{ dwell = \"6m\", rate = 0.8 }}\nbad = {{ dwell = \"3m\", weight = 0.5, rate = 0.4 }}\n\
         [designs.a]\nlayout = \"linear\"\nmembers = [\"vol\"]\n[designs.b]\nlayout = \"linear\"\nmembers = [\"vol\"]\n\
         [workloads.load]\nrw = \"randread\"\nbs = \"4k\"\niodepth = 8\nruntime = \"20s\"\n\
         [answer]\nprecision = \"10%\"\ntrials_max = 30\nbudget = \"365d\"\nrest = \"{rest}\"\n"
    )
}

/// What of the page to write.
#[derive(clap::Args)]
pub struct Options {
    /// Only these tables
    #[arg(value_parser = TABLES.map(|(name, _)| name))]
    tables: Vec<String>,
}

/// How a table is made.
type Make = fn() -> Result<String, String>;

/// The tables, by the names of their markers.
const TABLES: [(&str, Make); 13] = [
    ("claims", || Ok(claims::made_up_table())),
    ("widths", || Ok(claims::widths_table())),
    ("sessions", claims::simulated_table),
    ("coverage", coverage_table),
    ("looks", looks_table),
    ("winners", winners_table),
    ("races", || Ok(made_up::table())),
    ("night", night::table),
    ("builds", || Ok(made_up::builds_table())),
    ("gates", || Ok(gates::table())),
    ("false-alarms", || Ok(changes::false_alarms_table())),
    ("delays", || Ok(changes::delays_table())),
    ("attribution", attribution::table),
];

/// `cargo xtask statistics`
///
/// # Errors
/// When the page lacks a marker or cannot be written.
pub fn run(options: &Options) -> Result<(), String> {
    let path = root().join("docs/statistics.md");
    for (name, make) in TABLES {
        if !options.tables.is_empty() && !options.tables.iter().any(|asked| asked == name) {
            continue;
        }
        let table = make()?;
        println!("{table}");
        let page = between(&read(&path)?, "statistics", Some(name), &table)
            .map_err(|what| format!("{}: {what}", path.display()))?;
        write(&path, &page)?;
    }
    Ok(())
}

/// When a session is stopped, beside its most rounds.
#[derive(Clone, Copy, PartialEq)]
enum Stop {
    /// At the first round whose interval at this level is narrow.
    Every(f64),
    /// The same, looking after 6, 12, 24, .. rounds only.
    Doubling(f64),
    /// The same, looking when the rounds have grown by a quarter.
    Growing(f64),
    /// By the rule of `ebb run`.
    AsBuilt,
}

impl Stop {
    fn now(self, values: &[f64], answer: &Answer) -> bool {
        let n = values.len() as u32;
        let narrow = |level| {
            let half = estimate(values, level).and_then(|e| e.relative_half_width());
            n >= FIRST_LOOK && half.is_some_and(|half| half <= answer.precision)
        };
        match self {
            Stop::Every(level) => n >= answer.trials_max || narrow(level),
            Stop::Doubling(level) => {
                let look = n.is_multiple_of(FIRST_LOOK) && (n / FIRST_LOOK).is_power_of_two();
                n >= answer.trials_max || look && narrow(level)
            }
            Stop::Growing(level) => n >= answer.trials_max || is_look(n, FIRST_LOOK) && narrow(level),
            Stop::AsBuilt => {
                let point = Point::of(values.to_vec(), answer.level);
                decide_points(&[point], answer, n, Nanos(0)) != Decision::Continue
            }
        }
    }
}

/// Rounds before the first look.
const FIRST_LOOK: u32 = 6;

/// Share of `sessions` whose final interval covers the truth, and their mean number of rounds. `truth` is asked with the
/// session and its rounds.
fn coverage(
    sessions: u64,
    answer: &Answer,
    stop: Stop,
    mut truth: impl FnMut(u64, u32) -> f64,
    mut trial: impl FnMut(u64, u32) -> f64,
) -> (f64, f64) {
    let (mut covered, mut rounds) = (0u64, 0u64);
    for session in 0..sessions {
        let mut values = Vec::new();
        loop {
            let n = values.len() as u32;
            values.push(trial(session, n));
            if stop.now(&values, answer) {
                break;
            }
        }
        rounds += values.len() as u64;
        let interval = estimate(&values, answer.level).and_then(|e| e.interval);
        let truth = truth(session, values.len() as u32);
        covered += u64::from(interval.is_some_and(|(low, high)| low <= truth && truth <= high));
    }
    (covered as f64 / sessions as f64, rounds as f64 / sessions as f64)
}

fn coverage_table() -> Result<String, String> {
    let mut out = format!(
        "Simulated, {SESSIONS} sessions a row (standard error 0.3 points), lognormal trials, level 95%; last two rows: \
         {SIMULATED} sessions on a simulated volume with moods and drift (standard error 1.1 points), trials an hour apart, \
         against the median of the hours in which the session ran and against that of the volume's whole life:\n\n\
         | trials | precision | covered, stopping at the first narrow interval | mean rounds | covered, as built | mean rounds |\n\
         | --- | --- | --- | --- | --- | --- |\n"
    );
    let first = Stop::Every(0.95);
    let experiment = parse("1h")?;
    let answer =
        |precision: f64, trials_max: u32| Answer { precision, trials_max, ..experiment.answer.clone() };
    for (cv, precision) in
        [(0.05, 0.05), (0.067, 0.05), (0.10, 0.05), (0.20, 0.10), (0.20, 0.05), (0.10, 0.02)]
    {
        let sigma = (1.0_f64 + cv * cv).ln().sqrt();
        let row = |stop| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
            let trial = |_, _| (sigma * normal(&mut rng)).exp();
            coverage(SESSIONS, &answer(precision, 400), stop, |_, _| 1.0, trial)
        };
        push(&mut out, &format!("CV {:.1}%", cv * 100.0), precision, row(first), row(Stop::AsBuilt));
    }
    let row = |stop| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let trial = |_, _| {
            let speed = if rng.next_u64() & 1 == 0 { 1.0 - SPEEDS } else { 1.0 + SPEEDS };
            speed * (WITHIN * normal(&mut rng)).exp()
        };
        coverage(SESSIONS, &answer(0.05, 400), stop, |_, _| 1.0, trial)
    };
    push(&mut out, "two speeds, 10% above and below", 0.05, row(first), row(Stop::AsBuilt));
    // The same lives, looked at ten times as often: what the volume gave in the hours of the session.
    let often = parse(OFTEN)?;
    let mut often = Lives::of(&often);
    let mut hours = |session: u64, rounds: u32| {
        let count = (rounds - 1) * OFTEN_TIMES + 1;
        median(often.trials(1000 + session, count)).unwrap_or(f64::NAN)
    };
    let long: Vec<f64> = (0..4000).map(|n| one(&experiment, n / 400, (n % 400) as u32)).collect();
    let life = median(&long).unwrap_or(f64::NAN);
    let mut lives = Lives::of(&experiment);
    let mut trial = |session: u64, n: u32| lives.trials(1000 + session, n + 1)[n as usize];
    let mut row = |stop| coverage(SIMULATED, &answer(0.10, 30), stop, &mut hours, &mut trial);
    push(&mut out, "moods and drift, of its hours", 0.10, row(first), row(Stop::AsBuilt));
    let mut row = |stop| coverage(SIMULATED, &answer(0.10, 30), stop, |_, _| life, &mut trial);
    push(&mut out, "moods and drift, of its life", 0.10, row(first), row(Stop::AsBuilt));
    Ok(out)
}

/// The table of what else the stop rule might be.
fn looks_table() -> Result<String, String> {
    let (cv, precision) = (0.20_f64, 0.05);
    let sigma = (1.0 + cv * cv).ln().sqrt();
    let answer = Answer { precision, trials_max: 400, ..parse("1h")?.answer };
    let mut out = format!(
        "The same trials with CV {:.0}% and precision {:.0}%, {SESSIONS} sessions a row (standard error 0.3 points).\n\n\
         | stops at the first narrow interval | covered | mean rounds |\n| --- | ---: | ---: |\n",
        cv * 100.0,
        precision * 100.0
    );
    for (name, stop) in [
        ("of 95%, looking after each round", Stop::Every(0.95)),
        ("of 97.5%, looking after each round", Stop::Every(0.975)),
        ("of 95%, looking when the rounds have doubled", Stop::Doubling(0.95)),
        ("of 95%, looking when they have grown by a quarter", Stop::Growing(0.95)),
        ("of 96%, looking when they have grown by a quarter: as built", Stop::AsBuilt),
    ] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let trial = |_, _| (sigma * normal(&mut rng)).exp();
        let (covered, rounds) = coverage(SESSIONS, &answer, stop, |_, _| 1.0, trial);
        let _ = writeln!(out, "| {name} | {:.1}% | {rounds:.1} |", covered * 100.0);
    }
    Ok(out)
}

fn push(out: &mut String, trials: &str, precision: f64, naive: (f64, f64), built: (f64, f64)) {
    let _ = writeln!(
        out,
        "| {trials} | {:.0}% | {:.1}% | {:.1} | {:.1}% | {:.1} |",
        precision * 100.0,
        naive.0 * 100.0,
        naive.1,
        built.0 * 100.0,
        built.1
    );
}

fn parse(rest: &str) -> Result<Experiment, String> {
    ebbtide_experiment::parse(&moody(rest), "moody").map_err(|errors| errors.to_string())
}

/// Trial number `index` in the life `seed` of the volumes, in operations per second.
fn one(experiment: &Experiment, seed: u64, index: u32) -> f64 {
    let role = Role::Candidate;
    let trial =
        Trial { index, round: index, design: 0, workload: 0, role, seed: seed * 1000 + u64::from(index) };
    let (design, workload) = (&experiment.designs[0], &experiment.workloads[0]);
    let samples = simulate(experiment, seed, design, workload, &trial, &Control::default());
    samples.ok().and_then(|samples| metric(&samples, Metric::Iops)).unwrap_or(f64::NAN)
}

/// Trials in the lives of volumes, each simulated once however often it is looked at.
struct Lives<'a> {
    experiment: &'a Experiment,
    /// The first trials of each life, by its seed.
    known: BTreeMap<u64, Vec<f64>>,
}

impl<'a> Lives<'a> {
    fn of(experiment: &'a Experiment) -> Self {
        Lives { experiment, known: BTreeMap::new() }
    }

    /// The first `count` trials in the life `seed`, in operations per second.
    fn trials(&mut self, seed: u64, count: u32) -> &[f64] {
        let known = self.known.entry(seed).or_default();
        let missing = known.len() as u32..count;
        known.extend(missing.map(|index| one(self.experiment, seed, index)));
        &known[..count as usize]
    }
}

/// Whether the largest is ahead of the median of the others by what counts as different.
fn has_winner(values: &[f64]) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let best = sorted.pop().unwrap_or(f64::NAN);
    median(&sorted).is_some_and(|others| best > others * (1.0 + DIFFERENT))
}

fn winners_table() -> Result<String, String> {
    let experiment = parse("1m")?;
    let (mut pair, mut night, mut row) = (0, 0, 0);
    for seed in 0..SIMULATED {
        let runs: Vec<f64> = (0..24).map(|index| one(&experiment, seed, index)).collect();
        pair += u32::from(has_winner(&runs[..2]));
        night += u32::from(has_winner(&runs));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        row += u32::from(has_winner(&[mean(&runs[..3]), mean(&runs[3..6])]));
    }
    let sessions = SIMULATED / 2;
    let (mut decided, mut conclusive) = (0, 0);
    for seed in 0..sessions {
        let session =
            session(&experiment, seed, Decider::new(&experiment)).map_err(|error| error.to_string())?;
        let analysis = analyse(&session);
        let asked = analysis.comparisons.iter().find(|c| c.metric == Metric::Iops).map(|c| c.conclusion);
        decided += u32::from(matches!(asked, Some(Conclusion::Faster | Conclusion::Slower)));
        conclusive += u32::from(asked == Some(Conclusion::NoDifference));
    }
    let share = |count: u32, of: u64| f64::from(count) / of as f64 * 100.0;
    Ok(format!(
        "All settings are the same simulated volume, with moods and drift, measured for 20 s at a time, a minute apart. Whoever \
         is more than {:.0}% ahead is taken for the winner. {SIMULATED} volumes a row; {sessions} sessions for the last.\n\n\
         | method | a winner is named |\n| --- | ---: |\n\
         | two settings, one run each | {:.1}% |\n\
         | 24 settings, one run each (a night like the [Heroku one](studies/heroku-night.md)) | {:.1}% |\n\
         | two settings, three runs in a row each, averaged (the tutorial) | {:.1}% |\n\
         | `ebb run`: interleaved rounds, paired, 95% interval | {:.1}% |\n\n\
         In {:.1}% of its sessions `ebb run` says that there is no difference, and otherwise that it cannot tell yet.\n",
        DIFFERENT * 100.0,
        share(pair, SIMULATED),
        share(night, SIMULATED),
        share(row, SIMULATED),
        share(decided, sessions),
        share(conclusive, sessions),
    ))
}

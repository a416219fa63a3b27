//! How often a session says something false of designs that are equal, and whether it finds a difference of 10%: three tables of
//! docs/statistics.md.

use crate::pages::{read, root};
use crate::races::normal;
use ebbtide_analysis::compare::{Margins, Ratio, WIDEST, family, level_of_each, ratio};
use ebbtide_analysis::estimate::estimate;
use ebbtide_analysis::stop::{self, Decider, Decision, INNER_RISK, Point, decide_points};
use ebbtide_analysis::{Conclusion, analyse, metric, primary};
use ebbtide_model::experiment::{Answer, Experiment};
use ebbtide_model::metric::Metric;
use ebbtide_model::schedule::Role;
use ebbtide_model::session::{Outcome, Session};
use ebbtide_model::units::Nanos;
use ebbtide_sim::session;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt::Write as _;

/// Made-up sessions of each cell, from this seed on.
const SESSIONS: u64 = 400;
const SEED: u64 = 20_261_123;
/// Simulated sessions of each row.
const SIMULATED: u64 = 300;
/// Comparisons of a made-up session: one design with the control under so many workloads.
const FAMILY: usize = 4;
const ROUNDS_MAX: usize = 60;
/// The difference that has to be found.
const GAIN: f64 = 1.10;

/// How trials vary; all numbers are of logarithms.
struct Noise {
    name: &'static str,
    /// Standard deviation of a trial of the control, and of the design.
    own: [f64; 2],
    /// Share of trials that run at 0.6 times their speed.
    slow: [f64; 2],
    /// Standard deviation of what all trials share with their neighbours, and of what only the rounds of one design do.
    shared: f64,
    drift: f64,
}

const STEADY: Noise = Noise { name: "", own: [0.0; 2], slow: [0.0; 2], shared: 0.0, drift: 0.0 };

/// Decay of what is shared from trial to trial, and of a drift from round to round.
const DECAY: f64 = 0.95;
const DRIFT_DECAY: f64 = 0.6;

const NOISES: [Noise; 7] = [
    Noise { name: "CV 2%", own: [0.02; 2], ..STEADY },
    Noise { name: "CV 5%", own: [0.05; 2], ..STEADY },
    Noise { name: "CV 7%, neighbours correlate with 0.38", own: [0.055; 2], shared: 0.045, ..STEADY },
    Noise { name: "CV 3%, 1 trial in 20 at 0.6 of its speed", own: [0.03; 2], slow: [0.05; 2], ..STEADY },
    Noise { name: "CV 3% and 10%", own: [0.03, 0.10], ..STEADY },
    Noise { name: "CV 3%, 1 trial in 10 of one design at 0.6", own: [0.03; 2], slow: [0.0, 0.1], ..STEADY },
    Noise {
        name: "each design drifts by itself, from round to round with 0.6",
        own: [0.02; 2],
        drift: 0.04,
        ..STEADY
    },
];

/// How comparisons are judged.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    /// Each by itself: the exact interval of the median, against 1; stopping by the designs' own intervals.
    Alone,
    /// All together, with the margin, by the interval of the median.
    Sign,
    /// The design as it is built.
    Built,
}

impl Method {
    fn ratio(self, pairs: &[(f64, f64)], level: f64) -> Option<Ratio> {
        if self == Method::Built {
            return ratio(pairs, level);
        }
        let logs: Vec<f64> = pairs.iter().map(|(a, b)| (a / b).ln()).collect();
        let of = estimate(&logs, level)?;
        let interval = of.interval.map(|(low, high)| (low.exp(), high.exp()));
        Some(Ratio { ratio: of.median.exp(), interval, rounds: of.trials, correlation: None })
    }
}

/// What a made-up session said: of each comparison a conclusion, and after how many rounds. `widest` is how wide an interval may be that
/// settles one.
fn made_up(noise: &Noise, gain: f64, method: Method, widest: f64, seed: u64) -> (Vec<Conclusion>, usize) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let answer = Answer {
        trials_min: 6,
        trials_max: ROUNDS_MAX as u32,
        budget: Nanos::from_secs(1),
        budget_asked: true,
        ..Answer::once()
    };
    let margins = Margins::of(&if method == Method::Alone {
        Answer { indifference: 0.0, ..answer.clone() }
    } else {
        answer.clone()
    });
    let each = |level| if method == Method::Alone { level } else { level_of_each(level, FAMILY) };
    let mut pairs: Vec<Vec<(f64, f64)>> = vec![Vec::new(); FAMILY];
    let mut drifts = [[0.0; 2]; FAMILY];
    let mut mood = 0.0;
    for n in 1..=ROUNDS_MAX {
        let mut round = [[0.0; 2]; FAMILY];
        let mut order: Vec<usize> = (0..2 * FAMILY).collect();
        (1..order.len())
            .rev()
            .for_each(|last| order.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize));
        for trial in order {
            let (workload, design) = (trial / 2, trial % 2);
            mood = DECAY * mood + (1.0 - DECAY * DECAY).sqrt() * noise.shared * normal(&mut rng);
            let drift = &mut drifts[workload][design];
            *drift = DRIFT_DECAY * *drift
                + (1.0 - DRIFT_DECAY * DRIFT_DECAY).sqrt() * noise.drift * normal(&mut rng);
            let slow = ((rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64) < noise.slow[design];
            let rate = if design == 1 { gain } else { 1.0 } * if slow { 0.6 } else { 1.0 };
            round[workload][design] = rate * (mood + *drift + noise.own[design] * normal(&mut rng)).exp();
        }
        for (pairs, [control, design]) in pairs.iter_mut().zip(round) {
            pairs.push((design, control));
        }
        // The stop rule looks at none but these.
        if n < ROUNDS_MAX && !stop::is_look(n as u32, answer.trials_min) {
            continue;
        }
        let side = |of: fn(&(f64, f64)) -> f64| {
            pairs.iter().map(move |p| Point::of(p.iter().map(of).collect(), 0.95))
        };
        let points: Vec<Point> = side(|p| p.0).chain(side(|p| p.1)).collect();
        let inner = each(1.0 - INNER_RISK * (1.0 - answer.level));
        let settled = || {
            pairs
                .iter()
                .all(|pairs| method.ratio(pairs, inner).is_some_and(|seen| margins.settled_at(&seen, widest)))
        };
        let reached = decide_points(&points, &answer, n as u32, Nanos(0)) == Decision::Reached;
        if n == ROUNDS_MAX || reached && (method == Method::Alone || settled()) {
            let said = |pairs: &Vec<(f64, f64)>| {
                let seen = method.ratio(pairs, each(answer.level));
                seen.map_or(Conclusion::Inconclusive, |seen| margins.conclude(Metric::Iops, &seen))
            };
            return (pairs.iter().map(said).collect(), n);
        }
    }
    (Vec::new(), 0)
}

const fn names_one(conclusion: Conclusion) -> bool {
    matches!(conclusion, Conclusion::Faster | Conclusion::Slower)
}

/// The table of made-up sessions.
pub fn made_up_table() -> String {
    let mut out = format!(
        "{SESSIONS} made-up sessions a cell, a design and the control under {FAMILY} workloads, precision 5%, at most {ROUNDS_MAX} rounds \
         (standard error 1.1 points at 5%, 2.5 at 50%). Before: each comparison by its own sign interval against 1. Sign: all \
         together against the margin of 2%, by sign intervals. As built: by signed ranks.\n\n\
         | trials | equal: sessions that call any faster or slower, before | sign | as built | 2% faster: as built | 10% faster: found, \
         before | rounds | sign | rounds | as built | rounds |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for noise in &NOISES {
        let percent = |count: usize, of: usize| format!("{:.1}%", count as f64 / of as f64 * 100.0);
        let run = |gain: f64, method: Method| -> (String, String, String) {
            let (mut sessions, mut found, mut rounds) = (0, 0, 0);
            for seed in 0..SESSIONS {
                let (said, n) = made_up(noise, gain, method, WIDEST, SEED + seed);
                sessions += usize::from(said.iter().any(|c| names_one(*c)));
                found += said.iter().filter(|c| **c == Conclusion::Faster).count();
                rounds += n;
            }
            let all = SESSIONS as usize;
            (
                percent(sessions, all),
                percent(found, all * FAMILY),
                format!("{:.1}", rounds as f64 / all as f64),
            )
        };
        let all = [Method::Alone, Method::Sign, Method::Built];
        let equal = all.map(|method| run(1.0, method).0).join(" | ");
        let margin = run(1.02, Method::Built).0;
        let found = all
            .map(|method| run(GAIN, method))
            .map(|(_, found, rounds)| format!("{found} | {rounds}"))
            .join(" | ");
        let _ = writeln!(out, "| {} | {equal} | {margin} | {found} |", noise.name);
    }
    out
}

/// The table of how wide an interval may be that settles a comparison.
pub fn widths_table() -> String {
    let noise = &NOISES[1];
    let mut out = format!(
        "{SESSIONS} made-up sessions a cell as above, {} (standard error of what stays open at most 1.0 points below 20%). The width is \
         that of the widest interval that settles a comparison, of what lies between the margins.\n\n\
         | width | equal: rounds | stay open | 10% faster: rounds | stay open |\n| --- | ---: | ---: | ---: | ---: |\n",
        noise.name
    );
    for widest in [1.0, WIDEST, 2.0] {
        let cell = |gain: f64| {
            let (mut open, mut rounds) = (0, 0);
            for seed in 0..SESSIONS {
                let (said, n) = made_up(noise, gain, Method::Built, widest, SEED + seed);
                open += said.iter().filter(|c| **c == Conclusion::Inconclusive).count();
                rounds += n;
            }
            let all = SESSIONS as f64;
            format!("{:.1} | {:.1}%", rounds as f64 / all, open as f64 / (all * FAMILY as f64) * 100.0)
        };
        let built = if widest == WIDEST { ", as built" } else { "" };
        let _ = writeln!(out, "| {widest}{built} | {} | {} |", cell(1.0), cell(GAIN));
    }
    out
}

fn parsed(text: &str) -> Result<Experiment, String> {
    ebbtide_experiment::parse(text, "claims").map_err(|errors| errors.to_string())
}

/// What each comparison's own sign interval against 1 says, as it was before.
fn alone(session: &Session, workload: usize, design: usize) -> bool {
    let experiment = &session.experiment;
    let asked = primary(&experiment.answer, &experiment.workloads[workload]);
    let values = |of: usize| -> Vec<f64> {
        let own = session
            .trials
            .iter()
            .filter(|r| (r.trial.design, r.trial.workload, r.trial.role) == (of, workload, Role::Candidate));
        own.filter_map(|record| match &record.outcome {
            Outcome::Samples(samples) => metric(samples, asked),
            Outcome::Failed(_) => None,
        })
        .collect()
    };
    let pairs: Vec<(f64, f64)> = values(design).into_iter().zip(values(experiment.control)).collect();
    let seen = Method::Alone.ratio(&pairs, experiment.answer.level).and_then(|seen| seen.interval);
    seen.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
}

/// The table of simulated sessions.
///
/// # Errors
/// When an experiment is wrong.
pub fn simulated_table() -> Result<String, String> {
    let first = read(&root().join("experiments/first-run.toml"))?;
    // Two designs on volumes of their own, which have moods and drift.
    let moody = |gain: f64| {
        let volume = |name: &str, iops: f64| {
            format!(
                "[volumes.{name}]\ncount = 2\nsize = \"1GiB\"\n[volumes.{name}.shape]\niops = {iops:.0}\nread_latency = {{ median = \
                 \"2ms\", p99 = \"9ms\" }}\nwrite_latency = \"2ms\"\ndrift = {{ sigma = 0.04, timescale = \"1m\" }}\n[volumes.{name}.shape.moods]\ngood = \
                 {{ dwell = \"2m\" }}\nbusy = {{ dwell = \"20s\", rate = 0.8 }}\n"
            )
        };
        let load = |name: &str, rw: &str| {
            format!("[workloads.{name}]\nrw = \"{rw}\"\nbs = \"4k\"\niodepth = 16\nruntime = \"1s\"\n")
        };
        format!(
            "name = \"moody\"\n{}{}[designs.a]\nlayout = \"stripe\"\nmembers = [\"a[0..1]\"]\n[designs.b]\nlayout = \"stripe\"\nmembers = \
             [\"b[0..1]\"]\n{}{}{}{}[answer]\ntrials_max = 30\nbudget = \"1h\"\n",
            volume("a", 400.0),
            volume("b", 400.0 * gain),
            load("read", "randread"),
            load("write", "randwrite"),
            load("mix", "randrw"),
            load("sequential", "read"),
        )
    };
    let mut out = format!(
        "{SIMULATED} sessions a row, seeds 1 to {SIMULATED}; a comparison that is named is called faster or slower.\n\n\
         | session | of them equal | sessions that name an equal one, each by itself (before) | as built | of the others, named: by \
         themselves | as built | rounds |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for (name, text, equal) in [
        ("`experiments/first-run.toml`", first, &["randread", "randwrite"][..]),
        ("two pairs of moody volumes, equal", moody(1.0), &["read", "write", "mix", "sequential"][..]),
        ("two pairs of moody volumes, one of them 10% faster", moody(GAIN), &[][..]),
    ] {
        let experiment = parsed(&text)?;
        let (mut false_before, mut false_built, mut found_before, mut found_built, mut rounds) =
            (0u64, 0u64, 0u64, 0u64, 0u64);
        for seed in 1..=SIMULATED {
            let session =
                session(&experiment, seed, Decider::new(&experiment)).map_err(|error| error.to_string())?;
            let analysis = analyse(&session);
            rounds += session.trials.iter().map(|r| u64::from(r.trial.round) + 1).max().unwrap_or(0);
            let (mut before, mut built) = (false, false);
            for (index, workload) in experiment.workloads.iter().enumerate() {
                let asked = primary(&experiment.answer, workload);
                let said =
                    analysis.comparisons.iter().find(|c| c.workload == workload.name && c.metric == asked);
                let (old, new) = (alone(&session, index, 1), said.is_some_and(|c| names_one(c.conclusion)));
                if equal.contains(&workload.name.as_str()) {
                    (before, built) = (before | old, built | new);
                } else {
                    (found_before, found_built) =
                        (found_before + u64::from(old), found_built + u64::from(new));
                }
            }
            (false_before, false_built) = (false_before + u64::from(before), false_built + u64::from(built));
        }
        let share = |count: u64, of: usize| match of {
            0 => "–".to_owned(),
            of => format!("{:.1}%", count as f64 / (of as u64 * SIMULATED) as f64 * 100.0),
        };
        let some = usize::from(!equal.is_empty());
        let others = family(&experiment) - equal.len();
        let _ = writeln!(
            out,
            "| {name} | {} of {} | {} | {} | {} | {} | {:.1} |",
            equal.len(),
            family(&experiment),
            share(false_before, some),
            share(false_built, some),
            share(found_before, others),
            share(found_built, others),
            rounds as f64 / SIMULATED as f64,
        );
    }
    Ok(out)
}

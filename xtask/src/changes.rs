//! How often `ebb changes` tells a change where there is none, and after how long it tells one: two tables of docs/statistics.md.
//!
//! Made-up canaries, one value every quarter of an hour. Noise is of the logarithm, so that values are lognormal.

use crate::races::normal;
use ebbtide_analysis::changes::{Change, FALSE_ALARMS, Point, find};
use ebbtide_analysis::estimate::median;
use ebbtide_model::units::UnixTime;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt::Write as _;

const SEED: u64 = 20_261_123;
/// Made-up years of each cell.
const YEARS: u64 = 100;
/// Made-up series with a change of each cell.
const CHANGES: u64 = 100;
/// Seconds between values, and values of a day and a year.
const EVERY: u64 = 900;
const OF_DAY: usize = 96;
const OF_YEAR: usize = 35_064;
/// 2026-01-01 00:00 UTC, in seconds since the epoch.
const BEGIN: u64 = 1_767_225_600;
/// Days before a change, and after it.
const BEFORE: usize = 60;
const AFTER: usize = 40;
const CORRELATIONS: [f64; 3] = [0.0, 0.5, 0.9];

/// How values vary about their level.
#[derive(Clone, Copy)]
struct Noise {
    name: &'static str,
    /// Standard deviation of the logarithm.
    sigma: f64,
    /// Half the daily cycle's range, of the logarithm.
    daily: f64,
    /// How much less everything is from 01:00 to 03:00, as a backup makes it.
    night: f64,
    /// Share of values that are a fifth of what they would be.
    spikes: f64,
    /// How much more it is on Saturdays and Sundays, of the logarithm.
    weekend: f64,
    /// Standard deviation of a drift with a memory of 12 hours, of the logarithm.
    drift: f64,
}

/// Decay of a drift from value to value.
const DRIFT_DECAY: f64 = 0.979;

const STEADY: Noise =
    Noise { name: "", sigma: 0.1, daily: 0.0, night: 0.0, spikes: 0.0, weekend: 0.0, drift: 0.0 };

const NOISES: [Noise; 7] = [
    Noise { name: "CV 10%", ..STEADY },
    Noise { name: "CV 30%", sigma: 0.3, ..STEADY },
    Noise { name: "CV 10%, daily cycle of 20% up and down", daily: 0.2, ..STEADY },
    Noise { name: "CV 10%, half as fast from 01:00 to 03:00", night: 0.7, ..STEADY },
    Noise { name: "CV 10%, one value in 50 a fifth", spikes: 0.02, ..STEADY },
    Noise { name: "CV 10%, daily cycle of 20%, 20% faster at weekends", daily: 0.2, weekend: 0.18, ..STEADY },
    Noise { name: "CV 10%, and a drift of 5% with a memory of 12 hours", drift: 0.05, ..STEADY },
];

impl Noise {
    /// So many values with the `correlation` of neighbours, from `step` on by its logarithm `by` higher.
    fn series(
        &self,
        rng: &mut Xoshiro256PlusPlus,
        correlation: f64,
        length: usize,
        (step, by): (usize, f64),
    ) -> Vec<Point> {
        let (mut state, mut drift) = (normal(rng), normal(rng));
        let innovation = (1.0 - correlation * correlation).sqrt();
        (0..length)
            .map(|index| {
                state = correlation * state + innovation * normal(rng);
                drift = DRIFT_DECAY * drift + (1.0 - DRIFT_DECAY * DRIFT_DECAY).sqrt() * normal(rng);
                let hour = (index % OF_DAY) as f64 / 4.0;
                let mut log = self.sigma * state + self.daily * (hour / 24.0 * std::f64::consts::TAU).sin();
                log += self.drift * drift;
                if (1.0..3.0).contains(&hour) {
                    log -= self.night;
                }
                if index / OF_DAY % 7 >= 5 {
                    log += self.weekend;
                }
                if index >= step {
                    log += by;
                }
                let spike = ((rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64) < self.spikes;
                let value = 5000.0 * log.exp() * if spike { 0.2 } else { 1.0 };
                Point { at: UnixTime::from_secs(BEGIN + index as u64 * EVERY), value }
            })
            .collect()
    }
}

/// Table of changes that are told where there are none.
pub fn false_alarms_table() -> String {
    let mut out = format!(
        "{YEARS} made-up years a figure without any change, a value every quarter of an hour: changes told per volume and year. \
         By the arithmetic at most {FALSE_ALARMS}; promised: at most 1.\n\n\
         | a volume's values | AR(1) 0 | 0.5 | 0.9 |\n| --- | ---: | ---: | ---: |\n"
    );
    for noise in NOISES {
        let _ = write!(out, "| {} |", noise.name);
        for correlation in CORRELATIONS {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
            let told: usize = (0..YEARS)
                .map(|_| find(&noise.series(&mut rng, correlation, OF_YEAR, (OF_YEAR, 0.0))).len())
                .sum();
            let _ = write!(out, " {:.3} |", told as f64 / YEARS as f64);
        }
        out.push('\n');
    }
    out
}

/// What came of one series with a change.
struct Seen {
    /// Hours until it was told.
    delay: Option<f64>,
    /// Hours between the moment that was told and the true one.
    off: Option<f64>,
    /// Whether the interval holds the true ratio.
    covered: bool,
}

fn seen(noise: &Noise, rng: &mut Xoshiro256PlusPlus, correlation: f64, ratio: f64) -> Seen {
    let step = BEFORE * OF_DAY + (rng.next_u64() % OF_DAY as u64) as usize;
    let length = (BEFORE + AFTER) * OF_DAY;
    let at = UnixTime::from_secs(BEGIN + step as u64 * EVERY);
    let hours = |from: UnixTime, to: UnixTime| (to.0 as f64 - from.0 as f64) / 3.6e12;
    let changes = find(&noise.series(rng, correlation, length, (step, ratio.ln())));
    let first: Option<&Change> = changes.iter().find(|change| change.told > at);
    Seen {
        delay: first.map(|change| hours(at, change.told)),
        off: first.map(|change| hours(at, change.at).abs()),
        covered: first.is_some_and(|change| change.ci.0 <= ratio && ratio <= change.ci.1),
    }
}

/// Table of how long a change takes to be told.
pub fn delays_table() -> String {
    let noise = NOISES[2];
    let mut out = format!(
        "{CHANGES} made-up series a row ({}), which change after {BEFORE} days and stay so for {AFTER}.\n\n\
         | step | AR(1) | told | median delay | 90% within | median distance of the moment told from the true one | 95% interval holds the \
         true ratio |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        noise.name
    );
    for loss in [0.10, 0.20, 0.63] {
        for correlation in CORRELATIONS {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
            let all: Vec<Seen> =
                (0..CHANGES).map(|_| seen(&noise, &mut rng, correlation, 1.0 - loss)).collect();
            let mut delays: Vec<f64> = all.iter().filter_map(|seen| seen.delay).collect();
            delays.sort_by(f64::total_cmp);
            let told = delays.len();
            let at = |share: f64| delays.get((share * CHANGES as f64) as usize).copied();
            let shown = |hours: Option<f64>| hours.map_or("-".to_owned(), hours_shown);
            let share = |count: usize| 100.0 * count as f64 / CHANGES as f64;
            let off = median(all.iter().filter_map(|seen| seen.off));
            let covered = all.iter().filter(|seen| seen.covered).count();
            let _ = writeln!(
                out,
                "| −{:.0}% | {correlation} | {:.0}% | {} | {} | {} | {:.0}% |",
                loss * 100.0,
                share(told),
                shown(at(0.5)),
                shown(at(0.9)),
                shown(off),
                100.0 * covered as f64 / told.max(1) as f64,
            );
        }
    }
    out
}

/// Hours, or days where there are many.
fn hours_shown(hours: f64) -> String {
    if hours < 48.0 { format!("{hours:.1} h") } else { format!("{:.1} days", hours / 24.0) }
}

//! The daily cycle of a series, and how much means of its hours vary.

use super::DAY;
use super::hours::Hour;
use crate::estimate::median;

/// Share of differences, the smallest ones, that a variance is computed from: a change of level or a disturbance spoils the others.
const KEPT: f64 = 0.8;
/// What the mean square of the smallest 80% of normal values is divided by to be the variance of all:
/// `1 - 2 q f(q) / 0.8` with `q = 1.2816`, the 90% quantile, and `f` the normal density.
const KEPT_OF_VARIANCE: f64 = 0.437_70;
/// How many independent values that variance is worth for each one kept and not kept (simulated).
const EFFICIENCY: f64 = 0.5;
/// Largest distance in hours at which correlation counts.
const FARTHEST: usize = 60;
/// Distances in hours at which values have nothing more to do with one another, and the same hour of the day.
const FAR: [usize; 3] = [DAY, 2 * DAY, 3 * DAY];
/// Days from which it is known how days vary.
const DAYS: usize = 14;
/// Days that are compared with one another: those of a week with those of its end too.
const DAYS_APART: usize = 3;
/// Hours of a day that count for its median.
const OF_DAY: usize = 12;
/// Variance of a median relative to that of a mean, of normal values: pi / 2.
const MEDIAN: f64 = std::f64::consts::FRAC_PI_2;
/// Least standard deviation of an hour, as a logarithm: measurements are no better than that.
const LEAST_DEVIATION: f64 = 0.001;

/// What is known of a series apart from its level.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// What hours of the day have more than the level, as a logarithm.
    cycle: [f64; DAY],
    /// Variance that the cycle has itself, in each hour of the day.
    cycle_variance: f64,
    /// Variance of one hour.
    pub variance: f64,
    /// Correlations at a distance of up to 0, 1, 2, .. hours summed up, and each times its distance.
    correlation: Vec<(f64, f64)>,
    /// How much more means of a day and longer vary than that makes them, as a ratio of variances.
    slow: f64,
    /// Degrees of freedom of the variance.
    pub freedom: f64,
}

impl Noise {
    /// What `hours`, at least a few days of them, show.
    pub fn of(hours: &[Hour]) -> Noise {
        let mut noise = Noise {
            cycle: cycle(hours),
            cycle_variance: 0.0,
            variance: 0.0,
            correlation: vec![(0.0, 0.0)],
            slow: 1.0,
            freedom: 1.0,
        };
        // A day later it is the same hour of the day: the cycle does not count.
        let logs: Vec<f64> = hours.iter().map(|hour| hour.log).collect();
        let far = FAR.iter().filter_map(|lag| half_square(&logs, *lag)).fold(0.0, f64::max);
        noise.variance = far.max(LEAST_DEVIATION * LEAST_DEVIATION);
        noise.shrink_cycle(hours.len());
        let rest: Vec<f64> = hours.iter().map(|hour| noise.rest(*hour)).collect();
        let squares = noise.correlate(&rest);
        noise.freedom = (rest.len() as f64 * EFFICIENCY / (1.0 + 2.0 * squares)).max(5.0);
        noise.slow = slow(&rest, noise.of_mean(DAY));
        noise
    }

    /// `hour` without the daily cycle.
    pub fn rest(&self, hour: Hour) -> f64 {
        hour.log - self.cycle[hour.of_day()]
    }

    /// Variance of the mean of so many hours in a row.
    pub fn of_mean(&self, hours: usize) -> f64 {
        let n = hours.max(1) as f64;
        // The sum of (1 - distance / n) r over all distances within them.
        let farthest = (self.correlation.len() - 1).min(hours.saturating_sub(1));
        let (sum, with_distance) = self.correlation[farthest];
        let sum = sum - with_distance / n;
        let slow = if hours >= DAY { self.slow } else { 1.0 };
        slow * self.variance / n * (1.0 + 2.0 * sum) + self.cycle_variance / hours.clamp(1, DAY) as f64
    }

    /// Draws the cycle towards none by what chance alone would make of it (James and Stein).
    fn shrink_cycle(&mut self, hours: usize) {
        let days = (hours as f64 / DAY as f64).max(1.0);
        let by_chance = MEDIAN * self.variance / days;
        let seen = self.cycle.iter().map(|c| c * c).sum::<f64>() / (DAY - 1) as f64;
        let kept = if seen > by_chance { 1.0 - by_chance / seen } else { 0.0 };
        self.cycle.iter_mut().for_each(|c| *c *= kept);
        self.cycle_variance = by_chance * kept;
    }

    /// Sums up correlations from the nearest distance on, up to where they are no more than chance makes (Geyer 1992); the sum of
    /// their squares.
    fn correlate(&mut self, rest: &[f64]) -> f64 {
        let chance = 1.0 / (rest.len().max(1) as f64).sqrt();
        let (mut sum, mut with_distance, mut squares) = (0.0, 0.0, 0.0);
        for distance in 1..=FARTHEST {
            let Some(half) = half_square(rest, distance) else { break };
            let correlation = 1.0 - half / self.variance;
            if correlation < chance {
                break;
            }
            sum += correlation;
            with_distance += distance as f64 * correlation;
            squares += correlation * correlation;
            self.correlation.push((sum, with_distance));
        }
        squares
    }
}

/// What the hours of the day differ by from their day's median; nothing of those that were seen on fewer than three days.
fn cycle(hours: &[Hour]) -> [f64; DAY] {
    let mut of_hours: [Vec<f64>; DAY] = Default::default();
    for day in hours.chunk_by(|one, next| one.day() == next.day()).filter(|day| day.len() >= OF_DAY) {
        let level = median(day.iter().map(|hour| hour.log)).unwrap_or(0.0);
        day.iter().for_each(|hour| of_hours[hour.of_day()].push(hour.log - level));
    }
    let mut cycle = [0.0; DAY];
    for (cell, values) in cycle.iter_mut().zip(&of_hours).filter(|(_, values)| values.len() >= 3) {
        *cell = median(values).unwrap_or(0.0);
    }
    let mean = cycle.iter().sum::<f64>() / DAY as f64;
    cycle.map(|cell| cell - mean)
}

/// Half the variance of the differences at a distance of `lag`: the variogram, from the smallest differences. `None` with fewer than
/// eight. A change of level, in weeks that have one, makes it larger where it spoils more of them than are left out.
fn half_square(values: &[f64], lag: usize) -> Option<f64> {
    let later = values.get(lag..)?;
    let mut squares: Vec<f64> = values.iter().zip(later).map(|(one, later)| (one - later).powi(2)).collect();
    let kept = (squares.len() as f64 * KEPT).round() as usize;
    if squares.len() < 8 {
        return None;
    }
    let (smaller, last, _) = squares.select_nth_unstable_by(kept - 1, f64::total_cmp);
    let sum = smaller.iter().sum::<f64>() + *last;
    Some(sum / kept as f64 / KEPT_OF_VARIANCE / 2.0)
}

/// How much more the means of days vary than `expected`, as a ratio of at least 1: from days up to three apart, which those of a week
/// and its end are too.
fn slow(rest: &[f64], expected: f64) -> f64 {
    let days: Vec<f64> = rest.chunks_exact(DAY).map(|day| day.iter().sum::<f64>() / DAY as f64).collect();
    if days.len() < DAYS {
        return 1.0;
    }
    let seen = (1..=DAYS_APART).filter_map(|lag| half_square(&days, lag)).fold(0.0, f64::max);
    (seen / expected).max(1.0)
}

//! The looks at a series, hour by hour, and what they find.

use super::hours::{HOUR_NS, Hour, counts, hours, ordered};
use super::noise::Noise;
use super::{BASELINE, Change, DAY, FALSE_ALARMS, LASTING, LEAST, LEVEL, Point};
use crate::estimate::{median, normal_outside, student};
use ebbtide_model::units::UnixTime;

/// Hours whose mean is compared with that of all before them.
const WINDOWS: [usize; 11] = [6, 9, 12, 18, 24, 36, 48, 72, 96, 168, 336];
/// Hours of a year (365.25 days).
const YEAR: f64 = 8766.0;
/// Least hours at the level before.
const BEFORE: usize = DAY;
/// Standard deviations with which an hour counts at most.
const CLIP: f64 = 4.0;
/// Hours since the last change over which noise is estimated at most: what was long ago says little of today.
const REMEMBERED: usize = 90 * DAY;
/// How far a stretch grows until its noise and level are estimated anew.
const GROWTH: f64 = 1.25;
/// Hours about a change in which its moment is looked for.
const ABOUT: u64 = 2;

/// A series, and what was found in it.
#[derive(Debug, Clone)]
pub struct Examined {
    pub hours: Vec<Hour>,
    /// As it was last estimated; nothing of a short series.
    pub noise: Option<Noise>,
    pub changes: Vec<Change>,
}

/// A change by the numbers of its hours in the series.
struct Found {
    /// First hour after it.
    at: usize,
    /// Last hour that was looked at to tell it.
    told: usize,
    noise: Noise,
}

pub fn examine(points: &[Point]) -> Examined {
    let points = ordered(points);
    let hours = hours(&points);
    let mut stretch = Stretch::new(&hours, threshold());
    let mut found: Vec<Found> = Vec::new();
    for now in 0..hours.len() {
        found.extend(stretch.look(now));
    }
    let ends = found.iter().skip(1).map(|next| next.at).chain([hours.len()]);
    let begins = [0].into_iter().chain(found.iter().map(|found| found.at));
    let of = |((found, begin), end): ((&Found, usize), usize)| told(found, (begin, end), &hours, &points);
    let changes = found.iter().zip(begins).zip(ends).filter_map(of).collect();
    Examined { noise: stretch.noise, hours, changes }
}

/// What a look may reach by chance, in standard deviations: `2 (1 - Phi(c)) * looks a year = FALSE_ALARMS`.
pub fn threshold() -> f64 {
    normal_outside(FALSE_ALARMS / (YEAR * WINDOWS.len() as f64))
}

/// What a value of Student's distribution with `freedom` degrees of freedom is of the normal one (Wallace 1959, his third bound).
pub fn normal_of_student(t: f64, freedom: f64) -> f64 {
    let eight = 8.0 * freedom;
    (freedom * libm::log1p(t * t / freedom)).sqrt() * (eight + 1.0) / (eight + 3.0)
}

/// The hours since the last change.
struct Stretch<'a> {
    hours: &'a [Hour],
    threshold: f64,
    /// Index of its first hour.
    begin: usize,
    noise: Option<Noise>,
    /// Whether the noise is that of the stretch before.
    inherited: bool,
    /// Hours at which noise and level are estimated next.
    estimate_at: usize,
    centre: f64,
    /// Sums of what its first 0, 1, 2, .. hours count.
    sums: Vec<f64>,
    /// For each of [`WINDOWS`], what its mean must differ by at least, by its own noise alone.
    bounds: [f64; WINDOWS.len()],
}

impl<'a> Stretch<'a> {
    fn new(hours: &'a [Hour], threshold: f64) -> Self {
        Stretch {
            hours,
            threshold,
            begin: 0,
            noise: None,
            inherited: false,
            estimate_at: BASELINE,
            centre: 0.0,
            sums: vec![0.0],
            bounds: [0.0; WINDOWS.len()],
        }
    }

    /// Takes the hour `now` in, and says what it shows.
    fn look(&mut self, now: usize) -> Option<Found> {
        if now + 1 - self.begin < self.estimate_at {
            self.count(now);
        } else {
            self.estimate(now);
        }
        self.change(now)
    }

    /// Estimates noise and level from the hours up to `now`.
    fn estimate(&mut self, now: usize) {
        let length = now + 1 - self.begin;
        if length >= BASELINE {
            let remembered = self.begin.max((now + 1).saturating_sub(REMEMBERED));
            let own = Noise::of(&self.hours[remembered..=now]);
            self.noise = Some(own);
            self.inherited = false;
        }
        let grown = (length as f64 * GROWTH).ceil() as usize;
        self.estimate_at = if self.inherited { grown.min(BASELINE.max(length + 1)) } else { grown };
        self.centre_on(now);
    }

    /// Sums up the hours to `now` about their median.
    fn centre_on(&mut self, now: usize) {
        let Some(noise) = &self.noise else { return };
        // A little less, for what rounding does to the exact comparison.
        self.bounds = WINDOWS.map(|window| self.threshold * noise.of_mean(window).sqrt() * (1.0 - 1e-9));
        self.centre =
            median(self.hours[self.begin..=now].iter().map(|hour| noise.rest(*hour))).unwrap_or(0.0);
        self.sums = vec![0.0];
        (self.begin..=now).for_each(|hour| self.count(hour));
    }

    /// Adds the hour `now` to the sums.
    fn count(&mut self, now: usize) {
        let Some(noise) = &self.noise else { return };
        let most = CLIP * noise.variance.sqrt();
        let value = (noise.rest(self.hours[now]) - self.centre).clamp(-most, most);
        let sum = self.sums.last().copied().unwrap_or(0.0) + value;
        self.sums.push(sum);
    }

    /// Mean of the hours `from` (of the stretch) up to, not including, `to`.
    fn mean(&self, from: usize, to: usize) -> f64 {
        (self.sums[to] - self.sums[from]) / (to - from) as f64
    }

    /// The change that the hours up to `now` show; the hours after it are then the new stretch.
    fn change(&mut self, now: usize) -> Option<Found> {
        let noise = self.noise.as_ref()?;
        let length = now + 1 - self.begin;
        let exceeds = |(window, bound): (&usize, &f64)| {
            let split = length.checked_sub(*window).filter(|before| *before >= BEFORE)?;
            let difference = self.mean(split, length) - self.mean(0, split);
            if difference.abs() < *bound {
                return None;
            }
            // The cheap bound first: Student's distribution only widens.
            let deviation = (noise.of_mean(*window) + noise.of_mean(split)).sqrt();
            let t = (difference / deviation).abs();
            let z = if t < self.threshold { t } else { normal_of_student(t, noise.freedom) };
            (z >= self.threshold).then_some((z, *window))
        };
        let windows = WINDOWS.iter().zip(&self.bounds);
        let (_, window) = windows.filter_map(exceeds).max_by(|one, other| one.0.total_cmp(&other.0))?;
        let at = self.locate(length, window);
        if length - at < LASTING || !self.lasts(at, length) {
            return None;
        }
        let (at, noise) = (self.begin + at, noise.clone());
        self.restart(at, now, noise.clone());
        Some(Found { at, told: now, noise })
    }

    /// The split of the first `length` hours that tells the two sides apart best, within twice `window` of their end.
    fn locate(&self, length: usize, window: usize) -> usize {
        let from = length.saturating_sub(2 * window).max(BEFORE);
        let contrast = |split: usize| {
            let (before, after) = (split as f64, (length - split) as f64);
            let difference = self.mean(split, length) - self.mean(0, split);
            difference.abs() * (before * after / (before + after)).sqrt()
        };
        (from..length).max_by(|one, other| contrast(*one).total_cmp(&contrast(*other))).unwrap_or(from)
    }

    /// Whether the level after `at` is another one, and still at the end of `length` hours.
    fn lasts(&self, at: usize, length: usize) -> bool {
        let Some(noise) = &self.noise else { return false };
        let rest = |from: usize, to: usize| {
            let hours = &self.hours[self.begin + from..self.begin + to];
            hours.iter().map(|hour| noise.rest(*hour)).collect::<Vec<f64>>()
        };
        let before = rest(at.saturating_sub(LEVEL), at);
        let after = rest(at, length);
        let late = &after[after.len() / 2..];
        let (Some(level), Some(now), Some(later)) = (median(&before), median(&after), median(late)) else {
            return false;
        };
        let step = now - level;
        let remains = (later - level) * step.signum() >= step.abs() / 2.0;
        // Where the hours since are noisier than those before, they count with their own variance.
        let own = after.iter().map(|value| (value - now).powi(2)).sum::<f64>() / (after.len() - 1) as f64;
        let noisier = (own / noise.variance).max(1.0);
        let variance = noise.of_mean(before.len()) + noisier * noise.of_mean(after.len());
        let z = normal_of_student(step.abs() / variance.sqrt(), noise.freedom);
        remains && step.abs() >= LEAST && z >= self.threshold
    }

    /// Begins a new stretch at `at`, of which the hours up to `now` are known.
    fn restart(&mut self, at: usize, now: usize, noise: Noise) {
        self.begin = at;
        self.noise = Some(noise);
        self.inherited = true;
        self.estimate(now);
    }
}

/// A change with its levels from its stretches, which begin and end there.
fn told(found: &Found, (begin, end): (usize, usize), hours: &[Hour], points: &[Point]) -> Option<Change> {
    let noise = &found.noise;
    let level = |from: usize, to: usize| {
        let level = median(hours[from..to].iter().map(|hour| noise.rest(*hour)))?;
        Some((level, noise.of_mean(to - from)))
    };
    let (before, variance_before) = level(begin.max(found.at.saturating_sub(LEVEL)), found.at)?;
    let (after, variance_after) = level(found.at, end.min(found.at + LEVEL))?;
    // Medians, which vary more than means.
    let deviation = ((variance_before + variance_after) * std::f64::consts::FRAC_PI_2).sqrt();
    let half = student(noise.freedom, 0.95)? * deviation;
    let ratio = after - before;
    Some(Change {
        at: moment(points, hours[found.at], noise, (before, after)),
        told: UnixTime((hours[found.told].number + 1) * HOUR_NS),
        before: libm::exp(before),
        after: libm::exp(after),
        ci: (libm::exp(ratio - half), libm::exp(ratio + half)),
    })
}

/// The first value after a change from one of `levels` to the other that shows in `hour`: the split with the least deviations from
/// them.
fn moment(points: &[Point], hour: Hour, noise: &Noise, (before, after): (f64, f64)) -> UnixTime {
    let from = UnixTime(hour.number.saturating_sub(ABOUT) * HOUR_NS);
    let to = UnixTime((hour.number + 1 + ABOUT) * HOUR_NS);
    let first = points.partition_point(|point| point.at < from);
    let last = points.partition_point(|point| point.at < to);
    let near: Vec<&Point> = points[first..last].iter().filter(|point| counts(point.value)).collect();
    // What is gained by taking a value for one after the change.
    let gain = |point: &Point| {
        let number = point.at.0 / HOUR_NS;
        let rest = noise.rest(Hour { number, log: libm::log(point.value) });
        (rest - before).abs() - (rest - after).abs()
    };
    let mut best = (f64::NEG_INFINITY, UnixTime(hour.number * HOUR_NS));
    let mut sum = 0.0;
    for point in near.iter().rev() {
        sum += gain(point);
        if sum >= best.0 {
            best = (sum, point.at);
        }
    }
    best.1
}

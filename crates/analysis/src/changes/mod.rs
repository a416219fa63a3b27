//! Lasting changes of level in series that are weeks to years long: when a volume became slower or faster, and whether its
//! siblings did.
//!
//! What a canary measures every quarter of an hour is correlated with what it measured before, follows the hours of the day, and
//! has spikes. Tests that take its values for independent ones find changes in most series that have none (docs/explanation/statistics.md).
//! What is done here, in this order:
//!
//! 1. The logarithms of the medians of each hour ([`hours`]): a spike is one value of four. Changes are ratios.
//! 2. The daily cycle and the noise, from at least [`BASELINE`] hours ([`noise`]): what the hours of the day have in common, and the
//!    variance of a mean of any number of hours, correlation included. Differences at a distance serve for both, which a change of
//!    level in between spoils only where they span it.
//! 3. After each hour, the mean of the last 6 to 336 hours against that of all hours before them since the last change ([`detect`]): the
//!    window-limited generalised likelihood ratio with an unknown level before (Lai 1995; Siegmund and Venkatraman 1995), with few
//!    lengths of window instead of all. Hours count with at most four standard deviations.
//! 4. The threshold comes from how often it may be wrong, [`FALSE_ALARMS`] a year. By the union bound, which holds whatever the
//!    correlation of the looks with one another, the expected number of false alarms in a year is at most the number of looks (hours times
//!    lengths) times the chance that one exceeds the threshold. That the noise is estimated is in Student's distribution. What is left,
//!    that noise is not Gaussian and not stationary, is measured: the table of docs/explanation/statistics.md.
//! 5. A second look: a change is told when it has lasted for [`LASTING`] hours and the later half of them is still far from the level
//!    before, with the noise that the hours since then have themselves, and by at least [`LEAST`]. Disturbances of a few hours are no
//!    changes.
//!
//! Whether and when a change is told depends on nothing that comes later; its levels, their interval and, by an hour or two, its moment
//! become more precise.

mod detect;
mod hours;
mod noise;
mod siblings;
#[cfg(test)]
mod tests;

pub use siblings::{Series, Siblings, VolumeChange, together};

use ebbtide_model::units::UnixTime;
use serde::Serialize;

/// Hours of a series that must be known before anything is told, a week; what changes within them is taken for noise.
pub const BASELINE: usize = 7 * DAY;
/// Hours that a change must have lasted.
pub const LASTING: usize = 12;
/// False alarms of one series in a year by the arithmetic, which is to leave room below the promised one for what is not Gaussian.
pub const FALSE_ALARMS: f64 = 0.1;
/// The least change that is told, as the natural logarithm of its ratio: 5%.
pub const LEAST: f64 = 0.05;
/// Hours of a day.
const DAY: usize = 24;
/// Hours before and after a change from which its levels are told: four weeks.
const LEVEL: usize = 28 * DAY;

/// One value of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// When it was measured.
    pub at: UnixTime,
    /// Any unit; a value that is no positive number is left out.
    pub value: f64,
}

/// A lasting change of level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The first value at the new level.
    pub at: UnixTime,
    /// The end of the hour after which it could be told.
    pub told: UnixTime,
    /// Level before: the median of up to four weeks, without the daily cycle, in the series' unit.
    pub before: f64,
    /// Level after it, until the next change.
    pub after: f64,
    /// 95% interval of `after / before`.
    pub ci: (f64, f64),
}

impl Change {
    /// The new level over the old one.
    pub fn ratio(&self) -> f64 {
        self.after / self.before
    }

    /// Seconds from the change until it could be told.
    pub fn delay_s(&self) -> f64 {
        self.told.0.saturating_sub(self.at.0) as f64 / 1e9
    }
}

/// The lasting changes of `points`, the earliest first. Their order does not matter.
pub fn find(points: &[Point]) -> Vec<Change> {
    detect::examine(points).changes
}

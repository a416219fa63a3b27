//! A series by the hour.

use super::{DAY, Point};
use crate::estimate::median_of_sorted;
use std::borrow::Cow;

/// Nanoseconds of an hour.
pub const HOUR_NS: u64 = 3_600_000_000_000;

/// What is known of one hour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hour {
    /// Hours since the epoch.
    pub number: u64,
    /// Natural logarithm of the median of its values.
    pub log: f64,
}

impl Hour {
    /// Hour of the day, UTC.
    pub fn of_day(self) -> usize {
        (self.number % DAY as u64) as usize
    }

    /// Days since the epoch.
    pub fn day(self) -> u64 {
        self.number / DAY as u64
    }
}

/// `points` in the order of time.
pub fn ordered(points: &[Point]) -> Cow<'_, [Point]> {
    if points.is_sorted_by_key(|point| point.at) {
        return Cow::Borrowed(points);
    }
    let mut sorted = points.to_vec();
    sorted.sort_by_key(|point| point.at);
    Cow::Owned(sorted)
}

/// Whether a value can be part of a ratio.
pub fn counts(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// The hours in which `points`, which are in order, have values.
pub fn hours(points: &[Point]) -> Vec<Hour> {
    let mut hours = Vec::new();
    let mut values = Vec::new();
    for of_hour in points.chunk_by(|one, next| one.at.0 / HOUR_NS == next.at.0 / HOUR_NS) {
        values.clear();
        values.extend(of_hour.iter().map(|point| point.value).filter(|value| counts(*value)));
        values.sort_by(f64::total_cmp);
        if let Some(median) = median_of_sorted(&values) {
            hours.push(Hour { number: of_hour[0].at.0 / HOUR_NS, log: libm::log(median) });
        }
    }
    hours
}

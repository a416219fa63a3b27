//! Several volumes together: whose change it was.

use super::detect::{Examined, examine};
use super::hours::{HOUR_NS, Hour};
use super::{BASELINE, Change, DAY, LEAST, Point};
use crate::estimate::median;
use serde::Serialize;

/// Hours before and after a change from which siblings are judged: a week.
const BESIDE: u64 = 7 * DAY as u64;
/// Least hours on either side.
const LEAST_HOURS: usize = 6;

/// What one volume's values show by themselves.
#[derive(Debug, Clone)]
pub struct Series {
    group: String,
    examined: Examined,
}

impl Series {
    /// Looks for changes in `points`, whose order does not matter. Volumes are compared with those of their `group`, which is what they
    /// have in common, such as their host and what was measured.
    pub fn new(group: String, points: &[Point]) -> Series {
        Series { group, examined: examine(points) }
    }

    /// Whether it is long enough for changes to be told.
    pub fn is_long_enough(&self) -> bool {
        self.examined.hours.len() >= BASELINE
    }
}

/// What the siblings did at a change of one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Siblings {
    /// How many are known before and after it.
    pub known: usize,
    /// How many of them changed at the same time in the same direction by a similar ratio.
    pub changed: usize,
}

impl Siblings {
    /// Whether the cause is shared: at least half of them changed too.
    pub fn same(self) -> bool {
        2 * self.changed >= self.known
    }
}

/// A change of one volume.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VolumeChange {
    /// Which of the series.
    pub series: usize,
    /// How it changed itself.
    pub change: Change,
    /// Nothing where no sibling is known.
    pub siblings: Option<Siblings>,
}

/// The lasting changes of all of `series`, the earliest first, each with what its siblings did.
pub fn together(series: &[Series]) -> Vec<VolumeChange> {
    let mut told: Vec<VolumeChange> = Vec::new();
    for (index, Series { group, examined: own }) in series.iter().enumerate() {
        for (number, change) in own.changes.iter().enumerate() {
            let next = own.changes.get(number + 1).map_or(u64::MAX, |next| next.at.0 / HOUR_NS);
            let others =
                series.iter().enumerate().filter(|(other, one)| *other != index && one.group == *group);
            let beside: Vec<bool> =
                others.filter_map(|(_, sibling)| changed_too(&sibling.examined, change, next)).collect();
            let changed = beside.iter().filter(|changed| **changed).count();
            let siblings = (!beside.is_empty()).then_some(Siblings { known: beside.len(), changed });
            told.push(VolumeChange { series: index, change: *change, siblings });
        }
    }
    told.sort_by_key(|told| (told.change.at, told.series));
    told
}

/// Whether `sibling` changed as much as `change`, which lasted up to the hour `next`: in the same direction, by half to twice of it.
/// `None` where it is not known on both sides.
fn changed_too(sibling: &Examined, change: &Change, next: u64) -> Option<bool> {
    let at = change.at.0.div_ceil(HOUR_NS);
    let until = next.min(at.saturating_add(BESIDE));
    let level = |from: u64, to: u64| {
        let first = sibling.hours.partition_point(|hour| hour.number < from);
        let last = sibling.hours.partition_point(|hour| hour.number < to);
        let hours = sibling.hours.get(first..last).filter(|hours| hours.len() >= LEAST_HOURS)?;
        let rest = |hour: &Hour| sibling.noise.as_ref().map_or(hour.log, |noise| noise.rest(*hour));
        median(hours.iter().map(rest))
    };
    // The hour of the change itself is of both levels.
    let before = level(at.saturating_sub(BESIDE + 1), at.saturating_sub(1))?;
    let own = level(at, until)? - before;
    let asked = libm::log(change.ratio());
    let similar = own.abs() >= asked.abs() / 2.0 && own.abs() <= asked.abs() * 2.0;
    Some(own * asked > 0.0 && similar && own.abs() >= LEAST / 2.0)
}

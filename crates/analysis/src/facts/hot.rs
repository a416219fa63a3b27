//! The one device of an array that the load waits for because it is given more of the load than its siblings.
//!
//! Derivation. A linear array of two disks of different size gives one of them more of the random operations, and all that go one after
//! the other; the array then gets through what that one does, divided by its share, while the other has time to spare. Nearly all operations
//! in flight are at it (Little's law), it is busy all the time and its siblings are not. That it is given more tells it from a slow one,
//! which has as much to do as its siblings, and from equals at their limit, at which the queue stays with one for a turn.

use super::case::{Case, in_most};
use super::crowded::array;
use crate::estimate::median;
use ebbtide_model::samples::{DeviceObservation, Join, TrialSamples};

/// Share of the operations in flight that are at it.
const WAITED_FOR: f64 = 0.70;
/// Busy share from which on it works all the time.
const BUSY: f64 = 0.90;
/// Its requests over those of its siblings: beyond the 10% by which equals at their limit differ while the queue is with one of them.
const MORE: f64 = 1.2;
/// Busy share of its siblings, as a part of its own, up to which they have time to spare.
const SPARE: f64 = 0.80;

/// See the module; in the trial in the middle.
#[derive(Debug, Clone, PartialEq)]
pub struct Hot {
    /// Its name as it is printed.
    pub name: String,
    /// What waits for it.
    pub array: String,
    /// How many devices the array has.
    pub of: usize,
    /// Its share of the requests.
    pub share: f64,
    /// Share of the operations in flight that are at it.
    pub waits: f64,
    /// Busy share.
    pub busy: f64,
    /// Busy share of its siblings: the middle one.
    pub siblings_busy: f64,
    /// Requests per second.
    pub rate: f64,
}

/// See [`Hot`]; nothing where it is not the same one in more than half of the trials.
pub fn hot(case: &Case<'_>) -> Option<Hot> {
    let same = |a: &Hot, b: &Hot| (&a.array, &a.name) == (&b.array, &b.name);
    in_most(case.trials, |trial| in_trial(case, trial).into_iter().collect(), same, |hot| hot.rate).pop()
}

/// Requests per second of the device of that name in a trial or a rung.
pub fn rate_of(trial: &TrialSamples, name: &str) -> Option<f64> {
    let device = trial.observed.as_ref()?.devices.iter().find(|device| device.shown_name() == name)?;
    let seconds = trial.elapsed.as_secs_f64();
    (seconds > 0.0).then(|| device.total.ops.total() as f64 / seconds)
}

fn in_trial(case: &Case<'_>, trial: &TrialSamples) -> Option<Hot> {
    let observed = trial.observed.as_deref()?;
    let (array, devices) = array(trial, Join::of_equals)?;
    let seconds = trial.elapsed.as_secs_f64();
    let mut devices: Vec<&DeviceObservation> =
        devices.iter().map(|(at, _)| observed.devices.get(*at)).collect::<Option<_>>()?;
    devices.sort_by_key(|device| device.total.weighted);
    let (hot, siblings) = devices.split_last()?;
    let requests = |device: &DeviceObservation| device.total.ops.total() as f64;
    let busy = |device: &DeviceObservation| (device.total.busy.as_secs_f64() / seconds).min(1.0);
    let usual = median(siblings.iter().map(|device| requests(device)))?;
    let all: f64 = devices.iter().map(|device| requests(device)).sum();
    let found = Hot {
        name: hot.shown_name().to_owned(),
        array: array.to_owned(),
        of: devices.len(),
        share: requests(hot) / all.max(1.0),
        waits: (hot.total.weighted.as_secs_f64() / seconds / case.kept().max(1.0)).min(1.0),
        busy: busy(hot),
        siblings_busy: median(siblings.iter().map(|device| busy(device)))?,
        rate: requests(hot) / seconds,
    };
    let is_hot = found.waits >= WAITED_FOR
        && found.busy >= BUSY
        && found.siblings_busy <= SPARE * found.busy
        && requests(hot) >= MORE * usual;
    (is_hot && all > 0.0).then_some(found)
}

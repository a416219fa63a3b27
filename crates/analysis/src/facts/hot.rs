//! The one device of an array that the load waits for because it is given more of the load than its siblings.
//!
//! Derivation. A linear array of two disks of different size gives one of them more of the random operations, and all that go one after
//! the other; the array then gets through what that one does, divided by its share, while the other has time to spare. Nearly all operations
//! in flight are at it (Little's law), it is busy all the time and its siblings are not. That it is given more tells it from a slow one,
//! which has as much to do as its siblings, and from equals at their limit, at which the queue stays with one for a turn.

use super::case::Case;
use crate::estimate::median;
use crate::members;
use ebbtide_model::samples::{DeviceObservation, TrialSamples};

/// Share of the operations in flight that are at it.
const WAITED_FOR: f64 = 0.70;
/// Busy share from which on it works all the time.
const BUSY: f64 = 0.90;
/// Its requests over those of its siblings: beyond the 10% by which equals at their limit differ while the queue is with one of them.
const MORE: f64 = 1.2;
/// Busy share of its siblings, as a part of its own, up to which they have time to spare.
const SPARE: f64 = 0.80;

/// See the module; medians over the trials.
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
    let each: Vec<Hot> = case.trials.iter().filter_map(|trial| in_trial(case, trial)).collect();
    let first = each.first()?;
    let same: Vec<&Hot> =
        each.iter().filter(|other| (&other.array, &other.name) == (&first.array, &first.name)).collect();
    if 2 * same.len() <= case.trials.len() {
        return None;
    }
    let of = |value: fn(&Hot) -> f64| median(same.iter().map(|hot| value(hot)));
    Some(Hot {
        share: of(|hot| hot.share)?,
        waits: of(|hot| hot.waits)?,
        busy: of(|hot| hot.busy)?,
        siblings_busy: of(|hot| hot.siblings_busy)?,
        rate: of(|hot| hot.rate)?,
        ..first.clone()
    })
}

/// Requests per second of the device of that name in a trial or a rung.
pub fn rate_of(trial: &TrialSamples, name: &str) -> Option<f64> {
    let device = trial.observed.as_ref()?.devices.iter().find(|device| device.shown_name() == name)?;
    let seconds = trial.elapsed.as_secs_f64();
    (seconds > 0.0).then(|| device.total.ops.total() as f64 / seconds)
}

fn in_trial(case: &Case<'_>, trial: &TrialSamples) -> Option<Hot> {
    let observed = trial.observed.as_deref()?;
    if let [_] = trial.members.as_slice() {
        let arrays = observed.members.iter().flat_map(|member| observed.arrays(member));
        return arrays.filter(|array| array.below.join.of_equals()).find_map(|array| {
            let name = array.device.and_then(|at| observed.devices.get(at))?.shown_name();
            let devices = array.below.devices.iter().map(|at| observed.devices.get(*at)).collect();
            of_devices(case, trial, name, devices)
        });
    }
    let worked = trial.members.iter().filter(|member| members::totals(member).ops > 0);
    let devices = worked.map(|member| {
        let first = *observed.member(&member.name)?.devices.first()?;
        observed.devices.get(first)
    });
    of_devices(case, trial, "the array", devices.collect())
}

fn of_devices(
    case: &Case<'_>,
    trial: &TrialSamples,
    array: &str,
    devices: Option<Vec<&DeviceObservation>>,
) -> Option<Hot> {
    let devices = devices.filter(|devices| devices.len() > 1)?;
    let seconds = trial.elapsed.as_secs_f64();
    let at = devices.iter().enumerate().max_by_key(|(_, device)| device.total.weighted)?.0;
    let siblings = || devices.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, device)| device);
    let requests = |device: &DeviceObservation| device.total.ops.total() as f64;
    let busy = |device: &DeviceObservation| (device.total.busy.as_secs_f64() / seconds).min(1.0);
    let hot = devices[at];
    let distinct = siblings().all(|device| device.name != hot.name);
    let usual = median(siblings().map(|device| requests(device)))?;
    let all: f64 = devices.iter().map(|device| requests(device)).sum();
    let found = Hot {
        name: hot.shown_name().to_owned(),
        array: array.to_owned(),
        of: devices.len(),
        share: requests(hot) / all.max(1.0),
        waits: (hot.total.weighted.as_secs_f64() / seconds / case.kept().max(1.0)).min(1.0),
        busy: busy(hot),
        siblings_busy: median(siblings().map(|device| busy(device)))?,
        rate: requests(hot) / seconds,
    };
    let is_hot = found.waits >= WAITED_FOR
        && found.busy >= BUSY
        && found.siblings_busy <= SPARE * found.busy
        && requests(hot) >= MORE * usual;
    (is_hot && distinct && requests(hot) > 0.0).then_some(found)
}

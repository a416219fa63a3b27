//! Queues of members' disks that were full: as many requests in flight as they hold.

use super::rungs::Step;
use super::*;
use crate::metrics::operations;
use ebbtide_model::samples::DeviceObservation;

/// Mean requests in flight over what the queue holds from which on it counts as full: the places of requests that complete
/// together are empty until somebody comes for them.
pub const FULL: f64 = 0.75;
/// How far the most that was seen in flight may be from what the queue holds: it is counted without a lock.
pub const AT_ITS_END: f64 = 0.02;
/// How much more requests may seem to be wanted than are: they are counted a moment longer than the operations.
pub const COUNTED: f64 = 0.05;
/// Requests that are wanted over what the queue holds, from which on some wait above it.
pub const WANTED: f64 = 1.25;
/// How many times as many requests at the device the compared runs have at least.
const APART: f64 = 1.5;

/// A disk's queue that was full.
#[derive(Debug, Clone, PartialEq)]
pub struct FullQueue {
    /// Kernel name of the disk.
    pub name: String,
    /// Requests that its queues held at once: each used one holds `each`.
    pub holds: f64,
    /// What one of its queues holds (`nr_requests`).
    pub each: u32,
    /// What its device takes at once (`queue_depth`), where that is known.
    pub device_depth: Option<u32>,
    /// Mean requests in flight at it.
    pub mean: f64,
    /// Requests at it for each operation of the array.
    pub per_operation: f64,
}

impl FullQueue {
    /// Requests that so many operations in flight have use for.
    pub fn wanted(&self, operations: f64) -> f64 {
        operations * self.per_operation
    }
}

/// Requests for each operation of the array, and mean requests in flight.
pub fn use_of(trial: &TrialSamples, device: &DeviceObservation) -> Option<(f64, f64)> {
    let operations = operations(trial) as f64;
    let requests = device.total.ops.total() as f64;
    let seconds = trial.elapsed.as_secs_f64();
    let usable = operations > 0.0 && requests > 0.0 && seconds > 0.0;
    usable.then(|| (requests / operations, device.total.weighted.as_secs_f64() / seconds))
}

/// The queues that were full in a trial in which `kept` operations were in flight.
fn full_in(trial: &TrialSamples, kept: f64) -> Vec<FullQueue> {
    let Some(observed) = trial.observed.as_deref() else { return Vec::new() };
    let judge = |(index, device): (usize, &DeviceObservation)| {
        let each = device.nr_requests.filter(|each| *each > 0)?;
        let (per_operation, mean) = use_of(trial, device)?;
        let seen = observed.series.iter().filter_map(|interval| interval.devices.get(index));
        let peak = seen.map(|device| device.in_flight).max()? as f64;
        // A thread that moves from processor to processor uses several queues.
        let used = (peak / f64::from(each)).round().clamp(1.0, f64::from(device.hardware_queues?.max(1)));
        let holds = used * f64::from(each);
        let at_its_end = (peak / holds - 1.0).abs() <= AT_ITS_END;
        let wanted = kept * per_operation;
        (at_its_end && mean >= FULL * holds && wanted >= WANTED * holds).then(|| FullQueue {
            name: device.shown_name().to_owned(),
            holds,
            each,
            device_depth: device.device_depth,
            mean,
            per_operation,
        })
    };
    observed.devices.iter().enumerate().filter_map(judge).collect()
}

/// The queues that were full in more than half of the trials; the fullest first.
fn full_in_most(trials: &[&TrialSamples], kept: f64) -> Vec<FullQueue> {
    let same = |a: &FullQueue, b: &FullQueue| (&a.name, a.holds) == (&b.name, b.holds);
    let mut found = in_most(trials, |trial| full_in(trial, kept), same, |full| full.mean);
    found.sort_by(|a, b| (b.mean / b.holds).total_cmp(&(a.mean / a.holds)));
    found
}

/// Operations in flight with which the fullest queue of these trials, where one was full, is half full.
pub fn half_full(trials: &[&TrialSamples], kept: u32) -> Option<u32> {
    let full = full_in_most(trials, f64::from(kept)).into_iter().next()?;
    let half = full.holds / 2.0 / full.per_operation;
    (half.round() >= 1.0).then_some(half.round() as u32).filter(|half| *half < kept)
}

/// The queues that were full in the trials; where none was, those that were in the rung with the most in flight.
pub fn full(case: &Case<'_>, rungs: Option<&Rungs<'_>>) -> Vec<FullQueue> {
    let found = full_in_most(case.trials, case.kept());
    match rungs.and_then(|rungs| rungs.deeper.last()) {
        Some(deepest) if found.is_empty() => {
            full_in_most(&[&deepest.rung.samples], f64::from(deepest.rung.in_flight))
        }
        _ => found,
    }
}

/// How the rate grows at least, beyond what chance makes of it, with each doubling of the requests at the device below what its
/// queue holds, and the run with fewer.
pub fn growth<'a>(case: &Case<'_>, rungs: &Rungs<'a>, full: &FullQueue) -> Option<(Step<'a>, f64)> {
    let here = full.wanted(case.kept()).min(full.holds);
    let fewer = |step: &&Step<'_>| full.wanted(f64::from(step.rung.in_flight)) * APART <= here;
    let fewer = rungs.shallower.iter().rfind(fewer)?;
    let times = here / full.wanted(f64::from(fewer.rung.in_flight));
    Some((*fewer, rungs.surely_over(fewer).powf(1.0 / times.log2())))
}

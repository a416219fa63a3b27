//! What the devices of the arrays below the members did, from the kernel's counters: an array that was there before the
//! trial has members too, which the layout of the design does not name.

use super::estimate::median;
use super::{ArrayBelow, DeviceShare};
use ebbtide_model::samples::{Below, DeviceObservation, TrialSamples};

/// An array below members of one trial.
#[derive(Debug, Clone)]
pub(super) struct Found<'a> {
    /// Its name as it is printed.
    pub name: &'a str,
    /// How it is put together.
    pub below: &'a Below,
    /// What it is made of.
    pub devices: Vec<&'a DeviceObservation>,
    /// Members of the design that rest on it.
    pub members: Vec<&'a str>,
}

/// What a file system over several devices is called.
const FILE_SYSTEM: &str = "the file system";

/// The arrays below the members of a trial, upper ones first, each once.
pub(super) fn of_trial(trial: &TrialSamples) -> Vec<Found<'_>> {
    let mut found: Vec<Found<'_>> = Vec::new();
    let Some(observed) = trial.observed.as_deref() else { return found };
    for member in &observed.members {
        for array in observed.arrays(member) {
            let device = array.device.and_then(|at| observed.devices.get(at));
            let name = device.map_or(FILE_SYSTEM, DeviceObservation::shown_name);
            let devices: Vec<&DeviceObservation> =
                array.below.devices.iter().filter_map(|at| observed.devices.get(*at)).collect();
            match found.iter_mut().find(|known| known.name == name && known.below == array.below) {
                Some(known) => known.members.push(&member.member),
                None => {
                    found.push(Found { name, below: array.below, devices, members: vec![&member.member] })
                }
            }
        }
    }
    found
}

/// The same array in one trial.
pub(super) fn same<'a>(trial: &'a TrialSamples, array: &ArrayBelow) -> Option<Found<'a>> {
    let is_it = |found: &Found<'_>| {
        found.name == array.name
            && found.devices.iter().map(|d| d.shown_name()).eq(array.devices.iter().map(|d| d.name.as_str()))
    };
    of_trial(trial).into_iter().find(is_it)
}

/// Requests of a device, and nanoseconds that one took; nothing where there was none.
pub(super) fn requests_and_wait(device: &DeviceObservation) -> (u64, Option<f64>) {
    let total = &device.total;
    let requests = total.ops.total();
    let time = total.time.read.plus(total.time.write).0;
    (requests, (requests > 0).then(|| time as f64 / requests as f64))
}

/// The arrays below the members of a design over its trials, in the order of the first trial that has each.
pub fn arrays(trials: &[&TrialSamples]) -> Vec<ArrayBelow> {
    let mut arrays: Vec<ArrayBelow> = Vec::new();
    for found in trials.iter().flat_map(|trial| of_trial(trial)) {
        let named = |name: &str| DeviceShare { name: name.to_owned(), ..DeviceShare::default() };
        let array = ArrayBelow {
            name: found.name.to_owned(),
            members: found.members.iter().map(|name| (*name).to_owned()).collect(),
            join: found.below.join,
            missing: found.below.missing,
            devices: found.devices.iter().map(|device| named(device.shown_name())).collect(),
        };
        if !arrays.iter().any(|known| known.name == array.name && known.devices == array.devices) {
            arrays.push(array);
        }
    }
    for array in &mut arrays {
        let shares: Vec<DeviceShare> =
            (0..array.devices.len()).map(|device| share(trials, array, device)).collect();
        array.devices = shares;
    }
    arrays
}

fn share(trials: &[&TrialSamples], array: &ArrayBelow, device: usize) -> DeviceShare {
    let [mut throughput, mut iops, mut wait, mut in_flight, mut busy] = [(); 5].map(|()| Vec::new());
    let (mut own, mut all) = (0u64, 0u64);
    for trial in trials.iter().filter(|trial| trial.elapsed.0 > 0) {
        let Some(found) = same(trial, array) else { continue };
        let Some(seen) = found.devices.get(device) else { continue };
        let seconds = trial.elapsed.as_secs_f64();
        let bytes = |d: &DeviceObservation| d.total.bytes.total();
        own = own.saturating_add(bytes(seen));
        all = found.devices.iter().fold(all, |sum, device| sum.saturating_add(bytes(device)));
        let (requests, each) = requests_and_wait(seen);
        throughput.push(bytes(seen) as f64 / seconds);
        iops.push(requests as f64 / seconds);
        wait.extend(each);
        in_flight.push(seen.total.weighted.as_secs_f64() / seconds);
        // Counters tick in milliseconds, and so a little more than the time may be counted.
        busy.push((seen.total.busy.as_secs_f64() / seconds).min(1.0));
    }
    DeviceShare {
        name: array.devices.get(device).map(|d| d.name.clone()).unwrap_or_default(),
        share: (all > 0).then(|| own as f64 / all as f64),
        throughput: median(&throughput).unwrap_or(0.0),
        iops: median(&iops).unwrap_or(0.0),
        wait: median(&wait),
        in_flight: median(&in_flight),
        busy: median(&busy),
    }
}

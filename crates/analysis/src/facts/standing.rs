//! How the devices of the members stood during a trial or a rung: busy, and with how many requests at them.

use super::*;
use crate::members;
use crate::observe::share_of_cores;
use ebbtide_model::samples::{CoreUse, CpuUse, DeviceObservation, DiskUse, Observation};
use ebbtide_model::units::Nanos;

/// Busy share of every member's device from which on it works all the time.
pub const BUSY: f64 = 0.90;
/// Share of the operations in flight that must be at the devices: what is on its way to or from them is not.
pub const AT_DEVICES: f64 = 0.50;
/// Busy share of all cores above which they, and not the devices, may be what serves no faster.
pub const HOST_BUSY: f64 = 0.90;

/// What a member's device did while all members were held up.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceLoad<'a> {
    /// Kernel name of the device that the member is, or lies on.
    pub device: &'a str,
    /// Share of the time with a request in flight, 0 to 1.
    pub busy: f64,
    /// Requests in flight on average.
    pub queue: f64,
    /// The same, each counted as often as requests were merged into it.
    pub merged: f64,
}

/// The devices that the members which worked are, or that their files lie on, each once; nothing where one of them was not
/// observed. What is below these may be shared with others.
pub fn tops(trial: &TrialSamples) -> Option<Vec<&DeviceObservation>> {
    let observed = trial.observed.as_ref()?;
    let worked = trial.members.iter().filter(|member| members::totals(member).ops > 0);
    let first = worked.map(|member| observed.member(&member.name)?.devices.first().copied());
    let mut indices = first.collect::<Option<Vec<usize>>>()?;
    indices.sort_unstable();
    indices.dedup();
    let devices: Option<Vec<_>> = indices.into_iter().map(|index| observed.devices.get(index)).collect();
    devices.filter(|devices| !devices.is_empty())
}

/// How they stood; nothing where one of them was not observed.
pub fn of(trial: &TrialSamples) -> Option<Vec<DeviceLoad<'_>>> {
    let seconds = trial.elapsed.as_secs_f64();
    let devices = tops(trial).filter(|_| seconds > 0.0)?;
    let stood = devices.into_iter().map(|device| {
        let DiskUse { ops, merged, busy, weighted, .. } = device.total;
        let queue = weighted.as_secs_f64() / seconds;
        DeviceLoad {
            device: &device.name,
            busy: (busy.as_secs_f64() / seconds).min(1.0),
            queue,
            merged: queue * (1.0 + merged.total() as f64 / ops.total().max(1) as f64),
        }
    });
    Some(stood.collect())
}

/// The devices together: medians over the trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Devices {
    /// Busy share of the least busy one, 0 to 1.
    pub least_busy: f64,
    /// Requests in flight at all of them.
    pub queue: f64,
    /// Share of the operations in flight that are at them: the others wait above. A copy for each member counts as often, and
    /// neighbours that were merged into one request each on their own. Requests that others made are left out as far as they are known.
    pub share: f64,
    /// The same with all requests that others made: it cannot be more.
    pub share_at_most: f64,
    /// How many they are.
    pub number: usize,
}

/// See [`Devices`]; nothing where they were not observed.
pub fn devices(case: &Case<'_>) -> Option<Devices> {
    let sum =
        |value: fn(&DeviceLoad<'_>) -> f64| case.median(|trial| Some(of(trial)?.iter().map(value).sum()));
    let merged = |trial: &TrialSamples| Some(of(trial)?.iter().map(|s| s.merged).sum::<f64>());
    let kept = case.kept().max(1.0);
    Some(Devices {
        least_busy: case.median(|trial| of(trial)?.iter().map(|s| s.busy).reduce(f64::min))?,
        queue: sum(|s| s.queue)?,
        share: case.median(|trial| Some(merged(trial)? * own_share(case, trial)))? / kept,
        share_at_most: case.median(merged)? / kept,
        number: case.trials.iter().filter_map(|trial| Some(of(trial)?.len())).max()?,
    })
}

/// Share of the requests at the members' devices that the trial made; 1 where that is not known, and where the devices are no
/// disks: what others do is then counted below them.
fn own_share(case: &Case<'_>, trial: &TrialSamples) -> f64 {
    let disks = moved::disks(trial).unwrap_or_default();
    let is_disk = |top: &&DeviceObservation| disks.iter().any(|disk| disk.name == top.name);
    let are_disks = tops(trial).is_some_and(|tops| tops.iter().all(is_disk));
    let others = moved::requested_by_others(trial, case.workload).filter(|_| are_disks);
    1.0 - others.unwrap_or(0.0)
}

/// Names of disks that have processors of their own, or a host's: no worker of this system has to run for them.
const HARDWARE: [&str; 6] = ["nvme", "sd", "vd", "xvd", "hd", "mmcblk"];

/// The device of a member that this system's processors serve, as they do a loop device; nothing where all are disks, or
/// none was observed.
pub fn served_here(case: &Case<'_>) -> Option<String> {
    let mut devices = case.trials.iter().filter_map(|trial| of(trial)).flatten();
    let software = |device: &str| !HARDWARE.iter().any(|prefix| device.starts_with(prefix));
    devices.find(|standing| software(standing.device)).map(|standing| standing.device.to_owned())
}

/// Busy share of all cores of the host together, median over the trials.
pub fn host_busy(case: &Case<'_>) -> Option<f64> {
    of_all_cores(case, |cpu| cpu.host_busy, |core| core.user.0 + core.system.0)
}

/// Share of all cores' time that the hypervisor took, median over the trials.
pub fn stolen(case: &Case<'_>) -> Option<f64> {
    of_all_cores(case, |cpu| cpu.host_steal, |core| core.steal.0)
}

/// Share of all cores' time as it was counted with the load's, else as `seen` says of each core.
fn of_all_cores(
    case: &Case<'_>,
    counted: fn(&CpuUse) -> Option<Nanos>,
    seen: fn(&CoreUse) -> u64,
) -> Option<f64> {
    case.median(|trial| {
        let time = counted(&trial.cpu).filter(|_| trial.elapsed.0 > 0 && trial.cpu.cores > 0);
        time.map(|time| part(trial, time) / f64::from(trial.cpu.cores))
            .or_else(|| share_of_cores(&trial.observed.as_ref()?.cores, seen))
    })
}

/// For how much of the time somebody of the host waited for a processor, for memory, for I/O (PSI), as far as the kernel told: the
/// load or anybody else. Medians over the trials.
pub fn waits(case: &Case<'_>) -> Vec<Evidence> {
    let figure = |what: &str, of: fn(&Observation) -> Option<Nanos>| {
        let share = case.median(|trial| Some(part(trial, of(trial.observed.as_ref()?)?)))?;
        let what = format!("share of the time that somebody waited for {what} (PSI)");
        Some(evidence(what, share, Unit::Share, None))
    };
    let waits = [
        figure("a processor", |observed| observed.processor_waits),
        figure("memory", |observed| observed.memory?.pressure_some),
        figure("I/O", |observed| observed.io_waits),
    ];
    waits.into_iter().flatten().collect()
}

/// The share of the operations in flight that are at the devices as a figure.
pub fn at_devices_is(share: f64) -> Evidence {
    share_is("share of the operations in flight that are at the devices", share, AT_DEVICES)
}

/// The busy share of the least busy device as a figure.
pub fn least_busy_is(busy: f64) -> Evidence {
    share_is("busy share of the least busy member's device", busy, BUSY)
}

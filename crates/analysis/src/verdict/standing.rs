//! How the devices of the members stood during a trial or a rung: busy, and with how many requests at them.

use super::{Case, evidence};
use crate::ladder::in_flight;
use crate::{Evidence, members};
use ebbtide_model::samples::{DeviceObservation, DiskUse, Observation, TrialSamples};
use ebbtide_model::units::Nanos;

/// A member's device.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing<'a> {
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
    let mut indices: Vec<usize> = Vec::new();
    for member in trial.members.iter().filter(|member| members::totals(member).0 > 0) {
        let found = observed.members.iter().find(|m| m.member == member.name)?;
        let device = *found.devices.first()?;
        if !indices.contains(&device) {
            indices.push(device);
        }
    }
    let devices: Option<Vec<_>> = indices.into_iter().map(|index| observed.devices.get(index)).collect();
    devices.filter(|devices| !devices.is_empty())
}

/// How they stood; nothing where one of them was not observed.
pub fn of(trial: &TrialSamples) -> Option<Vec<Standing<'_>>> {
    let seconds = trial.elapsed.as_secs_f64();
    let devices = tops(trial).filter(|_| seconds > 0.0)?;
    let stood = devices.into_iter().map(|device| {
        let DiskUse { ops, merged, busy, weighted, .. } = device.total;
        let queue = weighted.as_secs_f64() / seconds;
        Standing {
            device: &device.name,
            busy: (busy.as_secs_f64() / seconds).min(1.0),
            queue,
            merged: queue * (1.0 + merged.total() as f64 / ops.total().max(1) as f64),
        }
    });
    Some(stood.collect())
}

/// Busy share of the least busy of them, and requests in flight at all of them; medians over the trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Devices {
    /// Busy share of the least busy one, 0 to 1.
    pub least_busy: f64,
    /// Requests in flight at all of them.
    pub queue: f64,
    /// The same, each counted as often as requests were merged into it.
    pub merged: f64,
    /// How many they are.
    pub number: usize,
}

/// See [`Devices`]; nothing where they were not observed.
pub fn devices(case: &Case<'_>) -> Option<Devices> {
    let least = |trial: &TrialSamples| of(trial)?.iter().map(|s| s.busy).reduce(f64::min);
    let queue = |trial: &TrialSamples| Some(of(trial)?.iter().map(|s| s.queue).sum());
    let merged = |trial: &TrialSamples| Some(of(trial)?.iter().map(|s| s.merged).sum());
    let number = case.trials.iter().filter_map(|trial| Some(of(trial)?.len())).max()?;
    Some(Devices {
        least_busy: case.median(least)?,
        queue: case.median(queue)?,
        merged: case.median(merged)?,
        number,
    })
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

/// Share of the operations in flight that are at the devices of the members: the others wait above them. A copy for each
/// member counts as often, and neighbours that were merged into one request each on their own.
pub fn at_devices(case: &Case<'_>) -> Option<f64> {
    let kept = f64::from(in_flight(case.workload));
    devices(case).map(|devices| devices.merged / kept.max(1.0))
}

/// Busy share of all cores of the host together, median over the trials.
pub fn host_busy(case: &Case<'_>) -> Option<f64> {
    case.median(|trial| {
        let counted = trial.cpu.host_busy.filter(|_| trial.elapsed.0 > 0 && trial.cpu.cores > 0);
        let counted = counted
            .map(|busy| busy.as_secs_f64() / (trial.elapsed.as_secs_f64() * f64::from(trial.cpu.cores)));
        counted.or_else(|| cores(trial.observed.as_ref()?, |core| core.user.0 + core.system.0))
    })
}

/// Share of all cores' time that the hypervisor took, median over the trials.
pub fn stolen(case: &Case<'_>) -> Option<f64> {
    case.median(|trial| {
        let counted = trial.cpu.host_steal.filter(|_| trial.elapsed.0 > 0 && trial.cpu.cores > 0);
        let counted = counted
            .map(|stolen| stolen.as_secs_f64() / (trial.elapsed.as_secs_f64() * f64::from(trial.cpu.cores)));
        counted.or_else(|| cores(trial.observed.as_ref()?, |core| core.steal.0))
    })
}

/// Share of all cores' time that `of` says.
fn cores(observed: &Observation, of: fn(&ebbtide_model::samples::CoreUse) -> u64) -> Option<f64> {
    let all: u64 = observed
        .cores
        .iter()
        .map(|core| core.user.0 + core.system.0 + core.iowait.0 + core.steal.0 + core.idle.0)
        .sum();
    let part: u64 = observed.cores.iter().map(of).sum();
    (all > 0).then(|| part as f64 / all as f64)
}

/// For how much of the time somebody of the host waited for a processor, for memory, for I/O (PSI), as far as the kernel told: the
/// load or anybody else. Medians over the trials.
pub fn waits(case: &Case<'_>) -> Vec<Evidence> {
    let share = |of: fn(&Observation) -> Option<Nanos>| {
        case.median(|trial| Some(super::cpu::part(trial, of(trial.observed.as_ref()?)?)))
    };
    let waits = [
        ("a processor", share(|observed| observed.processor_waits)),
        ("memory", share(|observed| observed.memory?.pressure_some)),
        ("I/O", share(|observed| observed.io_waits)),
    ];
    let told = waits.into_iter().filter_map(|(what, share)| Some((what, share?)));
    let figure = |(what, share): (&str, f64)| {
        evidence(&format!("share of the time that somebody waited for {what} (PSI)"), share, "share", None)
    };
    told.map(figure).collect()
}

//! Disks of an array at which others are at work, while its other disks have time to spare: those that the load waits for.
//!
//! Derivation. An array gives each of its disks an equal part of the load, so that what all of them get is what the one that is
//! slowest for it gets through. What others take of the array's disks together says little of that: of the requests of four
//! disks a neighbour on one may make a fifth, and on that disk they are half. So it is the disk that is looked at. What the load asked of
//! it is known where it is a member of a design; below an array of the host its siblings say it: the median of the half
//! with the fewest requests, which has none of a neighbour that is on fewer than half of them. What a disk did beyond that, and beyond chance (a
//! Poisson count), others asked of it, if the array as a whole moved as much more than was asked of it: a load that goes to one
//! part of the array more than to others moves no more than it asks.
//!
//! The operations of the load that are in flight at such disks, of all that it keeps, are the part of its time that it waits there (Little's law);
//! whoever made them, requests of one queue wait alike. Of that part others explain their share of what the disk did.

use super::case::Case;
use super::moved;
use crate::estimate::median;
use crate::members;
use ebbtide_model::samples::{DeviceObservation, Join, Observation, TrialSamples};

/// Standard deviations of a Poisson count beyond which a disk has more requests than its part.
const BEYOND_CHANCE: f64 = 4.0;
/// Share of what such disks did beyond their part that the array must have moved beyond what was asked.
const NOT_ASKED: f64 = 0.5;
/// Share of the load's operations in flight that must be at them: then it waits for them more than for anything else.
const WAITED_FOR: f64 = 0.5;
/// Busy share of those disks from which on they work all the time.
const BUSY: f64 = 0.90;

/// The disks of one array at which others were at work, and what these had of them; medians over the trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Crowded {
    /// Names of the disks, as they are printed.
    pub disks: Vec<String>,
    /// Members of the design that are these disks; none where the disks are below an array of the host.
    pub members: Vec<String>,
    /// What waits for them: the name of the host's array, or `the array`.
    pub array: String,
    /// Share of their requests that others made.
    pub requests: f64,
    /// Requests of others per second.
    pub requests_rate: f64,
    /// Share of their bytes that others moved.
    pub bytes: f64,
    /// Bytes of others per second.
    pub bytes_rate: f64,
    /// Bytes of a request, whoever made it.
    pub mean_request: f64,
    /// Busy share of the least busy of them.
    pub busy: f64,
    /// Share of the load's operations in flight that are at them.
    pub waits: f64,
    /// Share of the load's requests that they serve.
    pub part: f64,
}

/// A disk of an array in one trial.
struct Part<'a> {
    disk: &'a DeviceObservation,
    /// The member that it is, in a design.
    member: Option<&'a str>,
    requests: f64,
    bytes: f64,
    /// Requests and bytes of the load, where they are known.
    own: Option<(f64, f64)>,
}

/// See [`Crowded`]; nothing where no such disks are seen in more than half of the trials.
pub fn crowded(case: &Case<'_>) -> Option<Crowded> {
    // Through the page cache the load's own requests come later and others than it made.
    if !case.workload.direct {
        return None;
    }
    let each: Vec<Crowded> = case.trials.iter().filter_map(|trial| in_trial(case, trial)).collect();
    let first = each.first()?;
    let same: Vec<&Crowded> =
        each.iter().filter(|other| other.array == first.array && other.disks == first.disks).collect();
    if 2 * same.len() <= case.trials.len() {
        return None;
    }
    let of = |value: fn(&Crowded) -> f64| median(same.iter().map(|crowded| value(crowded)));
    Some(Crowded {
        requests: of(|c| c.requests)?,
        requests_rate: of(|c| c.requests_rate)?,
        bytes: of(|c| c.bytes)?,
        bytes_rate: of(|c| c.bytes_rate)?,
        mean_request: of(|c| c.mean_request)?,
        busy: of(|c| c.busy)?,
        waits: of(|c| c.waits)?,
        part: of(|c| c.part)?,
        ..first.clone()
    })
}

/// The disks of a trial that count: those that the load waits for beside others, or all.
pub fn looked_at<'a>(
    trial: &'a TrialSamples,
    crowded: Option<&Crowded>,
) -> Option<Vec<&'a DeviceObservation>> {
    let mut disks = moved::disks(trial)?;
    if let Some(crowded) = crowded {
        disks.retain(|disk| crowded.disks.iter().any(|name| name == disk.shown_name()));
    }
    Some(disks)
}

fn in_trial(case: &Case<'_>, trial: &TrialSamples) -> Option<Crowded> {
    let observed = trial.observed.as_deref()?;
    let moved = moved::moved(trial)?;
    let beyond = moved::beyond(trial, &moved, case.workload);
    let of_design = Some(("the array".to_owned(), of_design(case, trial, observed)?))
        .filter(|(_, parts)| parts.len() > 1);
    let below = || {
        let member = observed.members.iter().filter(|_| trial.members.len() == 1);
        let arrays = member.flat_map(|member| observed.arrays(member));
        arrays.filter(|array| array.below.join.is_parallel()).find_map(|array| {
            let name = array.device.and_then(|at| observed.devices.get(at))?.shown_name().to_owned();
            Some((name, of_array(observed, &array.below.devices)?))
        })
    };
    let (array, parts) = of_design.or_else(below)?;
    judge(case, trial, beyond, array, &parts)
}

/// The disk that a device is, or lies on by itself.
fn disk_of(observed: &Observation, mut device: usize) -> Option<&DeviceObservation> {
    for _ in 0..=observed.devices.len() {
        let found = observed.devices.get(device)?;
        match &found.below {
            Some(below) if below.devices.len() == 1 && below.join == Join::Through => {
                device = below.devices[0];
            }
            Some(below) if !below.devices.is_empty() => return None,
            _ => return Some(found),
        }
    }
    None
}

fn part<'a>(disk: &'a DeviceObservation, member: Option<&'a str>, own: Option<(f64, f64)>) -> Part<'a> {
    let (requests, bytes) = (disk.total.ops.total() as f64, disk.total.bytes.total() as f64);
    Part { disk, member, requests, bytes, own }
}

/// The disks of a design's members: an empty list where they cannot be told apart, or the requests that their members made of them are not known.
fn of_design<'a>(
    case: &Case<'_>,
    trial: &'a TrialSamples,
    observed: &'a Observation,
) -> Option<Vec<Part<'a>>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    for member in trial.members.iter().filter(|member| members::totals(member).ops > 0) {
        let below = observed.member(&member.name)?;
        let disk = match observed.disks(below).as_slice() {
            [one] => observed.devices.get(*one)?,
            _ => return Some(Vec::new()),
        };
        let due = moved::requests_due(trial, member, case.workload);
        let Some(due) = due.filter(|_| parts.iter().all(|part| part.disk.name != disk.name)) else {
            return Some(Vec::new());
        };
        let bytes = members::totals(member).bytes as f64;
        parts.push(part(disk, Some(&member.name), Some((due.read + due.write, bytes))));
    }
    Some(parts)
}

/// The disks of an array that was there before.
fn of_array<'a>(observed: &'a Observation, devices: &[usize]) -> Option<Vec<Part<'a>>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    for device in devices {
        let disk = disk_of(observed, *device)?;
        if parts.iter().any(|part| part.disk.name == disk.name) {
            return None;
        }
        parts.push(part(disk, None, None));
    }
    Some(parts)
}

/// The median of the lower half.
fn lower_half(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.truncate((all.len() / 2).max(1));
    median(all)
}

fn judge(
    case: &Case<'_>,
    trial: &TrialSamples,
    beyond: f64,
    array: String,
    parts: &[Part<'_>],
) -> Option<Crowded> {
    let seconds = trial.elapsed.as_secs_f64();
    let usual = lower_half(parts.iter().map(|part| part.requests).collect())?;
    let usual_bytes = lower_half(parts.iter().map(|part| part.bytes).collect())?;
    let own = |part: &Part<'_>| part.own.unwrap_or((usual, usual_bytes));
    let more = |part: &&Part<'_>| part.requests > own(part).0 + BEYOND_CHANCE * own(part).0.sqrt();
    let crowded: Vec<&Part<'_>> = parts.iter().filter(more).collect();
    if crowded.is_empty() || crowded.len() == parts.len() || seconds <= 0.0 {
        return None;
    }
    let sum = |of: &dyn Fn(&Part<'_>) -> f64| crowded.iter().map(|part| of(part)).sum::<f64>();
    let (requests, bytes) = (sum(&|part| part.requests), sum(&|part| part.bytes));
    let others = sum(&|part| part.requests - own(part).0);
    let others_bytes = sum(&|part| (part.bytes - own(part).1).max(0.0));
    let in_flight = sum(&|part| {
        let queue = part.disk.total.weighted.as_secs_f64() / seconds;
        queue * (own(part).0 / part.requests).min(1.0)
    });
    let waits = (in_flight / case.kept().max(1.0)).min(1.0);
    let busy = crowded.iter().map(|part| part.disk.total.busy.as_secs_f64() / seconds).fold(1.0, f64::min);
    let spare = parts.iter().filter(|part| !crowded.iter().any(|one| one.disk.name == part.disk.name));
    let spare = median(spare.map(|part| part.disk.total.busy.as_secs_f64() / seconds))?;
    let part = sum(&|part| own(part).0) / parts.iter().map(|part| own(part).0).sum::<f64>();
    let seen = beyond >= NOT_ASKED * others_bytes && busy >= BUSY && spare < busy && waits >= WAITED_FOR;
    (seen && requests > 0.0 && bytes > 0.0 && part > 0.0).then(|| Crowded {
        disks: crowded.iter().map(|part| part.disk.shown_name().to_owned()).collect(),
        members: crowded.iter().filter_map(|part| part.member.map(str::to_owned)).collect(),
        array,
        requests: others / requests,
        requests_rate: others / seconds,
        bytes: others_bytes / bytes,
        bytes_rate: others_bytes / seconds,
        mean_request: bytes / requests,
        busy,
        waits,
        part,
    })
}

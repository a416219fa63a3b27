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

use super::*;
use crate::members;
use ebbtide_model::graph::Layers;
use ebbtide_model::samples::{DeviceObservation, MemberSamples};

/// Standard deviations of a Poisson count beyond which a disk has more requests than its part.
const BEYOND_CHANCE: f64 = 4.0;
/// Share of what such disks did beyond their part that the array must have moved beyond what was asked.
const NOT_ASKED: f64 = 0.5;
/// Share of the load's operations in flight that must be at them: then it waits for them more than for anything else.
const WAITED_FOR: f64 = 0.5;
/// Busy share of those disks from which on they work all the time.
const BUSY: f64 = 0.90;

/// The disks of one array at which others were at work, and what these had of them, in the trial in the middle.
#[derive(Debug, Clone, PartialEq)]
pub struct Crowded {
    /// Names of the disks, as they are printed.
    pub disks: Vec<String>,
    /// Members of the design that are these disks; none where the disks are below an array of the host.
    pub members: Vec<String>,
    /// What waits for them: the name of the host's array, or `the array`.
    pub array: String,
    /// What others had of them; busy is the least busy of them.
    pub taken: Taken,
    /// Share of the load's operations in flight that are at them.
    pub waits: f64,
    /// Share of the load's requests that they serve.
    pub part: f64,
}

/// What others had of some disks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken {
    /// Share of the bytes moved.
    pub share: f64,
    /// Bytes per second.
    pub rate: f64,
    /// Share of the requests and requests per second, where it is known how many the trial made.
    pub requests: Option<(f64, f64)>,
    /// Bytes of a request, whoever made it.
    pub mean_request: Option<f64>,
    /// Busy share of one of these disks.
    pub busy: f64,
}

/// See [`Crowded`]; nothing where no such disks are seen in more than half of the trials.
pub fn crowded(case: &Case<'_>) -> Option<Crowded> {
    // Through the page cache the load's own requests come later and others than it made.
    let trials = if case.workload.direct { case.trials } else { &[] };
    let same = |a: &Crowded, b: &Crowded| (&a.array, &a.disks) == (&b.array, &b.disks);
    in_most(trials, |trial| in_trial(case, trial).into_iter().collect(), same, |c| c.taken.rate).pop()
}

/// The disks of a trial that count: those that the load waits for beside others, or all.
pub fn looked_at<'a>(
    trial: &'a TrialSamples,
    crowded: Option<&Crowded>,
) -> Option<Vec<&'a DeviceObservation>> {
    let mut disks = moved::disks(trial)?;
    disks.retain(|disk| crowded.is_none_or(|c| c.disks.iter().any(|name| name == disk.shown_name())));
    Some(disks)
}

/// What an array is made of: its name, and the place of each device with the member that it is, in a design.
type Devices<'a> = (&'a str, Vec<(usize, Option<&'a MemberSamples>)>);

/// The array that a trial is on, each of whose devices is another: that of the design's members that worked, or the first below its only member that
/// works its devices at once.
fn array(trial: &TrialSamples) -> Option<Devices<'_>> {
    let observed = trial.observed.as_deref()?;
    let (name, devices) = if let [_] = trial.members.as_slice() {
        let mut arrays = observed.members.iter().flat_map(|member| observed.arrays(member));
        let array = arrays.find(|array| array.device.is_some() && array.below.join.is_parallel())?;
        let devices = array.below.devices.iter().map(|at| (*at, None)).collect();
        (observed.devices.get(array.device?)?.shown_name(), devices)
    } else {
        let worked = trial.members.iter().filter(|member| members::totals(member).ops > 0);
        let devices = worked.map(|m| Some((*observed.member(&m.name)?.devices.first()?, Some(m))));
        ("the array", devices.collect::<Option<Vec<_>>>()?)
    };
    let each: std::collections::BTreeSet<usize> = devices.iter().map(|(at, _)| *at).collect();
    (each.len() > 1 && each.len() == devices.len()).then_some((name, devices))
}

/// A disk of an array in one trial.
struct Part<'a> {
    disk: &'a DeviceObservation,
    member: Option<&'a MemberSamples>,
    requests: f64,
    bytes: f64,
    /// Requests and bytes of the load.
    own: (f64, f64),
}

/// The disks of the array of a trial, with what the load asked of them; nothing where they cannot be told apart, or it is not known.
fn parts<'a>(case: &Case<'_>, trial: &'a TrialSamples) -> Option<(&'a str, Vec<Part<'a>>)> {
    let observed = trial.observed.as_deref()?;
    let (name, devices) = array(trial)?;
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (at, member) in devices {
        let [disk] = observed.disks_below(&[at])[..] else { return None };
        let own = match member {
            Some(member) => {
                let due = moved::requests_due(trial, member, case.workload)?;
                (due.read + due.write, members::totals(member).bytes as f64)
            }
            None => (0.0, 0.0),
        };
        let disk = observed.devices.get(disk)?;
        let (requests, bytes) = (disk.total.ops.total() as f64, disk.total.bytes.total() as f64);
        parts.push(Part { disk, member, requests, bytes, own });
    }
    // What was asked of disks below an array of the host, most of them say.
    if trial.members.len() == 1 {
        let requests = lower_half(parts.iter().map(|part| part.requests).collect())?;
        let usual = (requests, lower_half(parts.iter().map(|part| part.bytes).collect())?);
        parts.iter_mut().for_each(|part| part.own = usual);
    }
    let once = |part: &Part<'_>| parts.iter().filter(|other| other.disk.name == part.disk.name).count() == 1;
    parts.iter().all(once).then_some((name, parts))
}

/// The median of the lower half.
fn lower_half(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.truncate((all.len() / 2).max(1));
    median(all)
}

fn in_trial(case: &Case<'_>, trial: &TrialSamples) -> Option<Crowded> {
    let seconds = trial.elapsed.as_secs_f64();
    let beyond = moved::beyond(trial, &moved::moved(trial)?, case.workload);
    let (array, parts) = parts(case, trial)?;
    let all_own: f64 = parts.iter().map(|part| part.own.0).sum();
    let more = |part: &Part<'_>| part.requests > part.own.0 + BEYOND_CHANCE * part.own.0.sqrt();
    let (crowded, spare): (Vec<Part<'_>>, Vec<Part<'_>>) = parts.into_iter().partition(more);
    let sum = |of: &dyn Fn(&Part<'_>) -> f64| crowded.iter().map(of).sum::<f64>();
    let (requests, bytes) = (sum(&|part| part.requests), sum(&|part| part.bytes));
    let others = sum(&|part| part.requests - part.own.0);
    let others_bytes = sum(&|part| (part.bytes - part.own.1).max(0.0));
    let in_flight =
        sum(&|part| part.disk.total.weighted.as_secs_f64() / seconds * part.own.0 / part.requests);
    let busy_share = |part: &Part<'_>| part.disk.total.busy.as_secs_f64() / seconds;
    let busy = crowded.iter().map(busy_share).fold(1.0, f64::min);
    let waits = (in_flight / case.kept().max(1.0)).min(1.0);
    let has_spare = median(spare.iter().map(busy_share))? < busy;
    let seen = beyond >= NOT_ASKED * others_bytes && busy >= BUSY && has_spare && waits >= WAITED_FOR;
    (seen && bytes > 0.0).then(|| Crowded {
        disks: crowded.iter().map(|part| part.disk.shown_name().to_owned()).collect(),
        members: crowded.iter().filter_map(|part| Some(part.member?.name.clone())).collect(),
        array: array.to_owned(),
        taken: Taken {
            share: others_bytes / bytes,
            rate: others_bytes / seconds,
            requests: Some((others / requests, others / seconds)),
            mean_request: Some(bytes / requests),
            busy,
        },
        waits,
        part: sum(&|part| part.own.0) / all_own,
    })
}

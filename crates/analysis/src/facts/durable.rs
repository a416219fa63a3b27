//! What of the time of a write that is made durable its disks had: their requests, and the flushes that empty their caches.
//!
//! Derivation. A disk counts a flush by itself (since Linux 5.5), and also as part of the request that asked for it: a write that has the
//! cache emptied before or after it completes when that is done, and its time is counted from its start (block/blk-flush.c:
//! the request leaves the flush machinery first, and is accounted then). So the time of requests without their flushes is the time of
//! the writes less that of the flushes.
//!
//! Arrays count no flushes: md and device mapper pass them on, each device below with one of its own. What their disks did is put together by how
//! the array is:
//!
//! ```text
//!              requests of an operation                   a flush
//! through      those of the one below                     that of the one below
//! mirror       one on every device at once: the slowest's  to every device at once: the slowest's
//! stripe       each on one device: their sum               likewise: all hold writes since the last
//! raid10       one on each of the copies at once           likewise
//! parity       data and parity at once, 1 + p devices      likewise
//! ```
//!
//! Sums are over all operations, and the largest sum of several devices is at most what the operations waited for: which was the slowest may
//! change from one to the next. What is missing is then told as the rest.

use super::case::Case;
use super::moved::{self, JOURNAL_REQUESTS};
use super::undisturbed;
use crate::metrics::operations;
use ebbtide_model::samples::{Below, DiskUse, Join, Observation, TrialSamples};
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::Workload;

/// Most requests of one write: its own, and a journal's. More of them are others', beside what is counted for flushes.
const MOST_REQUESTS: f64 = 1.0 + JOURNAL_REQUESTS;

/// Nanoseconds over a trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct AtDisks {
    /// Of requests, without the flushes that they waited for.
    requests: f64,
    /// Of flushes.
    flushes: f64,
}

impl AtDisks {
    fn zip(self, other: AtDisks, of: fn(f64, f64) -> f64) -> AtDisks {
        AtDisks { requests: of(self.requests, other.requests), flushes: of(self.flushes, other.flushes) }
    }
}

/// How each write is made durable; nothing where it is not.
pub fn how(workload: &Workload) -> Option<&'static str> {
    let details = &workload.details;
    match (workload.sync, details.fsync_every, details.fdatasync_every) {
        _ if !workload.writes() => None,
        (true, ..) => Some("O_SYNC"),
        (_, Some(1), _) => Some("fsync after each"),
        (_, _, Some(1)) => Some("fdatasync after each"),
        _ => None,
    }
}

/// The parts of which the time of a durable write consists, in nanoseconds, means over the operations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parts {
    /// From its submission to where it is durable.
    pub whole: f64,
    /// Requests of the disks.
    pub write: f64,
    /// Flushes of the disks.
    pub flush: f64,
}

impl Parts {
    /// What is none of the disks'.
    pub fn rest(&self) -> f64 {
        (self.whole - self.write - self.flush).max(0.0)
    }
}

/// Time of an operation, from the rate; what of it the disks below the members had requests or flushes.
pub fn parts(case: &Case<'_>, trial: &TrialSamples) -> Option<Parts> {
    let ops = operations(trial) as f64;
    if ops <= 0.0 {
        return None;
    }
    let whole = trial.elapsed.0 as f64 * f64::from(case.workload.numjobs) / ops;
    let disks = at_disks(trial, case.workload.reads())?;
    // Requests of one operation may overlap (a journal's and the file's), and others' count too.
    let flush = (disks.flushes / ops).min(whole);
    let write = (disks.requests / ops).min(whole - flush);
    Some(Parts { whole, write, flush })
}

/// Share of the time of flushes that they wait behind others: a flush waits for what was written, whoever wrote it; where others always have requests at the disks, for
/// these too.
pub fn flushes_behind_others(case: &Case<'_>) -> f64 {
    let written = case.median(|trial| moved::written_by_others(trial, case.workload)).unwrap_or(0.0);
    if !undisturbed::others_stay(case) {
        return written;
    }
    let requests = case.median(|trial| moved::requested_by_others(trial, case.workload));
    requests.map_or(written, |share| share.max(written))
}

/// What the disks below all members had; nothing where none was observed.
fn at_disks(trial: &TrialSamples, reads: bool) -> Option<AtDisks> {
    let observed = trial.observed.as_deref()?;
    let operations = operations(trial) as f64;
    let mut seen: Vec<usize> = Vec::new();
    let mut sum = AtDisks::default();
    for member in &observed.members {
        let below = match &member.below {
            Some(below) => below.clone(),
            None => Below { devices: observed.disks(member), join: Join::Through, missing: 0 },
        };
        if below.devices.is_empty() || below.devices.iter().all(|top| seen.contains(top)) {
            continue;
        }
        seen.extend(&below.devices);
        sum = sum.zip(of_array(observed, &below, operations, reads, 0), |a, b| a + b);
    }
    (!seen.is_empty()).then_some(sum)
}

/// What one device had: a damaged file may make it stand on itself, and ends there.
fn of_device(observed: &Observation, device: usize, operations: f64, reads: bool, depth: usize) -> AtDisks {
    let Some(found) = observed.devices.get(device) else { return AtDisks::default() };
    match found.below.as_ref().filter(|below| !below.devices.is_empty()) {
        Some(below) if depth < observed.devices.len() => {
            of_array(observed, below, operations, reads, depth + 1)
        }
        _ => of_disk(&found.total, operations, reads),
    }
}

fn of_disk(total: &DiskUse, operations: f64, reads: bool) -> AtDisks {
    let flushes = total.flush_time.unwrap_or(Nanos(0)).0 as f64;
    let own = MOST_REQUESTS * operations;
    let part = |count: u64, most: f64| (count as f64).min(most) / count.max(1) as f64;
    let written = own + total.flushes.unwrap_or(0) as f64;
    // Where they took less than the flushes, these were not counted with them.
    let writes = total.time.write.0 as f64;
    let writes = if writes >= flushes { writes - flushes } else { writes };
    let mut requests = writes * part(total.ops.write, written);
    if reads {
        requests += total.time.read.0 as f64 * part(total.ops.read, own);
    }
    AtDisks { requests, flushes }
}

fn of_array(observed: &Observation, below: &Below, operations: f64, reads: bool, depth: usize) -> AtDisks {
    let each = || below.devices.iter().map(|at| of_device(observed, *at, operations, reads, depth));
    let sum = || each().fold(AtDisks::default(), |a, b| a.zip(b, |a, b| a + b));
    let slowest = each().fold(AtDisks::default(), |a, b| a.zip(b, f64::max));
    // Of a device that works for an operation together with so many others.
    let together = |with: u32| sum().requests / f64::from(with.max(1));
    let requests = match below.join {
        Join::Mirror { .. } => slowest.requests,
        Join::StripedMirror { copies, .. } => together(copies),
        Join::Parity { parity, .. } => together(1 + parity),
        _ => sum().requests,
    };
    AtDisks { requests, flushes: slowest.flushes }
}

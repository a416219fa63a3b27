//! What of the time of a write that is made durable its disks had: their requests, and the flushes that empty their caches.
//!
//! Derivation. A disk counts a flush by itself (since Linux 5.5), and also as part of the request that asked for it: a write that has the
//! cache emptied before or after it completes when that is done, and its time is counted from its start (block/blk-flush.c:
//! the request leaves the flush machinery first, and is accounted then). So the time of requests without their flushes is the time of
//! the writes less that of the flushes.
//!
//! Arrays count no flushes: md and device mapper pass them on, each device below with one of its own, to all at once. Where `n` disks work for an
//! operation at once (copies, data and parity), it has an `n`th of their time; but all that the slowest had, for which it waits.
//!
//! Sums are over all operations, and the largest sum of several devices is at most what the operations waited for: which was the slowest may
//! change from one to the next. What is missing is then told as the rest.

use super::moved::JOURNAL_REQUESTS;
use super::*;
use crate::ArrayBelow;
use crate::metrics::operations;
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::samples::{DiskUse, Join};
use ebbtide_model::units::{Nanos, format_latency};
use ebbtide_model::workload::Workload;

/// Most requests of one write: its own, and a journal's. More of them are others', beside what is counted for flushes.
const MOST_REQUESTS: f64 = 1.0 + JOURNAL_REQUESTS;

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
    let (requests, flushes) = at_shapes(case, trial).or_else(|| at_disks(trial, case.workload.reads()))?;
    // Requests of one operation may overlap (a journal's and the file's), and others' count too.
    let flush = (flushes / ops).min(whole);
    let write = (requests / ops).min(whole - flush);
    Some(Parts { whole, write, flush })
}

/// Sums of what requests and flushes took, in nanoseconds, where this tool holds the volumes to shapes that say what a flush takes: the disk
/// below them is not what anything waits for.
fn at_shapes(case: &Case<'_>, trial: &TrialSamples) -> Option<(f64, f64)> {
    let flush = |name: &str| {
        let shape = case.shape(name).filter(|_| case.slowed_by_tool(name))?;
        Some(shape.character.flush_latency?.mean())
    };
    let each: Option<Vec<f64>> = case.working().map(|member| flush(&member.name)).collect();
    let slowest = each?.into_iter().reduce(f64::max)?;
    let (array, syncs) = (&trial.array, trial.execution.syncs.sum() as f64);
    let requests = (array.read.latency.sum() + array.write.latency.sum()) as f64;
    // A write with O_SYNC has its flush in it.
    let within = slowest * array.write.count.ops as f64;
    Some(if syncs > 0.0 { (requests, syncs) } else { ((requests - within).max(0.0), within) })
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

/// What an array makes of a write that is made durable, as clauses of a sentence with the measured figures; nothing of a single volume.
pub fn in_array(case: &Case<'_>) -> Option<(String, Vec<Evidence>)> {
    let below = case.result.below.first().filter(|_| case.result.members.len() == 1);
    let (number, is_redundant, copies, chunk) = match (&case.design.layout, below) {
        (_, Some(ArrayBelow { devices, join, .. })) => {
            let copies = matches!(join, Join::Mirror { .. } | Join::StripedMirror { .. });
            (devices.len(), join.is_redundant(), copies, join.chunk())
        }
        (layout @ LayoutNode::Array { kind, members }, None) => {
            let copies = kind.copies_on(members.len()) > 1;
            (members.len(), kind.facts().is_redundant(), copies, layout.smallest_chunk())
        }
        _ => return None,
    };
    let (mut clauses, mut figures) = (String::new(), Vec::new());
    if let Some(each) = case.median(|trial| flushes_of_each(case, trial)).filter(|each| *each >= FLUSHED) {
        let slowest = case.median(|trial| Some(parts(case, trial)?.flush));
        let takes = slowest.map_or(String::new(), |time| format!(", {} of it", format_latency(time)));
        let alone = if is_redundant { "" } else { ", where a log on one volume alone flushes one" };
        clauses.push_str(&format!(
            "; each flushes all {number} members and waits for the slowest{takes}{alone}"
        ));
        let what = "flushes for each write at the member with the fewest";
        figures.push(evidence(what, each, Unit::Times, Some(FLUSHED)));
    }
    let mut waits: Vec<(&str, f64)> = match below {
        Some(array) => array.devices.iter().filter_map(|d| Some((d.name.as_str(), d.wait?))).collect(),
        None => case.working().filter_map(|m| Some((m.name.as_str(), m.lat_p50?))).collect(),
    };
    waits.sort_by(|a, b| a.1.total_cmp(&b.1));
    if let ([(fast, least), .., (slow, most)], true) = (waits.as_slice(), copies) {
        let (least_is, most_is) = (format_latency(*least), format_latency(*most));
        clauses.push_str(&format!(
            "; each waits for the slower of its copies: {slow} takes {most_is}, {fast} {least_is}"
        ));
        let what = format!("time of a request at {slow}, the slowest copy, against {fast}");
        figures.push(evidence(what, *most, Unit::Nanoseconds, Some(*least)));
    }
    let bs = case.workload.bs;
    if let Some(chunk) = chunk.filter(|chunk| bs > *chunk) {
        let pieces = bs.0.div_ceil(chunk.0.max(1));
        clauses.push_str(&format!(
            "; a write of {bs} is larger than the chunk of {chunk} and becomes {pieces}, of which it waits for the slowest"
        ));
        let what = "bytes of a write, against the chunk";
        figures.push(evidence(what, bs.0 as f64, Unit::Bytes, Some(chunk.0 as f64)));
    }
    (number > 1 && !figures.is_empty()).then_some((clauses, figures))
}

/// Flushes for each write from which on every write is taken to flush a device.
const FLUSHED: f64 = 0.5;

/// Flushes for each write of a trial at the disk below the members that had the fewest; where this tool holds the volumes to their shapes, its
/// own, which go to every member.
fn flushes_of_each(case: &Case<'_>, trial: &TrialSamples) -> Option<f64> {
    let writes = trial.array.write.count.ops;
    let flushes = if trial.members.iter().any(|member| case.slowed_by_tool(&member.name)) {
        trial.execution.syncs.count()
    } else {
        moved::disks(trial)?.into_iter().map(|disk| disk.total.flushes).min()??
    };
    (writes > 0).then(|| flushes as f64 / writes as f64)
}

/// Volumes that this tool holds to a shape without a latency of flushes: what a flush takes is then this machine's own disk.
pub fn flushes_are_this_machines(case: &Case<'_>) -> bool {
    let mut held = case.working().filter(|member| case.slowed_by_tool(&member.name));
    held.any(|member| case.shape(&member.name).is_some_and(|shape| shape.character.flush_latency.is_none()))
}

/// What the disks below all members had, in nanoseconds: of requests without the flushes that they waited for, and of flushes; nothing where none
/// was observed.
fn at_disks(trial: &TrialSamples, reads: bool) -> Option<(f64, f64)> {
    let observed = trial.observed.as_deref()?;
    let operations = operations(trial) as f64;
    let mut seen: Vec<usize> = Vec::new();
    let mut sum = (0.0, 0.0);
    for member in &observed.members {
        let disks = observed.disks(member);
        if disks.iter().all(|disk| seen.contains(disk)) {
            continue;
        }
        let each = disks.iter().filter_map(|disk| observed.devices.get(*disk));
        let each: Vec<(f64, f64)> = each.map(|disk| of_disk(&disk.total, operations, reads)).collect();
        // So many disks work for an operation together.
        let together = observed.cost(member).write.write.most.clamp(1.0, disks.len() as f64);
        let slowest = |of: fn(&(f64, f64)) -> f64| each.iter().map(of).fold(0.0, f64::max);
        let requests = each.iter().map(|(requests, _)| requests).sum::<f64>() / together;
        sum.0 += requests.max(slowest(|(requests, _)| *requests));
        sum.1 += slowest(|(_, flushes)| *flushes);
        seen.extend(disks);
    }
    (!seen.is_empty()).then_some(sum)
}

fn of_disk(total: &DiskUse, operations: f64, reads: bool) -> (f64, f64) {
    let flushes = total.flush_time.unwrap_or(Nanos(0)).0 as f64;
    let own = MOST_REQUESTS * operations;
    let part = |count: u64, most: f64| (count as f64).min(most) / count.max(1) as f64;
    let written = own + total.flushes.unwrap_or(0) as f64;
    // Where they took less than the flushes, these were not counted with them.
    let writes = total.time.write.0 as f64;
    let writes = if writes >= flushes { writes - flushes } else { writes };
    let read = if reads { total.time.read.0 as f64 * part(total.ops.read, own) } else { 0.0 };
    (writes * part(total.ops.write, written) + read, flushes)
}

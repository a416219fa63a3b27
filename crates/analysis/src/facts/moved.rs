//! What the disks moved against what the trial asked of them.

use super::*;
use crate::members;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    Count, DeviceObservation, DiskUse, JobsBeside, Join, LeastMost, MemberSamples, OtherKind,
};
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Workload;

/// Hit share from which on a cache shapes the result: the ratio of cached to uncached speed then exceeds 1.2.
pub const HIT_SHARE: f64 = 0.20;

/// Bytes and requests of a trial: asked of the members, and moved by the disks below them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moved {
    /// Bytes that the trial asked of its members.
    pub asked: PerOp<u64>,
    /// Bytes that the disks have to move for it: as many where each is on one disk, twice as many to write to a mirror
    /// of two, and between bounds below parity.
    pub due: PerOp<LeastMost>,
    /// Operations that the workload issued.
    pub asked_ops: u64,
    /// Bytes that the disks moved, whoever asked.
    pub moved: PerOp<u64>,
}

const PAGE: u64 = 4096;

/// How many bytes more `bytes` in so many writes can be below parity, which is kept page by page (drivers/md/raid5.c): at most a
/// page at each end of a write, where they are no whole pages.
pub fn ends(bytes: u64, writes: u64) -> u64 {
    let whole_pages = writes == 0 || bytes.is_multiple_of(writes.saturating_mul(PAGE));
    if whole_pages { 0 } else { writes.saturating_mul(2 * PAGE) }
}

/// The disks below the members of a trial, each once; `None` when some member that worked has no observed disk.
pub fn disks(trial: &TrialSamples) -> Option<Vec<&DeviceObservation>> {
    let observed = trial.observed.as_ref()?;
    let worked = |member: &MemberSamples| members::totals(member).ops > 0;
    // A cache above the members may leave all of them idle.
    let idle = !trial.members.iter().any(worked);
    let mut indices: Vec<usize> = Vec::new();
    for member in trial.members.iter().filter(|member| idle || worked(member)) {
        let disks = observed.disks(observed.member(&member.name)?);
        if disks.is_empty() {
            return None;
        }
        indices.extend(disks);
    }
    indices.sort_unstable();
    indices.dedup();
    indices.into_iter().map(|index| observed.devices.get(index)).collect()
}

/// See [`Moved`]; `None` when the disks were not observed.
pub fn moved(trial: &TrialSamples) -> Option<Moved> {
    let disks = disks(trial).filter(|disks| !disks.is_empty())?;
    let observed = trial.observed.as_ref()?;
    let mut sum = Moved {
        asked: trial.members.iter().map(|member| members::bytes(&member.ops)).sum(),
        moved: disks.iter().map(|disk| disk.total.bytes).sum(),
        ..Moved::default()
    };
    let add = |due: &mut LeastMost, least: f64, most: f64| {
        due.least += least;
        due.most += most;
    };
    // Nothing of what is without bound is nothing.
    let times = |bytes: u64, by: f64| if bytes == 0 { 0.0 } else { bytes as f64 * by };
    for member in &trial.members {
        sum.asked_ops = sum.asked_ops.saturating_add(members::totals(member).ops);
        let Some(below) = observed.member(&member.name) else { continue };
        let (read, write) = (member.ops.read.count.bytes, member.ops.write.count);
        let (cost, ends) = (observed.cost(below), ends(write.bytes, write.ops));
        for (due, of_read, of_write) in [
            (&mut sum.due.read, cost.read.read, cost.write.read),
            (&mut sum.due.write, cost.read.write, cost.write.write),
        ] {
            add(due, times(read, of_read.least), times(read, of_read.most));
            // What is computed page by page moves more than was asked only where it moves more than once anyway.
            let ends = if of_write.most > of_write.least { ends } else { 0 };
            add(
                due,
                times(write.bytes, of_write.least),
                times(write.bytes.saturating_add(ends), of_write.most),
            );
        }
    }
    // Every byte that the application moves is asked of some member at least once, even where a cache above them
    // answers before they are asked.
    let array = members::bytes(&trial.array);
    let jobs = jobs_beside(trial).cloned().unwrap_or_default();
    for (asked, due, array, least, most) in [
        (&mut sum.asked.read, &mut sum.due.read, array.read, jobs.least.read, jobs.most.read),
        (&mut sum.asked.write, &mut sum.due.write, array.write, jobs.least.write, jobs.most.write),
    ] {
        let unasked = array.saturating_sub(*asked);
        *asked = asked.saturating_add(unasked);
        add(due, least as f64 + unasked as f64, most as f64 + unasked as f64);
    }
    Some(sum)
}

fn jobs_beside(trial: &TrialSamples) -> Option<&JobsBeside> {
    trial.observed.as_ref()?.jobs_beside.as_ref()
}

/// Requests that a file system's journal makes for one write that is made durable: the description of the change with the blocks
/// that changed, which are merged, and the commit (ext4: fs/jbd2/commit.c).
pub const JOURNAL_REQUESTS: f64 = 2.0;
/// Bytes of them: the description, an inode, a bitmap and the commit are a block each.
const JOURNAL_BYTES: f64 = (4 * PAGE) as f64;
/// XFS makes each record of its log as long as the chunk of the array below it, up to this (mkfs.xfs(8), `-l su`).
const LONGEST_LOG_UNIT: u64 = 256 * Bytes::KIB;

/// How often the trial had what it wrote made durable, for each of which a journal may commit.
fn made_durable(trial: &TrialSamples, workload: &Workload) -> f64 {
    let each = if workload.sync { trial.array.write.count.ops } else { 0 };
    trial.execution.syncs.count().saturating_add(each) as f64
}

/// Bytes that the disks moved beside those for what was asked, at most: those of the file system's journal, and of the bitmaps of arrays. A bitmap
/// takes a page on each device for a write to a part that nobody wrote to before (md-bitmap.c; LVM's copies have it too).
fn beside(trial: &TrialSamples, workload: &Workload) -> PerOp<f64> {
    let (durable, mut bitmaps) = (made_durable(trial, workload), 0.0);
    let mut journal = PerOp { read: 0.0, write: durable * JOURNAL_BYTES };
    for member in &trial.members {
        let Some((observed, below)) =
            trial.observed.as_ref().and_then(|observed| Some((observed, observed.member(&member.name)?)))
        else {
            continue;
        };
        let mut unit = JOURNAL_BYTES;
        for array in below.devices.iter().filter_map(|at| observed.devices.get(*at)?.below.as_ref()) {
            let pages = if array.join.is_redundant() { array.devices.len() as f64 } else { 0.0 };
            bitmaps += member.ops.write.count.ops as f64 * pages * PAGE as f64;
            unit = unit.max(array.join.chunk().map_or(0, |chunk| chunk.0.min(LONGEST_LOG_UNIT)) as f64);
        }
        let moves = observed.cost(below).write;
        if durable > 0.0 {
            journal.read = journal.read.max(durable * unit * moves.read.most);
            journal.write = journal.write.max(durable * unit * moves.write.most);
        }
    }
    PerOp { write: journal.write + bitmaps, ..journal }
}

/// Bytes that the disks moved beyond the most that the trial's operations can have taken: somebody else asked for them.
pub fn beyond(trial: &TrialSamples, moved: &Moved, workload: &Workload) -> f64 {
    let beside = beside(trial, workload);
    let read = moved.moved.read as f64 - moved.due.read.most - beside.read;
    let write = moved.moved.write as f64 - moved.due.write.most - beside.write;
    read.max(0.0) + write.max(0.0)
}

/// Share of the bytes written to the disks that somebody else wrote, at least; nothing where none were, or the disks were not observed.
pub fn written_by_others(trial: &TrialSamples, workload: &Workload) -> Option<f64> {
    let moved = moved(trial).filter(|moved| moved.moved.write > 0)?;
    let own = moved.due.write.most + beside(trial, workload).write;
    Some((1.0 - own / moved.moved.write as f64).max(0.0))
}

/// Whether an array was being built or checked during one of these trials.
pub fn resyncs(trials: &[&TrialSamples]) -> bool {
    let mut others = trials.iter().flat_map(|trial| &trial.observed).flat_map(|seen| &seen.others);
    others.any(|other| other.kind == OtherKind::Resync)
}

/// Share of the requests that are joined to others before a disk sees them, above which it is not known whose the rest are.
const JOINED: f64 = 0.10;

/// Requests that the disks of a trial served, and those of them that it cannot have asked for. Nothing where they were not
/// observed, where the trial goes through the page cache, or where it is not known how many requests one operation becomes
/// (below arrays, and where neighbours are merged).
pub fn requests(trial: &TrialSamples, workload: &Workload) -> Option<(f64, f64)> {
    let mut due = own_requests(trial, workload).filter(|_| workload.direct)?;
    if let Some(own) = jobs_beside(trial) {
        due += own.requests?.map(|requests| requests as f64);
    }
    let disks = disks(trial)?;
    let sum = |of: fn(&DiskUse) -> u64| disks.iter().map(|disk| of(&disk.total)).sum::<u64>() as f64;
    let (read, write) = (sum(|disk| disk.ops.read), sum(|disk| disk.ops.write));
    let others = (read - due.read).max(0.0) + (write - due.write).max(0.0);
    let all = read + write;
    (all > 0.0 && sum(|disk| disk.merged.total()) <= JOINED * all).then_some((all, others))
}

/// Requests that the disks of a trial serve for its operations at most, with those of a journal; nothing where that is not known.
fn own_requests(trial: &TrialSamples, workload: &Workload) -> Option<PerOp<f64>> {
    let mut due = PerOp { read: 0.0, write: made_durable(trial, workload) * JOURNAL_REQUESTS };
    for member in trial.members.iter().filter(|member| members::totals(member).ops > 0) {
        due += requests_of(trial, member)?;
    }
    Some(due)
}

/// Tells trials that ran at the same time, in one run, what the others of them had their disks do: none is another's background.
pub fn tell_jobs_beside(trials: &mut [(&Workload, &mut TrialSamples)]) {
    let told = |at: usize| {
        let mut sum = JobsBeside { requests: Some(PerOp::default()), ..JobsBeside::default() };
        let others = trials.iter().enumerate().filter(|(other, _)| *other != at);
        others.for_each(|(_, (workload, trial))| add_job(trial, workload, trials[at].1, &mut sum));
        sum
    };
    let told: Vec<JobsBeside> = (0..trials.len()).map(told).collect();
    for ((_, trial), own) in trials.iter_mut().zip(told) {
        if let Some(observed) = trial.observed.as_mut().filter(|_| !own.names.is_empty()) {
            observed.jobs_beside = Some(own);
        }
    }
}

/// Adds what a job had the disks of `other` do while that was measured: its operations are spread evenly over its time and its disks.
fn add_job(trial: &TrialSamples, workload: &Workload, other: &TrialSamples, sum: &mut JobsBeside) {
    let end = |trial: &TrialSamples| trial.started_unix.0.saturating_add(trial.elapsed.0);
    let begin = trial.started_unix.max(other.started_unix).0;
    let together = end(trial).min(end(other)).saturating_sub(begin);
    let (Some(own), Some(theirs), Some(moved)) = (disks(trial), disks(other), moved(trial)) else { return };
    let shared = own.iter().filter(|disk| theirs.iter().any(|known| known.name == disk.name)).count();
    if together == 0 || shared == 0 {
        return;
    }
    sum.names.push(workload.name.clone());
    if other.members.iter().any(is_counted_by_the_kernel) {
        return;
    }
    let part = together as f64 / trial.elapsed.0 as f64 * shared as f64 / own.len() as f64;
    let of = |whole: f64| (whole * part).round() as u64;
    let beside = beside(trial, workload);
    sum.least += moved.due.map(|due| of(due.least));
    sum.most +=
        PerOp { read: of(moved.due.read.most + beside.read), write: of(moved.due.write.most + beside.write) };
    let requests = own_requests(trial, workload).filter(|_| workload.direct);
    sum.requests = sum.requests.zip(requests).map(|(mut sum, more)| {
        sum += more.map(of);
        sum
    });
}

/// Whether what `member` did is known from its disk's counters alone: then all jobs on it are in it.
fn is_counted_by_the_kernel(member: &MemberSamples) -> bool {
    let ops = &member.ops;
    members::totals(member).ops > 0 && ops.read.latency.is_empty() && ops.write.latency.is_empty()
}

/// Share of the requests that somebody else made.
pub fn requested_by_others(trial: &TrialSamples, workload: &Workload) -> Option<f64> {
    requests(trial, workload).map(|(all, others)| others / all)
}

/// Requests that one member makes of its disk at most for what it was asked, with those of a journal; nothing where that is not known.
pub fn requests_due(trial: &TrialSamples, member: &MemberSamples, workload: &Workload) -> Option<PerOp<f64>> {
    let due = requests_of(trial, member)?;
    Some(PerOp { write: due.write + made_durable(trial, workload) * JOURNAL_REQUESTS, ..due })
}

/// The same of its operations alone; nothing where it is on several disks, or something above its disk makes other requests of what it gets.
fn requests_of(trial: &TrialSamples, member: &MemberSamples) -> Option<PerOp<f64>> {
    let observed = trial.observed.as_ref()?;
    let at = &observed.member(&member.name)?.devices;
    let path = at.iter().map(|at| observed.devices.get(*at)).collect::<Option<Vec<&DeviceObservation>>>()?;
    let plain = |device: &&DeviceObservation| {
        let below = device.below.as_ref().filter(|below| !below.devices.is_empty());
        below.is_none_or(|below| below.join == Join::Through) && !device.page_cached
    };
    if path.len() != 1 && !path.iter().all(plain) {
        return None;
    }
    let largest = path.iter().filter_map(|device| device.max_request).map(|most| most.0).min();
    let pieces = |Count { ops, bytes }: Count| {
        let each = largest.map_or(1, |most| bytes.div_ceil(ops.max(1)).div_ceil(most.max(1)).max(1));
        ops.saturating_mul(each) as f64
    };
    Some(member.ops.counts().map(pieces))
}

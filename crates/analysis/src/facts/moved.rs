//! What the disks moved against what the trial asked of them.

use crate::members;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    Count, DeviceObservation, JobsBeside, Join, LeastMost, MemberObservation, MemberSamples, OtherKind,
    TrialSamples,
};
use ebbtide_model::units::{Bytes, Nanos, UnixTime};
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
    let mut indices: Vec<usize> = Vec::new();
    // A cache above the members may leave all of them idle.
    let idle = trial.members.iter().all(|member| members::totals(member).ops == 0);
    for member in &trial.members {
        if members::totals(member).ops == 0 && !idle {
            continue;
        }
        let below = observed.member(&member.name)?;
        let disks = observed.disks(below);
        if disks.is_empty() {
            return None;
        }
        for disk in disks {
            if !indices.contains(&disk) {
                indices.push(disk);
            }
        }
    }
    indices.into_iter().map(|index| observed.devices.get(index)).collect()
}

/// See [`Moved`]; `None` when the disks were not observed.
pub fn moved(trial: &TrialSamples) -> Option<Moved> {
    let disks = disks(trial)?;
    if disks.is_empty() {
        return None;
    }
    let mut sum = Moved {
        asked: trial.members.iter().map(|member| members::bytes(&member.ops)).sum(),
        moved: disks.iter().map(|disk| disk.total.bytes).sum(),
        ..Moved::default()
    };
    for member in &trial.members {
        let (read, write) = (&member.ops.read.count, &member.ops.write.count);
        sum.asked_ops = sum.asked_ops.saturating_add(members::totals(member).ops);
        let ends = ends(write.bytes, write.ops);
        add_due(trial, &member.name, read.bytes, (write.bytes, ends), &mut sum.due);
    }
    // Every byte that the application moves is asked of some member at least once, even where a cache above them
    // answers before they are asked.
    let array = members::bytes(&trial.array);
    for (asked, array, due) in [
        (&mut sum.asked.read, array.read, &mut sum.due.read),
        (&mut sum.asked.write, array.write, &mut sum.due.write),
    ] {
        let unasked = array.saturating_sub(*asked);
        *asked = asked.saturating_add(unasked);
        due.least += unasked as f64;
        due.most += unasked as f64;
    }
    if let Some(own) = jobs_beside(trial) {
        for (due, least, most) in [
            (&mut sum.due.read, own.least.read, own.most.read),
            (&mut sum.due.write, own.least.write, own.most.write),
        ] {
            due.least += least as f64;
            due.most += most as f64;
        }
    }
    Some(sum)
}

/// See [`JobsBeside`].
pub fn jobs_beside(trial: &TrialSamples) -> Option<&JobsBeside> {
    trial.observed.as_ref()?.jobs_beside.as_ref()
}

/// Requests that a file system's journal makes for one write that is made durable: the description of the change with the blocks
/// that changed, which are merged, and the commit (ext4: fs/jbd2/commit.c).
pub const JOURNAL_REQUESTS: f64 = 2.0;

/// Bytes of them: the description, an inode, a bitmap and the commit are a block each.
const JOURNAL_BYTES: f64 = (4 * PAGE) as f64;
/// XFS makes each record of its log as long as the chunk of the array below it, or this long where that is more than [`LONGEST_LOG_UNIT`] (mkfs.xfs(8),
/// `-l su`).
const LOG_UNIT: u64 = 32 * Bytes::KIB;
const LONGEST_LOG_UNIT: u64 = 256 * Bytes::KIB;

/// How often the trial had what it wrote made durable, for each of which a journal may commit.
fn made_durable(trial: &TrialSamples, workload: &Workload) -> f64 {
    let each = if workload.sync { trial.array.write.count.ops } else { 0 };
    trial.execution.syncs.count().saturating_add(each) as f64
}

/// Bytes that arrays with copies or parity may have written of which parts of them are being written to: a page on each device for a write to a part
/// that nobody wrote to before (md-bitmap.c; LVM's copies have it too). Whether an array has such a bitmap is not known.
fn bitmaps(trial: &TrialSamples) -> f64 {
    let Some(observed) = trial.observed.as_ref() else { return 0.0 };
    let of_member = |member: &MemberSamples| {
        let devices = observed.member(&member.name).map_or(&[][..], |below| &below.devices);
        let below = devices.iter().filter_map(|at| observed.devices.get(*at)?.below.as_ref());
        let pages: usize =
            below.filter(|below| below.join.is_redundant()).map(|below| below.devices.len()).sum();
        member.ops.write.count.ops as f64 * pages as f64 * PAGE as f64
    };
    trial.members.iter().map(of_member).sum()
}

/// Bytes that a file system's journal asks for at most for one write that is made durable, below any of the members, and what the disks move for them.
fn journal(trial: &TrialSamples) -> PerOp<f64> {
    let none = PerOp { read: 0.0, write: JOURNAL_BYTES };
    let Some(observed) = trial.observed.as_ref() else { return none };
    let of_member = |member: &MemberSamples| {
        let below = observed.member(&member.name)?;
        let unit =
            |join: Join| join.chunk().map_or(0, |c| if c.0 <= LONGEST_LOG_UNIT { c.0 } else { LOG_UNIT });
        let units =
            below.devices.iter().filter_map(|at| Some(unit(observed.devices.get(*at)?.below.as_ref()?.join)));
        let bytes = JOURNAL_BYTES.max(units.max().unwrap_or(0) as f64);
        let moves = observed.cost(below).write;
        Some(PerOp { read: bytes * moves.read.most, write: bytes * moves.write.most })
    };
    let each = trial.members.iter().filter_map(of_member);
    each.fold(none, |most, one| PerOp { read: most.read.max(one.read), write: most.write.max(one.write) })
}

/// Bytes that the disks moved beside those for what was asked, at most: for the file system's journal, and of arrays for their parts.
fn beside(trial: &TrialSamples, workload: &Workload) -> PerOp<f64> {
    let durable = made_durable(trial, workload);
    if durable == 0.0 {
        return PerOp { read: 0.0, write: bitmaps(trial) };
    }
    let PerOp { read, write } = journal(trial);
    PerOp { read: durable * read, write: durable * write + bitmaps(trial) }
}

/// Bytes that the disks moved beyond the most that the trial's operations can have taken: somebody else asked for them.
pub fn beyond(trial: &TrialSamples, moved: &Moved, workload: &Workload) -> f64 {
    let beyond = |moved: u64, due: f64| (moved as f64 - due).max(0.0);
    let (due, beside) = (moved.due, beside(trial, workload));
    beyond(moved.moved.read, due.read.most + beside.read)
        + beyond(moved.moved.write, due.write.most + beside.write)
}

/// Share of the bytes written to the disks that somebody else wrote, at least; nothing where none were, or the disks were not observed.
pub fn written_by_others(trial: &TrialSamples, workload: &Workload) -> Option<f64> {
    let moved = moved(trial).filter(|moved| moved.moved.write > 0)?;
    let all = moved.moved.write as f64;
    let own = moved.due.write.most + beside(trial, workload).write;
    Some((1.0 - own / all).max(0.0))
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
    trial.observed.as_ref().filter(|_| workload.direct)?;
    let mut due = own_requests(trial, workload)?;
    if let Some(own) = jobs_beside(trial) {
        let requests = own.requests?;
        due = PerOp { read: due.read + requests.read as f64, write: due.write + requests.write as f64 };
    }
    let (mut all, mut merged, mut beyond) = (0.0, 0.0, PerOp { read: 0.0, write: 0.0 });
    for disk in disks(trial)? {
        all += disk.total.ops.total() as f64;
        merged += disk.total.merged.total() as f64;
        beyond.read += disk.total.ops.read as f64;
        beyond.write += disk.total.ops.write as f64;
    }
    let others = (beyond.read - due.read).max(0.0) + (beyond.write - due.write).max(0.0);
    (all > 0.0 && merged <= JOINED * all).then_some((all, others))
}

/// Requests that the disks of a trial serve for its operations at most, with those of a journal; nothing where that is not known.
fn own_requests(trial: &TrialSamples, workload: &Workload) -> Option<PerOp<f64>> {
    let mut due = PerOp { read: 0.0, write: made_durable(trial, workload) * JOURNAL_REQUESTS };
    for member in trial.members.iter().filter(|member| members::totals(member).ops > 0) {
        let of_member = requests_of(trial, member)?;
        due = PerOp { read: due.read + of_member.read, write: due.write + of_member.write };
    }
    Some(due)
}

/// Tells trials that ran at the same time, in one run, what the others of them had their disks do: none is another's background.
pub fn tell_jobs_beside(trials: &mut [(&Workload, &mut TrialSamples)]) {
    let each: Vec<Job> = trials.iter().map(|(workload, trial)| Job::of(trial, workload)).collect();
    for (at, (_, trial)) in trials.iter_mut().enumerate() {
        let mut own = JobsBeside { requests: Some(PerOp::default()), ..JobsBeside::default() };
        let others = each.iter().enumerate().filter(|(other, _)| *other != at);
        others.for_each(|(_, other)| other.beside(&each[at], &mut own));
        if let Some(observed) = trial.observed.as_mut().filter(|_| !own.names.is_empty()) {
            observed.jobs_beside = Some(own);
        }
    }
}

/// One of several trials at the same time.
struct Job {
    name: String,
    begins: UnixTime,
    elapsed: Nanos,
    disks: Vec<String>,
    due: PerOp<LeastMost>,
    requests: Option<PerOp<f64>>,
}

impl Job {
    fn of(trial: &TrialSamples, workload: &Workload) -> Job {
        let mut due = moved(trial).unwrap_or_default().due;
        let beside = beside(trial, workload);
        due.read.most += beside.read;
        due.write.most += beside.write;
        let names = disks(trial).unwrap_or_default().into_iter().map(|disk| disk.name.clone());
        Job {
            name: workload.name.clone(),
            begins: trial.started_unix,
            elapsed: trial.elapsed,
            disks: names.collect(),
            due,
            requests: own_requests(trial, workload).filter(|_| workload.direct),
        }
    }

    /// Adds what this job had the disks of `other` do while that was measured: its operations are spread evenly over its time and its disks.
    fn beside(&self, other: &Job, sum: &mut JobsBeside) {
        let end = |job: &Job| job.begins.0.saturating_add(job.elapsed.0);
        let together = end(self).min(end(other)).saturating_sub(self.begins.max(other.begins).0);
        let shared = self.disks.iter().filter(|disk| other.disks.contains(disk)).count();
        if together == 0 || shared == 0 {
            return;
        }
        let part = together as f64 / self.elapsed.0 as f64 * shared as f64 / self.disks.len() as f64;
        let of = |whole: f64| (whole * part).round() as u64;
        sum.names.push(self.name.clone());
        sum.least += PerOp { read: of(self.due.read.least), write: of(self.due.write.least) };
        sum.most += PerOp { read: of(self.due.read.most), write: of(self.due.write.most) };
        sum.requests = sum.requests.zip(self.requests).map(|(mut sum, more)| {
            sum += more.map(of);
            sum
        });
    }
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

/// The same of its operations alone.
fn requests_of(trial: &TrialSamples, member: &MemberSamples) -> Option<PerOp<f64>> {
    let below = trial.observed.as_ref()?.member(&member.name)?;
    let path = devices_of_one_disk(trial, below)?;
    let largest = path.iter().filter_map(|device| device.max_request).map(|most| most.0).min();
    let pieces = |asked: Count| {
        let pieces = largest.filter(|most| *most > 0).map_or(asked.ops, |most| {
            asked.bytes.div_ceil(asked.ops.max(1)).div_ceil(most).saturating_mul(asked.ops)
        });
        pieces as f64
    };
    Some(PerOp { read: pieces(member.ops.read.count), write: pieces(member.ops.write.count) })
}

/// The devices from a member down to its disk; nothing where they are several, or one makes other requests of what it gets.
fn devices_of_one_disk<'a>(
    trial: &'a TrialSamples,
    below: &MemberObservation,
) -> Option<Vec<&'a DeviceObservation>> {
    let observed = trial.observed.as_ref()?;
    let path: Option<Vec<_>> = below.devices.iter().map(|index| observed.devices.get(*index)).collect();
    path.filter(|path| {
        let plain = |device: &&DeviceObservation| {
            let join =
                device.below.as_ref().filter(|below| !below.devices.is_empty()).map(|below| below.join);
            join.is_none_or(|join| join == Join::Through) && !device.page_cached
        };
        path.len() == 1 || path.iter().all(plain)
    })
}

/// Adds what the disks below `member` have to move for so many bytes read, and written with so many more at the ends.
fn add_due(trial: &TrialSamples, member: &str, read: u64, write: (u64, u64), due: &mut PerOp<LeastMost>) {
    let observed = trial.observed.as_ref();
    let below = observed.and_then(|o| Some((o, o.member(member)?)));
    let Some(cost) = below.map(|(observed, below)| observed.cost(below)) else { return };
    let add = |due: &mut LeastMost, bytes: u64, ends: u64, by: LeastMost| {
        let times = |bytes: u64, by: f64| if bytes == 0 { 0.0 } else { bytes as f64 * by };
        due.least += times(bytes, by.least);
        // What is computed page by page moves more than was asked only where it moves more than once anyway.
        let more = if by.most > by.least { ends } else { 0 };
        due.most += times(bytes.saturating_add(more), by.most);
    };
    add(&mut due.read, read, 0, cost.read.read);
    add(&mut due.write, read, 0, cost.read.write);
    add(&mut due.read, write.0, write.1, cost.write.read);
    add(&mut due.write, write.0, write.1, cost.write.write);
}

//! Writes units and keeps the ledger.

use crate::buffers::{Buffers, check_memory};
use crate::error::{EngineError, MemberFailure};
use crate::target::{Target, lock};
use ebbtide_model::backend::Control;
use ebbtide_model::layout::Extent;
use ebbtide_model::units::{ArrayOffset, Bytes};
use ebbtide_model::verify::{Entry, Stamp, stamp};
use ebbtide_model::workload::{Access, Generator, OpKind, Regions, Workload};
use rustix::io::{Errno, pwrite};
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Most writes in flight: each is a thread.
const SLOTS_MAX: u32 = 256;

/// What came of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Bytes of those writes.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether it was stopped before its end.
    pub stopped: bool,
    /// Longest time in which no write was acknowledged, from the start or an acknowledgement to the next or the end.
    pub longest_pause: Duration,
    /// Longest time that a single write took.
    pub slowest: Duration,
}

/// Where the ledger goes.
#[derive(Debug, Clone, Copy)]
pub struct Book<'a> {
    /// The file, to which lines are appended.
    pub file: &'a File,
    /// Whether it is durable that a write began before it begins, with all acknowledgements until then: then it is known after a power cut too
    /// what may be there.
    pub durable: bool,
}

/// When the last acknowledgement was, and how long it took at most until one.
#[derive(Debug)]
struct Pauses {
    last: Instant,
    longest: Duration,
    slowest: Duration,
}

impl Pauses {
    fn acknowledged(&mut self, now: Instant, took: Duration) {
        self.longest = self.longest.max(now.saturating_duration_since(self.last));
        self.slowest = self.slowest.max(took);
        self.last = self.last.max(now);
    }
}

/// What all slots see.
struct All<'a> {
    target: &'a Target,
    control: &'a Control,
    ledger: Book<'a>,
    run: u64,
    unit: Bytes,
    /// Number of the next write.
    next: AtomicU64,
    written: AtomicU64,
    /// Offsets that somebody is writing: two writes of one place in flight would have no order.
    busy: Mutex<HashSet<ArrayOffset>>,
    failed: AtomicBool,
    pauses: Mutex<Pauses>,
    end: Option<Instant>,
}

/// Runs the writes of `workload` (its iodepth and numjobs as threads) on `target` and appends to `ledger` what began and
/// what was acknowledged. `unit` divides the block size.
///
/// # Errors
/// When the workload does not fit, a member fails, or the ledger cannot be written.
pub fn write(
    target: &Target,
    workload: &Workload,
    (run, unit): (u64, Bytes),
    ledger: Book<'_>,
    control: &Control,
) -> Result<Written, EngineError> {
    if !target.map.supports_write() {
        return Err(EngineError::ParityWrite);
    }
    let slots = workload.numjobs.saturating_mul(workload.iodepth);
    if slots > SLOTS_MAX {
        return Err(EngineError::Threads { slots, most: SLOTS_MAX });
    }
    check_memory(workload, workload.numjobs, workload.iodepth)?;
    let regions = match workload.access {
        Access::Sequential => Regions::Own,
        Access::Random => Regions::Shared,
    };
    let mut cut = Workload { numjobs: slots, iodepth: 1, ..workload.clone() };
    cut.details.regions = regions;
    let generators = (0..slots)
        .map(|slot| Generator::new(&cut, target.map.capacity(), run, slot))
        .collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    let end = workload.time().map(|time| started + Duration::from_nanos(time.0));
    let all = All {
        target,
        control,
        ledger,
        run,
        unit,
        next: AtomicU64::new(1),
        written: AtomicU64::new(0),
        busy: Mutex::new(HashSet::new()),
        failed: AtomicBool::new(false),
        pauses: Mutex::new(Pauses { last: started, longest: Duration::ZERO, slowest: Duration::ZERO }),
        end,
    };
    let results: Vec<Result<(), EngineError>> = std::thread::scope(|scope| {
        let running: Vec<_> = generators
            .into_iter()
            .map(|generator| {
                let all = &all;
                scope.spawn(move || {
                    let result = slot(all, generator);
                    if result.is_err() {
                        all.failed.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        running.into_iter().map(|slot| slot.join().unwrap_or(Err(EngineError::ThreadDied))).collect()
    });
    results.into_iter().collect::<Result<Vec<()>, EngineError>>()?;
    if workload.end_fsync {
        for member in &target.members {
            member
                .file
                .sync_all()
                .map_err(|source| EngineError::System { what: "fsync a member", source })?;
        }
    }
    let writes = all.written.load(Ordering::Relaxed);
    let mut pauses = lock(&all.pauses);
    pauses.acknowledged(Instant::now(), Duration::ZERO);
    Ok(Written {
        longest_pause: pauses.longest,
        slowest: pauses.slowest,
        writes,
        bytes: writes * workload.bs.0,
        elapsed: started.elapsed(),
        stopped: control.stop.load(Ordering::Relaxed),
    })
}

/// One slot of the queue.
fn slot(all: &All<'_>, mut generator: Generator) -> Result<(), EngineError> {
    let mut left = generator.budget();
    let mut buffers: Option<Buffers> = None;
    loop {
        let over = all.end.is_some_and(|end| Instant::now() >= end) || left == Some(Bytes(0));
        if over || all.control.stop.load(Ordering::Relaxed) || all.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let op = generator.next_op();
        if !lock(&all.busy).insert(op.offset) {
            // Somebody else is writing there: another place will do.
            std::thread::yield_now();
            continue;
        }
        if let Some(left) = &mut left {
            *left -= op.length.min(*left);
        }
        let buffer = match &mut buffers {
            Some(buffers) => buffers,
            None => buffers.insert(Buffers::one(op.length)?),
        };
        let generation = all.next.fetch_add(1, Ordering::Relaxed);
        let data = buffer.first(op.length);
        for (index, unit) in data.chunks_mut(all.unit.0 as usize).enumerate() {
            let offset = op.offset + all.unit * index as u64;
            stamp(unit, Stamp { run: all.run, offset, generation });
        }
        append(all.ledger.file, Entry::Begin { generation, offset: op.offset, length: op.length })?;
        if all.ledger.durable {
            let failed = |source| EngineError::System { what: "sync the ledger", source };
            all.ledger.file.sync_data().map_err(failed)?;
        }
        let begun = Instant::now();
        put(all.target, op.offset, data)?;
        let now = Instant::now();
        lock(&all.pauses).acknowledged(now, now - begun);
        append(all.ledger.file, Entry::Acknowledged { generation })?;
        lock(&all.busy).remove(&op.offset);
        all.written.fetch_add(1, Ordering::Relaxed);
        all.control.ops.fetch_add(1, Ordering::Relaxed);
        all.control.bytes.fetch_add(op.length.0, Ordering::Relaxed);
    }
}

/// One line in one write, so that lines of several threads do not mix and a kill tears at most the last.
fn append(mut ledger: &File, entry: Entry) -> Result<(), EngineError> {
    ledger
        .write_all(entry.to_string().as_bytes())
        .map_err(|source| EngineError::System { what: "append to the ledger", source })
}

/// Writes `data` to every copy of its place.
fn put(target: &Target, offset: ArrayOffset, data: &[u8]) -> Result<(), EngineError> {
    let mut extents: Vec<Extent> = Vec::new();
    target.map.write_extents(offset, Bytes(data.len() as u64), &mut |extent| extents.push(extent))?;
    for extent in extents {
        let member = &target.members[extent.member];
        let at = (extent.array_offset - offset).0 as usize;
        let mut rest = &data[at..][..extent.length.0 as usize];
        let mut place = extent.offset;
        while !rest.is_empty() {
            let failed = |cause| EngineError::Member {
                member: member.name.clone(),
                op: Some(OpKind::Write),
                offset: place,
                length: Bytes(rest.len() as u64),
                cause,
            };
            match pwrite(&member.file, rest, place.0) {
                Ok(0) => return Err(failed(MemberFailure::End)),
                Ok(done) => {
                    rest = &rest[done..];
                    place += Bytes(done as u64);
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(failed(MemberFailure::Errno(errno.raw_os_error()))),
            }
        }
    }
    Ok(())
}

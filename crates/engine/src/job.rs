//! What the jobs of both I/O engines have in common: when to look up from the work, and what to record.

use crate::buffers::{Refill, mixed, stamp, stamp_places};
use crate::error::EngineError;
use crate::piece::{Piece, Transfer};
use crate::record::{Begun, Finished, Recorder, Times};
use crate::shared::Shared;
use crate::source::{Next, Source};
use ebbtide_model::units::{Bytes, Instant, Nanos};
use ebbtide_model::workload::{Access, Mix, Op, OpKind, Stop, Workload};
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a job looks at `Control` and reports to it.
pub(crate) const TICK: Nanos = Nanos::from_millis(20);

/// An operation in flight, until its last piece completes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BegunOp {
    pub(crate) op: Op,
    /// When it should have started; latency counts from here.
    pub(crate) intended: Instant,
    pub(crate) started: Instant,
    /// Whether it is part of the measurement; only a trial that ends by size has to know.
    counted: bool,
}

/// An fsync or fdatasync of all members that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BegunSync {
    started: Instant,
    counted: bool,
}

/// Which written blocks are made unlike each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamps {
    /// Every block has a number of its own.
    Each,
    /// None: a rewrite writes back what it read, and zeros are zeros.
    None,
    /// Those whose number, mixed to 64 bits, is not below this; the others share one.
    NotBelow(u64),
    /// Every one, by its place, so that it is known again.
    Places,
}

impl Stamps {
    fn of(workload: &Workload) -> Stamps {
        let details = workload.details;
        match details.dedupe_percent {
            _ if details.verify => Stamps::Places,
            _ if workload.mix == Mix::Rewrite || details.compress_percent >= 100 => Stamps::None,
            0 => Stamps::Each,
            100.. => Stamps::NotBelow(u64::MAX),
            percent => Stamps::NotBelow(u64::from(percent) * (u64::MAX / 100)),
        }
    }

    /// What the write `number` is stamped with where not every one is. Each slot of the queue has a content of its own for
    /// the stamp that writes share.
    #[cold]
    fn seldom(self, number: u64) -> Option<u64> {
        let Stamps::NotBelow(limit) = self else { return (self == Stamps::Each).then_some(number) };
        Some(if mixed(number) < limit { 0 } else { number })
    }
}

pub(crate) struct Job<'a> {
    pub(crate) shared: &'a Shared<'a>,
    source: Source,
    pub(crate) recorder: Recorder,
    times: Times,
    by_size: bool,
    /// Nothing new is begun and nothing is recorded any more.
    pub(crate) over: bool,
    /// When [`check`](Self::check) is due.
    next_check: Instant,
    /// Operations and bytes since the last report.
    unreported: (u64, Bytes),
    /// Operations that came back when the job was over, or never.
    pub(crate) unfinished: u64,
    /// Operations begun: makes written blocks unlike each other and chooses among copies.
    begun: u64,
    /// What `begun` counts on from, so that jobs differ.
    first: u64,
    stamps: Stamps,
    /// Whether every write has a stamp and nothing else of its own.
    stamps_only: bool,
    /// Of writes that each have content of their own.
    refill: Option<Refill>,
    /// Whether the copy that a read comes from changes with every operation: random reads spread over the copies, a
    /// sequential stream stays where it is.
    turns: bool,
    /// Since when there is a place in the queue, where operations come when they come: who was held up by a full queue is
    /// not late by the job's fault.
    pub(crate) free_since: Instant,
    open_loop: bool,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        index: u32,
        mut source: Source,
        refill: Option<Refill>,
        recorder: Recorder,
        times: Times,
    ) -> Self {
        source.start(times.origin);
        let workload = shared.workload;
        Job {
            shared,
            source,
            recorder,
            times,
            by_size: matches!(workload.stop, Stop::Size(_)),
            over: false,
            next_check: Instant::START,
            unreported: (0, Bytes(0)),
            unfinished: 0,
            begun: 0,
            first: u64::from(index),
            stamps: Stamps::of(workload),
            stamps_only: Stamps::of(workload) == Stamps::Each && refill.is_none(),
            refill,
            turns: workload.access == Access::Random,
            free_since: Instant::START,
            open_loop: workload.is_open_loop(),
        }
    }

    /// Looks up from the work when it is time to.
    #[inline]
    pub(crate) fn check(&mut self, now: Instant) {
        if now >= self.next_check {
            self.check_now(now);
        }
    }

    #[cold]
    fn check_now(&mut self, now: Instant) {
        let was_measuring = self.recorder.measuring();
        if now >= self.times.end || self.shared.must_stop() {
            // What completes now belongs to the last interval's end, not to the measurement.
            self.over = true;
        }
        self.recorder.roll(now.min(self.times.end - Nanos(1)));
        if !was_measuring && self.recorder.measuring() {
            self.source.count_bytes();
        }
        self.report();
        self.next_check = if self.over {
            Instant::NEVER
        } else {
            self.recorder.until().min(self.times.end).min(now + TICK)
        };
    }

    /// Tells how far it is.
    fn report(&mut self) {
        let (ops, bytes) = std::mem::take(&mut self.unreported);
        self.shared.control.ops.fetch_add(ops, Ordering::Relaxed);
        self.shared.control.bytes.fetch_add(bytes.0, Ordering::Relaxed);
    }

    /// Start of the trial, warm-up included.
    pub(crate) fn origin(&self) -> Instant {
        self.times.origin
    }

    /// What to do next.
    #[inline(always)]
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        self.source.next(now)
    }

    #[inline(always)]
    pub(crate) fn begin(&mut self, op: Op, intended: Instant, now: Instant) -> BegunOp {
        self.begun += 1;
        if self.open_loop {
            self.lateness(intended, now);
        }
        BegunOp { op, intended, started: now, counted: self.counts() }
    }

    #[inline(always)]
    fn counts(&self) -> bool {
        !self.by_size || self.recorder.measuring()
    }

    /// Stamps the `words` that `op`, just begun, writes.
    #[inline(always)]
    pub(crate) fn stamp<'w>(&self, op: &Op, words: impl FnOnce() -> &'w [AtomicU64]) {
        if op.kind != OpKind::Write {
            return;
        }
        let number = self.begun.wrapping_mul(0x1_0000).wrapping_add(self.first);
        if self.stamps_only {
            stamp(words(), number);
        } else {
            self.stamp_otherwise(op, number, words());
        }
    }

    #[cold]
    fn stamp_otherwise(&self, op: &Op, number: u64, words: &[AtomicU64]) {
        if self.stamps == Stamps::Places {
            stamp_places(words, self.shared.seed, op.offset);
        } else if let Some(number) = self.stamps.seldom(number) {
            if let Some(refill) = &self.refill {
                refill.refill(words, number);
            }
            stamp(words, number);
        }
    }

    /// What chooses the copy that the operation just begun reads from.
    #[inline]
    pub(crate) fn turn(&self) -> u64 {
        if self.turns { self.first + self.begun } else { self.first }
    }

    /// Records how long an operation waited for a slot, and how much later than it could it begins.
    fn lateness(&mut self, intended: Instant, now: Instant) {
        let possible = intended.max(self.free_since);
        self.recorder.current.lateness.record((now - possible).0);
        self.recorder.current.slot_waits.record((possible - intended).0);
    }

    #[cold]
    pub(crate) fn begin_sync(&mut self, now: Instant) -> BegunSync {
        BegunSync { started: now, counted: self.counts() }
    }

    /// Records that a sync is done.
    #[cold]
    pub(crate) fn sync_done(&mut self, sync: &BegunSync, now: Instant) {
        if !self.over && sync.counted {
            self.recorder.current.syncs.record((now - sync.started).0);
            self.recorder.last = Some(now);
        }
    }

    /// Records that `transfer`, which is all of `piece`, is done.
    #[inline]
    pub(crate) fn transfer_done(&mut self, piece: &Piece, transfer: &Transfer, now: Instant) {
        if !self.over && !self.shared.plain {
            let tally = &mut self.recorder.current.members[piece.member as usize];
            tally.record(transfer.kind(), now - piece.started, Bytes(transfer.length.into()));
        }
    }

    /// An operation failed and the job goes on: it is in no other figure, and nothing follows it.
    #[cold]
    pub(crate) fn op_failed(&mut self, begun: &mut BegunOp, errno: i32) {
        begun.op.then_write = false;
        // Its other pieces may fail too.
        if begun.counted && !self.over && self.recorder.measuring() {
            let failed = &mut self.recorder.failed;
            failed.operations += 1;
            failed.first.get_or_insert((self.shared.clock.now(), errno));
        }
        begun.counted = false;
    }

    /// Records that an operation is done.
    #[inline(always)]
    pub(crate) fn op_done(&mut self, begun: &BegunOp, now: Instant) {
        if self.over || !begun.counted {
            self.unfinished += u64::from(self.over);
            return;
        }
        let op = begun.op;
        let record = &mut *self.recorder.current;
        record.array.record(op.kind, now - begun.intended, op.length);
        if let Some(service) = &mut record.service {
            service.get_mut(op.kind).record((now - begun.started).0);
        }
        self.recorder.last = Some(now);
        self.unreported.0 += 1;
        self.unreported.1 += op.length;
    }

    /// Ends the job: `Ok(true)` when nothing was left to do.
    pub(crate) fn finish(mut self, result: Result<bool, EngineError>) -> Finished {
        self.report();
        let (complete, failure) = match result {
            Ok(complete) => (complete, None),
            Err(error) => (false, Some(error)),
        };
        if failure.is_some() {
            self.shared.failed.store(true, Ordering::Relaxed);
        }
        let begun = Begun { thread: self.first as u32, operations: self.begun };
        Finished { unfinished: self.unfinished, failure, begun, ..self.recorder.finish(complete) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_writes_has_the_stamp_of_others() {
        let mut workload = Workload::new("w", Access::Random, Mix::Write, Stop::Size(Bytes(4096)));
        for (percent, share) in [(1, 0.01), (30, 0.3), (100, 1.0)] {
            workload.details.dedupe_percent = percent;
            let stamps = Stamps::of(&workload);
            let n = 100_000;
            let same = (1..=n).filter(|number| stamps.seldom(number * 0x1_0000) == Some(0)).count();
            assert!((same as f64 / n as f64 - share).abs() < 0.006, "{percent}: {same}");
        }
        workload.details.dedupe_percent = 0;
        assert_eq!(Stamps::of(&workload), Stamps::Each);
        workload.details.compress_percent = 100;
        assert_eq!(Stamps::of(&workload).seldom(7), None);
    }
}

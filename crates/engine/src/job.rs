//! What the jobs of both I/O engines have in common: when to look up from the work, and what to record.

use crate::error::EngineError;
use crate::record::{Finished, Recorder, Times};
use crate::shared::{Piece, Shared};
use crate::source::{Next, Source};
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::{Op, OpKind, Stop};
use std::sync::atomic::Ordering;

/// How often a job looks at `Control` and reports to it, nanoseconds.
pub(crate) const TICK: u64 = 20_000_000;

/// One operation under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) op: Op,
    /// When it should have started; latency counts from here.
    pub(crate) intended: u64,
    /// When it did.
    pub(crate) started: u64,
    /// Pieces that are not delivered yet.
    pub(crate) pending: u32,
    /// Whether it is part of the measurement; only a trial that ends by size has to know.
    counted: bool,
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
    next_check: u64,
    /// Operations and bytes since the last report.
    unreported: (u64, u64),
    /// Operations that came back when the job was over, or never.
    pub(crate) unfinished: u64,
    /// Operations begun: makes written blocks unlike each other and chooses among copies.
    pub(crate) begun: u64,
    /// What `begun` counts on from, so that jobs differ.
    pub(crate) first: u64,
    /// Since when there is a place in the queue, where operations come when they come: who was held up by a full queue is
    /// not late by the job's fault.
    pub(crate) free_since: u64,
    open_loop: bool,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        index: u32,
        mut source: Source,
        recorder: Recorder,
        times: Times,
    ) -> Self {
        source.start(times.origin);
        let by_size = matches!(shared.workload.stop, Stop::Size(_));
        let first = u64::from(index);
        Job {
            shared,
            source,
            recorder,
            times,
            by_size,
            over: false,
            next_check: 0,
            unreported: (0, 0),
            unfinished: 0,
            begun: 0,
            first,
            free_since: 0,
            open_loop: shared.workload.is_open_loop(),
        }
    }

    /// Looks up from the work when it is time to.
    #[inline]
    pub(crate) fn check(&mut self, now: u64) {
        if now >= self.next_check {
            self.check_now(now);
        }
    }

    #[cold]
    fn check_now(&mut self, now: u64) {
        let was_measuring = self.recorder.measuring();
        if now >= self.times.end || self.shared.must_stop() {
            // What completes now belongs to the last interval's end, not to the measurement.
            self.over = true;
        }
        self.recorder.roll(now.min(self.times.end.saturating_sub(1)));
        if !was_measuring && self.recorder.measuring() {
            self.source.count_bytes();
        }
        let (ops, bytes) = std::mem::take(&mut self.unreported);
        self.shared.control.ops.fetch_add(ops, Ordering::Relaxed);
        self.shared.control.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.next_check = if self.over {
            u64::MAX
        } else {
            self.recorder.until().min(self.times.end).min(now.saturating_add(TICK))
        };
    }

    /// Start of the trial, warm-up included.
    pub(crate) fn origin(&self) -> u64 {
        self.times.origin
    }

    /// What to do next.
    #[inline(always)]
    pub(crate) fn next(&mut self, now: u64) -> Next {
        self.source.next(now)
    }

    /// A slot for `op`, which starts now.
    #[inline(always)]
    pub(crate) fn begin(&mut self, op: Op, intended: u64, now: u64) -> Slot {
        self.begun += 1;
        if self.open_loop {
            self.lateness(intended, now);
        }
        Slot { op, intended, started: now, pending: 0, counted: !self.by_size || self.recorder.measuring() }
    }

    /// Records how long an operation waited for a slot, and how much later than it could it begins.
    fn lateness(&mut self, intended: u64, now: u64) {
        let possible = intended.max(self.free_since);
        self.recorder.current.lateness.record(now.saturating_sub(possible));
        self.recorder.current.slot_waits.record(possible - intended);
    }

    /// A slot for a sync, which starts now.
    #[cold]
    pub(crate) fn begin_sync(&mut self, now: u64) -> Slot {
        let op = Op { kind: OpKind::Write, offset: 0, length: 0, due: Nanos(0), then_write: false };
        let counted = !self.by_size || self.recorder.measuring();
        Slot { op, intended: now, started: now, pending: 0, counted }
    }

    /// Records that a sync is done.
    #[cold]
    pub(crate) fn sync_done(&mut self, slot: &Slot, now: u64) {
        if !self.over && slot.counted {
            self.recorder.current.syncs.record(now.saturating_sub(slot.started));
            self.recorder.last = Some(now);
        }
    }

    /// Records that `piece` is done.
    #[inline]
    pub(crate) fn piece_done(&mut self, piece: &Piece, now: u64) {
        if !self.over && !self.shared.plain {
            let latency = now.saturating_sub(piece.started);
            let tally = &mut self.recorder.current.members[piece.member as usize];
            tally.record(piece.kind, latency, u64::from(piece.length));
        }
    }

    /// Records that an operation is done.
    #[inline(always)]
    pub(crate) fn op_done(&mut self, slot: &Slot, now: u64) {
        if self.over || !slot.counted {
            self.unfinished += u64::from(self.over);
            return;
        }
        let op = slot.op;
        let record = &mut *self.recorder.current;
        record.array.record(op.kind, now.saturating_sub(slot.intended), op.length);
        if let Some(service) = &mut record.service {
            service.get_mut(op.kind).record(now.saturating_sub(slot.started));
        }
        self.recorder.last = Some(now);
        self.unreported.0 += 1;
        self.unreported.1 += op.length;
    }

    /// Ends the job: `Ok(true)` when nothing was left to do.
    pub(crate) fn finish(mut self, result: Result<bool, EngineError>) -> Finished {
        let (ops, bytes) = std::mem::take(&mut self.unreported);
        self.shared.control.ops.fetch_add(ops, Ordering::Relaxed);
        self.shared.control.bytes.fetch_add(bytes, Ordering::Relaxed);
        let (complete, failure) = match result {
            Ok(complete) => (complete, None),
            Err(error) => (false, Some(error)),
        };
        if failure.is_some() {
            self.shared.failed.store(true, Ordering::Relaxed);
        }
        Finished { unfinished: self.unfinished, failure, ..self.recorder.finish(complete) }
    }
}

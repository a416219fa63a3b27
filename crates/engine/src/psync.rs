//! One thread of a job on pread and pwrite: one operation at a time, its pieces one after the other.

use crate::ahead::Ahead;
use crate::buffers::Buffers;
use crate::error::EngineError;
use crate::job::{Job, TICK};
use crate::piece::{AfterPartial, Piece, Task, judge};
use crate::record::Finished;
use crate::source::{Next, Source, Sync};
use crate::target::lock;
use ebbtide_model::units::{Instant, Nanos};
use ebbtide_model::workload::Op;
use rustix::fs::{fdatasync, fsync};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};
use std::fs::File;
use std::io::IoSlice;
use std::sync::Mutex;
use std::time::Duration;

pub(crate) struct PsyncLoop<'a> {
    job: Job<'a>,
    buffers: Buffers,
    /// The operations, where several threads do those of one job.
    shared: Option<&'a Mutex<Source>>,
    /// Pieces of the operation under way.
    pieces: Vec<Piece>,
    /// Those that shaped members hold back, by the instant they are due.
    held: Vec<(Instant, usize)>,
    /// How long it watches the clock before it is time.
    ahead: Ahead,
}

impl<'a> PsyncLoop<'a> {
    pub(crate) fn new(job: Job<'a>, buffers: Buffers, shared: Option<&'a Mutex<Source>>) -> Self {
        PsyncLoop {
            ahead: Ahead::of(job.shared.watches()),
            job,
            buffers,
            shared,
            pieces: Vec::with_capacity(64),
            held: Vec::with_capacity(64),
        }
    }

    /// Runs the job to its end.
    pub(crate) fn run(mut self) -> Finished {
        let result = self.work();
        self.job.finish(result)
    }

    /// The loop. Returns whether nothing was left to do.
    fn work(&mut self) -> Result<bool, EngineError> {
        let clock = self.job.shared.clock;
        let think_time = self.job.shared.workload.think_time;
        let shared = self.shared;
        loop {
            // The clock is read under the lock: an operation drawn later never counts as begun before the measurement.
            let mut source = shared.map(lock);
            let now = clock.now();
            self.job.check(now);
            if self.job.over {
                return Ok(false);
            }
            let next = match &mut source {
                Some(source) => source.next_of_several(now, self.job.origin(), self.job.recorder.measuring()),
                None => self.job.next(now),
            };
            match next {
                Next::Done => return Ok(true),
                // Still under the lock: the others have nothing to do before it either, and one wakes, not all.
                Next::Wait(start) => self.sleep(start),
                Next::Op { op, intended } => {
                    drop(source);
                    let done = self.operation(op, intended, now)?;
                    if let Some(write) = op.follow_up().filter(|_| done) {
                        let now = clock.now();
                        self.operation(write, now, now)?;
                    }
                    if think_time > Nanos(0) {
                        self.sleep(clock.now() + think_time);
                    }
                }
                Next::Sync(sync) => {
                    drop(source);
                    self.sync(sync, now)?;
                }
            }
        }
    }

    /// Calls `sync` on all members, one after the other.
    fn sync(&mut self, sync: Sync, now: Instant) -> Result<(), EngineError> {
        let begun = self.job.begin_sync(now);
        let mut due = now;
        for member in 0..self.job.shared.target.members.len() as u32 {
            let mut piece = Piece::sync(self.job.shared, 0, member, sync, now);
            // Nobody goes on after a failed sync.
            perform(&mut self.job, &mut self.buffers, &mut piece)?;
            due = piece.due().map_or(due, |of_member| due.max(of_member));
        }
        // Shaped members are flushed at the same time.
        self.sleep(due);
        let end = self.job.shared.clock.now();
        self.job.check(end);
        self.job.sync_done(&begun, end);
        Ok(())
    }

    /// Sleeps until `instant`, looking up from time to time; returns early when the job is over.
    fn sleep(&mut self, instant: Instant) {
        loop {
            let now = self.job.shared.clock.now();
            self.job.check(now);
            if now >= instant || self.job.over {
                return;
            }
            match (instant - now).since(self.ahead.get()) {
                Nanos(0) => std::hint::spin_loop(),
                long => {
                    let long = long.min(TICK);
                    std::thread::sleep(Duration::from_nanos(long.0));
                    if self.ahead.watches() {
                        self.ahead.woke(self.job.shared.clock.now() - (now + long));
                    }
                }
            }
        }
    }

    /// Does `op` from begin to end; whether it did not fail.
    fn operation(&mut self, op: Op, intended: Instant, now: Instant) -> Result<bool, EngineError> {
        let begun = self.job.begin(op, intended, now);
        let PsyncLoop { job, buffers, pieces, .. } = self;
        let buffer = *buffers.slots[0].get(op.kind);
        job.stamp(&op, || buffers.memory.words(buffer, op.length.0 as u32));
        pieces.clear();
        if job.shared.plain {
            pieces.push(Piece::whole(0, op, buffer, now));
        } else {
            let origin = job.origin();
            job.shared.split(op, job.turn(), &mut |extent| {
                pieces.push(Piece::new(job.shared, (0, buffer), op, extent, now, origin));
            })?;
        }
        let mut failed = None;
        for index in 0..self.pieces.len() {
            let error = perform(&mut self.job, &mut self.buffers, &mut self.pieces[index])?;
            let end = self.job.shared.clock.now();
            self.job.check(end);
            if error.is_some() {
                failed = failed.or(error);
                continue;
            }
            match self.pieces[index].due().filter(|due| *due > end) {
                Some(due) => self.held.push((due, index)),
                None => self.delivered(index, end),
            }
        }
        if !self.held.is_empty() {
            self.wait_for_held();
        }
        let end = self.job.shared.clock.now();
        self.job.check(end);
        match failed {
            None => self.job.op_done(&begun, end),
            // A copy, so that what did not fail stays in registers.
            Some(errno) => self.job.op_failed(&mut { begun }, errno),
        }
        self.job.free_since = end;
        Ok(failed.is_none())
    }

    /// Records that the piece at `index` is done.
    fn delivered(&mut self, index: usize, now: Instant) {
        let piece = &self.pieces[index];
        if let Task::Transfer(transfer) = &piece.task {
            self.job.transfer_done(piece, transfer, now);
        }
    }

    /// Delivers the pieces that shaped members hold back, in the order in which they are due.
    fn wait_for_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        held.sort_unstable();
        for (due, index) in held.drain(..) {
            self.sleep(due);
            let now = self.job.shared.clock.now();
            self.delivered(index, now);
        }
        self.held = held;
    }
}

/// Does all of `piece`; the error number with which it failed where the job goes on.
// Inlined always: its second call, for syncs, would have every operation pay for one.
#[inline(always)]
fn perform(job: &mut Job<'_>, buffers: &mut Buffers, piece: &mut Piece) -> Result<Option<i32>, EngineError> {
    let shared = job.shared;
    let file = &shared.target.members[piece.member as usize].file;
    loop {
        let result = match &piece.task {
            Task::Sync(Sync::All, _) => fsync(file).map(|()| 0),
            Task::Sync(Sync::Data, _) => fdatasync(file).map(|()| 0),
            Task::Transfer(transfer) => {
                let rest = &transfer.rest;
                let bytes = buffers.memory.slice(rest.buffer, rest.at, rest.length);
                if rest.is_write {
                    write(file, bytes, rest.offset, shared.workload.sync)
                } else {
                    pread(file, bytes, rest.offset)
                }
            }
        };
        let result = match (piece.fault(), result) {
            (Some(fault), _) => -fault.get(),
            (None, Ok(done)) => done as i32,
            (None, Err(errno)) => -errno.raw_os_error(),
        };
        if piece.is_done(result) {
            return Ok(None);
        }
        match judge(shared, &mut job.recorder, piece, result) {
            AfterPartial::Again if shared.must_stop() => return Ok(None),
            AfterPartial::Again => {}
            AfterPartial::GoOn(errno) => return Ok(Some(errno)),
            AfterPartial::Failed(error) => return Err(error),
        }
    }
}

fn write(file: &File, data: &[u8], offset: u64, sync: bool) -> Result<usize, Errno> {
    if sync {
        pwritev2(file, &[IoSlice::new(data)], offset, ReadWriteFlags::SYNC)
    } else {
        pwrite(file, data, offset)
    }
}

//! One thread of a job on pread and pwrite: one operation at a time, its pieces one after the other.

use crate::buffers::Buffers;
use crate::error::EngineError;
use crate::job::{Job, TICK};
use crate::record::Finished;
use crate::ring::Ahead;
use crate::shared::{Piece, Verdict, judge};
use crate::source::{Next, Source, Sync, lock};
use ebbtide_model::workload::{Mix, Op, OpKind};
use rustix::fs::{fdatasync, fsync};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};
use std::fs::File;
use std::io::IoSlice;
use std::num::NonZeroI32;
use std::sync::Mutex;
use std::time::Duration;

/// One job's loop.
pub(crate) struct PsyncLoop<'a> {
    job: Job<'a>,
    buffers: Buffers,
    /// The operations, where several threads do those of one job.
    shared: Option<&'a Mutex<Source>>,
    /// Pieces of the operation under way.
    pieces: Vec<Piece>,
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
        let think_time = self.job.shared.workload.think_time.0;
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
                    self.operation(op, intended, now)?;
                    if let Some(write) = op.follow_up() {
                        let now = clock.now();
                        self.operation(write, now, now)?;
                    }
                    if think_time > 0 {
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
    fn sync(&mut self, sync: Sync, now: u64) -> Result<(), EngineError> {
        let slot = self.job.begin_sync(now);
        for member in 0..self.job.shared.target.members.len() {
            self.transfer(&mut Piece::of_sync(0, member as u32, sync, now))?;
        }
        let end = self.job.shared.clock.now();
        self.job.check(end);
        self.job.sync_done(&slot, end);
        Ok(())
    }

    /// Sleeps until `instant`, looking up from time to time; returns early when the job is over.
    fn sleep(&mut self, instant: u64) {
        loop {
            let now = self.job.shared.clock.now();
            self.job.check(now);
            if now >= instant || self.job.over {
                return;
            }
            match (instant - now).saturating_sub(self.ahead.get()) {
                0 => std::hint::spin_loop(),
                long => {
                    let long = long.min(TICK);
                    std::thread::sleep(Duration::from_nanos(long));
                    if self.ahead.watches() {
                        self.ahead.woke(self.job.shared.clock.now().saturating_sub(now + long));
                    }
                }
            }
        }
    }

    /// Does `op` from begin to end.
    fn operation(&mut self, op: Op, intended: u64, now: u64) -> Result<(), EngineError> {
        let slot = self.job.begin(op, intended, now);
        let (first, number) = (self.job.first, self.job.begun);
        if op.kind == OpKind::Write && self.job.shared.workload.mix != Mix::Rewrite {
            self.buffers.stamp(0, op.length, number.wrapping_mul(0x1_0000).wrapping_add(first));
        }
        let turn = if self.job.shared.turns() { first + number } else { first };
        let PsyncLoop { job, pieces, .. } = self;
        let origin = job.origin();
        pieces.clear();
        job.shared.split(op, turn, &mut |extent| {
            pieces.push(Piece::new(job.shared, 0, op, extent, now, origin));
        })?;
        let mut due = 0;
        for index in 0..self.pieces.len() {
            let mut piece = self.pieces[index];
            self.transfer(&mut piece)?;
            due = due.max(piece.due);
            let end = self.job.shared.clock.now();
            self.job.check(end);
            if piece.due <= end {
                self.job.piece_done(&piece, end);
                self.pieces[index].due = 0;
            }
        }
        if due > 0 {
            self.wait_for_held();
        }
        let end = self.job.shared.clock.now();
        self.job.check(end);
        self.job.op_done(&slot, end);
        self.job.free_since = end;
        Ok(())
    }

    /// Delivers the pieces that shaped members hold back, in the order in which they are due.
    fn wait_for_held(&mut self) {
        self.pieces.sort_by_key(|piece| piece.due);
        for index in 0..self.pieces.len() {
            let piece = self.pieces[index];
            if piece.due > 0 {
                self.sleep(piece.due);
                let now = self.job.shared.clock.now();
                self.job.piece_done(&piece, now);
            }
        }
    }

    /// Reads or writes all of `piece`.
    fn transfer(&mut self, piece: &mut Piece) -> Result<(), EngineError> {
        let shared = self.job.shared;
        let file = &shared.target.members[piece.member as usize].file;
        loop {
            let buffer = self.buffers.slice(piece.kind, 0, piece.at as usize, piece.left as usize);
            let result = match piece.kind {
                _ if piece.sync.is_some() => synced(file, piece.sync),
                OpKind::Read => pread(file, buffer, piece.offset),
                OpKind::Write => write(file, buffer, piece.offset, shared.workload.sync),
            };
            let result = match result {
                _ if piece.fault.is_some() => -piece.fault.map_or(0, NonZeroI32::get),
                Ok(done) if done == piece.left as usize => return Ok(()),
                Ok(done) => done as i32,
                Err(errno) => -errno.raw_os_error(),
            };
            match judge(shared, &mut self.job.recorder, piece, result) {
                Verdict::Again if shared.must_stop() => return Ok(()),
                Verdict::Again => {}
                Verdict::Failed(error) => return Err(error),
            }
        }
    }
}

/// The call; as a transfer, its one unit is done.
fn synced(file: &File, sync: Option<Sync>) -> Result<usize, Errno> {
    match sync {
        Some(Sync::Data) => fdatasync(file),
        _ => fsync(file),
    }
    .map(|()| 1)
}

fn write(file: &File, data: &[u8], offset: u64, sync: bool) -> Result<usize, Errno> {
    if sync {
        pwritev2(file, &[IoSlice::new(data)], offset, ReadWriteFlags::SYNC)
    } else {
        pwrite(file, data, offset)
    }
}

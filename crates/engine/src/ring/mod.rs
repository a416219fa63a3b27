//! One job on one ring.

mod batch;
mod setup;

pub(crate) use setup::{Ring, unavailable};

use crate::error::EngineError;
use crate::job::{Job, Slot, TICK};
use crate::record::Finished;
use crate::shared::{Piece, Verdict, judge};
use crate::source::Next;
use batch::Batch;
use ebbtide_core::units::Nanos;
use ebbtide_core::workload::{Mix, Op, OpKind};
use io_uring::{opcode, squeue, types};
use rustix::io::ReadWriteFlags;
use setup::FixedBuffers;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::AsRawFd;

/// `user_data` of the timeout that makes the job look up from the work when nothing completes.
const TICK_ID: u64 = u64::MAX;
/// The tick: a little longer than the distance of checks, so that each tick finds one due.
static TICK_TIME: types::Timespec = types::Timespec::new().nsec((TICK + 1_000_000) as u32);

/// One job's loop and everything that is in flight.
pub(crate) struct RingLoop<'a> {
    io: Ring,
    job: Job<'a>,
    slots: Vec<Option<Slot>>,
    /// Slots that may begin an operation; the one used last first, since its buffer is in the CPU's cache.
    free: Vec<u32>,
    /// Slots whose read is done and whose write follows.
    follow: Vec<u32>,
    /// Slots that pause (think time), in the order in which their pause ends.
    resting: VecDeque<(u64, u32)>,
    pieces: Vec<Option<Piece>>,
    free_pieces: Vec<u32>,
    /// Pieces that have to go to the kernel.
    waiting: VecDeque<u32>,
    /// Completed pieces of shaped members, by the instant they are due.
    held: BinaryHeap<Reverse<(u64, u32)>>,
    /// Pieces that the kernel has.
    in_kernel: u32,
    batch: Batch,
    tick_armed: bool,
    think_time: u64,
    write_flags: i32,
    failure: Option<EngineError>,
}

/// What became of filling the queue.
enum Filled {
    /// The batch is full and there may be more.
    More,
    /// Nothing more before a completion, or before the instant.
    Until(Option<u64>),
    /// Nothing more at all.
    Done,
}

impl<'a> RingLoop<'a> {
    pub(crate) fn new(io: Ring, job: Job<'a>) -> Self {
        let depth = job.shared.workload.iodepth;
        let plain = job.shared.plain;
        // Without a split, piece n is slot n; otherwise there is room for four pieces each before the first growth.
        let pieces = if plain { depth } else { depth.saturating_mul(4) };
        let write_flags = if job.shared.workload.sync { ReadWriteFlags::SYNC.bits() as i32 } else { 0 };
        RingLoop {
            slots: vec![None; depth as usize],
            free: (0..depth).rev().collect(),
            follow: Vec::with_capacity(depth as usize),
            resting: VecDeque::with_capacity(depth as usize),
            pieces: vec![None; pieces as usize],
            free_pieces: if plain { Vec::new() } else { (0..pieces).rev().collect() },
            waiting: VecDeque::with_capacity(pieces as usize),
            held: BinaryHeap::with_capacity(pieces as usize),
            in_kernel: 0,
            batch: Batch::new(depth),
            tick_armed: io.polled,
            think_time: job.shared.workload.think_time.0,
            write_flags,
            failure: None,
            io,
            job,
        }
    }

    /// Runs the job to its end. Returns only when the kernel has nothing of it any more.
    pub(crate) fn run(mut self) -> Result<Finished, EngineError> {
        let clock = self.job.shared.clock;
        let complete = loop {
            let now = clock.now();
            self.job.check(now);
            if self.job.over || self.failure.is_some() {
                if self.in_kernel == 0 {
                    break false;
                }
                self.enter(1, None, now)?;
                self.reap(clock.now());
                continue;
            }
            self.deliver_held(now);
            let (want, until) = match self.fill(now)? {
                Filled::More => (0, None),
                Filled::Until(until) => (1, until),
                Filled::Done if self.is_idle() => break true,
                Filled::Done => (1, None),
            };
            let before = self.in_kernel;
            self.enter(want, until, now)?;
            self.reap(clock.now());
            self.batch.learn(self.in_kernel == 0 && before > 0);
        };
        match self.failure {
            Some(error) => Err(error),
            None => Ok(self.job.finish(complete)),
        }
    }

    /// Whether no slot has anything to do.
    fn is_idle(&self) -> bool {
        self.free.len() + self.resting.len() == self.slots.len()
    }

    /// Puts up to a batch of operations into the submission queue.
    #[inline]
    fn fill(&mut self, now: u64) -> Result<Filled, EngineError> {
        while let Some((ready, slot)) = self.resting.front().copied() {
            if ready > now {
                break;
            }
            self.resting.pop_front();
            self.free.push(slot);
        }
        let mut filled = Filled::More;
        for _ in 0..self.batch.size() {
            let (slot, op, intended) = if let Some(slot) = self.follow.pop() {
                let follow_up = self.slots[slot as usize].and_then(|s| s.op.follow_up());
                match follow_up {
                    Some(op) => (slot, op, now),
                    None => continue,
                }
            } else {
                let Some(slot) = self.free.pop() else {
                    filled = Filled::Until(self.resting.front().map(|(ready, _)| *ready));
                    break;
                };
                match self.job.next(now) {
                    Next::Op { op, intended } => (slot, op, intended),
                    Next::Wait(start) => {
                        self.free.push(slot);
                        filled = Filled::Until(Some(start));
                        break;
                    }
                    Next::Done => {
                        self.free.push(slot);
                        filled = Filled::Done;
                        break;
                    }
                }
            };
            self.begin(slot, op, intended, now)?;
        }
        if matches!(filled, Filled::More) && self.free.is_empty() && self.follow.is_empty() {
            filled = Filled::Until(self.resting.front().map(|(ready, _)| *ready));
        }
        if !self.waiting.is_empty() {
            self.submit_waiting();
        }
        if !self.tick_armed {
            self.arm_tick();
        }
        Ok(filled)
    }

    /// Begins `op` in `slot`.
    #[inline]
    fn begin(&mut self, slot: u32, op: Op, intended: u64, now: u64) -> Result<(), EngineError> {
        let mut begun = self.job.begin(op, intended, now);
        let number = self.job.begun;
        // A rewrite writes back what it read.
        let stamped = op.kind == OpKind::Write && self.job.shared.workload.mix != Mix::Rewrite;
        if stamped {
            self.io.buffers.stamp(
                slot,
                op.length,
                number.wrapping_mul(0x1_0000).wrapping_add(self.job.first),
            );
        }
        if self.job.shared.plain {
            begun.pending = 1;
            self.slots[slot as usize] = Some(begun);
            let length = op.length as u32;
            let piece = Piece {
                slot,
                member: 0,
                kind: op.kind,
                offset: op.offset,
                at: 0,
                left: length,
                length,
                started: now,
                due: 0,
                fault: None,
            };
            self.pieces[slot as usize] = Some(piece);
            self.submit(slot, &piece);
            return Ok(());
        }
        let turn = if self.job.shared.turns() { self.job.first + number } else { self.job.first };
        let RingLoop { job, pieces, free_pieces, waiting, .. } = self;
        let origin = job.origin();
        let mut count = 0;
        job.shared.split(op, turn, &mut |extent| {
            let id = free_pieces.pop().unwrap_or_else(|| {
                // Only while the first operations of the trial find out how many pieces there are.
                pieces.push(None);
                pieces.len() as u32 - 1
            });
            pieces[id as usize] = Some(Piece::new(job.shared, slot, op, extent, now, origin));
            waiting.push_back(id);
            count += 1;
        })?;
        begun.pending = count;
        self.slots[slot as usize] = Some(begun);
        Ok(())
    }

    /// Moves waiting pieces into the submission queue while it has room.
    #[inline]
    fn submit_waiting(&mut self) {
        while let Some(id) = self.waiting.front().copied() {
            if self.io.ring.submission().is_full() {
                return;
            }
            self.waiting.pop_front();
            if let Some(piece) = self.pieces[id as usize] {
                self.submit(id, &piece);
            }
        }
    }

    /// Puts `piece` into the submission queue, or back among the waiting when it is full.
    #[inline]
    fn submit(&mut self, id: u32, piece: &Piece) {
        let entry = self.entry(piece).user_data(u64::from(id));
        // SAFETY: the entry's buffer is the slot's, which lives as long as the ring and is not touched before the
        // completion of `id`; its file is open as long as the target is borrowed.
        if unsafe { self.io.ring.submission().push(&entry) }.is_ok() {
            self.in_kernel += 1;
        } else {
            self.waiting.push_back(id);
        }
    }

    /// The submission queue entry of `piece`.
    #[inline]
    fn entry(&self, piece: &Piece) -> squeue::Entry {
        // SAFETY: `at` + `left` is at most the operation's length, which is at most the buffer's.
        let address = unsafe { self.io.buffers.of(piece.slot).add(piece.at as usize) };
        let index = match self.io.fixed_buffers {
            FixedBuffers::PerSlot => piece.slot as u16,
            FixedBuffers::One | FixedBuffers::No => 0,
        };
        let (left, offset, flags) = (piece.left, piece.offset, self.write_flags);
        let fixed = self.io.fixed_buffers != FixedBuffers::No;
        macro_rules! on {
            ($fd:expr) => {
                match (piece.kind, fixed) {
                    (OpKind::Read, true) => {
                        opcode::ReadFixed::new($fd, address, left, index).offset(offset).build()
                    }
                    (OpKind::Write, true) => opcode::WriteFixed::new($fd, address, left, index)
                        .offset(offset)
                        .rw_flags(flags)
                        .build(),
                    (OpKind::Read, false) => opcode::Read::new($fd, address, left).offset(offset).build(),
                    (OpKind::Write, false) => {
                        opcode::Write::new($fd, address, left).offset(offset).rw_flags(flags).build()
                    }
                }
            };
        }
        if self.io.fixed_files {
            on!(types::Fixed(piece.member))
        } else {
            on!(types::Fd(self.job.shared.target.members[piece.member as usize].file.as_raw_fd()))
        }
    }

    fn arm_tick(&mut self) {
        let entry = opcode::Timeout::new(&TICK_TIME).build().user_data(TICK_ID);
        // SAFETY: the time is static.
        self.tick_armed = unsafe { self.io.ring.submission().push(&entry) }.is_ok();
    }

    /// Gives the kernel what is in the queue and waits for `want` completions, at most until `until` (or the next
    /// held piece).
    #[inline]
    fn enter(&mut self, want: usize, until: Option<u64>, now: u64) -> Result<(), EngineError> {
        let held = self.held.peek().map(|Reverse((due, _))| *due);
        let until = match (until, held) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let result = match until {
            Some(until) if want > 0 => {
                let wait = Nanos(until).since(Nanos(now)).0;
                let time = types::Timespec::new()
                    .sec(wait / Nanos::PER_SECOND)
                    .nsec((wait % Nanos::PER_SECOND) as u32);
                let arguments = types::SubmitArgs::new().timespec(&time);
                self.io.ring.submitter().submit_with_args(want, &arguments)
            }
            _ => self.io.ring.submitter().submit_and_wait(want),
        };
        match result {
            Ok(_) => Ok(()),
            // ETIME: the wait is over. EINTR: a signal. EAGAIN, EBUSY: the kernel wants its completions reaped first.
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) =>
            {
                Ok(())
            }
            Err(source) => Err(EngineError::System { what: "submit to the io_uring", source }),
        }
    }

    /// Takes all completions; they are seen at `now`.
    #[inline]
    fn reap(&mut self, now: u64) {
        self.job.check(now);
        loop {
            let Some(completion) = self.io.ring.completion().next() else { return };
            let (id, result) = (completion.user_data(), completion.result());
            if id == TICK_ID {
                self.tick_armed = self.io.polled;
                continue;
            }
            self.in_kernel -= 1;
            let Some(piece) = &mut self.pieces[id as usize] else { continue };
            let id = id as u32;
            if result != piece.left as i32 || piece.fault.is_some() {
                let result = piece.fault.map_or(result, |fault| -fault.get());
                self.incomplete(id, result);
            } else if piece.due > now {
                let due = piece.due;
                self.held.push(Reverse((due, id)));
            } else {
                self.deliver(id, now);
            }
        }
    }

    /// A piece came back with less than was asked for.
    #[cold]
    fn incomplete(&mut self, id: u32, result: i32) {
        let Some(piece) = &mut self.pieces[id as usize] else { return };
        match judge(self.job.shared, &mut self.job.recorder, piece, result) {
            Verdict::Again if self.job.over || self.failure.is_some() => {}
            Verdict::Again => self.waiting.push_back(id),
            Verdict::Failed(error) => {
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Delivers held pieces that are due.
    #[inline]
    fn deliver_held(&mut self, now: u64) {
        while let Some(Reverse((due, id))) = self.held.peek().copied() {
            if due > now {
                return;
            }
            self.held.pop();
            self.deliver(id, now);
        }
    }

    /// A piece is done; with the last one its operation is.
    #[inline]
    fn deliver(&mut self, id: u32, now: u64) {
        let Some(piece) = self.pieces[id as usize] else { return };
        if !self.job.shared.plain {
            self.job.piece_done(&piece, now);
            self.pieces[id as usize] = None;
            self.free_pieces.push(id);
        }
        let index = piece.slot;
        let Some(slot) = &mut self.slots[index as usize] else { return };
        slot.pending -= 1;
        if slot.pending > 0 {
            return;
        }
        let slot = *slot;
        self.job.op_done(&slot, now);
        if slot.op.then_write {
            self.follow.push(index);
        } else if self.think_time > 0 {
            self.resting.push_back((now + self.think_time, index));
        } else {
            self.free.push(index);
        }
    }
}

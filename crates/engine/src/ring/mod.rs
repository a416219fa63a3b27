//! One job on one ring.
//!
//! Where the target is a single unshaped member (`plain`), an operation is its slot and nothing else is looked at on its
//! way. Otherwise it has pieces, one per extent of the layout.

mod batch;
mod drain;
mod setup;
mod wait;

#[cfg(test)]
pub(crate) use setup::refusal;
pub(crate) use setup::{Ring, unavailable};

use crate::ahead::Ahead;
use crate::error::EngineError;
use crate::job::{BegunOp, BegunSync, Job, TICK};
use crate::patience::Drain;
use crate::piece::{AfterPartial, Piece, Task, Transfer, judge, whole};
use crate::record::Finished;
use crate::source::{Next, Sync};
use batch::Batch;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::units::{Instant, Nanos};
use ebbtide_model::workload::Op;
use ebbtide_sys::memory::Buffer;
use ebbtide_sys::ring::{self, TIMER, Timespec};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The tick, which makes the job look up from the work when nothing completes: a little longer than the distance of checks, so that each tick finds one due.
static TICK_TIME: Timespec = Timespec::new().nsec((TICK.0 + 1_000_000) as u32);
/// Completions that are taken out of the queue before any is looked at.
const REAPED: usize = 32;

/// A place in the job's queue.
#[derive(Debug, Clone, Copy)]
struct Slot {
    buffers: PerOp<Buffer>,
    doing: Doing,
    /// Pieces that are not delivered yet.
    pending: u32,
}

/// What a slot does.
#[derive(Debug, Clone, Copy)]
enum Doing {
    Nothing,
    Op(BegunOp),
    Sync(BegunSync),
}

/// One job's loop and everything that is in flight.
pub(crate) struct RingLoop<'a> {
    ring: ring::Ring<'a>,
    /// Whether completions are polled for.
    polled: bool,
    job: Job<'a>,
    plain: bool,
    slots: Vec<Slot>,
    /// Slots that may begin an operation; the one used last first, since its buffer is in the CPU's cache.
    free: Vec<u32>,
    /// Slots whose read is done and whose write follows.
    follow: Vec<u32>,
    /// Slots that pause (think time), in the order in which their pause ends.
    resting: VecDeque<(Instant, u32)>,
    /// Pieces by their number; when plain, what slot n does if that is no operation that goes to the kernel as a whole.
    pieces: Vec<Option<Piece>>,
    /// Numbers of unused pieces; empty when plain.
    free_pieces: Vec<u32>,
    /// Pieces that have to go to the kernel.
    waiting: VecDeque<u32>,
    /// Completed pieces of shaped members, by the instant they are due.
    held: BinaryHeap<Reverse<(Instant, u32)>>,
    batch: Batch,
    tick_armed: bool,
    think_time: Nanos,
    /// How long before an instant it stops sleeping, if it watches for what it waits for.
    ahead: Ahead,
    failure: Option<EngineError>,
    /// The end: waiting for what the kernel still has.
    drain: Drain,
}

/// What became of filling the queue.
enum Filled {
    /// The batch is full and there may be more.
    More,
    /// Nothing more before a completion, or before the instant.
    Until(Option<Instant>),
    /// Nothing more at all.
    Done,
}

impl<'a> RingLoop<'a> {
    pub(crate) fn new(io: Ring<'a>, job: Job<'a>) -> Self {
        let Ring { ring, slots, polled } = io;
        let plain = job.shared.plain;
        let depth = slots.len();
        // Room for four pieces each before the first growth.
        let pieces = if plain { depth } else { depth * 4 };
        RingLoop {
            plain,
            slots: slots
                .into_iter()
                .map(|buffers| Slot { buffers, doing: Doing::Nothing, pending: 0 })
                .collect(),
            free: (0..depth as u32).rev().collect(),
            follow: Vec::with_capacity(depth),
            resting: VecDeque::with_capacity(depth),
            pieces: vec![None; pieces],
            free_pieces: if plain { Vec::new() } else { (0..pieces as u32).rev().collect() },
            waiting: VecDeque::with_capacity(pieces),
            held: BinaryHeap::with_capacity(pieces),
            batch: Batch::new(depth as u32),
            // No timeouts on a ring that polls for completions.
            tick_armed: polled,
            think_time: job.shared.workload.think_time,
            ahead: Ahead::of(job.shared.watches() && !polled),
            failure: None,
            drain: Drain::new(job.shared.patience),
            ring,
            polled,
            job,
        }
    }

    /// Runs the job to its end.
    pub(crate) fn run(mut self) -> Finished {
        let result = self.work();
        self.job.unfinished += self.under_way();
        // That the kernel keeps something says more than what had failed before.
        let result = result.and_then(|complete| self.failure.map_or(Ok(complete), Err));
        Finished { note: self.drain.note(), ..self.job.finish(result) }
    }

    /// The loop. Returns whether nothing was left to do; the kernel has nothing any more, except after an error.
    fn work(&mut self) -> Result<bool, EngineError> {
        let clock = self.job.shared.clock;
        loop {
            let now = clock.now();
            self.job.check(now);
            if self.job.over || self.failure.is_some() {
                if self.ring.in_flight() == 0 {
                    return Ok(false);
                }
                self.drain_some(now)?;
                continue;
            }
            self.deliver_held(now);
            let (want, until) = match self.fill(now)? {
                Filled::More => (0, None),
                Filled::Until(until) => (1, until),
                Filled::Done if self.is_idle() => return Ok(true),
                Filled::Done => (1, None),
            };
            let before = self.ring.in_flight();
            self.enter(want, until, now)?;
            self.reap(clock.now());
            self.batch.learn(self.ring.in_flight() == 0 && before > 0);
        }
    }

    /// Slots whose operation has begun and is not done.
    fn under_way(&self) -> u64 {
        let idle = self.free.len() + self.resting.len() + self.follow.len();
        self.slots.len().saturating_sub(idle) as u64
    }

    /// Whether no slot has anything to do.
    fn is_idle(&self) -> bool {
        self.free.len() + self.resting.len() == self.slots.len()
    }

    /// Puts up to a batch of operations into the submission queue.
    #[inline]
    fn fill(&mut self, now: Instant) -> Result<Filled, EngineError> {
        while let Some((ready, slot)) = self.resting.front().copied() {
            if ready > now {
                break;
            }
            self.resting.pop_front();
            self.free.push(slot);
        }
        let mut filled = Filled::More;
        for _ in 0..self.batch.size() {
            let (id, op, intended) = if let Some(id) = self.follow.pop() {
                let Doing::Op(BegunOp { op, .. }) = self.slots[id as usize].doing else { continue };
                let Some(write) = op.follow_up() else { continue };
                (id, write, now)
            } else {
                let Some(id) = self.free.last().copied() else { break };
                match self.job.next(now) {
                    Next::Op { op, intended } => {
                        self.free.pop();
                        (id, op, intended)
                    }
                    Next::Sync(sync) => {
                        self.free.pop();
                        self.begin_sync(id, sync, now);
                        continue;
                    }
                    Next::Wait(start) => {
                        filled = Filled::Until(Some(start));
                        break;
                    }
                    Next::Done => {
                        filled = Filled::Done;
                        break;
                    }
                }
            };
            let begun = self.job.begin(op, intended, now);
            let slot = &mut self.slots[id as usize];
            (slot.doing, slot.pending) = (Doing::Op(begun), 1);
            let buffer = *slot.buffers.get(op.kind);
            self.job.stamp(&op, || self.ring.words(buffer, op.length.0 as u32));
            if self.plain {
                self.submit(id, &whole(op, buffer));
            } else {
                self.split(id, op, buffer, now)?;
            }
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

    /// Cuts an operation into its pieces, which wait for the submission queue.
    fn split(&mut self, slot: u32, op: Op, buffer: Buffer, now: Instant) -> Result<(), EngineError> {
        let RingLoop { job, pieces, free_pieces, waiting, .. } = self;
        let (turn, origin) = (job.turn(), job.origin());
        let mut count = 0;
        job.shared.split(op, turn, &mut |extent| {
            let piece = Piece::new(job.shared, (slot, buffer), op, extent, now, origin);
            waiting.push_back(keep(pieces, free_pieces, piece));
            count += 1;
        })?;
        self.slots[slot as usize].pending = count;
        Ok(())
    }

    /// Has slot `slot` call `sync` on every member.
    #[cold]
    fn begin_sync(&mut self, slot: u32, sync: Sync, now: Instant) {
        let members = self.job.shared.target.members.len() as u32;
        for member in 0..members {
            let piece = Piece::sync(self.job.shared, slot, member, sync, now);
            let id = if self.plain {
                // Its slot's number.
                self.pieces[slot as usize] = Some(piece);
                slot
            } else {
                keep(&mut self.pieces, &mut self.free_pieces, piece)
            };
            self.waiting.push_back(id);
        }
        let begun = self.job.begin_sync(now);
        let slot = &mut self.slots[slot as usize];
        (slot.doing, slot.pending) = (Doing::Sync(begun), members);
    }

    /// Moves waiting pieces into the submission queue while it has room.
    #[inline]
    fn submit_waiting(&mut self) {
        while let Some(id) = self.waiting.front().copied() {
            if self.ring.is_full() {
                return;
            }
            self.waiting.pop_front();
            match self.piece(id).map(|piece| (piece.member, piece.task)) {
                Some((_, Task::Transfer(transfer))) => self.submit(id, &transfer.rest),
                Some((member, Task::Sync(sync, _))) => {
                    let is_queued = self.ring.sync(member, sync == Sync::Data, id);
                    if !is_queued {
                        self.waiting.push_back(id);
                    }
                }
                None => {}
            }
        }
    }

    /// Piece `id` as far as it is not done.
    fn piece(&self, id: u32) -> Option<Piece> {
        let piece = self.pieces[id as usize];
        if piece.is_some() || !self.plain {
            return piece;
        }
        let slot = &self.slots[id as usize];
        let Doing::Op(begun) = &slot.doing else { return None };
        Some(Piece::whole(id, begun.op, *slot.buffers.get(begun.op.kind), begun.started))
    }

    /// Puts a transfer into the submission queue, or its piece back among the waiting when it is full.
    #[inline(always)]
    fn submit(&mut self, id: u32, transfer: &ring::Transfer) {
        if !self.ring.transfer(transfer, id) {
            self.waiting.push_back(id);
        }
    }

    fn arm_tick(&mut self) {
        self.tick_armed = self.ring.timer(&TICK_TIME);
    }

    /// Gives the kernel what is in the queue and waits for `want` completions, at most until `until` (or the next
    /// held piece).
    #[inline]
    fn enter(&mut self, want: usize, until: Option<Instant>, now: Instant) -> Result<(), EngineError> {
        let held = self.held.peek().filter(|_| !self.drain.begun()).map(|Reverse((due, _))| *due);
        let until = match (until, held) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        match until {
            _ if want > 0 && self.ahead.watches() && !self.drain.begun() => {
                self.watch(until.unwrap_or(Instant::NEVER), now)
            }
            Some(until) if want > 0 => self.sleep(until, now),
            _ => self.told(self.ring.submit_and_wait(want)),
        }
    }

    /// Takes all completions; they are seen at `now`.
    #[inline]
    fn reap(&mut self, now: Instant) {
        self.job.check(now);
        let mut seen = [(0u64, 0i32); REAPED];
        loop {
            let count = self.ring.reap(&mut seen);
            for (id, result) in &seen[..count] {
                if *id == TIMER {
                    self.tick_armed = self.polled;
                    continue;
                }
                if self.drain.ignores(*id) {
                    self.ignore(*id);
                    continue;
                }
                if self.plain {
                    self.complete_plain(*id as u32, *result, now);
                } else {
                    self.complete(*id as u32, *result, now);
                }
            }
            if count < REAPED {
                return;
            }
        }
    }

    /// The operation of slot `id` came back.
    #[inline]
    fn complete_plain(&mut self, id: u32, result: i32, now: Instant) {
        match &self.slots[id as usize].doing {
            Doing::Op(begun) if result > 0 && result as u64 == begun.op.length.0 => {
                let then_write = begun.op.then_write;
                self.job.op_done(begun, now);
                self.release(id, then_write, now);
            }
            _ => self.complete_in_part(id, result, now),
        }
    }

    /// Slot `id` came back with less than all of its operation, with the rest of it, or from a call.
    #[cold]
    fn complete_in_part(&mut self, id: u32, result: i32, now: Instant) {
        self.pieces[id as usize] = self.piece(id);
        self.complete(id, result, now);
        // An operation that starts from its beginning again is its slot's: nothing of it may be left here.
        let piece = &mut self.pieces[id as usize];
        if let Some(Piece { task: Task::Transfer(Transfer { rest, length, .. }), .. }) = piece
            && rest.length == *length
        {
            *piece = None;
        }
    }

    /// Piece `id` came back.
    #[inline]
    fn complete(&mut self, id: u32, result: i32, now: Instant) {
        let Some(piece) = &self.pieces[id as usize] else { return };
        if let Some(fault) = piece.fault() {
            self.incomplete(id, -fault.get(), now);
        } else if !piece.is_done(result) {
            self.incomplete(id, result, now);
        } else if let Some(due) = piece.due().filter(|due| *due > now) {
            self.held.push(Reverse((due, id)));
        } else {
            self.deliver(id, now);
        }
    }

    /// A piece came back with less than was asked for.
    #[cold]
    fn incomplete(&mut self, id: u32, result: i32, now: Instant) {
        let Some(piece) = &mut self.pieces[id as usize] else { return };
        match judge(self.job.shared, &mut self.job.recorder, piece, result) {
            AfterPartial::Again if !self.job.over && self.failure.is_none() => self.waiting.push_back(id),
            // Nobody has it any more.
            AfterPartial::Again => self.pieces[id as usize] = None,
            AfterPartial::GoOn(errno) => {
                let slot = piece.slot;
                self.pieces[id as usize] = None;
                if !self.plain {
                    self.free_pieces.push(id);
                }
                if let Doing::Op(begun) = &mut self.slots[slot as usize].doing {
                    self.job.op_failed(begun, errno);
                }
                self.piece_over(slot, now);
            }
            AfterPartial::Failed(error) => {
                self.pieces[id as usize] = None;
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Delivers held pieces that are due.
    #[inline]
    fn deliver_held(&mut self, now: Instant) {
        while let Some(Reverse((due, id))) = self.held.peek().copied() {
            if due > now {
                return;
            }
            self.held.pop();
            self.deliver(id, now);
        }
    }

    /// A piece is done; with the last one its slot is.
    #[inline]
    fn deliver(&mut self, id: u32, now: Instant) {
        let Some(piece) = self.pieces[id as usize].take() else { return };
        if !self.plain {
            self.free_pieces.push(id);
        }
        if let Task::Transfer(transfer) = &piece.task {
            self.job.transfer_done(&piece, transfer, now);
        }
        self.piece_over(piece.slot, now);
    }

    /// A piece of slot `id` is over; with the last one the slot is.
    #[inline]
    fn piece_over(&mut self, id: u32, now: Instant) {
        let slot = &mut self.slots[id as usize];
        slot.pending -= 1;
        if slot.pending > 0 {
            return;
        }
        match &slot.doing {
            Doing::Op(begun) => {
                let then_write = begun.op.then_write;
                self.job.op_done(begun, now);
                self.release(id, then_write, now);
            }
            Doing::Sync(begun) => {
                self.job.sync_done(begun, now);
                self.free.push(id);
            }
            Doing::Nothing => {}
        }
    }

    /// Slot `id` has done its operation.
    #[inline]
    fn release(&mut self, id: u32, then_write: bool, now: Instant) {
        if then_write {
            self.follow.push(id);
        } else if self.think_time > Nanos(0) {
            self.resting.push_back((now + self.think_time, id));
        } else {
            if self.free.is_empty() {
                self.job.free_since = now;
            }
            self.free.push(id);
        }
    }
}

/// Gives `piece` a number, which is a new one only while the first operations of the trial find out how many pieces there are.
#[inline]
fn keep(pieces: &mut Vec<Option<Piece>>, free: &mut Vec<u32>, piece: Piece) -> u32 {
    let id = free.pop().unwrap_or_else(|| {
        pieces.push(None);
        pieces.len() as u32 - 1
    });
    pieces[id as usize] = Some(piece);
    id
}

//! One job on one ring.
//!
//! Where the target is a single unshaped member (`plain`), an operation is its slot and nothing else is looked at on its
//! way. Otherwise it has pieces, one per extent of the layout.

mod batch;
mod drain;
mod setup;
mod sync;
mod wait;

#[cfg(test)]
pub(crate) use setup::refusal;
pub(crate) use setup::{Ring, unavailable};
pub(crate) use wait::Ahead;

use crate::error::EngineError;
use crate::job::{Job, Slot, TICK};
use crate::record::Finished;
use crate::shared::{Piece, Verdict, judge};
use crate::source::Next;
use batch::Batch;
use drain::Drain;
pub(crate) use drain::Patience;
use ebbtide_model::workload::{Mix, Op, OpKind};
use ebbtide_sys::ring::{TIMER, Timespec, Transfer};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The tick, which makes the job look up from the work when nothing completes: a little longer than the distance of checks, so that each tick finds one due.
static TICK_TIME: Timespec = Timespec::new().nsec((TICK + 1_000_000) as u32);
/// Completions that are taken out of the queue before any is looked at.
const REAPED: usize = 32;

/// One job's loop and everything that is in flight.
pub(crate) struct RingLoop<'a> {
    io: Ring<'a>,
    job: Job<'a>,
    plain: bool,
    slots: Vec<Option<Slot>>,
    /// Slots that may begin an operation; the one used last first, since its buffer is in the CPU's cache.
    free: Vec<u32>,
    /// Slots whose read is done and whose write follows.
    follow: Vec<u32>,
    /// Slots that pause (think time), in the order in which their pause ends.
    resting: VecDeque<(u64, u32)>,
    /// Pieces by their number; when plain, the rest of slot n's operation after a short transfer.
    pieces: Vec<Option<Piece>>,
    free_pieces: Vec<u32>,
    /// Pieces that have to go to the kernel.
    waiting: VecDeque<u32>,
    /// Completed pieces of shaped members, by the instant they are due.
    held: BinaryHeap<Reverse<(u64, u32)>>,
    batch: Batch,
    tick_armed: bool,
    think_time: u64,
    /// Whether written blocks are made unlike each other: a rewrite writes back what it read.
    stamped: bool,
    /// Whether the copy that a read comes from changes with every operation.
    turns: bool,
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
    Until(Option<u64>),
    /// Nothing more at all.
    Done,
}

impl<'a> RingLoop<'a> {
    pub(crate) fn new(io: Ring<'a>, job: Job<'a>) -> Self {
        let workload = job.shared.workload;
        let plain = job.shared.plain;
        let depth = io.slots.depth;
        // Room for four pieces each before the first growth.
        let pieces = if plain { depth } else { depth.saturating_mul(4) };
        RingLoop {
            plain,
            slots: vec![None; depth as usize],
            free: (0..depth).rev().collect(),
            follow: Vec::with_capacity(depth as usize),
            resting: VecDeque::with_capacity(depth as usize),
            pieces: vec![None; pieces as usize],
            free_pieces: if plain { Vec::new() } else { (0..pieces).rev().collect() },
            waiting: VecDeque::with_capacity(pieces as usize),
            held: BinaryHeap::with_capacity(pieces as usize),
            batch: Batch::new(depth),
            // No timeouts on a ring that polls for completions.
            tick_armed: io.polled,
            think_time: workload.think_time.0,
            stamped: workload.mix != Mix::Rewrite,
            turns: job.shared.turns(),
            ahead: Ahead::of(job.shared.watches() && !io.polled),
            failure: None,
            drain: Drain::new(job.shared.patience),
            io,
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
                if self.io.ring.in_flight() == 0 {
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
            let before = self.io.ring.in_flight();
            self.enter(want, until, now)?;
            self.reap(clock.now());
            self.batch.learn(self.io.ring.in_flight() == 0 && before > 0);
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
                match self.slots[slot as usize].and_then(|s| s.op.follow_up()) {
                    Some(op) => (slot, op, now),
                    None => continue,
                }
            } else {
                let Some(slot) = self.free.last().copied() else { break };
                match self.job.next(now) {
                    Next::Op { op, intended } => {
                        self.free.pop();
                        (slot, op, intended)
                    }
                    Next::Sync(sync) => {
                        self.free.pop();
                        self.begin_sync(slot, sync, now);
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
            if op.kind == OpKind::Write && self.stamped {
                let number = self.job.begun.wrapping_mul(0x1_0000).wrapping_add(self.job.first);
                self.io.stamp(slot, op.length, number);
            }
            if self.plain {
                self.slots[slot as usize] = Some(begun);
                self.submit(slot, whole(slot, op));
            } else {
                self.split(slot, begun, now)?;
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
    fn split(&mut self, slot: u32, mut begun: Slot, now: u64) -> Result<(), EngineError> {
        let turn = if self.turns { self.job.first + self.job.begun } else { self.job.first };
        let RingLoop { job, pieces, free_pieces, waiting, .. } = self;
        let origin = job.origin();
        let mut count = 0;
        job.shared.split(begun.op, turn, &mut |extent| {
            let id = free_pieces.pop().unwrap_or_else(|| {
                // Only while the first operations of the trial find out how many pieces there are.
                pieces.push(None);
                pieces.len() as u32 - 1
            });
            pieces[id as usize] = Some(Piece::new(job.shared, slot, begun.op, extent, now, origin));
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
            if self.io.ring.is_full() {
                return;
            }
            self.waiting.pop_front();
            match self.piece(id) {
                Some(piece) if piece.sync.is_some() => self.submit_sync(id, &piece),
                Some(piece) => self.submit(id, piece),
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
        self.slots[id as usize].map(|slot| Piece { started: slot.started, ..whole(id, slot.op) })
    }

    /// Puts `piece` into the submission queue, or back among the waiting when it is full.
    #[inline(always)]
    fn submit(&mut self, id: u32, piece: Piece) {
        let Piece { slot, member, kind, offset, at, left: length, .. } = piece;
        let buffer = self.io.slots.buffer(kind, slot);
        let is_write = kind == OpKind::Write;
        if !self.io.ring.transfer(&Transfer { is_write, file: member, offset, buffer, at, length }, id) {
            self.waiting.push_back(id);
        }
    }

    fn arm_tick(&mut self) {
        self.tick_armed = self.io.ring.timer(&TICK_TIME);
    }

    /// Gives the kernel what is in the queue and waits for `want` completions, at most until `until` (or the next
    /// held piece).
    #[inline]
    fn enter(&mut self, want: usize, until: Option<u64>, now: u64) -> Result<(), EngineError> {
        let held = self.held.peek().filter(|_| !self.drain.begun()).map(|Reverse((due, _))| *due);
        let until = match (until, held) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        match until {
            _ if want > 0 && self.ahead.watches() && !self.drain.begun() => {
                self.watch(until.unwrap_or(u64::MAX), now)
            }
            Some(until) if want > 0 => self.sleep(until, now),
            _ => self.told(self.io.ring.submit_and_wait(want)),
        }
    }

    /// Takes all completions; they are seen at `now`.
    #[inline]
    fn reap(&mut self, now: u64) {
        self.job.check(now);
        let mut seen = [(0u64, 0i32); REAPED];
        loop {
            let count = self.io.ring.reap(&mut seen);
            for (id, result) in &seen[..count] {
                if *id == TIMER {
                    self.tick_armed = self.io.polled;
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
    fn complete_plain(&mut self, id: u32, result: i32, now: u64) {
        let Some(slot) = &self.slots[id as usize] else { return };
        if result > 0 && result as u64 == slot.op.length {
            self.job.op_done(slot, now);
            let then_write = slot.op.then_write;
            self.release(id, then_write, now);
            return;
        }
        self.incomplete_plain(id, result, now);
    }

    /// The operation of slot `id` came back with less than all of it.
    #[cold]
    fn incomplete_plain(&mut self, id: u32, result: i32, now: u64) {
        let (Some(piece), Some(slot)) = (self.piece(id), self.slots[id as usize]) else { return };
        if piece.sync.is_some() {
            self.incomplete(id, result, now);
            return;
        }
        if result > 0 && result as u32 == piece.left {
            self.pieces[id as usize] = None;
            self.job.op_done(&slot, now);
            self.release(id, slot.op.then_write, now);
            return;
        }
        self.pieces[id as usize] = Some(piece);
        self.incomplete(id, result, now);
        // An operation that starts from its beginning again is its slot's: nothing of it may be left here.
        if self.pieces[id as usize].is_some_and(|piece| piece.left == piece.length) {
            self.pieces[id as usize] = None;
        }
    }

    /// Piece `id` came back.
    #[inline]
    fn complete(&mut self, id: u32, result: i32, now: u64) {
        let Some(piece) = &self.pieces[id as usize] else { return };
        if result != piece.left as i32 || piece.fault.is_some() {
            let result = piece.fault.map_or(result, |fault| -fault.get());
            self.incomplete(id, result, now);
        } else if piece.due > now {
            self.held.push(Reverse((piece.due, id)));
        } else {
            self.deliver(id, now);
        }
    }

    /// A piece came back with less than was asked for.
    #[cold]
    fn incomplete(&mut self, id: u32, result: i32, now: u64) {
        let Some(piece) = &mut self.pieces[id as usize] else { return };
        if piece.sync.is_some() && result == 0 {
            self.synced(id, now);
            return;
        }
        match judge(self.job.shared, &mut self.job.recorder, piece, result) {
            Verdict::Again if !self.job.over && self.failure.is_none() => self.waiting.push_back(id),
            // Nobody has it any more.
            Verdict::Again => self.pieces[id as usize] = None,
            Verdict::Failed(error) => {
                self.pieces[id as usize] = None;
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
        let Some(piece) = self.pieces[id as usize].take() else { return };
        self.free_pieces.push(id);
        self.job.piece_done(&piece, now);
        let Some(slot) = &mut self.slots[piece.slot as usize] else { return };
        slot.pending -= 1;
        if slot.pending == 0 {
            self.job.op_done(slot, now);
            let then_write = slot.op.then_write;
            self.release(piece.slot, then_write, now);
        }
    }

    /// Slot `id` has done its operation.
    #[inline]
    fn release(&mut self, id: u32, then_write: bool, now: u64) {
        if then_write {
            self.follow.push(id);
        } else if self.think_time > 0 {
            self.resting.push_back((now + self.think_time, id));
        } else {
            if self.free.is_empty() {
                self.job.free_since = now;
            }
            self.free.push(id);
        }
    }
}

/// All of `op` on a single member.
#[inline(always)]
fn whole(slot: u32, op: Op) -> Piece {
    // At most `bs`, which `run` limits to 1 GiB.
    let length = op.length as u32;
    Piece {
        slot,
        member: 0,
        kind: op.kind,
        sync: None,
        offset: op.offset,
        at: 0,
        left: length,
        length,
        started: 0,
        due: 0,
        fault: None,
    }
}

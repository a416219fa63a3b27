//! The event loop of a workload: slots of the queue submit, complete and submit again, in virtual time.

use super::array::{Array, Request};
use super::cpu::Cpu;
use super::leap::Leap;
use super::pages::{Cached, Pages};
use super::queue::Queue;
use super::record::{Recorded, Recorder, Window};
use super::resync::Resync;
use ebbtide_model::backend::{BackendError, Control};
use ebbtide_model::experiment::Environment;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::CpuUse;
use ebbtide_model::units::{ArrayOffset, Bytes, Instant, Nanos, format_waiting};
use ebbtide_model::workload::{Generator, Op, OpKind, Pace, Stop, Workload, WorkloadError};
use std::sync::atomic::Ordering::Relaxed;

/// Most slots that a trial may have.
const SLOTS_MAX: u64 = 1 << 20;

/// I/Os between two looks at the control.
const WORK_PER_LOOK: u64 = 1 << 16;

/// How many I/Os a trial may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// Before it is asked how far they brought it.
    pub(super) free: u64,
    /// Until its end, at the pace so far.
    pub(super) most: f64,
}

impl Work {
    /// Some seconds of computing, and some hours.
    pub(super) const USUAL: Work = Work { free: 1 << 25, most: 1e11 };
}

/// Writeback requests in flight per member, as many as a device's queue takes by default.
const WRITEBACK_PER_MEMBER: u32 = 32;

/// What a slot waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The start of its operation.
    Start,
    /// Its operation to complete.
    Completion,
    /// The page cache to take its write.
    Room,
    /// Nothing: it has no more to do.
    Done,
}

#[derive(Debug)]
struct Slot {
    state: State,
    op: Op,
    job: u32,
    intended: Instant,
    submitted: Instant,
}

#[derive(Debug)]
struct Job {
    generator: Generator,
    pace: Option<Pace>,
    /// What is left, when the trial ends by size.
    left: Option<Bytes>,
    client: usize,
}

/// A trial in progress, on an array that others may use at the same time.
pub(super) struct Load<'a> {
    workload: &'a Workload,
    control: &'a Control,
    /// What the array calls its first slot.
    first_slot: u32,
    recorder: Recorder,
    queue: Queue,
    slots: Vec<Slot>,
    jobs: Vec<Job>,
    cpu: Cpu,
    pages: Option<Pages>,
    resync: Option<Resync>,
    window: Window,
    /// Slots of the workload that are not done.
    alive: u32,
    /// When the last operation completed.
    last: Instant,
    /// An event from here on never comes.
    never: Instant,
    leap: Leap,
    work: Work,
    /// I/Os so far, and events until the next look at the control.
    worked: u64,
    until_look: u64,
    /// Nothing happens to it any more.
    over: bool,
    /// What all jobs are to move, when the trial ends by size.
    budget: Bytes,
    /// Most member I/Os of an operation.
    pieces: u64,
}

/// What runs at the same time on its array.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside {
    /// Slots of those before it.
    pub(super) first_slot: u32,
    /// Jobs of all others.
    pub(super) jobs: u32,
}

/// What comes of a trial.
pub(super) struct Outcome {
    pub(super) recorded: Recorded,
    pub(super) cpu: CpuUse,
    pub(super) end: Instant,
    /// Operations in flight at the end.
    pub(super) unfinished: u64,
    /// What a resync read and wrote.
    pub(super) resynced: Option<PerOp<Bytes>>,
}

impl<'a> Load<'a> {
    /// # Errors
    /// When the workload does not fit the array or asks for what the environment does not have.
    pub(super) fn new(
        workload: &'a Workload,
        environment: &Environment,
        array: &Array,
        seed: u64,
        control: &'a Control,
        work: Work,
        beside: Beside,
    ) -> Result<Self, BackendError> {
        let window = Window::new(workload);
        let own = u64::from(workload.numjobs) * u64::from(workload.depth());
        if own > SLOTS_MAX {
            return Err(BackendError::Other(format!(
                "workload {}: {own} operations in flight are too many; use at most {SLOTS_MAX} (iodepth times numjobs)",
                workload.name
            )));
        }
        let capacity = array.capacity();
        let clients = environment.clients.max(1);
        let jobs = (0..workload.numjobs).map(|job| {
            let generator = Generator::new(workload, capacity, seed, job)?;
            let pace = workload.rate.map(|rate| Pace::new(rate.0 as f64 / f64::from(workload.numjobs)));
            let left = generator.budget();
            Ok(Job { generator, pace, left, client: (job % clients) as usize })
        });
        let jobs = jobs
            .collect::<Result<Vec<Job>, WorkloadError>>()
            .map_err(|error| BackendError::Other(format!("workload {}: {error}", workload.name)))?;
        let idle = Op {
            kind: OpKind::Read,
            offset: ArrayOffset::START,
            length: Bytes(0),
            due: Nanos(0),
            then_write: false,
        };
        let slots: Vec<Slot> = (0..own as u32)
            .map(|n| Slot {
                state: State::Start,
                op: idle,
                job: n / workload.depth(),
                intended: Instant::START,
                submitted: Instant::START,
            })
            .collect();
        let pages = Pages::new(workload, environment, array, seed)?;
        let budget = left(&jobs);
        let pieces = workload.bs.0.div_ceil(array.smallest_piece().0).max(1);
        let writeback = if pages.is_some() { WRITEBACK_PER_MEMBER * array.len() as u32 } else { 0 };
        let resync = environment.resync.map(|resync| Resync::new(resync, array));
        let queue = Queue::new(slots.len() + writeback as usize + 1);
        if window.end != Instant::NEVER && window.end > queue.horizon() {
            return Err(BackendError::Other(format!(
                "workload {}: a trial of {} with {own} operations in flight is longer than the simulator can tell; \
                 use at most {:.0} days",
                workload.name,
                window.end.elapsed(),
                queue.horizon().elapsed().as_secs_f64() / 86_400.0
            )));
        }
        Ok(Load {
            recorder: Recorder::new(window, array.len(), workload.is_open_loop()),
            cpu: Cpu::new(&environment.host, (workload.numjobs, beside.jobs), clients, window.begin),
            pages: pages.map(|pages| pages.with_writers(own as u32, writeback, beside.first_slot)),
            workload,
            control,
            first_slot: beside.first_slot,
            leap: Leap::new(workload, environment, array, &window, beside.jobs == 0),
            slots,
            jobs,
            resync,
            window,
            work,
            worked: 0,
            until_look: (WORK_PER_LOOK / pieces).max(1),
            over: false,
            budget,
            pieces,
            alive: own as u32,
            last: Instant::START,
            never: Instant(queue.horizon().0 / 2),
            queue,
        })
    }

    /// Has all its slots submit for the first time.
    ///
    /// # Errors
    /// When a member fails for good.
    pub(super) fn begin(&mut self, array: &mut Array) -> Result<(), BackendError> {
        for slot in 0..self.slots.len() as u32 {
            if let Some(at) = self.start_next(slot, Instant::START, array)? {
                self.queue.push(at, slot);
            }
        }
        if self.resync.is_some() {
            let slot = self.resync_slot();
            self.queue.push(Instant::START, slot);
        }
        Ok(())
    }

    /// Slots that the array may know it by.
    pub(super) fn slots(&self) -> u32 {
        self.resync_slot() + 1
    }

    /// Whether it writes.
    pub(super) fn writes(&self) -> bool {
        self.workload.writes()
    }

    /// When something happens to it next: never where nothing does any more.
    pub(super) fn next(&self) -> Instant {
        let next = self.queue.peek().filter(|_| !self.over);
        next.map_or(Instant::NEVER, |(at, _)| at)
    }

    /// Whether nothing happens to it from `now` on, the next instant at which anything happens.
    ///
    /// # Errors
    /// When it would never end.
    pub(super) fn is_over_at(&mut self, now: Instant) -> Result<bool, BackendError> {
        let stalled = now >= self.never && self.window.end == Instant::NEVER && now != Instant::NEVER;
        self.over |= self.alive == 0 || now >= self.window.end || now == Instant::NEVER;
        if stalled && !self.over { Err(self.stalled()) } else { Ok(self.over) }
    }

    /// Has happen what happens to it up to `until`, and before its array has something to do.
    ///
    /// # Errors
    /// When a member fails for good, or the control says stop.
    pub(super) fn advance(&mut self, until: Instant, array: &mut Array) -> Result<(), BackendError> {
        let own = self.slots.len() as u32;
        while let Some((now, slot)) = self.queue.peek()
            && now <= until
            && now <= array.due()
            && !self.is_over_at(now)?
        {
            if now >= self.leap.look {
                self.leap(now, array);
                continue;
            }
            let next =
                if slot < own { self.event(slot, now, array)? } else { self.background(slot, now, array)? };
            match next {
                Some(at) => self.queue.replace(at, slot),
                None => self.queue.pop(),
            }
            self.wake_writeback(now);
            self.until_look -= 1;
            if self.until_look == 0 {
                self.until_look = (WORK_PER_LOOK / self.pieces).max(1);
                self.worked = self.worked.saturating_add(self.until_look.saturating_mul(self.pieces));
                self.report()?;
                self.keeps_pace(self.worked, now)?;
            }
        }
        Ok(())
    }

    /// Writes what has gathered in the stripe cache; what that did for which slots, as the array calls them, goes to `done`.
    pub(super) fn write_stripes(
        &mut self,
        now: Instant,
        array: &mut Array,
        done: &mut Vec<(u32, Instant)>,
    ) -> Result<(), BackendError> {
        array.work(now, &mut self.recorder, done)
    }

    /// A request of slot `slot`, as the array calls it, that had gathered with others is done at `end`; whether it is its own.
    pub(super) fn gathered(&mut self, slot: u32, end: Instant, array: &mut Array) -> bool {
        let Some(slot) = slot.checked_sub(self.first_slot) else { return false };
        // Slots behind those of operations write back: nobody waits for a flush of that.
        let op = self.slots.get(slot as usize).map(|slot| slot.op.kind);
        let end = op.map_or(end, |op| self.durable(op, end, array));
        self.queue.push(end, slot);
        true
    }

    /// Looks whether what happens now goes on for long, and if so, goes there.
    #[cold]
    fn leap(&mut self, now: Instant, array: &mut Array) {
        let jump = self.leap.consider(now, array, &mut self.recorder, self.cpu.used(), self.window.end);
        let Some(jump) = jump else { return };
        let by = jump.block.times(jump.blocks);
        self.queue.shift(by);
        for slot in &mut self.slots {
            slot.intended += by;
            slot.submitted += by;
        }
        self.cpu.leap(&jump.cpu_used, jump.blocks, jump.block);
        self.last += by;
    }

    /// Something happened to a slot of the workload; says when it happens to it next.
    #[inline]
    fn event(&mut self, slot: u32, now: Instant, array: &mut Array) -> Result<Option<Instant>, BackendError> {
        let index = slot as usize;
        match self.slots[index].state {
            State::Start => self.submit(slot, now, array),
            State::Completion => {
                let Slot { op, intended, submitted, .. } = self.slots[index];
                self.last = now;
                self.recorder.array(op.kind, op.length, intended, submitted, now);
                if let Some(follow_up) = op.follow_up() {
                    self.slots[index].op = follow_up;
                    self.slots[index].intended = now;
                    return self.submit(slot, now, array);
                }
                self.start_next(slot, now, array)
            }
            // Woken by a writeback that made room.
            State::Room => {
                self.slots[index].state = State::Completion;
                let Slot { op, job, .. } = self.slots[index];
                Ok(Some(self.cpu.copy(job, now, op.length)))
            }
            State::Done => Ok(None),
        }
    }

    /// The slot's next operation: submits it, or says when it starts.
    #[inline]
    fn start_next(
        &mut self,
        slot: u32,
        now: Instant,
        array: &mut Array,
    ) -> Result<Option<Instant>, BackendError> {
        let state = &mut self.slots[slot as usize];
        let job = &mut self.jobs[state.job as usize];
        if job.left == Some(Bytes(0)) {
            state.state = State::Done;
            self.alive -= 1;
            return Ok(None);
        }
        let mut op = job.generator.next_op();
        if let Some(left) = &mut job.left {
            op.length = op.length.min(*left);
            *left -= op.length;
        }
        state.op = op;
        let mut start = now;
        // Thinking comes between operations, not before the first.
        if now > Instant::START {
            start += self.workload.think_time;
        }
        if self.workload.is_open_loop() {
            state.intended = Instant::START + op.due;
            start = start.max(state.intended);
        } else {
            if let Some(pace) = &mut job.pace {
                start = pace.admit(start, op.length);
            }
            state.intended = start;
        }
        if start > now {
            state.state = State::Start;
            return Ok(Some(start));
        }
        self.submit(slot, now, array)
    }

    fn request(&self, slot: u32) -> Request {
        let Slot { op, job, .. } = &self.slots[slot as usize];
        let client = self.jobs[*job as usize].client;
        Request { op: op.kind, offset: op.offset, length: op.length, slot: self.first_slot + slot, client }
    }

    /// Submits the slot's operation at `now`; says when it completes.
    #[inline]
    fn submit(
        &mut self,
        slot: u32,
        now: Instant,
        array: &mut Array,
    ) -> Result<Option<Instant>, BackendError> {
        let job = self.slots[slot as usize].job;
        self.slots[slot as usize].submitted = now;
        let request = self.request(slot);
        let at = self.cpu.io(request.op, job, now);
        if self.pages.is_some() {
            return self.submit_buffered(slot, at, &request, array);
        }
        self.slots[slot as usize].state = State::Completion;
        let end = array.submit(at, &request, &mut self.recorder)?.instant();
        Ok(end.map(|end| self.durable(request.op, end, array)))
    }

    /// When an operation that was done at `end` is over: a write that is to be durable has its members flushed.
    #[inline]
    fn durable(&self, op: OpKind, end: Instant, array: &mut Array) -> Instant {
        if self.workload.sync && op == OpKind::Write { array.flush(end) } else { end }
    }

    /// The same through the page cache.
    fn submit_buffered(
        &mut self,
        slot: u32,
        now: Instant,
        request: &Request,
        array: &mut Array,
    ) -> Result<Option<Instant>, BackendError> {
        let Some(pages) = &mut self.pages else { return Ok(None) };
        let Slot { op, job, .. } = self.slots[slot as usize];
        let cached = match op.kind {
            OpKind::Read => pages.read(now, job, request, array, &mut self.recorder)?,
            OpKind::Write if self.workload.sync => Cached::Through,
            OpKind::Write => pages.write(slot, now, op.offset, op.length),
        };
        let (state, at) = match cached {
            Cached::At(ready) => (State::Completion, Some(self.cpu.copy(job, ready, op.length))),
            Cached::Blocked => (State::Room, None),
            Cached::Through => {
                let copied = self.cpu.copy(job, now, op.length);
                let end = array.submit(copied, request, &mut self.recorder)?.instant();
                (State::Completion, end.map(|end| self.durable(op.kind, end, array)))
            }
        };
        self.slots[slot as usize].state = state;
        Ok(at)
    }

    /// An event of the writeback or of the resync.
    #[cold]
    fn background(
        &mut self,
        slot: u32,
        now: Instant,
        array: &mut Array,
    ) -> Result<Option<Instant>, BackendError> {
        if slot == self.resync_slot() {
            let Some(resync) = &mut self.resync else { return Ok(None) };
            return Ok(resync.step(now, array));
        }
        let Some(pages) = &mut self.pages else { return Ok(None) };
        let woken = pages.written_back(slot);
        let next = pages.write_back(slot, now, array, &mut self.recorder)?;
        for slot in woken {
            // The event in hand still heads the queue: these must not sort before it.
            self.queue.push(now + Nanos(1), slot);
        }
        Ok(next)
    }

    /// Starts idle writeback slots when there is something to write.
    #[inline]
    fn wake_writeback(&mut self, now: Instant) {
        let Some(pages) = &mut self.pages else { return };
        while let Some(slot) = pages.idle_writer() {
            self.queue.push(now, slot);
        }
    }

    fn resync_slot(&self) -> u32 {
        self.slots.len() as u32 + self.pages.as_ref().map_or(0, Pages::writers)
    }

    /// Tells the control how far it is.
    ///
    /// # Errors
    /// When it says stop.
    fn report(&self) -> Result<(), BackendError> {
        let counted = self.recorder.counted();
        self.control.ops.store(counted.ops, Relaxed);
        self.control.bytes.store(counted.bytes, Relaxed);
        if self.control.stop.load(Relaxed) { Err(BackendError::Stopped) } else { Ok(()) }
    }

    /// Whether the trial comes to its end in some hours of computing, as far as `worked` I/Os until `now` tell. Volumes may
    /// answer so fast that virtual time hardly moves, or not at all.
    ///
    /// # Errors
    /// When it does not.
    fn keeps_pace(&self, worked: u64, now: Instant) -> Result<(), BackendError> {
        let (done, what) = match self.workload.stop {
            Stop::Runtime(_) => (
                now.0 as f64 / self.window.end.0.max(1) as f64,
                format!("{} of {}", format_waiting(now.elapsed()), format_waiting(self.window.end.elapsed())),
            ),
            Stop::Size(_) => {
                let (all, done) = (self.budget.0, (self.budget - left(&self.jobs)).0);
                (done as f64 / all.max(1) as f64, format!("{done} of {all} bytes"))
            }
        };
        let Work { free, most } = self.work;
        if worked < free || worked as f64 <= most * done {
            return Ok(());
        }
        Err(BackendError::Other(format!(
            "workload {}: {worked} I/Os brought the simulation to {what}; more than {most:.0e} in all are too many (some \
             millions are simulated per second); give the volumes a latency or lower limits (`burst` and `credits` too), or the \
             workload a larger bs, a shorter runtime or a smaller size",
            self.workload.name
        )))
    }

    /// Why nothing completes any more.
    fn stalled(&self) -> BackendError {
        BackendError::Other(format!(
            "workload {}: after {:.3} s no operation completes any more (a member is frozen for good?), \
             and the trial ends by size; give it a runtime",
            self.workload.name,
            self.last.elapsed().as_secs_f64()
        ))
    }

    /// What came of it.
    ///
    /// # Errors
    /// When a member fails for good in the fsync at its end, or the control says stop.
    pub(super) fn finish(mut self, array: &mut Array) -> Result<Outcome, BackendError> {
        self.report()?;
        let mut end = match self.workload.stop {
            Stop::Runtime(_) => self.window.end,
            Stop::Size(_) => self.last,
        };
        let mut unfinished = 0;
        for slot in &self.slots {
            if matches!(slot.state, State::Completion | State::Room) {
                self.recorder.in_flight(slot.submitted, end);
                unfinished += 1;
            }
        }
        if self.workload.end_fsync && self.pages.is_some() {
            end = self.drain(end, array)?;
        }
        self.recorder.finish_at(end);
        let elapsed = end - self.window.begin;
        Ok(Outcome {
            cpu: self.cpu.finish(elapsed),
            recorded: self.recorder.finish(array.names()),
            unfinished,
            resynced: self.resync.as_ref().map(Resync::moved),
            end,
        })
    }

    /// fsync: writes back what is dirty and says when that is done.
    fn drain(&mut self, end: Instant, array: &mut Array) -> Result<Instant, BackendError> {
        let own = self.slots.len() as u32;
        self.recorder.extend();
        if let Some(pages) = &mut self.pages {
            pages.drain();
        }
        self.wake_writeback(end);
        let mut last = end;
        while let Some(pages) = &mut self.pages {
            if pages.is_clean() {
                break;
            }
            let (next, due) = (self.queue.peek(), array.due());
            let Some((now, slot)) = next.filter(|(at, _)| *at <= due) else {
                if due == Instant::NEVER {
                    break;
                }
                let mut done = Vec::new();
                self.write_stripes(due, array, &mut done)?;
                for (slot, end) in done {
                    self.gathered(slot, end, array);
                }
                continue;
            };
            if slot < own || slot == own + pages.writers() {
                self.queue.pop();
                continue;
            }
            pages.written_back(slot);
            last = last.max(now);
            match pages.write_back(slot, now.max(end), array, &mut self.recorder)? {
                Some(at) => self.queue.replace(at, slot),
                None => self.queue.pop(),
            }
            self.wake_writeback(now.max(end));
        }
        Ok(last)
    }
}

/// What `jobs` still have to move, where the trial ends by size.
fn left(jobs: &[Job]) -> Bytes {
    Bytes(jobs.iter().filter_map(|job| job.left).fold(0, |sum, left| sum.saturating_add(left.0)))
}

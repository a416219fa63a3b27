//! Decides what a job does next and when it may start.

use ebbtide_model::units::{Bytes, Instant};
use ebbtide_model::workload::{Generator, Op, OpKind, Pace, Workload};

/// A call that makes what was written durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Data and metadata: fsync(2).
    All,
    /// Data alone: fdatasync(2).
    Data,
}

/// What a job does next.
#[derive(Debug)]
pub(crate) enum Next {
    /// This operation, at once. `intended` is when it should have started.
    Op { op: Op, intended: Instant },
    /// This call, at once.
    Sync(Sync),
    /// Nothing before this instant.
    Wait(Instant),
    /// The job has no more operations.
    Done,
}

/// When a job syncs.
#[derive(Debug, Clone, Default)]
struct Syncs {
    fsync_every: Option<u32>,
    fdatasync_every: Option<u32>,
    /// Writes handed out since the last fsync and fdatasync.
    since: (u32, u32),
}

impl Syncs {
    /// The call that is due, once.
    fn due(&mut self) -> Option<Sync> {
        let over = |every: Option<u32>, since| every.is_some_and(|every| since >= every);
        if over(self.fsync_every, self.since.0) {
            self.since.0 = 0;
            Some(Sync::All)
        } else if over(self.fdatasync_every, self.since.1) {
            self.since.1 = 0;
            Some(Sync::Data)
        } else {
            None
        }
    }

    fn count(&mut self, op: Op) {
        if op.kind == OpKind::Write || op.then_write {
            self.since.0 = self.since.0.saturating_add(1);
            self.since.1 = self.since.1.saturating_add(1);
        }
    }
}

/// The operations of one job, held back until they are due.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    generator: Generator,
    pace: Option<Pace>,
    open_loop: bool,
    timed: bool,
    /// Whether operations are a plain stream, neither timed nor interspersed with syncs.
    plain: bool,
    syncs: Syncs,
    /// What is left, where the trial ends by size.
    left: Option<Bytes>,
    /// The next operation and its earliest start, when it was not due yet.
    ahead: Option<(Op, Instant)>,
    /// Instant that due times count from.
    origin: Instant,
}

impl Source {
    pub(crate) fn new(workload: &Workload, generator: Generator) -> Self {
        let per_job = |total: u64| total as f64 / f64::from(workload.numjobs.max(1));
        let (timed, details) = (workload.is_open_loop() || workload.rate.is_some(), workload.details);
        Source {
            pace: workload.rate.map(|rate| Pace::new(per_job(rate.0))),
            open_loop: workload.is_open_loop(),
            timed,
            plain: generator.is_plain()
                && !timed
                && details.fsync_every.is_none()
                && details.fdatasync_every.is_none(),
            syncs: Syncs {
                fsync_every: details.fsync_every,
                fdatasync_every: details.fdatasync_every,
                ..Syncs::default()
            },
            left: None,
            ahead: None,
            origin: Instant::START,
            generator,
        }
    }

    /// Due times count from here.
    pub(crate) fn start(&mut self, origin: Instant) {
        self.origin = origin;
    }

    /// As [`next`](Self::next), where the threads of a job share its operations: whoever comes first sets it going.
    pub(crate) fn next_of_several(&mut self, now: Instant, origin: Instant, measuring: bool) -> Next {
        self.origin = origin;
        if measuring && self.left.is_none() {
            self.count_bytes();
        }
        self.next(now)
    }

    /// From now on bytes count towards the size, where the trial ends by size.
    pub(crate) fn count_bytes(&mut self) {
        self.left = self.generator.budget();
    }

    /// Whether operations have to wait for an instant.
    pub(crate) fn is_timed(&self) -> bool {
        self.timed
    }

    /// The next operation at `now`.
    // Inlined always, as the other steps of an operation: passing operations through memory costs more than they do.
    #[inline(always)]
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        if !self.plain {
            return self.next_held(now);
        }
        let mut op = self.generator.next_plain();
        if let Some(left) = &mut self.left {
            op.length = op.length.min(*left);
            *left -= op.length;
            if op.length == Bytes(0) {
                return Next::Done;
            }
        }
        Next::Op { op, intended: now }
    }

    /// The same where operations have to wait, or syncs come between them.
    fn next_held(&mut self, now: Instant) -> Next {
        if let Some(sync) = self.syncs.due() {
            return Next::Sync(sync);
        }
        if self.left == Some(Bytes(0)) {
            return Next::Done;
        }
        let (mut op, start) = match self.ahead.take() {
            Some(ahead) => ahead,
            None => {
                let op = self.generator.next_op();
                let due = if self.open_loop { self.origin + op.due } else { now };
                let start = match &mut self.pace {
                    Some(pace) => pace.admit(due.max(now), op.length),
                    None => due,
                };
                (op, start)
            }
        };
        if start > now {
            self.ahead = Some((op, start));
            return Next::Wait(start);
        }
        if let Some(left) = &mut self.left {
            op.length = op.length.min(*left);
            *left -= op.length;
        }
        self.syncs.count(op);
        // An open loop's intended start is its arrival; a pace only delays, it makes nobody late.
        let intended = if self.open_loop { self.origin + op.due } else { now };
        Next::Op { op, intended }
    }
}

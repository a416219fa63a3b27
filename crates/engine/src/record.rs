//! What one job records, interval by interval.
//!
//! A job records into one [`Record`] at a time. When its interval ends, the full one goes to the collector and an empty
//! one takes its place: no copy, no lock and no allocation where an operation is recorded.

use crate::cpu::{ThreadCounters, ThreadTime};
use crate::error::EngineError;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, Histogram, OpSamples};
use ebbtide_model::units::{Bytes, Instant, Nanos};
use ebbtide_model::workload::OpKind;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender};

/// Operations of both kinds: histograms count them, bytes are beside.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) latency: PerOp<Histogram>,
    pub(crate) bytes: PerOp<u64>,
}

impl Tally {
    /// Nothing yet; adding to it allocates nothing.
    pub(crate) fn new() -> Self {
        Tally { latency: PerOp::each(Histogram::with_buckets), bytes: PerOp::default() }
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        merge(&mut self.latency, &other.latency);
        self.bytes += other.bytes;
    }

    pub(crate) fn counts(&self) -> PerOp<Count> {
        self.latency.as_ref().zip(self.bytes).map(|(latency, bytes)| Count { ops: latency.count(), bytes })
    }

    pub(crate) fn samples(self) -> PerOp<OpSamples> {
        let counts = self.counts();
        counts.zip(self.latency.map(Histogram::compacted)).map(|(count, latency)| OpSamples {
            count,
            latency,
            service: None,
        })
    }

    #[inline]
    pub(crate) fn record(&mut self, kind: OpKind, latency: Nanos, bytes: Bytes) {
        self.latency.get_mut(kind).record(latency.0);
        *self.bytes.get_mut(kind) += bytes.0;
    }

    fn clear(&mut self) {
        self.latency.read.clear();
        self.latency.write.clear();
        self.bytes = PerOp::default();
    }
}

/// Adds `more` to `sum`.
pub(crate) fn merge(sum: &mut PerOp<Histogram>, more: &PerOp<Histogram>) {
    sum.read.merge(&more.read);
    sum.write.merge(&more.write);
}

/// Everything that a job saw in one interval.
#[derive(Debug)]
pub(crate) struct Record {
    /// Which interval of the series; `None` is the warm-up.
    pub(crate) interval: Option<u64>,
    pub(crate) array: Tally,
    /// Open loop: latency from the actual submission.
    pub(crate) service: Option<PerOp<Histogram>>,
    /// Open loop: from when an operation could have been submitted to when it was; no buckets before the first.
    pub(crate) lateness: Histogram,
    /// Open loop: from an operation's instant to when one of `iodepth` slots was free for it; no buckets before the first.
    pub(crate) slot_waits: Histogram,
    /// Latency of fsync and fdatasync between the operations; no buckets before the first.
    pub(crate) syncs: Histogram,
    /// Empty where the array is its only member.
    pub(crate) members: Vec<Tally>,
}

impl Record {
    pub(crate) fn new(members: usize, open_loop: bool) -> Self {
        Record {
            interval: None,
            array: Tally::new(),
            service: open_loop.then(|| PerOp::each(Histogram::with_buckets)),
            lateness: Histogram::default(),
            slot_waits: Histogram::default(),
            syncs: Histogram::default(),
            members: (0..members).map(|_| Tally::new()).collect(),
        }
    }

    /// An empty one for the sum of several like `like`, as small as what is added to it.
    pub(crate) fn kept(like: &Record) -> Self {
        let tally = || Tally { latency: PerOp::default(), bytes: PerOp::default() };
        Record {
            interval: like.interval,
            array: tally(),
            service: like.service.as_ref().map(|_| PerOp::default()),
            lateness: Histogram::default(),
            slot_waits: Histogram::default(),
            syncs: Histogram::default(),
            members: like.members.iter().map(|_| tally()).collect(),
        }
    }

    /// Adds what another one of the same interval has seen.
    pub(crate) fn add(&mut self, other: &Record) {
        self.array.add(&other.array);
        if let (Some(sum), Some(more)) = (&mut self.service, &other.service) {
            merge(sum, more);
        }
        self.lateness.merge(&other.lateness);
        self.slot_waits.merge(&other.slot_waits);
        self.syncs.merge(&other.syncs);
        self.members.iter_mut().zip(&other.members).for_each(|(sum, more)| sum.add(more));
    }

    /// Empties it and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.array.clear();
        if let Some(service) = &mut self.service {
            service.read.clear();
            service.write.clear();
        }
        self.lateness.clear();
        self.slot_waits.clear();
        self.syncs.clear();
        self.members.iter_mut().for_each(Tally::clear);
    }
}

/// Errors that members returned, by member and name.
pub(crate) type Errors = BTreeMap<(usize, String), u64>;

/// Operations that failed and did not end the trial.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Failed {
    pub(crate) operations: u64,
    /// When the first failed, and its error number.
    pub(crate) first: Option<(Instant, i32)>,
}

impl Failed {
    /// Adds `more` to these.
    pub(crate) fn plus(self, more: Failed) -> Failed {
        let first = [self.first, more.first].into_iter().flatten().min();
        Failed { operations: self.operations + more.operations, first }
    }
}

/// What a job says when it has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// When its last operation was delivered; absent when none was.
    pub(crate) last: Option<Instant>,
    /// What its thread did with its time during the measurement; absent when that never began.
    pub(crate) time: Option<ThreadTime>,
    pub(crate) errors: Errors,
    /// A trial that ends by size: whether it was done in full.
    pub(crate) complete: bool,
    /// Operations that had begun when the measurement ended and are in no record.
    pub(crate) unfinished: u64,
    /// Operations that failed and did not end it, and the error number of the first, with when it was met.
    pub(crate) failed: Failed,
    /// Why it ended before its time; what it recorded until then counts all the same.
    pub(crate) failure: Option<EngineError>,
    /// What the reader must know of the job's end.
    pub(crate) note: Option<String>,
    pub(crate) begun: Begun,
    /// When its thread was at work.
    pub(crate) at_work: Option<Instant>,
}

/// Operations that a thread has begun, warm-up included.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Begun {
    pub(crate) thread: u32,
    pub(crate) operations: u64,
}

/// From a job to the collector.
#[derive(Debug)]
pub(crate) enum Message {
    /// Set up, with notes for the reader; waits for the start.
    Ready(Vec<String>),
    /// An interval of job number `job` is over, or the job is.
    Record { job: usize, record: Box<Record>, last: bool },
    /// The job is over.
    Finished { result: Result<Box<Finished>, EngineError> },
}

/// When things happen, on the engine's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Start of the warm-up: due times count from here.
    pub(crate) origin: Instant,
    /// Start of the measurement.
    pub(crate) measure: Instant,
    /// End of the measurement; never when it ends by size.
    pub(crate) end: Instant,
    /// Length of an interval of the series.
    pub(crate) interval: Nanos,
}

/// The recording side of one job.
#[derive(Debug)]
pub(crate) struct Recorder {
    job: usize,
    pub(crate) current: Box<Record>,
    times: Times,
    /// When `current` is over.
    until: Instant,
    to_collector: Sender<Message>,
    recycled: Receiver<Box<Record>>,
    pub(crate) last: Option<Instant>,
    pub(crate) errors: Errors,
    pub(crate) failed: Failed,
    at_start: Option<ThreadCounters>,
}

impl Recorder {
    pub(crate) fn new(
        job: usize,
        members: usize,
        open_loop: bool,
        times: Times,
        to_collector: Sender<Message>,
        recycled: Receiver<Box<Record>>,
    ) -> Self {
        Recorder {
            job,
            current: Box::new(Record::new(members, open_loop)),
            times,
            until: times.measure,
            to_collector,
            recycled,
            last: None,
            errors: Errors::new(),
            failed: Failed::default(),
            at_start: None,
        }
    }

    /// When [`roll`](Self::roll) has to be called next.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Whether the measurement has begun.
    pub(crate) fn measuring(&self) -> bool {
        self.current.interval.is_some()
    }

    /// Ends the interval that is over at `now` and begins the one that `now` is in.
    pub(crate) fn roll(&mut self, now: Instant) {
        if now < self.until {
            return;
        }
        if self.at_start.is_none() {
            self.at_start = Some(ThreadCounters::of_thread());
            self.last = None;
        }
        let index = (now - self.times.measure).0 / self.times.interval.0;
        self.send(Some(index), false);
        self.until = self.times.measure + self.times.interval.times(index + 1);
    }

    /// Sends the current record and goes on with an empty one.
    fn send(&mut self, next: Option<u64>, last: bool) {
        let mut fresh = self.recycled.try_recv().unwrap_or_else(|_| {
            // At the first interval, or when the collector is behind.
            Box::new(Record::new(self.current.members.len(), self.current.service.is_some()))
        });
        fresh.interval = next;
        let record = std::mem::replace(&mut self.current, fresh);
        // The collector outlives its jobs; should it be gone, nobody wants the record.
        let _ = self.to_collector.send(Message::Record { job: self.job, record, last });
    }

    /// Counts an error of a member.
    #[cold]
    pub(crate) fn error(&mut self, member: usize, name: &str) {
        *self.errors.entry((member, name.to_owned())).or_default() += 1;
    }

    /// The last record and the summary.
    pub(crate) fn finish(mut self, complete: bool) -> Finished {
        let next = self.current.interval;
        self.send(next, true);
        Finished {
            last: self.last,
            time: self.at_start.map(|start| ThreadCounters::of_thread().since(start)),
            errors: self.errors,
            complete,
            unfinished: 0,
            failed: self.failed,
            failure: None,
            note: None,
            begun: Begun::default(),
            at_work: None,
        }
    }
}

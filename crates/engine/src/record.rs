//! What one job records, interval by interval.
//!
//! A job records into one [`Record`] at a time. When its interval ends, the full one goes to the collector and an empty
//! one takes its place: no copy, no lock and no allocation where an operation is recorded.

use crate::cpu::ThreadTime;
use crate::error::EngineError;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::Histogram;
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
    fn new() -> Self {
        Tally {
            latency: PerOp { read: Histogram::with_buckets(), write: Histogram::with_buckets() },
            bytes: PerOp::default(),
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, kind: OpKind, latency: u64, bytes: u64) {
        self.latency.get_mut(kind).record(latency);
        *self.bytes.get_mut(kind) += bytes;
    }

    fn clear(&mut self) {
        self.latency.read.clear();
        self.latency.write.clear();
        self.bytes = PerOp::default();
    }
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
            service: open_loop
                .then(|| PerOp { read: Histogram::with_buckets(), write: Histogram::with_buckets() }),
            lateness: Histogram::default(),
            slot_waits: Histogram::default(),
            syncs: Histogram::default(),
            members: (0..members).map(|_| Tally::new()).collect(),
        }
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

/// What a job says when it has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// When its last operation was delivered; absent when none was.
    pub(crate) last: Option<u64>,
    /// What its thread did with its time during the measurement; absent when that never began.
    pub(crate) time: Option<ThreadTime>,
    pub(crate) errors: Errors,
    /// A trial that ends by size: whether it was done in full.
    pub(crate) complete: bool,
    /// Operations that had begun when the measurement ended and are in no record.
    pub(crate) unfinished: u64,
    /// Why it ended before its time; what it recorded until then counts all the same.
    pub(crate) failure: Option<EngineError>,
    /// What the reader must know of the job's end.
    pub(crate) note: Option<String>,
}

/// From a job to the collector.
#[derive(Debug)]
pub(crate) enum Message {
    /// Set up, with notes for the reader; waits for the start.
    Ready(Vec<String>),
    /// An interval of job number `job` is over.
    Record { job: usize, record: Box<Record> },
    /// The job is over.
    Finished { result: Result<Finished, EngineError> },
}

/// When things happen, on the engine's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Start of the warm-up: due times count from here.
    pub(crate) origin: u64,
    /// Start of the measurement.
    pub(crate) measure: u64,
    /// End of the measurement; `u64::MAX` when it ends by size.
    pub(crate) end: u64,
    /// Length of an interval of the series.
    pub(crate) interval: u64,
}

/// The recording side of one job.
#[derive(Debug)]
pub(crate) struct Recorder {
    job: usize,
    pub(crate) current: Box<Record>,
    times: Times,
    /// When `current` is over.
    until: u64,
    to_collector: Sender<Message>,
    recycled: Receiver<Box<Record>>,
    pub(crate) last: Option<u64>,
    pub(crate) errors: Errors,
    at_start: Option<ThreadTime>,
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
            at_start: None,
        }
    }

    /// When [`roll`](Self::roll) has to be called next.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    /// Whether the measurement has begun.
    pub(crate) fn measuring(&self) -> bool {
        self.current.interval.is_some()
    }

    /// Ends the interval that is over at `now` and begins the one that `now` is in.
    pub(crate) fn roll(&mut self, now: u64) {
        if now < self.until {
            return;
        }
        if self.at_start.is_none() {
            self.at_start = Some(ThreadTime::of_thread());
            self.last = None;
        }
        let index = (now - self.times.measure) / self.times.interval;
        self.send(Some(index));
        self.until = self.times.measure + (index + 1) * self.times.interval;
    }

    /// Sends the current record and goes on with an empty one.
    fn send(&mut self, next: Option<u64>) {
        let mut fresh = self.recycled.try_recv().unwrap_or_else(|_| {
            // At the first interval, or when the collector is behind.
            Box::new(Record::new(self.current.members.len(), self.current.service.is_some()))
        });
        fresh.interval = next;
        let record = std::mem::replace(&mut self.current, fresh);
        // The collector outlives its jobs; should it be gone, nobody wants the record.
        let _ = self.to_collector.send(Message::Record { job: self.job, record });
    }

    /// Counts an error of a member.
    #[cold]
    pub(crate) fn error(&mut self, member: usize, name: &str) {
        *self.errors.entry((member, name.to_owned())).or_default() += 1;
    }

    /// The last record and the summary.
    pub(crate) fn finish(mut self, complete: bool) -> Finished {
        let next = self.current.interval;
        self.send(next);
        Finished {
            last: self.last,
            time: self.at_start.map(|start| ThreadTime::of_thread().since(start)),
            errors: self.errors,
            complete,
            unfinished: 0,
            failure: None,
            note: None,
        }
    }
}

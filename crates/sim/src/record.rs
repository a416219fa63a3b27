//! What a simulated trial records: the same samples as a measured one.

use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, Histogram, Interval, MemberSamples, OpSamples};
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::{OpKind, Stop, Workload};

/// Most intervals of a series; longer trials get longer intervals, so that memory does not grow with virtual time.
const INTERVALS_MAX: u64 = 1024;

/// Most intervals that completions may lie ahead of the clock and still be found in the series; with a runtime
/// there are never more, and what lies further ahead in a trial that ends by size is a stall, not a rate.
const AHEAD_MAX: usize = 2 * INTERVALS_MAX as usize;

/// The measured window and its cut into intervals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// First instant that counts.
    pub(super) begin: u64,
    /// First instant that no longer counts; the end of time for a trial that ends by size.
    pub(super) end: u64,
    pub(super) interval: u64,
}

impl Window {
    pub(super) fn new(workload: &Workload) -> Self {
        let mut interval = workload.series_interval().0.max(1);
        let begin = workload.warm_up.0;
        let end = match workload.stop {
            Stop::Runtime(runtime) => {
                while runtime.0 / interval > INTERVALS_MAX {
                    interval = interval.saturating_mul(2);
                }
                begin.saturating_add(runtime.0)
            }
            Stop::Size(_) => u64::MAX,
        };
        Window { begin, end, interval }
    }

    fn holds(&self, at: u64) -> bool {
        self.begin <= at && at < self.end
    }
}

/// Counts and latencies by operation kind, ready to record.
#[derive(Debug, Clone, Default)]
struct Tally {
    count: PerOp<Count>,
    latency: PerOp<Histogram>,
}

impl Tally {
    #[inline]
    fn add(&mut self, op: OpKind, bytes: u64, latency: u64) {
        let count = self.count.get_mut(op);
        count.ops += 1;
        count.bytes += bytes;
        self.latency.get_mut(op).record(latency);
    }

    /// What was counted since `earlier`.
    fn since(&self, earlier: &Tally) -> Tally {
        let mut since = Tally::default();
        for op in [OpKind::Read, OpKind::Write] {
            let (now, before) = (self.count.get(op), earlier.count.get(op));
            *since.count.get_mut(op) = Count { ops: now.ops - before.ops, bytes: now.bytes - before.bytes };
            *since.latency.get_mut(op) = self.latency.get(op).diff(earlier.latency.get(op));
        }
        since
    }

    /// Counts `other` `times` times.
    fn add_times(&mut self, other: &Tally, times: u64) {
        for op in [OpKind::Read, OpKind::Write] {
            let (sum, more) = (self.count.get_mut(op), other.count.get(op));
            sum.ops += more.ops * times;
            sum.bytes += more.bytes * times;
            self.latency.get_mut(op).merge(&other.latency.get(op).times(times));
        }
    }

    fn finish(self) -> PerOp<OpSamples> {
        let side = |count, mut latency: Histogram| {
            latency.compact();
            OpSamples { count, latency, service: None }
        };
        let PerOp { read, write } = self.latency;
        PerOp { read: side(self.count.read, read), write: side(self.count.write, write) }
    }
}

/// What has happened since the begin.
#[derive(Debug, Clone)]
struct Totals {
    array: Tally,
    members: Vec<Tally>,
    /// Time that operations were in flight within the window, summed over operations, in nanoseconds.
    in_flight: f64,
}

/// What happened in one cell of a typical block, or in several.
#[derive(Debug)]
struct Cell {
    array: PerOp<Count>,
    latency: Histogram,
    members: Vec<PerOp<Count>>,
}

impl Cell {
    fn add(&mut self, more: &Cell) {
        add_count(&mut self.array, &more.array);
        self.latency.merge(&more.latency);
        add_counts(&mut self.members, &more.members);
    }

    fn take(&mut self, less: &Cell) {
        take_count(&mut self.array, &less.array);
        self.latency = self.latency.diff(&less.latency);
        for (count, less) in self.members.iter_mut().zip(&less.members) {
            take_count(count, less);
        }
    }
}

/// A typical block: the totals at its begin, and its cells so far.
#[derive(Debug)]
pub(super) struct Block {
    begin: Totals,
    cells: Vec<Cell>,
    /// The cells in one.
    so_far: Cell,
}

impl Block {
    /// Number of cells so far.
    pub(super) fn len(&self) -> u64 {
        self.cells.len() as u64
    }
}

/// Records one trial.
#[derive(Debug)]
pub(super) struct Recorder {
    window: Window,
    totals: Totals,
    service: Option<PerOp<Histogram>>,
    /// Per interval from `first`: each member's counts. Completions lie ahead of the clock, hence several.
    ahead: Vec<Vec<PerOp<Count>>>,
    series: Vec<Interval>,
    /// The interval being filled; its latencies gather in `latency`, which keeps its memory.
    current: Interval,
    latency: Histogram,
    current_end: u64,
}

/// Nothing yet, for `members` members.
fn empty(members: usize, end: u64) -> Interval {
    Interval {
        end: Nanos(end),
        array: PerOp::default(),
        latency: Histogram::default(),
        members: vec![PerOp::default(); members],
    }
}

impl Recorder {
    pub(super) fn new(window: Window, members: usize, open_loop: bool) -> Self {
        Recorder {
            window,
            totals: Totals {
                array: Tally::default(),
                members: vec![Tally::default(); members],
                in_flight: 0.0,
            },
            service: open_loop.then(PerOp::default),
            ahead: Vec::new(),
            series: Vec::new(),
            current: empty(members, window.interval),
            latency: Histogram::default(),
            current_end: window.begin.saturating_add(window.interval),
        }
    }

    /// A member's I/O submitted at `begin` completes at `end`. Called at submission: `end` may lie ahead.
    #[inline]
    pub(super) fn member(&mut self, member: usize, op: OpKind, bytes: u64, begin: u64, end: u64) {
        if !self.window.holds(end) {
            return;
        }
        self.totals.members[member].add(op, bytes, end - begin);
        let count = if end < self.current_end {
            self.current.members[member].get_mut(op)
        } else {
            let index = ((end - self.current_end) / self.window.interval) as usize;
            let members = self.totals.members.len();
            if index >= AHEAD_MAX {
                return;
            }
            if index >= self.ahead.len() {
                self.ahead.resize_with(index + 1, || vec![PerOp::default(); members]);
            }
            self.ahead[index][member].get_mut(op)
        };
        count.ops += 1;
        count.bytes += bytes;
    }

    /// The array's operation completes at `now`; `intended` is its intended start, `submitted` the actual one.
    /// Calls come in the order of `now`.
    #[inline]
    pub(super) fn array(&mut self, op: OpKind, bytes: u64, intended: u64, submitted: u64, now: u64) {
        if now < self.window.begin || now >= self.window.end {
            return;
        }
        while now >= self.current_end {
            self.roll();
        }
        let latency = now - intended.min(now);
        self.totals.array.add(op, bytes, latency);
        self.latency.record(latency);
        let count = self.current.array.get_mut(op);
        count.ops += 1;
        count.bytes += bytes;
        if let Some(service) = &mut self.service {
            service.get_mut(op).record(now - submitted);
        }
        self.totals.in_flight += (now - submitted.max(self.window.begin)) as f64;
    }

    /// An operation submitted at `submitted` is still in flight when the window ends at `end`.
    pub(super) fn unfinished(&mut self, submitted: u64, end: u64) {
        self.totals.in_flight += end.saturating_sub(submitted.max(self.window.begin)) as f64;
    }

    /// A block that begins now.
    pub(super) fn block(&self) -> Block {
        let members = vec![PerOp::default(); self.totals.members.len()];
        let so_far = Cell { array: PerOp::default(), latency: Histogram::default(), members };
        Block { begin: self.totals.clone(), cells: Vec::new(), so_far }
    }

    /// Adds what happened since its last cell to `block`.
    pub(super) fn cell(&self, block: &mut Block) {
        let array = self.totals.array.since(&block.begin.array);
        let mut cell = Cell { array: array.count, latency: array.latency.read, members: Vec::new() };
        cell.latency.merge(&array.latency.write);
        for (now, before) in self.totals.members.iter().zip(&block.begin.members) {
            let mut count = now.count;
            take_count(&mut count, &before.count);
            cell.members.push(count);
        }
        cell.take(&block.so_far);
        block.so_far.add(&cell);
        block.cells.push(cell);
    }

    /// Counts what happened in `block`, whose cells are `cell` nanoseconds each, `times` times more from `at` on.
    pub(super) fn leap(&mut self, block: &Block, at: u64, times: u64, cell: u64) {
        // Completions that lie ahead move along.
        let ahead = std::mem::take(&mut self.ahead);
        let mut now = at;
        for _ in 0..times {
            for typical in &block.cells {
                while now >= self.current_end {
                    self.roll();
                }
                add_count(&mut self.current.array, &typical.array);
                add_counts(&mut self.current.members, &typical.members);
                self.latency.merge(&typical.latency);
                now = now.saturating_add(cell);
            }
        }
        self.ahead = ahead;
        let (totals, begin) = (&mut self.totals, &block.begin);
        totals.in_flight += (totals.in_flight - begin.in_flight) * times as f64;
        let array = totals.array.since(&begin.array);
        totals.array.add_times(&array, times);
        for (total, before) in totals.members.iter_mut().zip(&begin.members) {
            let more = total.since(before);
            total.add_times(&more, times);
        }
    }

    /// Closes the current interval and opens the next.
    #[cold]
    fn roll(&mut self) {
        let end = self.current.end.0;
        let mut next = empty(self.totals.members.len(), end.saturating_add(self.window.interval));
        if !self.ahead.is_empty() {
            next.members = self.ahead.remove(0);
        }
        let mut full = std::mem::replace(&mut self.current, next);
        full.latency = self.latency.take();
        self.series.push(full);
        self.current_end = self.current_end.saturating_add(self.window.interval);
        if self.series.len() as u64 >= 2 * INTERVALS_MAX {
            self.halve();
        }
    }

    /// Joins pairs of intervals: a trial that ends by size does not say beforehand how long it takes.
    fn halve(&mut self) {
        let mut joined: Vec<Interval> = Vec::with_capacity(self.series.len() / 2);
        for (index, interval) in std::mem::take(&mut self.series).into_iter().enumerate() {
            match joined.last_mut().filter(|_| index % 2 == 1) {
                None => joined.push(interval),
                Some(last) => join(last, interval),
            }
        }
        self.series = joined;
        self.window.interval *= 2;
        self.current.end = Nanos(self.current.end.0.saturating_add(self.window.interval / 2));
        self.current_end = self.current_end.saturating_add(self.window.interval / 2);
        // What lay ahead moves into the intervals that now cover it: the first one into the current.
        let mut ahead = std::mem::take(&mut self.ahead).into_iter();
        if let Some(first) = ahead.next() {
            add_counts(&mut self.current.members, &first);
        }
        let rest: Vec<Vec<PerOp<Count>>> = ahead.collect();
        for pair in rest.chunks(2) {
            let mut sum = pair[0].clone();
            if let Some(second) = pair.get(1) {
                add_counts(&mut sum, second);
            }
            self.ahead.push(sum);
        }
    }

    /// Instant at which the window ends when the last operation completes at `now` (trials that end by size).
    pub(super) fn finish_at(&mut self, now: u64) {
        self.window.end = self.window.end.min(now.max(self.window.begin));
    }

    /// Lets members' I/O count beyond the window's end: the writeback of an fsync belongs to the trial.
    pub(super) fn extend(&mut self) {
        self.window.end = u64::MAX;
    }

    /// Operations counted so far.
    pub(super) fn counted(&self) -> Count {
        let PerOp { read, write } = self.totals.array.count;
        Count { ops: read.ops + write.ops, bytes: read.bytes + write.bytes }
    }

    pub(super) fn finish(mut self, names: Vec<String>) -> Recorded {
        let elapsed = self.window.end - self.window.begin;
        // Intervals that began; the last one may be cut short.
        while self.current.end.0 < elapsed {
            self.roll();
        }
        if self.current.end.0.saturating_sub(self.window.interval) < elapsed {
            self.roll();
            if let Some(last) = self.series.last_mut() {
                last.end = Nanos(elapsed);
            }
        }
        let mut array = self.totals.array.finish();
        if let Some(service) = self.service {
            let compact = |mut histogram: Histogram| {
                histogram.compact();
                Some(histogram)
            };
            array.read.service = compact(service.read);
            array.write.service = compact(service.write);
        }
        let members = names
            .into_iter()
            .zip(self.totals.members)
            .map(|(name, tally)| MemberSamples { name, ops: tally.finish(), ..MemberSamples::default() })
            .collect();
        let mean_in_flight = (elapsed > 0).then(|| self.totals.in_flight / elapsed as f64);
        Recorded {
            array,
            members,
            series: self.series,
            interval: Nanos(self.window.interval),
            elapsed: Nanos(elapsed),
            mean_in_flight,
        }
    }
}

/// A finished recording.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) array: PerOp<OpSamples>,
    pub(super) members: Vec<MemberSamples>,
    pub(super) series: Vec<Interval>,
    pub(super) interval: Nanos,
    pub(super) elapsed: Nanos,
    pub(super) mean_in_flight: Option<f64>,
}

fn add_count(sum: &mut PerOp<Count>, more: &PerOp<Count>) {
    for op in [OpKind::Read, OpKind::Write] {
        sum.get_mut(op).ops += more.get(op).ops;
        sum.get_mut(op).bytes += more.get(op).bytes;
    }
}

fn take_count(sum: &mut PerOp<Count>, less: &PerOp<Count>) {
    for op in [OpKind::Read, OpKind::Write] {
        sum.get_mut(op).ops -= less.get(op).ops;
        sum.get_mut(op).bytes -= less.get(op).bytes;
    }
}

fn add_counts(sum: &mut [PerOp<Count>], more: &[PerOp<Count>]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        add_count(sum, more);
    }
}

fn join(first: &mut Interval, second: Interval) {
    first.end = second.end;
    first.latency.merge(&second.latency);
    add_count(&mut first.array, &second.array);
    add_counts(&mut first.members, &second.members);
}

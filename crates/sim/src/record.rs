//! What a simulated trial records: the same samples as a measured one.

use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, Histogram, Interval, MemberSamples, OpSamples};
use ebbtide_model::units::{Bytes, Instant, Nanos};
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
    pub(super) begin: Instant,
    /// First instant that no longer counts; never for a trial that ends by size.
    pub(super) end: Instant,
    pub(super) interval: Nanos,
}

impl Window {
    pub(super) fn new(workload: &Workload) -> Self {
        let mut interval = workload.series_interval().max(Nanos(1));
        let begin = Instant::START + workload.before();
        let end = match workload.stop {
            Stop::Runtime(runtime) => {
                while runtime.0 / interval.0 > INTERVALS_MAX {
                    interval = interval.times(2);
                }
                begin + runtime
            }
            Stop::Size(_) => Instant::NEVER,
        };
        Window { begin, end, interval }
    }

    fn holds(&self, at: Instant) -> bool {
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
    fn add(&mut self, op: OpKind, bytes: Bytes, latency: Nanos) {
        count_one(self.count.get_mut(op), bytes);
        self.latency.get_mut(op).record(latency.0);
    }

    /// What was counted since `earlier`.
    fn since(&self, earlier: &Tally) -> Tally {
        let mut count = self.count;
        count -= earlier.count;
        let latency = self.latency.as_ref().zip(earlier.latency.as_ref());
        Tally { count, latency: latency.map(|(now, before)| now.diff(before)) }
    }

    /// Counts `other` `times` times.
    fn add_times(&mut self, other: &Tally, times: u64) {
        self.count += other.count.map(|count| Count { ops: count.ops * times, bytes: count.bytes * times });
        for op in [OpKind::Read, OpKind::Write] {
            self.latency.get_mut(op).merge(&other.latency.get(op).times(times));
        }
    }

    fn finish(self) -> PerOp<OpSamples> {
        let latency = self.latency.map(Histogram::compacted);
        self.count.zip(latency).map(|(count, latency)| OpSamples { count, latency, service: None })
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
        self.array += more.array;
        self.latency.merge(&more.latency);
        add_counts(&mut self.members, &more.members);
    }

    fn take(&mut self, less: &Cell) {
        self.array -= less.array;
        self.latency = self.latency.diff(&less.latency);
        self.members.iter_mut().zip(&less.members).for_each(|(count, less)| *count -= *less);
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
    current_end: Instant,
}

/// Nothing yet, for `members` members.
fn empty(members: usize, end: Nanos) -> Interval {
    Interval {
        end,
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
            current_end: window.begin + window.interval,
        }
    }

    /// A member's I/O submitted at `begin` completes at `end`. Called at submission: `end` may lie ahead.
    #[inline]
    pub(super) fn member(&mut self, member: usize, op: OpKind, bytes: Bytes, begin: Instant, end: Instant) {
        if !self.window.holds(end) {
            return;
        }
        self.totals.members[member].add(op, bytes, end - begin);
        let count = if end < self.current_end {
            self.current.members[member].get_mut(op)
        } else {
            let index = ((end - self.current_end).0 / self.window.interval.0) as usize;
            let members = self.totals.members.len();
            if index >= AHEAD_MAX {
                return;
            }
            if index >= self.ahead.len() {
                self.ahead.resize_with(index + 1, || vec![PerOp::default(); members]);
            }
            self.ahead[index][member].get_mut(op)
        };
        count_one(count, bytes);
    }

    /// The array's operation completes at `now`; `intended` is its intended start, `submitted` the actual one.
    /// Calls come in the order of `now`.
    #[inline]
    pub(super) fn array(
        &mut self,
        op: OpKind,
        bytes: Bytes,
        intended: Instant,
        submitted: Instant,
        now: Instant,
    ) {
        if !self.window.holds(now) {
            return;
        }
        while now >= self.current_end {
            self.roll();
        }
        let latency = now - intended;
        self.totals.array.add(op, bytes, latency);
        self.latency.record(latency.0);
        count_one(self.current.array.get_mut(op), bytes);
        if let Some(service) = &mut self.service {
            service.get_mut(op).record((now - submitted).0);
        }
        self.in_flight(submitted, now);
    }

    /// An operation submitted at `submitted` was in flight until `end`, its completion or the window's end.
    pub(super) fn in_flight(&mut self, submitted: Instant, end: Instant) {
        self.totals.in_flight += (end - submitted.max(self.window.begin)).0 as f64;
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
            count -= before.count;
            cell.members.push(count);
        }
        cell.take(&block.so_far);
        block.so_far.add(&cell);
        block.cells.push(cell);
    }

    /// Counts what happened in `block`, whose cells are of length `cell`, `times` times more from `at` on.
    pub(super) fn leap(&mut self, block: &Block, at: Instant, times: u64, cell: Nanos) {
        // Completions that lie ahead move along.
        let ahead = std::mem::take(&mut self.ahead);
        let mut now = at;
        for _ in 0..times {
            for typical in &block.cells {
                while now >= self.current_end {
                    self.roll();
                }
                self.current.array += typical.array;
                add_counts(&mut self.current.members, &typical.members);
                self.latency.merge(&typical.latency);
                now += cell;
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
        let end = self.current.end.plus(self.window.interval);
        let mut next = empty(self.totals.members.len(), end);
        if !self.ahead.is_empty() {
            next.members = self.ahead.remove(0);
        }
        let mut full = std::mem::replace(&mut self.current, next);
        full.latency = self.latency.take();
        self.series.push(full);
        self.current_end += self.window.interval;
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
        self.current.end = self.current.end.plus(self.window.interval);
        self.current_end += self.window.interval;
        self.window.interval = self.window.interval.times(2);
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
    pub(super) fn finish_at(&mut self, now: Instant) {
        self.window.end = self.window.end.min(now.max(self.window.begin));
    }

    /// Lets members' I/O count beyond the window's end: the writeback of an fsync belongs to the trial.
    pub(super) fn extend(&mut self) {
        self.window.end = Instant::NEVER;
    }

    /// Operations counted so far.
    pub(super) fn counted(&self) -> Count {
        let PerOp { read, write } = self.totals.array.count;
        Count { ops: read.ops + write.ops, bytes: read.bytes + write.bytes }
    }

    pub(super) fn finish(mut self, names: Vec<String>) -> Recorded {
        let elapsed = self.window.end - self.window.begin;
        // Intervals that began; the last one may be cut short.
        while self.current.end < elapsed {
            self.roll();
        }
        if self.current.end.since(self.window.interval) < elapsed {
            self.roll();
            if let Some(last) = self.series.last_mut() {
                last.end = elapsed;
            }
        }
        let mut array = self.totals.array.finish();
        if let Some(service) = self.service {
            array.read.service = Some(service.read.compacted());
            array.write.service = Some(service.write.compacted());
        }
        let members = names
            .into_iter()
            .zip(self.totals.members)
            .map(|(name, tally)| MemberSamples { name, ops: tally.finish(), ..MemberSamples::default() })
            .collect();
        let mean_in_flight = (elapsed.0 > 0).then(|| self.totals.in_flight / elapsed.0 as f64);
        Recorded {
            array,
            members,
            series: self.series,
            interval: self.window.interval,
            elapsed,
            mean_in_flight,
        }
    }
}

#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) array: PerOp<OpSamples>,
    pub(super) members: Vec<MemberSamples>,
    pub(super) series: Vec<Interval>,
    pub(super) interval: Nanos,
    pub(super) elapsed: Nanos,
    pub(super) mean_in_flight: Option<f64>,
}

/// One more operation of so many bytes.
#[inline]
fn count_one(count: &mut Count, bytes: Bytes) {
    count.ops += 1;
    count.bytes += bytes.0;
}

fn add_counts(sum: &mut [PerOp<Count>], more: &[PerOp<Count>]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += *more);
}

fn join(first: &mut Interval, second: Interval) {
    first.end = second.end;
    first.latency.merge(&second.latency);
    first.array += second.array;
    add_counts(&mut first.members, &second.members);
}

//! The host's page cache, for buffered workloads: readahead, hits, dirty pages and their writeback.
//!
//! Reads. A sequential stream keeps one readahead window in flight ahead of itself and asks for the next as soon as
//! it enters the last (Linux mm/readahead.c, with the window at its full size from the start). Data read once stay
//! as far as they fit; a stream over more than fits finds nothing again (LRU), random reads hit with the share of the
//! span that is cached.
//!
//! Writes are taken at copying speed until a fifth of the memory is dirty (`vm.dirty_ratio` 20), then as fast as
//! writeback makes room; writeback begins at a tenth (`vm.dirty_background_ratio` 10). Nothing expires by age.

use super::array::{Array, Request};
use super::record::Recorder;
use ebbtide_model::backend::BackendError;
use ebbtide_model::experiment::Environment;
use ebbtide_model::units::{ArrayOffset, Bytes, Instant};
use ebbtide_model::workload::{Access, OpKind, Sequence, Workload};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

/// Largest request of readahead and writeback when the device does not say (`max_sectors_kb` of most devices).
const REQUEST_MAX: Bytes = Bytes(512 << 10);
const PAGE: Bytes = Bytes(4096);

/// What the page cache says to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cached {
    /// The pages are there at this instant.
    At(Instant),
    /// Too much is dirty: the slot is woken when there is room.
    Blocked,
    /// Not for the cache: goes to the array.
    Through,
}

/// One job's sequential reads.
#[derive(Debug, Default)]
struct Stream {
    /// Where the next read is expected.
    next: ArrayOffset,
    /// Read ahead up to here.
    ahead: ArrayOffset,
    /// Begin and end of what was read so far.
    range: Option<(ArrayOffset, ArrayOffset)>,
    /// Pieces under way or there: (end, instant at which they are there).
    pieces: VecDeque<(ArrayOffset, Instant)>,
}

/// The cache of the host (of all of them: clients share nothing but are counted as one).
#[derive(Debug)]
pub(super) struct Pages {
    memory: Bytes,
    span: Bytes,
    readahead: Bytes,
    piece: Bytes,
    sequential: bool,
    streams: Vec<Stream>,
    /// What of the span random reads have brought in.
    cached: Bytes,
    rng: Xoshiro256PlusPlus,
    dirty: Bytes,
    /// Dirty extents, oldest first; neighbours are joined.
    to_write: VecDeque<(ArrayOffset, Bytes)>,
    blocked: VecDeque<(u32, Bytes)>,
    idle: Vec<u32>,
    /// First writeback slot, and how many.
    writers: (u32, u32),
    /// What the array calls slot 0.
    first_slot: u32,
    /// By writeback slot: what is under way.
    under_way: Vec<Bytes>,
    draining: bool,
}

/// Why `workload` cannot be simulated on a host without memory.
pub(super) fn no_memory(workload: &Workload) -> BackendError {
    BackendError::Other(format!(
        "workload {} goes through the page cache, but the simulated host has no memory; \
         add `[host]` with for example `memory = \"8GiB\"`, or `direct = true`",
        workload.name
    ))
}

/// Why the page cache of `workload` cannot be simulated, if so: the simulated one knows streams and uniform offsets, and how
/// much of the region it holds, not which blocks.
pub(super) fn unmodelled(workload: &Workload) -> Option<BackendError> {
    let sequence = workload.details.sequence != Sequence::Plain;
    let what = match (workload.direct || !workload.reads(), workload.distribution.is_uniform()) {
        (true, _) => return None,
        (false, false) => "random_distribution",
        (false, true) if sequence => "rw with a modifier",
        (false, true) => return None,
    };
    Some(BackendError::Other(format!(
        "workload {} reads through the page cache with {what}, and the simulated cache does not know which blocks it holds; \
         write `direct = true`, or run it on real volumes (`--on files`)",
        workload.name
    )))
}

impl Pages {
    /// Absent for workloads that bypass the cache.
    ///
    /// # Errors
    /// When the environment does not say how much memory there is.
    pub(super) fn new(
        workload: &Workload,
        environment: &Environment,
        array: &Array,
        seed: u64,
    ) -> Result<Option<Self>, BackendError> {
        if workload.direct {
            return Ok(None);
        }
        if let Some(error) = unmodelled(workload) {
            return Err(error);
        }
        let memory = environment.host.memory.ok_or_else(|| no_memory(workload))?;
        let piece = environment.host.max_request.map_or(REQUEST_MAX, |max| max.clamp(PAGE, REQUEST_MAX));
        Ok(Some(Pages {
            memory,
            span: workload.span.unwrap_or(array.capacity()).min(array.capacity()).max(Bytes(1)),
            readahead: environment.host.readahead_of(array.stripe()).max(PAGE),
            piece,
            sequential: workload.access == Access::Sequential,
            streams: (0..workload.numjobs).map(|_| Stream::default()).collect(),
            cached: Bytes(0),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x7061_6765),
            dirty: Bytes(0),
            to_write: VecDeque::new(),
            blocked: VecDeque::new(),
            idle: Vec::new(),
            writers: (0, 0),
            first_slot: 0,
            under_way: Vec::new(),
            draining: false,
        }))
    }

    /// With writeback slots `first` to `first + count - 1`; the array calls slot 0 `first_slot`.
    pub(super) fn with_writers(mut self, first: u32, count: u32, first_slot: u32) -> Self {
        self.writers = (first, count);
        self.first_slot = first_slot;
        self.idle = (first..first + count).rev().collect();
        self.under_way = vec![Bytes(0); count as usize];
        self
    }

    pub(super) fn writers(&self) -> u32 {
        self.writers.1
    }

    /// When the pages of a read are there.
    pub(super) fn read(
        &mut self,
        now: Instant,
        job: u32,
        request: &Request,
        array: &mut Array,
        recorder: &mut Recorder,
    ) -> Result<Cached, BackendError> {
        if !self.sequential {
            let share = self.cached.0 as f64 / self.span.0 as f64;
            if ((self.rng.next_u64() >> 11) as f64) < share * (1u64 << 53) as f64 {
                return Ok(Cached::At(now));
            }
            self.cached = (self.cached + request.length).min(self.memory).min(self.span);
            return array.read_ahead(now, request, recorder).map(Cached::At);
        }
        let fits = self.span <= self.memory;
        let stream = &mut self.streams[job as usize];
        let end = request.offset + request.length;
        if fits && stream.range.is_some_and(|(low, high)| low <= request.offset && end <= high) {
            stream.next = end;
            return Ok(Cached::At(now));
        }
        let (low, high) = stream.range.unwrap_or((request.offset, request.offset));
        stream.range = Some((low.min(request.offset), high.max(end)));
        if request.offset != stream.next || stream.ahead < request.offset {
            stream.pieces.clear();
            stream.ahead = request.offset;
        }
        stream.next = end;
        if stream.ahead < end || stream.ahead - request.offset <= self.readahead {
            let target =
                (stream.ahead.max(end) + self.readahead).min(end.max(ArrayOffset::START + self.span));
            while stream.ahead < target {
                let length = to_boundary(self.piece, stream.ahead).min(target - stream.ahead);
                let part = Request { offset: stream.ahead, length, ..*request };
                let there = array.read_ahead(now, &part, recorder)?;
                stream.ahead += length;
                stream.pieces.push_back((stream.ahead, there));
            }
        }
        let mut ready = now;
        while let Some((piece_end, there)) = stream.pieces.front().copied() {
            ready = ready.max(there);
            if piece_end > end {
                break;
            }
            stream.pieces.pop_front();
            if piece_end == end {
                break;
            }
        }
        Ok(Cached::At(ready))
    }

    /// Takes a write, or not yet.
    pub(super) fn write(&mut self, slot: u32, now: Instant, offset: ArrayOffset, length: Bytes) -> Cached {
        match self.to_write.back_mut() {
            Some((start, len)) if *start + *len == offset => *len += length,
            _ => self.to_write.push_back((offset, length)),
        }
        self.dirty += length;
        if self.dirty <= self.limit() {
            return Cached::At(now);
        }
        self.blocked.push_back((slot, length));
        Cached::Blocked
    }

    fn limit(&self) -> Bytes {
        Bytes(self.memory.0 / 5)
    }

    /// Whether anything is written back now.
    fn writes_back(&self) -> bool {
        self.draining || self.dirty.0 > self.memory.0 / 10
    }

    /// A writeback slot to start now, if there is one idle and something to write.
    pub(super) fn idle_writer(&mut self) -> Option<u32> {
        if self.writes_back() && !self.to_write.is_empty() { self.idle.pop() } else { None }
    }

    /// The slot's request is on the medium; says which blocked writes may go on.
    pub(super) fn written_back(&mut self, slot: u32) -> Vec<u32> {
        let under_way = &mut self.under_way[(slot - self.writers.0) as usize];
        self.dirty -= std::mem::take(under_way).min(self.dirty);
        let mut woken = Vec::new();
        let mut waiting: Bytes = self.blocked.iter().map(|(_, length)| *length).sum();
        while let Some((slot, length)) = self.blocked.front().copied() {
            // What waits is counted as dirty already; the first waits for the others before it only.
            if self.dirty - (waiting - length) > self.limit() {
                break;
            }
            waiting -= length;
            self.blocked.pop_front();
            woken.push(slot);
        }
        woken
    }

    /// The slot writes the next piece, if there is one; says when it is on the medium, as far as that is known.
    pub(super) fn write_back(
        &mut self,
        slot: u32,
        now: Instant,
        array: &mut Array,
        recorder: &mut Recorder,
    ) -> Result<Option<Instant>, BackendError> {
        let wanted = self.writes_back();
        let Some((offset, length)) = self.to_write.front_mut().filter(|_| wanted) else {
            self.idle.push(slot);
            return Ok(None);
        };
        let piece = to_boundary(self.piece, *offset).min(*length);
        let as_known = self.first_slot + slot;
        let request =
            Request { op: OpKind::Write, offset: *offset, length: piece, slot: as_known, client: 0 };
        *offset += piece;
        *length -= piece;
        if *length == Bytes(0) {
            self.to_write.pop_front();
        }
        self.under_way[(slot - self.writers.0) as usize] = piece;
        Ok(array.submit(now, &request, recorder)?.instant())
    }

    /// From now on everything dirty is written, whatever the thresholds.
    pub(super) fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether nothing is dirty or under way.
    pub(super) fn is_clean(&self) -> bool {
        self.to_write.is_empty() && self.under_way.iter().all(|bytes| *bytes == Bytes(0))
    }
}

/// From `at` to where a request of up to `piece` ends: requests end at multiples of their size, as the block layer lays
/// them.
fn to_boundary(piece: Bytes, at: ArrayOffset) -> Bytes {
    piece - (at - ArrayOffset::START) % piece
}

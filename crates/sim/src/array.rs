//! The simulated array: an operation on it becomes I/Os on its members' volume models.

use super::record::Recorder;
use ebbtide_model::backend::BackendError;
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::layout::{Extent, ExtentError, LayoutNode, Map};
use ebbtide_model::plan::build::Geometry;
use ebbtide_model::units::{ArrayOffset, Bytes, Instant, MemberOffset, Nanos};
use ebbtide_model::volume::{FailureKind, Link, LinkShape, Model};
use ebbtide_model::workload::OpKind;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No request is shorter than a sector.
const REQUEST_LEAST: Bytes = Bytes(512);
/// Counts for more than any queue: a member that returns errors is the last to be read from.
const FAILED: usize = 1 << 32;

/// One member of the array.
#[derive(Debug, Clone)]
struct SimulatedMember {
    name: String,
    model: Model,
    link: Option<usize>,
    /// Whether it has a failure that makes operations return errors.
    mortal: bool,
    /// Of its data area.
    size: Bytes,
    /// Ends of what is in flight, and of what has ended since anybody asked; kept where there are copies to choose from.
    ends: BinaryHeap<Reverse<Instant>>,
}

impl SimulatedMember {
    /// I/Os in flight.
    #[inline]
    fn in_flight(&mut self, now: Instant) -> usize {
        while self.ends.peek().is_some_and(|end| end.0 <= now) {
            self.ends.pop();
        }
        self.ends.len()
    }
}

/// The members and the links between them and the clients.
#[derive(Debug, Clone)]
struct Below {
    members: Vec<SimulatedMember>,
    /// Every client host has links of its own: client * `links_each` + link.
    links: Vec<Link>,
    links_each: usize,
    max_request: Bytes,
    has_copies: bool,
}

impl Below {
    /// One I/O on one member, split at the largest request; says when all of it is done.
    #[inline]
    fn io(
        &mut self,
        now: Instant,
        op: OpKind,
        client: usize,
        (index, offset, length): (usize, MemberOffset, Bytes),
        record: &mut impl FnMut(Bytes, Instant),
    ) -> Instant {
        let member = &mut self.members[index];
        let mut link = member.link.and_then(|link| self.links.get_mut(client * self.links_each + link));
        let mut request = |at, length| {
            let end = member.model.submit(now, op, at, length, link.as_deref_mut());
            record(length, end);
            end
        };
        let last = if length <= self.max_request {
            request(offset, length)
        } else {
            let (mut at, stop, mut last) = (offset, offset + length, now);
            while at < stop {
                let length = self.max_request.min(stop - at);
                last = last.max(request(at, length));
                at += length;
            }
            last
        };
        if self.has_copies {
            member.ends.push(Reverse(last));
        }
        last
    }
}

/// The array with everything below it.
#[derive(Debug, Clone)]
pub(super) struct Array {
    map: Map,
    below: Below,
    /// By volume index of the experiment: position among the members.
    position: Vec<usize>,
    /// Members' worth of parity of an array directly over volumes: as many can be rebuilt from the others.
    parity: usize,
    any_mortal: bool,
    /// Bytes of a whole stripe, where there is one.
    stripe: Option<Bytes>,
    /// Shortest I/O that a long operation is cut into.
    smallest_piece: Bytes,
}

/// Which copy a read should come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum CopyChoice {
    /// That of the members with the fewest I/Os in flight, and of equals the first: what md's `raid1.c` and `raid10.c`
    /// (`read_balance`) choose on disks without arms. One reader at a time thus finds the first copy idle each time.
    LeastBusy,
    /// That of a stream with this number.
    Stream(u64),
}

/// An operation as the array sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) op: OpKind,
    pub(super) offset: ArrayOffset,
    pub(super) length: Bytes,
    pub(super) copy: CopyChoice,
    /// Index of the client host.
    pub(super) client: usize,
}

/// When a request is done, or done with its first half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Completes at this instant.
    At(Instant),
    /// Old data and parity are there at this instant; `write_back` continues then (RAID5 and RAID6).
    ThenWriteBack(Instant),
}

impl Array {
    /// # Errors
    /// When the layout is impossible on these volumes or one of them has no size or shape.
    pub(super) fn new(
        experiment: &Experiment,
        design: &Design,
        max_request: Option<Bytes>,
        clients: usize,
        mut model: impl FnMut(usize) -> Option<Model>,
    ) -> Result<Self, BackendError> {
        let sizes: Vec<Bytes> =
            experiment.volumes.iter().map(|volume| volume.size.unwrap_or_default()).collect();
        let map = Map::new(&design.layout, &sizes)
            .map_err(|error| BackendError::Other(format!("design {}: {error}", design.name)))?;
        let mut position = vec![usize::MAX; experiment.volumes.len()];
        let mut members = Vec::with_capacity(map.leaves().len());
        for (index, leaf) in map.leaves().iter().enumerate() {
            position[*leaf] = index;
            let volume = &experiment.volumes[*leaf];
            let (Some(shape), Some(model)) = (&volume.shape, model(*leaf)) else {
                return Err(BackendError::Volume {
                    volume: volume.name.clone(),
                    what:
                        "has no shape, so the simulator cannot know how fast it is; give it `shape` or `type`"
                            .into(),
                });
            };
            let mortal = shape.character.failure.is_some_and(|f| f.kind != FailureKind::Freeze);
            members.push(SimulatedMember {
                name: volume.name.clone(),
                model,
                link: shape.link,
                mortal,
                size: sizes[*leaf],
                ends: BinaryHeap::new(),
            });
        }
        let one_client: Vec<&LinkShape> = experiment.links.iter().collect();
        let links =
            (0..clients.max(1)).flat_map(|_| one_client.iter().map(|shape| Link::new(shape))).collect();
        let parity = match &design.layout {
            LayoutNode::Array { kind, members }
                if members.iter().all(|member| matches!(member, LayoutNode::Volume(_))) =>
            {
                kind.facts().parity()
            }
            _ => 0,
        };
        let any_mortal = members.iter().any(|member| member.mortal);
        let max_request = max_request.unwrap_or(Bytes(u64::MAX)).max(REQUEST_LEAST);
        let chunk = design.layout.smallest_chunk().unwrap_or(Bytes(u64::MAX));
        let has_copies = map.copies() > 1;
        Ok(Array {
            map,
            below: Below { members, links, links_each: one_client.len(), max_request, has_copies },
            position,
            parity,
            any_mortal,
            stripe: Geometry::of(&design.layout).map(Geometry::stripe),
            smallest_piece: chunk.min(max_request).max(REQUEST_LEAST),
        })
    }

    pub(super) fn stripe(&self) -> Option<Bytes> {
        self.stripe
    }

    pub(super) fn smallest_piece(&self) -> Bytes {
        self.smallest_piece
    }

    pub(super) fn capacity(&self) -> Bytes {
        self.map.capacity()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.below.members.iter().map(|member| member.name.clone()).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.below.members.len()
    }

    /// Of a member's data area.
    pub(super) fn member_size(&self, member: usize) -> Bytes {
        self.below.members[member].size
    }

    /// Whether limits and moods are all that its members remember.
    pub(super) fn is_memoryless(&self) -> bool {
        self.below.members.iter().all(|member| member.model.is_memoryless())
    }

    /// First instant at which a member's mood may change.
    pub(super) fn next_change(&mut self, now: Instant) -> Instant {
        let changes = self.below.members.iter_mut().map(|member| member.model.next_change(now));
        changes.min().unwrap_or(Instant::NEVER)
    }

    /// See [`Model::cells_left`].
    pub(super) fn cells_left(&self, earlier: &Array, now: Instant, cell: Nanos) -> u64 {
        let members = self.below.members.iter().zip(&earlier.below.members);
        let members = members.map(|(member, before)| member.model.cells_left(&before.model, now, cell));
        let links = self.below.links.iter().zip(&earlier.below.links);
        let links = links.map(|(link, before)| link.cells_left(before, now, cell));
        members.chain(links).min().unwrap_or(u64::MAX)
    }

    /// See [`Model::leap`].
    pub(super) fn leap(&mut self, earlier: &Array, now: Instant, cells: u64, cell: Nanos) {
        for (member, before) in self.below.members.iter_mut().zip(&earlier.below.members) {
            member.model.leap(&before.model, now, cells, cell);
            let ends = member.ends.drain().map(|end| Reverse(end.0 + cell.times(cells)));
            member.ends = ends.collect();
        }
        for (link, before) in self.below.links.iter_mut().zip(&earlier.below.links) {
            link.leap(before, now, cells, cell);
        }
    }

    pub(super) fn model(&self, member: usize) -> &Model {
        &self.below.members[member].model
    }

    /// Submits a request at `now`.
    ///
    /// # Errors
    /// When a member returned an error and nothing else holds its bytes.
    #[inline]
    pub(super) fn submit(
        &mut self,
        now: Instant,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Done, BackendError> {
        if self.any_mortal || (request.op == OpKind::Write && !self.map.supports_write()) {
            return self.submit_slowly(now, request, recorder);
        }
        let selector = self.selector(now, request);
        let Array { map, below, position, .. } = self;
        let mut last = now;
        let mut sink = |extent: Extent| {
            let index = position[extent.member];
            let mut record = |length, end| recorder.member(index, request.op, length, now, end);
            let io = (index, extent.offset, extent.length);
            last = last.max(below.io(now, request.op, request.client, io, &mut record));
        };
        match request.op {
            OpKind::Read => map.read_extents(request.offset, request.length, selector, &mut sink),
            OpKind::Write => map.write_extents(request.offset, request.length, &mut sink),
        }
        .map_err(unmapped)?;
        Ok(Done::At(last))
    }

    /// The copy that a request reads.
    #[inline]
    fn selector(&mut self, now: Instant, request: &Request) -> u64 {
        match request.copy {
            CopyChoice::Stream(stream) => stream,
            CopyChoice::LeastBusy if !self.below.has_copies || request.op == OpKind::Write => 0,
            CopyChoice::LeastBusy => self.least_busy(now, request),
        }
    }

    fn least_busy(&mut self, now: Instant, request: &Request) -> u64 {
        let Array { map, below, position, .. } = self;
        let mut in_flight = |copy: &u64| {
            let mut sum = 0;
            // What is out of bounds fails where it is submitted.
            let _in_range = map.read_extents(request.offset, request.length, *copy, &mut |extent: Extent| {
                let member = &mut below.members[position[extent.member]];
                let fails = member.mortal && member.model.fails(now).is_some();
                sum += if fails { FAILED } else { member.in_flight(now) };
            });
            sum
        };
        (0..u64::from(map.copies())).min_by_key(&mut in_flight).unwrap_or(0)
    }

    fn fails(&self, member: usize, now: Instant) -> Option<FailureKind> {
        let member = &self.below.members[member];
        if member.mortal { member.model.fails(now) } else { None }
    }

    /// Part of a client's request: `extent`'s place on the member at position `index`.
    fn io(
        &mut self,
        now: Instant,
        (op, client): (OpKind, usize),
        index: usize,
        extent: &Extent,
        recorder: &mut Recorder,
    ) -> Instant {
        let mut record = |length, end| recorder.member(index, op, length, now, end);
        self.below.io(now, op, client, (index, extent.offset, extent.length), &mut record)
    }

    /// An I/O of the background (resync): straight to a member, and in nobody's record.
    pub(super) fn background_io(
        &mut self,
        now: Instant,
        op: OpKind,
        member: usize,
        offset: MemberOffset,
        length: Bytes,
    ) -> Instant {
        if self.fails(member, now).is_some() {
            return now;
        }
        self.below.io(now, op, 0, (member, offset, length), &mut |_, _| {})
    }

    /// Requests on arrays with failing members or with parity to write.
    #[cold]
    fn submit_slowly(
        &mut self,
        now: Instant,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Done, BackendError> {
        match request.op {
            OpKind::Read => self.read_around_failures(now, request, recorder).map(Done::At),
            OpKind::Write if self.map.supports_write() => {
                self.write_around_failures(now, request, recorder).map(Done::At)
            }
            OpKind::Write => self.read_before_write(now, request, recorder),
        }
    }

    fn read_around_failures(
        &mut self,
        now: Instant,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Instant, BackendError> {
        let first = self.selector(now, request);
        let mut last = now;
        let mut bad = None;
        for attempt in 0..u64::from(self.map.copies()) {
            let mut extents = Vec::new();
            self.map
                .read_extents(request.offset, request.length, first + attempt, &mut |extent| {
                    extents.push(extent)
                })
                .map_err(unmapped)?;
            bad = extents
                .iter()
                .find(|extent| self.fails(self.position[extent.member], now).is_some())
                .copied();
            if bad.is_some() && (attempt + 1 < u64::from(self.map.copies()) || self.parity == 0) {
                continue;
            }
            for extent in extents {
                let index = self.position[extent.member];
                if self.fails(index, now).is_none() {
                    last = last.max(self.io(now, (request.op, request.client), index, &extent, recorder));
                } else {
                    last = last.max(self.reconstruct(now, request.client, index, extent, recorder)?);
                }
            }
            return Ok(last);
        }
        Err(bad.map_or(BackendError::Other("the array has no copy to read".into()), |extent| {
            self.lost(self.position[extent.member], now)
        }))
    }

    /// Reads a failed member's bytes from all the others (RAID5; RAID6 needs one fewer, which is the P parity's).
    fn reconstruct(
        &mut self,
        now: Instant,
        client: usize,
        failed: usize,
        extent: Extent,
        recorder: &mut Recorder,
    ) -> Result<Instant, BackendError> {
        let alive: Vec<usize> = (0..self.len()).filter(|m| self.fails(*m, now).is_none()).collect();
        let needed = self.len() - self.parity;
        if self.parity == 0 || alive.len() < needed {
            return Err(self.lost(failed, now));
        }
        let mut last = now;
        for index in alive.into_iter().take(needed) {
            last = last.max(self.io(now, (OpKind::Read, client), index, &extent, recorder));
        }
        Ok(last)
    }

    fn write_around_failures(
        &mut self,
        now: Instant,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Instant, BackendError> {
        let mut extents = Vec::new();
        self.map
            .write_extents(request.offset, request.length, &mut |extent| extents.push(extent))
            .map_err(unmapped)?;
        let mut last = now;
        let mut bad = None;
        let mut kept: Vec<(ArrayOffset, ArrayOffset)> = Vec::new();
        for extent in extents {
            let index = self.position[extent.member];
            if self.fails(index, now).is_some() {
                bad = Some(index);
                continue;
            }
            kept.push((extent.array_offset, extent.array_offset + extent.length));
            last = last.max(self.io(now, (request.op, request.client), index, &extent, recorder));
        }
        match bad {
            Some(index) if !covered(kept, request.offset, request.length) => Err(self.lost(index, now)),
            _ => Ok(last),
        }
    }

    /// RAID5 and RAID6: reads what parity needs before it can be written; a write of whole stripes needs nothing.
    fn read_before_write(
        &mut self,
        now: Instant,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Done, BackendError> {
        let stripes = |stripe: Bytes| {
            request.offset.0.is_multiple_of(stripe.0) && request.length.0.is_multiple_of(stripe.0)
        };
        if self.parity > 0 && self.stripe.is_some_and(stripes) {
            return self.write_back(now, request, recorder).map(Done::At);
        }
        let mut last = now;
        for extent in self.located(request)? {
            let index = self.position[extent.member];
            if self.fails(index, now).is_none() {
                last = last.max(self.io(now, (OpKind::Read, request.client), index, &extent, recorder));
            }
        }
        Ok(Done::ThenWriteBack(last))
    }

    /// The second half of a write with parity.
    ///
    /// # Errors
    /// When more members failed than parity makes up for.
    pub(super) fn write_back(
        &mut self,
        now: Instant,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Instant, BackendError> {
        let failed: Vec<usize> =
            (0..self.len()).filter(|member| self.fails(*member, now).is_some()).collect();
        if let Some(member) = failed.first().filter(|_| failed.len() > self.parity.max(1)) {
            return Err(self.lost(*member, now));
        }
        let mut last = now;
        for extent in self.located(request)? {
            let index = self.position[extent.member];
            if !failed.contains(&index) {
                last = last.max(self.io(now, (OpKind::Write, request.client), index, &extent, recorder));
            }
        }
        Ok(last)
    }

    fn located(&self, request: &Request) -> Result<Vec<Extent>, BackendError> {
        self.map.locate(request.offset, request.length).map_err(unmapped)
    }

    fn lost(&self, member: usize, now: Instant) -> BackendError {
        let (name, what) = match self.fails(member, now) {
            Some(FailureKind::Vanish) => ("ENODEV", "vanished"),
            // Frozen members answer late, and so fail nothing.
            Some(FailureKind::Error | FailureKind::Freeze) | None => ("EIO", "returned an error"),
        };
        BackendError::Volume {
            volume: self.below.members[member].name.clone(),
            what: format!(
                "{what} ({name}) {:.3} s into the trial, and no other member holds its bytes",
                now.elapsed().as_secs_f64()
            ),
        }
    }
}

/// Why a request has no place in the array.
fn unmapped(error: ExtentError) -> BackendError {
    BackendError::Other(error.to_string())
}

/// Whether the ranges cover everything from `offset` on for `length`.
fn covered(mut ranges: Vec<(ArrayOffset, ArrayOffset)>, offset: ArrayOffset, length: Bytes) -> bool {
    ranges.sort_unstable();
    let reached = ranges.iter().fold(offset, |at, (begin, end)| if *begin <= at { at.max(*end) } else { at });
    reached >= offset + length
}

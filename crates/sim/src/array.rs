//! The simulated array: an operation on it becomes I/Os on its members' volume models.

use super::record::Recorder;
use super::stripes::{MEMBERS_MAX, Stripes};
use ebbtide_model::backend::BackendError;
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::layout::{Balance, Choice, Extent, ExtentError, LayoutNode, Map, Place, Reads, Standing};
use ebbtide_model::plan::build::Geometry;
use ebbtide_model::units::{ArrayOffset, Bytes, Instant, MemberOffset, Nanos};
use ebbtide_model::volume::{FailureKind, Link, LinkShape, Model};
use ebbtide_model::workload::OpKind;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No request is shorter than a sector.
const REQUEST_LEAST: Bytes = Bytes(512);

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
    /// Whether it has an arm.
    rotates: bool,
    /// Ends of what is in flight, and of what has ended since anybody asked, in time and place; kept where there are copies to
    /// choose from.
    ends: BinaryHeap<Reverse<(Instant, MemberOffset)>>,
    /// Where the last one ended that has.
    head: MemberOffset,
}

impl SimulatedMember {
    /// I/Os in flight.
    #[inline]
    fn in_flight(&mut self, now: Instant) -> usize {
        while let Some(Reverse((_, head))) = self.ends.peek().filter(|end| end.0.0 <= now) {
            self.head = *head;
            self.ends.pop();
        }
        self.ends.len()
    }
}

/// Bytes of one member.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Its position.
    pub(super) member: usize,
    pub(super) offset: MemberOffset,
    pub(super) length: Bytes,
}

/// Nothing but this member, which fails, holds what is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    /// Its position.
    pub(super) member: usize,
}

/// The members and the links between them and the clients.
#[derive(Debug, Clone)]
pub(super) struct Below {
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
    pub(super) fn io(
        &mut self,
        now: Instant,
        op: OpKind,
        client: usize,
        Part { member, offset, length }: Part,
        record: &mut impl FnMut(Bytes, Instant),
    ) -> Instant {
        let member = &mut self.members[member];
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
            member.ends.push(Reverse((last, offset + length)));
        }
        last
    }

    fn fails(&self, member: usize, now: Instant) -> Option<FailureKind> {
        let member = &self.members[member];
        if member.mortal { member.model.fails(now) } else { None }
    }

    /// How a member stands; nothing where it fails.
    fn standing(&mut self, member: usize, now: Instant) -> Option<Standing> {
        if self.fails(member, now).is_some() {
            return None;
        }
        let member = &mut self.members[member];
        Some(Standing { pending: member.in_flight(now), head: member.head, rotates: member.rotates })
    }
}

/// A read that chooses among copies.
struct Reading<'a> {
    below: &'a mut Below,
    balance: &'a mut Balance,
    position: &'a [usize],
    arrays: &'a [Vec<usize>],
    recorder: &'a mut Recorder,
    now: Instant,
    client: usize,
    last: Instant,
    lost: Option<Lost>,
}

impl Reads for Reading<'_> {
    fn choose(&mut self, choice: &Choice<'_>) -> u32 {
        let Reading { below, position, arrays, now, .. } = self;
        self.balance.choose(choice, |place| match place {
            Place::Volume(volume) => below.standing(position[volume], *now),
            // Of an array: what all its members have to do, and as if nothing had been read before.
            Place::Array(array) => {
                let mut all = Standing { pending: 0, head: MemberOffset::START, rotates: true };
                for volume in &arrays[array] {
                    let one = below.standing(position[*volume], *now)?;
                    all.pending += one.pending;
                    all.rotates &= one.rotates;
                }
                Some(all)
            }
        })
    }

    fn read(&mut self, extent: Extent) {
        let (now, part) = (self.now, part_of(self.position, &extent));
        if self.below.fails(part.member, now).is_some() {
            self.lost = Some(Lost { member: part.member });
            return;
        }
        let recorder = &mut *self.recorder;
        let mut record = |length, end| recorder.member(part.member, OpKind::Read, length, now, end);
        self.last = self.last.max(self.below.io(now, OpKind::Read, self.client, part, &mut record));
    }
}

/// Where an extent is, by position of its member.
#[inline]
fn part_of(position: &[usize], extent: &Extent) -> Part {
    Part { member: position[extent.member], offset: extent.offset, length: extent.length }
}

/// The array with everything below it.
#[derive(Debug, Clone)]
pub(super) struct Array {
    map: Map,
    below: Below,
    /// By volume index of the experiment: position among the members.
    position: Vec<usize>,
    balance: Balance,
    /// Volumes below each array of the map.
    arrays: Vec<Vec<usize>>,
    /// Of an array of parity directly over volumes.
    stripes: Option<Stripes>,
    any_mortal: bool,
    /// Bytes of a whole stripe, where there is one.
    stripe: Option<Bytes>,
    /// Shortest I/O that a long operation is cut into.
    smallest_piece: Bytes,
}

/// An operation as the array sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) op: OpKind,
    pub(super) offset: ArrayOffset,
    pub(super) length: Bytes,
    /// Who waits for it: a slot of the event loop.
    pub(super) slot: u32,
    /// Index of the client host.
    pub(super) client: usize,
}

/// When a request is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Completes at this instant.
    At(Instant),
    /// Waits in the stripe cache: [`Array::work`] says when it completes.
    Gathered,
}

impl Done {
    /// When, where that is known.
    #[inline]
    pub(super) fn instant(self) -> Option<Instant> {
        match self {
            Done::At(end) => Some(end),
            Done::Gathered => None,
        }
    }
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
                rotates: shape.character.seek.is_some(),
                ends: BinaryHeap::new(),
                head: MemberOffset::START,
            });
        }
        let one_client: Vec<&LinkShape> = experiment.links.iter().collect();
        let links =
            (0..clients.max(1)).flat_map(|_| one_client.iter().map(|shape| Link::new(shape))).collect();
        let stripes = match &design.layout {
            LayoutNode::Array { kind, members }
                if kind.facts().parity() > 0
                    && members.len() <= MEMBERS_MAX
                    && members.iter().all(|member| matches!(member, LayoutNode::Volume(_))) =>
            {
                kind.chunk().map(|chunk| Stripes::new(members.len(), chunk))
            }
            _ => None,
        };
        let any_mortal = members.iter().any(|member| member.mortal);
        let max_request = max_request.unwrap_or(Bytes(u64::MAX)).max(REQUEST_LEAST);
        let chunk = design.layout.smallest_chunk().unwrap_or(Bytes(u64::MAX));
        // md cuts what RAID10 is asked for at its chunks, also where they continue each other on a member.
        let max_request = match &design.layout {
            LayoutNode::Array { kind, .. } if kind.copies().is_some() => {
                max_request.min(chunk).max(REQUEST_LEAST)
            }
            _ => max_request,
        };
        let has_copies = map.copies() > 1;
        Ok(Array {
            balance: Balance::default(),
            arrays: map.volumes_of_arrays(),
            stripes,
            map,
            below: Below { members, links, links_each: one_client.len(), max_request, has_copies },
            position,
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

    /// Whether limits and moods are all that it remembers.
    pub(super) fn is_memoryless(&self) -> bool {
        self.stripes.is_none() && self.below.members.iter().all(|member| member.model.is_memoryless())
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
            let ends = member.ends.drain().map(|Reverse((end, at))| Reverse((end + cell.times(cells), at)));
            member.ends = ends.collect();
        }
        for (link, before) in self.below.links.iter_mut().zip(&earlier.below.links) {
            link.leap(before, now, cells, cell);
        }
    }

    /// When all that was written before `now` is durable: every member is flushed, and the slowest is waited for.
    #[cold]
    pub(super) fn flush(&mut self, now: Instant) -> Instant {
        let each = self.below.members.iter_mut().map(|member| member.model.flush(now));
        each.max().unwrap_or(now)
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
        if self.any_mortal || !self.map.supports_write() {
            return self.submit_slowly(now, request, recorder);
        }
        if self.below.has_copies && request.op == OpKind::Read {
            return self.read(now, request, recorder);
        }
        let Array { map, below, position, .. } = self;
        let mut last = now;
        let mut sink = |extent: Extent| {
            let part = part_of(position, &extent);
            let mut record = |length, end| recorder.member(part.member, request.op, length, now, end);
            last = last.max(below.io(now, request.op, request.client, part, &mut record));
        };
        match request.op {
            OpKind::Read => map.read_extents(request.offset, request.length, 0, &mut sink),
            OpKind::Write => map.write_extents(request.offset, request.length, &mut sink),
        }
        .map_err(unmapped)?;
        Ok(Done::At(last))
    }

    /// A read of what is on the members as it is.
    fn read(
        &mut self,
        now: Instant,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Done, BackendError> {
        let Array { map, below, balance, position, arrays, .. } = self;
        let client = request.client;
        let mut reading =
            Reading { below, balance, position, arrays, recorder, now, client, last: now, lost: None };
        map.read_chosen(request.offset, request.length, &mut reading).map_err(unmapped)?;
        let Reading { last, lost, .. } = reading;
        match lost {
            Some(lost) => Err(self.lost(lost, now)),
            None => Ok(Done::At(last)),
        }
    }

    /// When [`Array::work`] has something to do.
    #[inline]
    pub(super) fn due(&self) -> Instant {
        self.stripes.as_ref().map_or(Instant::NEVER, Stripes::due)
    }

    /// Writes what is due in the stripe cache; adds the slots whose requests will be done, and when.
    ///
    /// # Errors
    /// When more members failed than parity makes up for.
    pub(super) fn work(
        &mut self,
        now: Instant,
        recorder: &mut Recorder,
        done: &mut Vec<(u32, Instant)>,
    ) -> Result<(), BackendError> {
        let failed = self.failed(now);
        let Array { map, below, stripes: Some(stripes), .. } = self else { return Ok(()) };
        stripes.work(now, failed, map, below, recorder, done).map_err(|lost| self.lost(lost, now))
    }

    /// Members that return errors, one bit each.
    fn failed(&self, now: Instant) -> u128 {
        let all = 0..self.len().min(MEMBERS_MAX);
        all.filter(|member| self.any_mortal && self.below.fails(*member, now).is_some())
            .fold(0, |set, member| set | 1 << member)
    }

    /// Part of a client's request.
    fn io(
        &mut self,
        now: Instant,
        (op, client): (OpKind, usize),
        part: Part,
        recorder: &mut Recorder,
    ) -> Instant {
        let mut record = |length, end| recorder.member(part.member, op, length, now, end);
        self.below.io(now, op, client, part, &mut record)
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
        if self.below.fails(member, now).is_some() {
            return now;
        }
        self.below.io(now, op, 0, Part { member, offset, length }, &mut |_, _| {})
    }

    /// Requests on arrays with failing members or with parity.
    #[cold]
    fn submit_slowly(
        &mut self,
        now: Instant,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Done, BackendError> {
        match request.op {
            OpKind::Read if self.reads_through_stripes(now) => self.gather(now, request),
            OpKind::Read => self.read(now, request, recorder),
            OpKind::Write if self.map.supports_write() => {
                self.write_around_failures(now, request, recorder).map(Done::At)
            }
            OpKind::Write if self.stripes.is_some() => self.gather(now, request),
            OpKind::Write => self.read_modify_write(now, request, recorder).map(Done::At),
        }
    }

    /// The data of a request.
    fn parts(&self, request: &Request) -> Result<Vec<Part>, BackendError> {
        let mut parts = Vec::new();
        let mut sink = |extent| parts.push(part_of(&self.position, &extent));
        self.map.read_extents(request.offset, request.length, 0, &mut sink).map_err(unmapped)?;
        Ok(parts)
    }

    /// Leaves a request to the stripe cache.
    fn gather(&mut self, now: Instant, request: &Request) -> Result<Done, BackendError> {
        let parts = self.parts(request)?;
        if let Some(stripes) = &mut self.stripes {
            stripes.take(now, request.op, request.slot, request.client, &parts);
        }
        Ok(Done::Gathered)
    }

    fn reads_through_stripes(&self, now: Instant) -> bool {
        self.stripes.is_some() && self.failed(now) != 0
    }

    /// A read for the page cache: says at once when it is there.
    ///
    /// # Errors
    /// When more members failed than the others make up for.
    pub(super) fn read_ahead(
        &mut self,
        now: Instant,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Instant, BackendError> {
        if !self.reads_through_stripes(now) {
            return Ok(self.submit(now, request, recorder)?.instant().unwrap_or(now));
        }
        let (failed, parts) = (self.failed(now), self.parts(request)?);
        let Array { map, below, stripes: Some(stripes), .. } = self else { return Ok(now) };
        let end = stripes.read(now, (request.client, &parts), failed, map, below, recorder);
        end.map_err(|lost| self.lost(lost, now))
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
            let part = part_of(&self.position, &extent);
            if self.below.fails(part.member, now).is_some() {
                bad = Some(Lost { member: part.member });
                continue;
            }
            kept.push((extent.array_offset, extent.array_offset + extent.length));
            last = last.max(self.io(now, (request.op, request.client), part, recorder));
        }
        match bad {
            Some(lost) if !covered(kept, request.offset, request.length) => Err(self.lost(lost, now)),
            _ => Ok(last),
        }
    }

    /// A write of arrays of parity inside others: old data and old parity are read, then the new ones are written.
    fn read_modify_write(
        &mut self,
        now: Instant,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Instant, BackendError> {
        let extents = self.map.locate(request.offset, request.length).map_err(unmapped)?;
        let parts: Vec<Part> = extents.iter().map(|extent| part_of(&self.position, extent)).collect();
        let failed: Vec<usize> =
            (0..self.len()).filter(|member| self.below.fails(*member, now).is_some()).collect();
        if let [_, member, ..] = failed[..] {
            return Err(self.lost(Lost { member }, now));
        }
        let mut at = now;
        for op in [OpKind::Read, OpKind::Write] {
            let alive = parts.iter().filter(|part| !failed.contains(&part.member));
            let ends = alive.map(|part| self.io(at, (op, request.client), *part, recorder));
            at = ends.collect::<Vec<_>>().into_iter().max().unwrap_or(at);
        }
        Ok(at)
    }

    fn lost(&self, Lost { member }: Lost, now: Instant) -> BackendError {
        let (name, what) = match self.below.fails(member, now) {
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

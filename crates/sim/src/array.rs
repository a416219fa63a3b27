//! The simulated array: an operation on it becomes I/Os on its members' volume models.

use super::record::Recorder;
use ebbtide_model::backend::BackendError;
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::layout::{Extent, LayoutNode, Map};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::volume::{FailureKind, Link, LinkShape, Model};
use ebbtide_model::workload::OpKind;

/// One member of the array.
#[derive(Debug, Clone)]
struct SimulatedMember {
    name: String,
    model: Model,
    link: Option<usize>,
    /// Whether it has a failure that makes operations return errors.
    mortal: bool,
    /// Bytes of its data area.
    size: u64,
}

/// The array with everything below it.
#[derive(Debug, Clone)]
pub(super) struct Array {
    map: Map,
    members: Vec<SimulatedMember>,
    /// By volume index of the experiment: position among the members.
    position: Vec<usize>,
    /// Every client host has links of its own: client * `links_each` + link.
    links: Vec<Link>,
    links_each: usize,
    max_request: u64,
    /// Chooses among copies for random reads.
    reads: u64,
    /// Members' worth of parity of an array directly over volumes: as many can be rebuilt from the others.
    parity: usize,
    any_mortal: bool,
    /// Bytes of a whole stripe, where there is one.
    stripe: Option<Bytes>,
    /// Smallest chunk of its levels.
    chunk: u64,
}

/// Which copy a read should come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pick {
    /// Any: the next in turn.
    Next,
    /// That of a stream with this number.
    Stream(u64),
}

/// An operation as the array sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) op: OpKind,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) copy: Pick,
    /// Index of the client host.
    pub(super) client: usize,
}

/// When a request is done, or done with its first half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Completes at this instant.
    At(u64),
    /// Old data and parity are there at this instant; `write_back` continues then (RAID5 and RAID6).
    ThenWriteBack(u64),
}

impl Array {
    /// # Errors
    /// When the layout is impossible on these volumes or one of them has no size or shape.
    pub(super) fn new(
        experiment: &Experiment,
        design: &Design,
        max_request: Option<u64>,
        clients: usize,
        mut model: impl FnMut(usize) -> Option<Model>,
    ) -> Result<Self, BackendError> {
        let sizes: Vec<u64> =
            experiment.volumes.iter().map(|volume| volume.size.map_or(0, |size| size.0)).collect();
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
            });
        }
        let one_client: Vec<&LinkShape> = experiment.links.iter().collect();
        let links =
            (0..clients.max(1)).flat_map(|_| one_client.iter().map(|shape| Link::new(shape))).collect();
        let parity = match &design.layout {
            LayoutNode::Array { kind, members }
                if members.iter().all(|member| matches!(member, LayoutNode::Volume(_))) =>
            {
                kind.facts().parity
            }
            _ => 0,
        };
        let any_mortal = members.iter().any(|member| member.mortal);
        Ok(Array {
            map,
            members,
            position,
            links,
            links_each: one_client.len(),
            max_request: max_request.unwrap_or(u64::MAX).max(512),
            reads: 0,
            parity,
            any_mortal,
            stripe: design.layout.stripe_width(),
            chunk: design.layout.smallest_chunk().map_or(u64::MAX, |chunk| chunk.0),
        })
    }

    pub(super) fn stripe(&self) -> Option<Bytes> {
        self.stripe
    }

    /// Shortest I/O that a long operation is cut into.
    pub(super) fn smallest_piece(&self) -> u64 {
        self.chunk.min(self.max_request).max(512)
    }

    pub(super) fn capacity(&self) -> u64 {
        self.map.capacity()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.members.iter().map(|member| member.name.clone()).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Bytes of a member's data area.
    pub(super) fn member_size(&self, member: usize) -> u64 {
        self.members[member].size
    }

    /// Whether limits and moods are all that its members remember.
    pub(super) fn is_memoryless(&self) -> bool {
        self.members.iter().all(|member| member.model.is_memoryless())
    }

    /// First instant at which a member's mood may change.
    pub(super) fn next_change(&mut self, now: u64) -> u64 {
        self.members.iter_mut().map(|member| member.model.next_change(now)).min().unwrap_or(u64::MAX)
    }

    /// See [`Model::cells_left`].
    pub(super) fn cells_left(&self, earlier: &Array, now: u64, cell: u64) -> u64 {
        let members = self.members.iter().zip(&earlier.members);
        let members = members.map(|(member, before)| member.model.cells_left(&before.model, now, cell));
        let links = self.links.iter().zip(&earlier.links);
        let links = links.map(|(link, before)| link.cells_left(before, now, cell));
        members.chain(links).min().unwrap_or(u64::MAX)
    }

    /// See [`Model::leap`].
    pub(super) fn leap(&mut self, earlier: &Array, now: u64, cells: u64, cell: u64) {
        for (member, before) in self.members.iter_mut().zip(&earlier.members) {
            member.model.leap(&before.model, now, cells, cell);
        }
        for (link, before) in self.links.iter_mut().zip(&earlier.links) {
            link.leap(before, now, cells, cell);
        }
    }

    pub(super) fn model(&self, member: usize) -> &Model {
        &self.members[member].model
    }

    /// Whether its failures, if any, are over or never were by `now`.
    pub(super) fn failed_members(&self, now: u64) -> Vec<usize> {
        (0..self.members.len()).filter(|member| self.fails(*member, now).is_some()).collect()
    }

    /// Submits a request at `now`.
    ///
    /// # Errors
    /// When a member returned an error and nothing else holds its bytes.
    #[inline]
    pub(super) fn submit(
        &mut self,
        now: u64,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Done, BackendError> {
        if self.any_mortal || (request.op == OpKind::Write && !self.map.supports_write()) {
            return self.submit_slowly(now, request, recorder);
        }
        let selector = self.selector(request.copy);
        let Array { map, members, position, links, links_each, max_request, .. } = self;
        let mut last = now;
        let mut sink = |extent: Extent| {
            let index = position[extent.member];
            let member = &mut members[index];
            let mut link = member.link.and_then(|link| links.get_mut(request.client * *links_each + link));
            if extent.length <= *max_request {
                let end = member.model.submit(Nanos(now), request.op, extent.offset, extent.length, link).0;
                recorder.member(index, request.op, extent.length, now, end);
                last = last.max(end);
                return;
            }
            let (mut offset, stop) = (extent.offset, extent.offset + extent.length);
            while offset < stop {
                let length = (*max_request).min(stop - offset);
                let end = member.model.submit(Nanos(now), request.op, offset, length, link.as_deref_mut()).0;
                recorder.member(index, request.op, length, now, end);
                last = last.max(end);
                offset += length;
            }
        };
        match request.op {
            OpKind::Read => map.read_extents(request.offset, request.length, selector, &mut sink),
            OpKind::Write => map.write_extents(request.offset, request.length, &mut sink),
        }
        .map_err(|error| BackendError::Other(error.to_string()))?;
        Ok(Done::At(last))
    }

    #[inline]
    fn selector(&mut self, copy: Pick) -> u64 {
        match copy {
            Pick::Stream(stream) => stream,
            Pick::Next => {
                self.reads = self.reads.wrapping_add(1);
                self.reads
            }
        }
    }

    fn fails(&self, member: usize, now: u64) -> Option<FailureKind> {
        let member = &self.members[member];
        if member.mortal { member.model.fails(Nanos(now)) } else { None }
    }

    /// One I/O on one member, split at the largest request.
    fn io(
        &mut self,
        now: u64,
        op: OpKind,
        client: usize,
        io: (usize, u64, u64),
        mut recorder: Option<&mut Recorder>,
    ) -> u64 {
        let (index, offset, length) = io;
        let member = &mut self.members[index];
        let link = member.link.map(|link| client * self.links_each + link);
        let (mut at, stop, mut last) = (offset, offset + length, now);
        while at < stop {
            let piece = self.max_request.min(stop - at);
            let link = link.and_then(|link| self.links.get_mut(link));
            let end = member.model.submit(Nanos(now), op, at, piece, link).0;
            if let Some(recorder) = &mut recorder {
                recorder.member(index, op, piece, now, end);
            }
            last = last.max(end);
            at += piece;
        }
        last
    }

    /// An I/O of the background (resync): straight to a member.
    pub(super) fn background_io(&mut self, now: u64, op: OpKind, io: (usize, u64, u64)) -> u64 {
        if self.fails(io.0, now).is_some() { now } else { self.io(now, op, 0, io, None) }
    }

    /// Requests on arrays with failing members or with parity to write.
    #[cold]
    fn submit_slowly(
        &mut self,
        now: u64,
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
        now: u64,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<u64, BackendError> {
        let first = self.selector(request.copy);
        let mut last = now;
        let mut bad = None;
        for attempt in 0..u64::from(self.map.copies()) {
            let mut extents = Vec::new();
            self.map
                .read_extents(request.offset, request.length, first + attempt, &mut |extent| {
                    extents.push(extent)
                })
                .map_err(|error| BackendError::Other(error.to_string()))?;
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
                    last = last.max(self.io(
                        now,
                        request.op,
                        request.client,
                        (index, extent.offset, extent.length),
                        Some(&mut *recorder),
                    ));
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
        now: u64,
        client: usize,
        failed: usize,
        extent: Extent,
        recorder: &mut Recorder,
    ) -> Result<u64, BackendError> {
        let alive: Vec<usize> = (0..self.members.len()).filter(|m| self.fails(*m, now).is_none()).collect();
        let needed = self.members.len() - self.parity;
        if self.parity == 0 || alive.len() < needed {
            return Err(self.lost(failed, now));
        }
        let mut last = now;
        for index in alive.into_iter().take(needed) {
            last = last.max(self.io(
                now,
                OpKind::Read,
                client,
                (index, extent.offset, extent.length),
                Some(&mut *recorder),
            ));
        }
        Ok(last)
    }

    fn write_around_failures(
        &mut self,
        now: u64,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<u64, BackendError> {
        let mut extents = Vec::new();
        self.map
            .write_extents(request.offset, request.length, &mut |extent| extents.push(extent))
            .map_err(|error| BackendError::Other(error.to_string()))?;
        let mut last = now;
        let mut bad = None;
        let mut kept: Vec<(u64, u64)> = Vec::new();
        for extent in extents {
            let index = self.position[extent.member];
            if self.fails(index, now).is_some() {
                bad = Some(index);
                continue;
            }
            kept.push((extent.array_offset, extent.array_offset + extent.length));
            let io = (index, extent.offset, extent.length);
            last = last.max(self.io(now, request.op, request.client, io, Some(&mut *recorder)));
        }
        match bad {
            Some(index) if !covered(kept, request.offset, request.length) => Err(self.lost(index, now)),
            _ => Ok(last),
        }
    }

    /// RAID5 and RAID6: reads what parity needs before it can be written; a write of whole stripes needs nothing.
    fn read_before_write(
        &mut self,
        now: u64,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<Done, BackendError> {
        let stripe = self.stripe.filter(|_| self.parity > 0).map_or(u64::MAX, |stripe| stripe.0);
        if request.offset.is_multiple_of(stripe) && request.length.is_multiple_of(stripe) {
            return self.write_back(now, request, recorder).map(Done::At);
        }
        let mut last = now;
        for extent in self.located(request)? {
            let index = self.position[extent.member];
            if self.fails(index, now).is_none() {
                let io = (index, extent.offset, extent.length);
                last = last.max(self.io(now, OpKind::Read, request.client, io, Some(&mut *recorder)));
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
        now: u64,
        request: &Request,
        recorder: &mut Recorder,
    ) -> Result<u64, BackendError> {
        let failed = self.failed_members(now);
        if let Some(member) = failed.first().filter(|_| failed.len() > self.parity.max(1)) {
            return Err(self.lost(*member, now));
        }
        let mut last = now;
        for extent in self.located(request)? {
            let index = self.position[extent.member];
            if !failed.contains(&index) {
                let io = (index, extent.offset, extent.length);
                last = last.max(self.io(now, OpKind::Write, request.client, io, Some(&mut *recorder)));
            }
        }
        Ok(last)
    }

    fn located(&self, request: &Request) -> Result<Vec<Extent>, BackendError> {
        self.map
            .locate(request.offset, request.length)
            .map_err(|error| BackendError::Other(error.to_string()))
    }

    fn lost(&self, member: usize, now: u64) -> BackendError {
        let (name, what) = match self.fails(member, now) {
            Some(FailureKind::Vanish) => ("ENODEV", "vanished"),
            _ => ("EIO", "returned an error"),
        };
        BackendError::Volume {
            volume: self.members[member].name.clone(),
            what: format!(
                "{what} ({name}) {:.3} s into the trial, and no other member holds its bytes",
                now as f64 * 1e-9
            ),
        }
    }
}

/// Whether the ranges cover everything from `offset` on for `length` bytes.
fn covered(mut ranges: Vec<(u64, u64)>, offset: u64, length: u64) -> bool {
    ranges.sort_unstable();
    let reached = ranges.iter().fold(offset, |at, (begin, end)| if *begin <= at { at.max(*end) } else { at });
    reached >= offset + length
}

//! A layout compiled for mapping: the tree of arrays as a flat list of levels.

use super::balance::{Choice, InTurn, Reads};
use super::level::Level;
use super::piece::Piece;
use super::{ArrayKind, Extent, ExtentError, LayoutError, LayoutNode, Reverse, Role};
use crate::units::{ArrayOffset, Bytes, MemberOffset};

/// Most arrays inside each other; far beyond use, far below what a stack holds.
const DEPTH_MAX: usize = 32;

/// A layout over members of known sizes, ready to map extents.
///
/// Members are *data areas*: the superblock, data offset and bitmap of md and the metadata of LVM
/// are not modelled, so member offset 0 is the first byte that the array may use.
///
/// Copies are numbered from 0 over the whole tree: copy `i` of an array whose members are arrays with
/// up to `c` copies counts `i * c` and on. Where members differ in copies, some numbers are unused.
#[derive(Debug, Clone)]
pub struct Map {
    /// The root is the last.
    nodes: Vec<Node>,
    leaves: Vec<usize>,
    /// By leaf volume index: the array whose member it is.
    parents: Vec<Option<Parent>>,
    writable: bool,
}

#[derive(Debug, Clone)]
struct Node {
    level: Level,
    members: Vec<Place>,
    /// Most copies that one of the members keeps of its own bytes.
    inner_copies: u32,
    /// Copies of every byte, over this level and those below it.
    copies: u32,
    parent: Option<Parent>,
}

/// A member of one of the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A leaf volume, by its index.
    Volume(usize),
    /// An array, by its index among the arrays of the map.
    Array(usize),
}

#[derive(Debug, Clone, Copy)]
struct Parent {
    node: usize,
    slot: usize,
}

impl Map {
    /// Compiles `layout`; `member_sizes[i]` is the size of the leaf `Volume(i)`.
    ///
    /// # Errors
    /// See [`LayoutError`]; sizes that no leaf names are ignored.
    pub fn new(layout: &LayoutNode, member_sizes: &[Bytes]) -> Result<Map, LayoutError> {
        let parents = vec![None; member_sizes.len()];
        let mut map = Map { nodes: Vec::new(), leaves: Vec::new(), parents, writable: true };
        match layout {
            // A volume alone is a concatenation of one.
            LayoutNode::Volume(_) => {
                map.compile(ArrayKind::Linear, std::slice::from_ref(layout), member_sizes, 1)?
            }
            LayoutNode::Array { kind, members } => map.compile(*kind, members, member_sizes, 1)?,
        };
        Ok(map)
    }

    /// Appends the array and, before it, those below it; returns its index.
    fn compile(
        &mut self,
        kind: ArrayKind,
        members: &[LayoutNode],
        member_sizes: &[Bytes],
        depth: usize,
    ) -> Result<usize, LayoutError> {
        if depth > DEPTH_MAX {
            return Err(LayoutError::TooDeep { most: DEPTH_MAX });
        }
        let mut compiled = Vec::with_capacity(members.len());
        let mut sizes = Vec::with_capacity(members.len());
        self.compile_members(kind, members, member_sizes, depth, &mut compiled, &mut sizes)?;
        let level = Level::new(kind, &sizes)?;
        self.writable &= level.stripe().is_none();
        let inner_copies = compiled.iter().map(|m| self.copies_of(*m)).max().unwrap_or(1);
        let copies = level.copies().saturating_mul(inner_copies);
        let index = self.nodes.len();
        for (slot, member) in compiled.iter().enumerate() {
            let parent = Some(Parent { node: index, slot });
            match *member {
                Place::Volume(volume) => self.parents[volume] = parent,
                Place::Array(node) => self.nodes[node].parent = parent,
            }
        }
        self.nodes.push(Node { level, members: compiled, inner_copies, copies, parent: None });
        Ok(index)
    }

    fn compile_members(
        &mut self,
        kind: ArrayKind,
        members: &[LayoutNode],
        member_sizes: &[Bytes],
        depth: usize,
        compiled: &mut Vec<Place>,
        sizes: &mut Vec<Bytes>,
    ) -> Result<(), LayoutError> {
        if depth > DEPTH_MAX {
            return Err(LayoutError::TooDeep { most: DEPTH_MAX });
        }
        for member in members {
            match member {
                LayoutNode::Volume(volume) => {
                    let size = *member_sizes
                        .get(*volume)
                        .ok_or(LayoutError::UnknownVolume { index: *volume, volumes: member_sizes.len() })?;
                    if self.leaves.contains(volume) {
                        return Err(LayoutError::VolumeTwice { index: *volume });
                    }
                    self.leaves.push(*volume);
                    compiled.push(Place::Volume(*volume));
                    sizes.push(size);
                }
                // A concatenation of concatenations is one: the walk has a level less.
                LayoutNode::Array { kind: ArrayKind::Linear, members } if kind == ArrayKind::Linear => {
                    self.compile_members(kind, members, member_sizes, depth + 1, compiled, sizes)?;
                }
                LayoutNode::Array { kind, members } => {
                    let node = self.compile(*kind, members, member_sizes, depth + 1)?;
                    compiled.push(Place::Array(node));
                    sizes.push(self.nodes[node].level.capacity());
                }
            }
        }
        Ok(())
    }

    fn copies_of(&self, member: Place) -> u32 {
        match member {
            Place::Volume(_) => 1,
            Place::Array(node) => self.nodes[node].copies,
        }
    }

    fn root(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Bytes of the array.
    pub fn capacity(&self) -> Bytes {
        self.nodes[self.root()].level.capacity()
    }

    /// Indices of the leaf volumes, in the order in which the tree names them.
    pub fn leaves(&self) -> &[usize] {
        &self.leaves
    }

    /// Copies kept of every byte. Where members differ in copies, no byte has more, and copies are
    /// numbered below this.
    pub fn copies(&self) -> u32 {
        self.nodes[self.root()].copies
    }

    /// Whether [`Map::write_extents`] can serve this layout: it has no RAID5 or RAID6 in it.
    pub fn supports_write(&self) -> bool {
        self.writable
    }

    #[inline]
    fn check(&self, offset: ArrayOffset, length: Bytes) -> Result<(), ExtentError> {
        let capacity = self.capacity();
        match offset.0.checked_add(length.0) {
            Some(end) if end <= capacity.0 => Ok(()),
            _ => Err(ExtentError::OutOfBounds { offset, length, capacity }),
        }
    }

    /// Calls `sink` with every place that a write of this extent goes to: copy 0 of all of it in array
    /// order, then copy 1, and so on. Neighbours in the array that are neighbours on their member too
    /// come as one extent. No allocation. An extent of length 0 has no place.
    ///
    /// # Errors
    /// Beyond the capacity; or a layout with parity, see [`Map::supports_write`]. Nothing was called then.
    #[inline]
    pub fn write_extents(
        &self,
        offset: ArrayOffset,
        length: Bytes,
        sink: &mut impl FnMut(Extent),
    ) -> Result<(), ExtentError> {
        self.check(offset, length)?;
        if !self.writable {
            return Err(ExtentError::ParityWrite);
        }
        for copy in 0..self.copies() {
            self.merged(copy, offset, length, sink);
        }
        Ok(())
    }

    /// Calls `sink` with one place for every byte of this extent, in array order, merged as in
    /// [`Map::write_extents`]. No allocation. On RAID5 and RAID6 these are the data, as in an array
    /// that has all its members.
    ///
    /// `turn` chooses among the copies: a mirror is read from member `turn` modulo their number, RAID10
    /// from that copy and, with each row of chunks, the next one. Pass a constant for a sequential
    /// stream (a number of its own for each of several streams) and it stays on one member of a mirror
    /// and uses all members of RAID10, as under md; pass a counter for random reads and they spread
    /// evenly over the copies, which is where md's choice of the least busy member leads under load.
    ///
    /// # Errors
    /// Beyond the capacity; nothing was called then.
    #[inline]
    pub fn read_extents(
        &self,
        offset: ArrayOffset,
        length: Bytes,
        turn: u64,
        sink: &mut impl FnMut(Extent),
    ) -> Result<(), ExtentError> {
        if self.copies() > 1 {
            let mut merged = Merged { pending: None, sink };
            self.read_chosen(offset, length, &mut InTurn { turn, sink: &mut |extent| merged.add(extent) })?;
            merged.finish();
            return Ok(());
        }
        self.check(offset, length)?;
        self.merged(0, offset, length, sink);
        Ok(())
    }

    /// Reads every byte of this extent from the copy that `reads` chooses: once for each request that md would send to one
    /// member, which a mirror sends whole and RAID10 by chunks.
    ///
    /// # Errors
    /// Beyond the capacity; nothing was called then.
    pub fn read_chosen(
        &self,
        offset: ArrayOffset,
        length: Bytes,
        reads: &mut dyn Reads,
    ) -> Result<(), ExtentError> {
        self.check(offset, length)?;
        if length > Bytes(0) {
            self.chosen(self.root(), (offset, length, offset), (0, 1), reads);
        }
        Ok(())
    }

    /// [`Map::read_chosen`] of an extent of `node`, which is at `array_offset` of the whole array and part of its copies from
    /// `first_copy` on; so many copies are `above` it.
    fn chosen(
        &self,
        node: usize,
        (offset, length, array_offset): (ArrayOffset, Bytes, ArrayOffset),
        (first_copy, above): (u32, u32),
        reads: &mut dyn Reads,
    ) {
        let Node { level, members, inner_copies, .. } = &self.nodes[node];
        let copies = level.copies();
        level.split(0, offset, length, &mut |first: Piece| {
            let copy =
                if copies == 1 { 0 } else { reads.choose(&Choice { level, members, piece: first, above }) };
            let piece = if copy == 0 { first } else { level.copy_of(first, copy) };
            let array_offset = array_offset + (first.array_offset - offset);
            let copy = first_copy + copy * inner_copies;
            match members[piece.slot] {
                Place::Volume(member) => {
                    reads.read(data_extent(member, Piece { array_offset, ..piece }, copy));
                }
                Place::Array(below) => {
                    let extent = (piece.offset.in_array(), piece.length, array_offset);
                    self.chosen(below, extent, (copy, above * copies), reads);
                }
            }
        });
    }

    /// The leaf volumes below each of the arrays, in the order of [`Place::Array`].
    pub fn volumes_of_arrays(&self) -> Vec<Vec<usize>> {
        let mut all: Vec<Vec<usize>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let below = node.members.iter().flat_map(|member| match member {
                Place::Volume(volume) => vec![*volume],
                Place::Array(below) => all[*below].clone(),
            });
            all.push(below.collect());
        }
        all
    }

    /// The members of the outermost array, by position, that hold the parity of what is at `at` of the others.
    pub fn parity_slots(&self, at: MemberOffset) -> impl Iterator<Item = usize> + use<> {
        self.nodes[self.root()].level.parity_slots(at)
    }

    /// One copy of the extent with contiguous neighbours merged.
    #[inline]
    fn merged(&self, copy: u32, offset: ArrayOffset, length: Bytes, sink: &mut impl FnMut(Extent)) {
        if length == Bytes(0) {
            return;
        }
        let mut merged = Merged { pending: None, sink };
        self.walk(self.root(), copy, offset, length, &mut |next: Extent| merged.add(next));
        merged.finish();
    }

    /// Calls `sink` with the pieces of one copy on the leaves below `node`, in array order; offsets are
    /// those of this node. Members with fewer copies have nothing to say.
    #[inline]
    fn walk<F: FnMut(Extent) + ?Sized>(
        &self,
        node: usize,
        copy: u32,
        offset: ArrayOffset,
        length: Bytes,
        sink: &mut F,
    ) {
        let node = &self.nodes[node];
        let (outer, inner) = if node.inner_copies == 1 {
            (copy, 0)
        } else {
            (copy / node.inner_copies, copy % node.inner_copies)
        };
        let first_copy = outer * node.inner_copies;
        node.level.split(outer, offset, length, &mut |piece: Piece| match node.members[piece.slot] {
            Place::Volume(member) => {
                if inner == 0 {
                    sink(data_extent(member, piece, first_copy));
                }
            }
            Place::Array(below) => {
                if inner < self.nodes[below].copies {
                    self.walk_below(below, inner, piece, first_copy, &mut |e| sink(e));
                }
            }
        });
    }

    /// [`Map::walk`] of a piece that lies on an array, with the caller's offsets and copy numbers.
    fn walk_below(
        &self,
        node: usize,
        copy: u32,
        piece: Piece,
        first_copy: u32,
        sink: &mut dyn FnMut(Extent),
    ) {
        let translate: &mut dyn FnMut(Extent) = &mut |mut extent: Extent| {
            if let Role::Data { copy } = &mut extent.role {
                *copy += first_copy;
            }
            extent.array_offset = piece.array_offset + (extent.array_offset - piece.offset.in_array());
            sink(extent);
        };
        self.walk(node, copy, piece.offset.in_array(), piece.length, translate);
    }

    /// Everything that holds or protects this extent: all copies of its bytes in array order, then,
    /// for RAID5 and RAID6, the parity that depends on them. Merged as in [`Map::write_extents`].
    ///
    /// # Errors
    /// Beyond the capacity.
    pub fn locate(&self, offset: ArrayOffset, length: Bytes) -> Result<Vec<Extent>, ExtentError> {
        self.check(offset, length)?;
        let mut extents = Vec::new();
        for copy in 0..self.copies() {
            self.merged(copy, offset, length, &mut |e| extents.push(e));
        }
        extents.sort_by_key(|e| (e.array_offset, e.role));
        if !self.writable && length > Bytes(0) {
            let mut parity = Vec::new();
            self.parity_of(self.root(), offset, length, &mut parity);
            for extent in &mut parity {
                let stripe = self.reverse(extent.member, extent.offset);
                extent.array_offset = stripe.map_or(offset, |r| r.array_offset);
            }
            parity.sort_by_key(|e| (e.array_offset, e.role, e.member, e.offset));
            // Parts of one stripe that arrived apart may share parity.
            parity.dedup_by(|next, last| {
                let joins = last.member == next.member
                    && last.role == next.role
                    && last.array_offset == next.array_offset
                    && next.offset <= last.offset + last.length;
                if joins {
                    last.length = last.length.max(next.offset + next.length - last.offset);
                }
                joins
            });
            extents.extend(parity);
        }
        Ok(extents)
    }

    /// The parity on the leaves below `node` that depends on this extent of it; array offsets are not
    /// those of the whole array yet.
    fn parity_of(&self, index: usize, offset: ArrayOffset, length: Bytes, found: &mut Vec<Extent>) {
        let node = &self.nodes[index];
        // This level's own parity: everything that holds it is parity too, be it a copy or more parity.
        node.level.parity(offset, length, &mut |p| {
            let start = found.len();
            match node.members[p.piece.slot] {
                Place::Volume(member) => found.push(data_extent(member, p.piece, 0)),
                Place::Array(below) => {
                    let offset = p.piece.offset.in_array();
                    for copy in 0..self.nodes[below].copies {
                        self.walk(below, copy, offset, p.piece.length, &mut |e| {
                            found.push(e);
                        });
                    }
                    self.parity_of(below, offset, p.piece.length, found);
                }
            }
            for extent in &mut found[start..] {
                if matches!(extent.role, Role::Data { .. }) {
                    extent.role = p.role;
                }
            }
        });
        // Parity inside the members that hold the data.
        for copy in 0..node.level.copies() {
            node.level.split(copy, offset, length, &mut |piece| {
                if let Place::Array(below) = node.members[piece.slot] {
                    self.parity_of(below, piece.offset.in_array(), piece.length, found);
                }
            });
        }
    }

    /// What byte `offset` of leaf volume `member` is to the array; `None` when the array does not use
    /// it: another volume, or a rest too small for a chunk, or space beyond the smallest member.
    pub fn reverse(&self, member: usize, offset: MemberOffset) -> Option<Reverse> {
        self.reverse_from((*self.parents.get(member)?)?, offset)
    }

    /// [`Map::reverse`] of byte `offset` of the member at `place`.
    fn reverse_from(&self, place: Parent, offset: MemberOffset) -> Option<Reverse> {
        let node = &self.nodes[place.node];
        let (array_offset, role) = node.level.reverse(place.slot, offset)?;
        let Some(above) = node.parent else { return Some(Reverse { array_offset, role: node.scaled(role) }) };
        match role {
            Role::Data { .. } => {
                let mut found = self.reverse_from(above, array_offset.on_member())?;
                if let (Role::Data { copy }, Role::Data { copy: inner }) =
                    (&mut found.role, node.scaled(role))
                {
                    *copy += inner;
                }
                Some(found)
            }
            // Parity protects the byte at its own place in each chunk; it is in use when the array above
            // uses one of those. The stripe is named by its first byte in use: not always its first,
            // because far and offset copies do not rise with the member's offset.
            parity => {
                let (chunk, stripe) = node.level.stripe()?;
                let used = |from: u64, step: u64| {
                    let mut bytes = (array_offset.0 + from..array_offset.0 + stripe.0).step_by(step as usize);
                    bytes.find_map(|byte| self.reverse_from(above, MemberOffset(byte)))
                };
                used(offset.0 % chunk.0, chunk.0)?;
                used(0, 512).map(|found| Reverse { role: parity, ..found })
            }
        }
    }
}

impl Node {
    /// The copy's number among those of this node's whole tree, given its number on this level.
    fn scaled(&self, role: Role) -> Role {
        match role {
            Role::Data { copy } => Role::Data { copy: copy * self.inner_copies },
            parity => parity,
        }
    }
}

#[inline(always)]
fn data_extent(member: usize, piece: Piece, copy: u32) -> Extent {
    Extent {
        member,
        offset: piece.offset,
        length: piece.length,
        role: Role::Data { copy },
        array_offset: piece.array_offset,
    }
}

/// Extents on their way to `sink`, neighbours as one.
struct Merged<'a, S> {
    pending: Option<Extent>,
    sink: &'a mut S,
}

impl<S: FnMut(Extent)> Merged<'_, S> {
    #[inline]
    fn add(&mut self, next: Extent) {
        match &mut self.pending {
            Some(last) if continues(last, &next) => last.length += next.length,
            _ => {
                if let Some(done) = self.pending.replace(next) {
                    (self.sink)(done);
                }
            }
        }
    }

    #[inline]
    fn finish(self) {
        if let Some(done) = self.pending {
            (self.sink)(done);
        }
    }
}

/// Whether `next` follows `last` both in the array and on the same member.
#[inline(always)]
fn continues(last: &Extent, next: &Extent) -> bool {
    last.member == next.member
        && last.offset + last.length == next.offset
        && last.array_offset + last.length == next.array_offset
        && last.role == next.role
}

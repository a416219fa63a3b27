//! RAID5 and RAID6, left-symmetric: the parity moves one member to the left with each stripe, and
//! the data begin right behind it.
//!
//! ```text
//! raid5, n=4                    raid6, n=5
//! member  0   1   2   3         member  0   1   2   3   4
//! row 0   c0  c1  c2  P         row 0   Q   c0  c1  c2  P
//! row 1   c4  c5  P   c3        row 1   c3  c4  c5  P   Q
//! row 2   c8  P   c6  c7        row 2   c7  c8  P   Q   c6
//! row 3   P   c9  c10 c11       row 3   c11 P   Q   c9  c10
//! ```
//!
//! Linux `drivers/md/raid5.c`, `raid5_compute_sector`, ALGORITHM_LEFT_SYMMETRIC, the default of
//! `mdadm --create` for both levels and LVM's for raid5. (LVM's `raid6` is `raid6_zr`, another
//! rotation; its `raid6_nr` and `raid6_nc` differ too.) Q follows P. Members count with the whole
//! chunks of the smallest.

use super::divisor::Divisor;
use super::piece::{Piece, smallest};
use super::{LayoutError, LayoutName, Role};
use crate::units::{ArrayOffset, Bytes, MemberOffset};

#[derive(Debug, Clone)]
pub(super) struct Parity {
    chunk: Divisor,
    members: Divisor,
    /// Members that hold data in one stripe.
    data: Divisor,
    rows: u64,
}

/// What protects a part of a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParityPiece {
    /// Where; `array_offset` is that of the stripe's first byte.
    pub piece: Piece,
    /// Whether the member holds P or Q.
    pub role: Role,
}

impl Parity {
    /// `chunk` as [`super::name::Chunks`] allows it; one or two members' worth of parity.
    pub fn new(sizes: &[Bytes], chunk: Bytes, of: LayoutName) -> Result<Self, LayoutError> {
        let (layout, parities, least) = (of.name(), of.facts().parity(), of.facts().least_members);
        let n = sizes.len();
        if n < least {
            return Err(LayoutError::TooFewMembers { layout, least, given: n });
        }
        let (member, size) = smallest(sizes);
        let rows = size.0 / chunk.0;
        if rows == 0 {
            return Err(LayoutError::MemberTooSmall { layout, member, size, least: chunk });
        }
        let data = (n - parities) as u64;
        if (rows * chunk.0).checked_mul(data).is_none() {
            return Err(LayoutError::TooLarge { layout });
        }
        Ok(Parity {
            chunk: Divisor::of(chunk),
            members: Divisor::new(n as u64),
            data: Divisor::new(data),
            rows,
        })
    }

    pub fn capacity(&self) -> Bytes {
        self.stripe() * self.rows
    }

    pub fn chunk(&self) -> Bytes {
        self.chunk.bytes()
    }

    /// Data bytes of one stripe.
    pub fn stripe(&self) -> Bytes {
        self.chunk.bytes() * self.data.get()
    }

    /// Members holding parity in one stripe, 1 or 2.
    fn parities(&self) -> u64 {
        self.members.get() - self.data.get()
    }

    /// The member with P in `row`, and the one with the first data chunk.
    #[inline(always)]
    fn rotation(&self, row: u64) -> (u64, u64) {
        let n = self.members.get();
        let p = n - 1 - self.members.div_rem(row).1;
        (p, self.wrap(p + self.parities()))
    }

    /// The first member with the parity of what is at `at` of the others, how many follow it, and of how many.
    pub fn parity_slots(&self, at: MemberOffset) -> (usize, usize, usize) {
        let (p, _) = self.rotation(self.chunk.parts(at - MemberOffset::START).0);
        (p as usize, self.parities() as usize, self.members.get() as usize)
    }

    /// `slot` below `2 * members`, brought below `members`.
    #[inline(always)]
    fn wrap(&self, slot: u64) -> u64 {
        if slot >= self.members.get() { slot - self.members.get() } else { slot }
    }

    #[inline]
    pub fn split(&self, offset: ArrayOffset, length: Bytes, sink: &mut impl FnMut(Piece)) {
        let chunk = self.chunk.bytes();
        let end = offset + length;
        let (number, mut within) = self.chunk.parts(offset - ArrayOffset::START);
        let (mut row, mut column) = self.data.div_rem(number);
        let mut first = self.rotation(row).1;
        let mut at = offset;
        while at < end {
            let length = (chunk - within).min(end - at);
            let slot = self.wrap(first + column) as usize;
            let offset = MemberOffset::START + chunk * row + within;
            sink(Piece { slot, offset, length, array_offset: at });
            at += length;
            within = Bytes(0);
            column += 1;
            if column == self.data.get() {
                column = 0;
                row += 1;
                first = self.rotation(row).1;
            }
        }
    }

    /// The parity bytes that depend on this extent. The byte `b` of a stripe's parity depends on the
    /// byte `b` of each of its chunks.
    pub fn parity(&self, offset: ArrayOffset, length: Bytes, sink: &mut impl FnMut(ParityPiece)) {
        let chunk = self.chunk.bytes();
        let stripe = self.stripe();
        let end = offset + length;
        let mut at = offset;
        while at < end {
            let row = at.0 / stripe.0;
            let array_offset = ArrayOffset::START + stripe * row;
            let stop = end.min(array_offset + stripe);
            let row_start = MemberOffset::START + chunk * row;
            let (from, to) = (self.within(at), self.within(stop - Bytes(1)) + Bytes(1));
            let first_chunk_end = at - from + chunk;
            // One chunk: a part of it. Two chunks whose parts do not meet: a head and a tail.
            // Otherwise every byte of the parity chunk.
            let (head, none) = (Bytes(0), (Bytes(0), Bytes(0)));
            let parts = if stop <= first_chunk_end {
                [(from, to), none]
            } else if stop <= first_chunk_end + chunk && to < from {
                [(head, to), (from, chunk)]
            } else {
                [(head, chunk), none]
            };
            let (p, _) = self.rotation(row);
            for parity in 0..self.parities() {
                let slot = self.wrap(p + parity) as usize;
                let role = if parity == 0 { Role::ParityP } else { Role::ParityQ };
                for (from, to) in parts {
                    if from < to {
                        let piece = Piece { slot, offset: row_start + from, length: to - from, array_offset };
                        sink(ParityPiece { piece, role });
                    }
                }
            }
            at = stop;
        }
    }

    /// How far into its chunk `at` is.
    fn within(&self, at: ArrayOffset) -> Bytes {
        self.chunk.parts(at - ArrayOffset::START).1
    }

    pub fn reverse(&self, slot: usize, offset: MemberOffset) -> Option<(ArrayOffset, Role)> {
        let (row, within) = self.chunk.parts(offset - MemberOffset::START);
        if row >= self.rows {
            return None;
        }
        let (n, data) = (self.members.get(), self.data.get());
        let (_, first) = self.rotation(row);
        let column = self.wrap(slot as u64 + n - first);
        let stripe = ArrayOffset::START + self.stripe() * row;
        Some(if column < data {
            (stripe + self.chunk.bytes() * column + within, Role::Data { copy: 0 })
        } else if column == data {
            (stripe, Role::ParityP)
        } else {
            (stripe, Role::ParityQ)
        })
    }
}

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
use super::{LayoutError, Role};
use crate::units::Bytes;

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
    /// P or Q.
    pub role: Role,
}

impl Parity {
    /// `parities` is 1 or 2; `chunk` as [`super::level::check_chunk`] allows it.
    pub fn new(sizes: &[u64], chunk: u64, parities: usize) -> Result<Self, LayoutError> {
        let layout = if parities == 1 { "raid5" } else { "raid6" };
        let (n, least) = (sizes.len(), parities + 2);
        if n < least {
            return Err(LayoutError::TooFewMembers { layout, least, given: n });
        }
        let (member, size) = smallest(sizes);
        let rows = size / chunk;
        if rows == 0 {
            let (size, least) = (Bytes(size), Bytes(chunk));
            return Err(LayoutError::MemberTooSmall { layout, member, size, least });
        }
        let data = (n - parities) as u64;
        if (rows * chunk).checked_mul(data).is_none() {
            return Err(LayoutError::TooLarge { layout });
        }
        Ok(Parity {
            chunk: Divisor::new(chunk),
            members: Divisor::new(n as u64),
            data: Divisor::new(data),
            rows,
        })
    }

    pub fn capacity(&self) -> u64 {
        self.rows * self.chunk.get() * self.data.get()
    }

    pub fn chunk(&self) -> u64 {
        self.chunk.get()
    }

    /// Data bytes of one stripe.
    pub fn stripe(&self) -> u64 {
        self.chunk.get() * self.data.get()
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

    /// `slot` below `2 * members`, brought below `members`.
    #[inline(always)]
    fn wrap(&self, slot: u64) -> u64 {
        if slot >= self.members.get() { slot - self.members.get() } else { slot }
    }

    #[inline]
    pub fn split(&self, offset: u64, length: u64, sink: &mut impl FnMut(Piece)) {
        let chunk = self.chunk.get();
        let end = offset + length;
        let (number, mut within) = self.chunk.div_rem(offset);
        let (mut row, mut column) = self.data.div_rem(number);
        let mut first = self.rotation(row).1;
        let mut at = offset;
        while at < end {
            let length = (chunk - within).min(end - at);
            let slot = self.wrap(first + column) as usize;
            sink(Piece { slot, offset: row * chunk + within, length, array_offset: at });
            at += length;
            within = 0;
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
    pub fn parity(&self, offset: u64, length: u64, sink: &mut impl FnMut(ParityPiece)) {
        let chunk = self.chunk.get();
        let stripe = self.stripe();
        let end = offset + length;
        let mut at = offset;
        while at < end {
            let row = at / stripe;
            let array_offset = row * stripe;
            let stop = end.min(array_offset + stripe);
            let (from, to) = (at % chunk, (stop - 1) % chunk + 1);
            let first_chunk_end = at - from + chunk;
            // One chunk: a part of it. Two chunks whose parts do not meet: a head and a tail.
            // Otherwise every byte of the parity chunk.
            let parts: [(u64, u64); 2] = if stop <= first_chunk_end {
                [(from, to), (0, 0)]
            } else if stop <= first_chunk_end + chunk && to < from {
                [(0, to), (from, chunk)]
            } else {
                [(0, chunk), (0, 0)]
            };
            let (p, _) = self.rotation(row);
            for parity in 0..self.parities() {
                let slot = self.wrap(p + parity) as usize;
                let role = if parity == 0 { Role::ParityP } else { Role::ParityQ };
                for (from, to) in parts {
                    if from < to {
                        let piece =
                            Piece { slot, offset: row * chunk + from, length: to - from, array_offset };
                        sink(ParityPiece { piece, role });
                    }
                }
            }
            at = stop;
        }
    }

    pub fn reverse(&self, slot: usize, offset: u64) -> Option<(u64, Role)> {
        let (row, within) = self.chunk.div_rem(offset);
        if row >= self.rows {
            return None;
        }
        let (n, data) = (self.members.get(), self.data.get());
        let (_, first) = self.rotation(row);
        let column = self.wrap(slot as u64 + n - first);
        let stripe = row * self.stripe();
        Some(if column < data {
            (stripe + column * self.chunk.get() + within, Role::Data { copy: 0 })
        } else if column == data {
            (stripe, Role::ParityP)
        } else {
            (stripe, Role::ParityQ)
        })
    }
}

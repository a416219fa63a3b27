//! RAID10 as md does it: `k` copies of every chunk over any number `n >= k` of members.
//!
//! ```text
//! near, k=2, n=3          far, k=2, n=3           offset, k=2, n=3
//! member 0   1   2        member 0   1   2        member 0   1   2
//! row 0  c0  c0  c1       row 0  c0  c1  c2       row 0  c0  c1  c2
//! row 1  c1  c2  c2       row 1  c3  c4  c5       row 1  c2  c0  c1
//! row 2  c3  c3  c4       ...                     row 2  c3  c4  c5
//! row 3  c4  c5  c5       row R  c2  c0  c1       row 3  c5  c3  c4
//!                         row R+1 c5 c3  c4
//! ```
//!
//! `R`, the rows of one far section, is the smallest member's chunks divided by `k`, rounded down.
//! Linux `drivers/md/raid10.c`: `calc_sectors`, `raid10_size`, `__raid10_find_phys`, `raid10_find_virt`,
//! with near_copies = k or far_copies = k, and without far sets, as `mdadm --layout=fK` and `oK` create
//! them (layout bits 17 and 18 clear). The members used are those of the smallest size.

use super::divisor::Divisor;
use super::piece::{Piece, smallest};
use super::{Arrangement, LayoutError, Role};
use crate::units::{ArrayOffset, Bytes, MemberOffset};

#[derive(Debug, Clone)]
pub(super) struct Raid10 {
    chunk: Divisor,
    copies: Divisor,
    members: Divisor,
    arrangement: Arrangement,
    /// Chunks of the array.
    chunks: u64,
    /// Rows in each of the far sections.
    section_rows: Divisor,
}

impl Raid10 {
    /// `chunk` as [`super::name::Chunks`] allows it.
    pub fn new(
        sizes: &[Bytes],
        chunk: Bytes,
        copies: u32,
        arrangement: Arrangement,
    ) -> Result<Self, LayoutError> {
        const LAYOUT: &str = "raid10";
        let n = sizes.len();
        if n < 2 {
            return Err(LayoutError::TooFewMembers { layout: LAYOUT, least: 2, given: n });
        }
        // md keeps either number of copies in one byte of its layout word.
        if !(2..=255).contains(&copies) || copies as usize > n {
            return Err(LayoutError::Copies { copies, members: n });
        }
        let (member, size) = smallest(sizes);
        let rows = size.0 / chunk.0;
        let k = u64::from(copies);
        let (section_rows, chunks) = match arrangement {
            Arrangement::Near => (rows, u128::from(rows) * n as u128 / u128::from(k)),
            Arrangement::Far | Arrangement::Offset => (rows / k, u128::from(rows / k) * n as u128),
        };
        if section_rows == 0 {
            let factor = if arrangement == Arrangement::Near { 1 } else { k };
            let least = Bytes(chunk.0.saturating_mul(factor));
            return Err(LayoutError::MemberTooSmall { layout: LAYOUT, member, size, least });
        }
        let too_large = LayoutError::TooLarge { layout: LAYOUT };
        let chunks = u64::try_from(chunks).map_err(|_| too_large.clone())?;
        if chunks.checked_mul(k).and_then(|c| c.checked_mul(chunk.0)).is_none() {
            return Err(too_large);
        }
        Ok(Raid10 {
            chunk: Divisor::of(chunk),
            copies: Divisor::new(k),
            members: Divisor::new(n as u64),
            arrangement,
            chunks,
            section_rows: Divisor::new(section_rows),
        })
    }

    pub fn capacity(&self) -> Bytes {
        self.chunk.bytes() * self.chunks
    }

    pub fn copies(&self) -> u32 {
        self.copies.get() as u32
    }

    pub fn arrangement(&self) -> Arrangement {
        self.arrangement
    }

    /// The row of chunks that a member's byte is in.
    pub fn row(&self, offset: MemberOffset) -> u64 {
        self.chunk.parts(offset - MemberOffset::START).0
    }

    #[inline]
    pub fn split(&self, copy: u32, offset: ArrayOffset, length: Bytes, sink: &mut impl FnMut(Piece)) {
        let copy = u64::from(copy);
        let chunk = self.chunk.bytes();
        let n = self.members.get();
        let end = offset + length;
        let (number, mut within) = self.chunk.parts(offset - ArrayOffset::START);
        // Where this copy of the first chunk is, and how far on the next chunk's copy is: `step`
        // members, and `row_step` rows more after the last member.
        let (row, member, step, row_step);
        match self.arrangement {
            Arrangement::Near => {
                (row, member) = self.members.div_rem(number * self.copies.get() + copy);
                (step, row_step) = (self.copies.get(), 1);
            }
            Arrangement::Far => {
                let (section_row, first) = self.members.div_rem(number);
                (row, member) = (section_row + copy * self.section_rows.get(), first + copy);
                (step, row_step) = (1, 1);
            }
            Arrangement::Offset => {
                let (set, first) = self.members.div_rem(number);
                (row, member) = (set * self.copies.get() + copy, first + copy);
                (step, row_step) = (1, self.copies.get());
            }
        }
        // In far and offset the copies wrap around within their row, so the row changes when the
        // chunk's first copy passes the last member, not when this one does.
        let shift = if self.arrangement == Arrangement::Near { 0 } else { copy };
        let mut position = member - shift;
        let mut row_start = MemberOffset::START + chunk * row;
        let mut at = offset;
        while at < end {
            let length = (chunk - within).min(end - at);
            let slot = position + shift;
            let slot = if slot >= n { slot - n } else { slot };
            sink(Piece { slot: slot as usize, offset: row_start + within, length, array_offset: at });
            at += length;
            within = Bytes(0);
            position += step;
            if position >= n {
                position -= n;
                row_start += chunk * row_step;
            }
        }
    }

    pub fn reverse(&self, slot: usize, offset: MemberOffset) -> Option<(ArrayOffset, Role)> {
        let n = self.members.get();
        let slot = slot as u64;
        let (row, within) = self.chunk.parts(offset - MemberOffset::START);
        let (number, copy) = match self.arrangement {
            Arrangement::Near => self.copies.div_rem(row.checked_mul(n)?.checked_add(slot)?),
            Arrangement::Far => {
                let (copy, section_row) = self.section_rows.div_rem(row);
                if copy >= self.copies.get() {
                    return None;
                }
                (section_row * n + (slot + n - copy) % n, copy)
            }
            Arrangement::Offset => {
                let (set, copy) = self.copies.div_rem(row);
                (set.checked_mul(n)? + (slot + n - copy) % n, copy)
            }
        };
        let array_offset = || ArrayOffset::START + self.chunk.bytes() * number + within;
        (number < self.chunks).then(|| (array_offset(), Role::Data { copy: copy as u32 }))
    }
}

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
use crate::units::Bytes;

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
    /// `chunk` as [`super::level::check_chunk`] allows it.
    pub fn new(
        sizes: &[u64],
        chunk: u64,
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
        let rows = size / chunk;
        let k = u64::from(copies);
        let (section_rows, chunks) = match arrangement {
            Arrangement::Near => (rows, u128::from(rows) * n as u128 / u128::from(k)),
            Arrangement::Far | Arrangement::Offset => (rows / k, u128::from(rows / k) * n as u128),
        };
        if section_rows == 0 {
            let factor = if arrangement == Arrangement::Near { 1 } else { k };
            let (size, least) = (Bytes(size), Bytes(chunk.saturating_mul(factor)));
            return Err(LayoutError::MemberTooSmall { layout: LAYOUT, member, size, least });
        }
        let too_large = LayoutError::TooLarge { layout: LAYOUT };
        let chunks = u64::try_from(chunks).map_err(|_| too_large.clone())?;
        if chunks.checked_mul(k).and_then(|c| c.checked_mul(chunk)).is_none() {
            return Err(too_large);
        }
        Ok(Raid10 {
            chunk: Divisor::new(chunk),
            copies: Divisor::new(k),
            members: Divisor::new(n as u64),
            arrangement,
            chunks,
            section_rows: Divisor::new(section_rows),
        })
    }

    pub fn capacity(&self) -> u64 {
        self.chunks * self.chunk.get()
    }

    pub fn copies(&self) -> u32 {
        self.copies.get() as u32
    }

    #[inline]
    pub fn split(&self, copy: u32, offset: u64, length: u64, sink: &mut impl FnMut(Piece)) {
        let copy = u64::from(copy);
        let chunk = self.chunk.get();
        let n = self.members.get();
        let end = offset + length;
        let (number, mut within) = self.chunk.div_rem(offset);
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
        let mut row_start = row * chunk;
        let mut at = offset;
        while at < end {
            let length = (chunk - within).min(end - at);
            let slot = position + shift;
            let slot = if slot >= n { slot - n } else { slot };
            sink(Piece { slot: slot as usize, offset: row_start + within, length, array_offset: at });
            at += length;
            within = 0;
            position += step;
            if position >= n {
                position -= n;
                row_start += chunk * row_step;
            }
        }
    }

    pub fn reverse(&self, slot: usize, offset: u64) -> Option<(u64, Role)> {
        let n = self.members.get();
        let slot = slot as u64;
        let (row, within) = self.chunk.div_rem(offset);
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
        (number < self.chunks).then(|| (number * self.chunk.get() + within, Role::Data { copy: copy as u32 }))
    }
}

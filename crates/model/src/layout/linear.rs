//! Members one after the other: md linear, LVM linear.
//!
//! ```text
//! array   |0 ......... a|a ...... a+b|a+b ... a+b+c|
//! member   0: all of it  1: all of it  2: all of it
//! ```
//!
//! md linear without rounding (`mdadm --rounding` not given, the default since Linux 2.6.16)
//! concatenates whole sectors. LVM concatenates whole extents (4 MiB unless the volume group says
//! otherwise): there, a member's size is that of its data area, which already is a whole number of them.

use super::piece::Piece;
use super::{LayoutError, Role};
use crate::units::{ArrayOffset, Bytes, MemberOffset};

/// What a member counts in, as the block layer does; a rest is not used.
const SECTOR: Bytes = Bytes(512);

#[derive(Debug, Clone)]
pub(super) struct Linear {
    /// Array offset at which each member ends; strictly rising.
    ends: Vec<ArrayOffset>,
}

impl Linear {
    pub fn new(sizes: &[Bytes]) -> Result<Self, LayoutError> {
        const LAYOUT: &str = "linear";
        if sizes.is_empty() {
            return Err(LayoutError::TooFewMembers { layout: LAYOUT, least: 1, given: 0 });
        }
        let mut end = 0u64;
        let mut ends = Vec::with_capacity(sizes.len());
        for (member, size) in sizes.iter().copied().enumerate() {
            if size < SECTOR {
                return Err(LayoutError::MemberTooSmall { layout: LAYOUT, member, size, least: SECTOR });
            }
            let whole = size - size % SECTOR;
            end = end.checked_add(whole.0).ok_or(LayoutError::TooLarge { layout: LAYOUT })?;
            ends.push(ArrayOffset(end));
        }
        Ok(Linear { ends })
    }

    pub fn capacity(&self) -> Bytes {
        self.ends.last().map_or(Bytes(0), |end| *end - ArrayOffset::START)
    }

    fn start(&self, slot: usize) -> ArrayOffset {
        if slot == 0 { ArrayOffset::START } else { self.ends[slot - 1] }
    }

    #[inline]
    pub fn split(&self, offset: ArrayOffset, length: Bytes, sink: &mut impl FnMut(Piece)) {
        let end = offset + length;
        let mut slot = self.ends.partition_point(|e| *e <= offset);
        let mut at = offset;
        while at < end {
            let stop = end.min(self.ends[slot]);
            let offset = MemberOffset::START + (at - self.start(slot));
            sink(Piece { slot, offset, length: stop - at, array_offset: at });
            at = stop;
            slot += 1;
        }
    }

    pub fn reverse(&self, slot: usize, offset: MemberOffset) -> Option<(ArrayOffset, Role)> {
        let (start, within) = (self.start(slot), offset - MemberOffset::START);
        (within < self.ends[slot] - start).then(|| (start + within, Role::Data { copy: 0 }))
    }
}

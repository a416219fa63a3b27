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

use super::piece::{Piece, whole_sectors};
use super::{LayoutError, Role};
use crate::units::Bytes;

#[derive(Debug, Clone)]
pub(super) struct Linear {
    /// Array offset at which each member ends; strictly rising.
    ends: Vec<u64>,
}

impl Linear {
    pub fn new(sizes: &[u64]) -> Result<Self, LayoutError> {
        const LAYOUT: &str = "linear";
        if sizes.is_empty() {
            return Err(LayoutError::TooFewMembers { layout: LAYOUT, least: 1, given: 0 });
        }
        let mut end = 0u64;
        let mut ends = Vec::with_capacity(sizes.len());
        for (member, size) in sizes.iter().enumerate() {
            let whole = whole_sectors(*size);
            if whole == 0 {
                let (size, least) = (Bytes(*size), Bytes(512));
                return Err(LayoutError::MemberTooSmall { layout: LAYOUT, member, size, least });
            }
            end = end.checked_add(whole).ok_or(LayoutError::TooLarge { layout: LAYOUT })?;
            ends.push(end);
        }
        Ok(Linear { ends })
    }

    pub fn capacity(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn start(&self, slot: usize) -> u64 {
        if slot == 0 { 0 } else { self.ends[slot - 1] }
    }

    #[inline]
    pub fn split(&self, offset: u64, length: u64, sink: &mut impl FnMut(Piece)) {
        let end = offset + length;
        let mut slot = self.ends.partition_point(|e| *e <= offset);
        let mut at = offset;
        while at < end {
            let stop = end.min(self.ends[slot]);
            sink(Piece { slot, offset: at - self.start(slot), length: stop - at, array_offset: at });
            at = stop;
            slot += 1;
        }
    }

    pub fn reverse(&self, slot: usize, offset: u64) -> Option<(u64, Role)> {
        let start = self.start(slot);
        (offset < self.ends[slot] - start).then_some((start + offset, Role::Data { copy: 0 }))
    }
}

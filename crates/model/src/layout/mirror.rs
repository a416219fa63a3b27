//! Every member holds everything: md RAID1, LVM raid1.
//!
//! ```text
//! array    |0 ........... size of the smallest member|
//! member 0 |0 ........... same|  (rest unused)
//! member 1 |0 ........... same|
//! ```
//!
//! `mdadm --create` takes whole multiples of 64 KiB of the smallest member, so that the array could become a RAID5
//! one day (mdadm `Create.c`; seen with mdadm 4.2 in the lab); LVM takes whole extents, which are such multiples.

use super::piece::Piece;
use super::{LayoutError, Role};
use crate::units::Bytes;

/// What mdadm rounds the size of a mirror to, in bytes.
pub(super) const ROUNDING: u64 = 64 << 10;

#[derive(Debug, Clone)]
pub(super) struct Mirror {
    size: u64,
    members: u32,
}

impl Mirror {
    pub fn new(sizes: &[u64]) -> Result<Self, LayoutError> {
        const LAYOUT: &str = "mirror";
        let members = u32::try_from(sizes.len()).unwrap_or(u32::MAX);
        if members < 2 {
            return Err(LayoutError::TooFewMembers { layout: LAYOUT, least: 2, given: sizes.len() });
        }
        let (member, size) = super::piece::smallest(sizes);
        let whole = size - size % ROUNDING;
        if whole == 0 {
            let (size, least) = (Bytes(size), Bytes(ROUNDING));
            return Err(LayoutError::MemberTooSmall { layout: LAYOUT, member, size, least });
        }
        Ok(Mirror { size: whole, members })
    }

    pub fn capacity(&self) -> u64 {
        self.size
    }

    pub fn copies(&self) -> u32 {
        self.members
    }

    #[inline(always)]
    pub fn split(&self, copy: u32, offset: u64, length: u64, sink: &mut impl FnMut(Piece)) {
        sink(Piece { slot: copy as usize, offset, length, array_offset: offset });
    }

    pub fn reverse(&self, slot: usize, offset: u64) -> Option<(u64, Role)> {
        (offset < self.size).then_some((offset, Role::Data { copy: slot as u32 }))
    }
}

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

use super::piece::{Piece, smallest};
use super::{LayoutError, Role};
use crate::units::{ArrayOffset, Bytes, MemberOffset};

/// What mdadm rounds the size of a mirror to.
pub(super) const ROUNDING: Bytes = Bytes(64 << 10);

#[derive(Debug, Clone)]
pub(super) struct Mirror {
    size: Bytes,
    members: u32,
}

impl Mirror {
    pub fn new(sizes: &[Bytes]) -> Result<Self, LayoutError> {
        const LAYOUT: &str = "mirror";
        let members = u32::try_from(sizes.len()).unwrap_or(u32::MAX);
        if members < 2 {
            return Err(LayoutError::TooFewMembers { layout: LAYOUT, least: 2, given: sizes.len() });
        }
        let (member, size) = smallest(sizes);
        if size < ROUNDING {
            return Err(LayoutError::MemberTooSmall { layout: LAYOUT, member, size, least: ROUNDING });
        }
        Ok(Mirror { size: size - size % ROUNDING, members })
    }

    pub fn capacity(&self) -> Bytes {
        self.size
    }

    pub fn copies(&self) -> u32 {
        self.members
    }

    #[inline(always)]
    pub fn split(&self, copy: u32, offset: ArrayOffset, length: Bytes, sink: &mut impl FnMut(Piece)) {
        sink(Piece { slot: copy as usize, offset: offset.on_member(), length, array_offset: offset });
    }

    pub fn reverse(&self, slot: usize, offset: MemberOffset) -> Option<(ArrayOffset, Role)> {
        (offset - MemberOffset::START < self.size)
            .then_some((offset.in_array(), Role::Data { copy: slot as u32 }))
    }
}

//! Where bytes are: in an array, or on one of its members.

use super::Bytes;
use serde::{Deserialize, Serialize};
use std::ops::{Add, Sub};

/// Bytes from the beginning of an array, or of the single volume that is used like one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArrayOffset(pub u64);

/// Bytes from the beginning of a member's data area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberOffset(pub u64);

point!(ArrayOffset, Bytes, Add::add, Sub::sub);
point!(MemberOffset, Bytes, Add::add, Sub::sub);

impl ArrayOffset {
    /// The array's first byte.
    pub const START: ArrayOffset = ArrayOffset(0);

    /// The same place where the array is itself a member.
    #[inline(always)]
    pub const fn on_member(self) -> MemberOffset {
        MemberOffset(self.0)
    }
}

impl MemberOffset {
    /// The member's first byte.
    pub const START: MemberOffset = MemberOffset(0);

    /// The same place where the member is itself an array.
    #[inline(always)]
    pub const fn in_array(self) -> ArrayOffset {
        ArrayOffset(self.0)
    }
}

//! What every level counts in: pieces of members.

use crate::units::{ArrayOffset, Bytes, MemberOffset};

/// A run of bytes of the array that one copy keeps in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Position of the member in the array, from 0.
    pub slot: usize,
    /// First byte on the member.
    pub offset: MemberOffset,
    /// At least 1.
    pub length: Bytes,
    /// First byte in the array.
    pub array_offset: ArrayOffset,
}

/// Position and size of the smallest member (the first of equals).
pub(super) fn smallest(sizes: &[Bytes]) -> (usize, Bytes) {
    sizes.iter().copied().enumerate().min_by_key(|(_, size)| *size).unwrap_or_default()
}

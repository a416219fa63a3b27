//! What every level counts in: pieces of members, whole sectors.

/// A run of bytes of the array that one copy keeps in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Position of the member in the array, from 0.
    pub slot: usize,
    /// First byte on the member.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u64,
    /// First byte in the array.
    pub array_offset: u64,
}

/// Sizes are counted in sectors of 512 bytes, as the block layer does; a rest is not used.
pub(super) fn whole_sectors(bytes: u64) -> u64 {
    bytes - bytes % 512
}

/// Position and size of the smallest member (the first of equals).
pub(super) fn smallest(sizes: &[u64]) -> (usize, u64) {
    sizes.iter().copied().enumerate().min_by_key(|(_, size)| *size).unwrap_or((0, 0))
}

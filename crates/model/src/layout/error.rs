//! What can be wrong with a layout or with an extent of it.

use super::LayoutName;
use crate::units::{ArrayOffset, Bytes};

/// Why an array cannot be built from these members.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Fewer members than the level needs.
    #[error("{layout} needs at least {least} members, {given} given; add members or choose another layout")]
    TooFewMembers {
        /// Name of the layout.
        layout: &'static str,
        /// Least number of members.
        least: usize,
        /// Members given.
        given: usize,
    },
    /// A number of copies that RAID10 cannot place.
    #[error(
        "raid10 cannot keep {copies} copies on {members} members; write a number of copies from 2 to {}",
        (*members).min(255)
    )]
    Copies {
        /// Copies asked for.
        copies: u32,
        /// Members given.
        members: usize,
    },
    /// A chunk that the kernel would refuse.
    #[error("{layout} cannot have a chunk of {chunk}; write {wanted}")]
    Chunk {
        /// Name of the layout.
        layout: &'static str,
        /// Chunk asked for.
        chunk: Bytes,
        /// What is possible.
        wanted: &'static str,
    },
    /// A leaf that has no size.
    #[error("the layout names volume {index}, but there are only {volumes} volumes; number them from 0")]
    UnknownVolume {
        /// Index of the leaf.
        index: usize,
        /// Number of sizes given.
        volumes: usize,
    },
    /// One volume in two places of the tree: two array bytes would share a byte of it.
    #[error("volume {index} is a member twice; name every volume once in a layout")]
    VolumeTwice {
        /// Index of the leaf.
        index: usize,
    },
    /// A member without room for one chunk (of every copy).
    #[error(
        "member {member} of the {layout} holds {size}, less than the {least} that the layout needs of each; make it larger or the chunk smaller"
    )]
    MemberTooSmall {
        /// Name of the layout.
        layout: &'static str,
        /// Position among the members of that array, from 0.
        member: usize,
        /// Usable bytes of that member.
        size: Bytes,
        /// Least size of a member.
        least: Bytes,
    },
    /// More bytes than a file offset can count.
    #[error(
        "the {layout} would hold more than 2^63 - 1 bytes, the most that an offset can count; use smaller or fewer members"
    )]
    TooLarge {
        /// Name of the layout.
        layout: &'static str,
    },
    /// Nested beyond all use.
    #[error("arrays are nested more than {most} deep; flatten the layout")]
    TooDeep {
        /// Most levels.
        most: usize,
    },
}

/// Why an extent cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtentError {
    /// It reaches beyond the end of the array.
    #[error(
        "{} bytes at offset {} reach beyond the end of the array at {}; stay below it", .length.0, .offset.0, .capacity.0
    )]
    OutOfBounds {
        /// First byte asked for.
        offset: ArrayOffset,
        /// Bytes asked for.
        length: Bytes,
        /// Bytes in the array.
        capacity: Bytes,
    },
    /// A level with parity in the tree: a write would have to compute it.
    #[error(
        "writes through a {} in user space are not supported; build it with the kernel backend",
        LayoutName::names(" or ", |layout| layout.parity > 0)
    )]
    ParityWrite,
}

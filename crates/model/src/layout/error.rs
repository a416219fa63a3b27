//! What can be wrong with a layout or with an extent of it.

use super::LayoutName;
use crate::units::{ArrayOffset, Bytes};

/// Why an array cannot be built from these members.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum LayoutError {
    /// Fewer members than the level needs.
    #[error("{layout} needs at least {least} members, {given} given; add members or choose another layout")]
    TooFewMembers { layout: &'static str, least: usize, given: usize },
    /// A number of copies that RAID10 cannot place.
    #[error(
        "raid10 cannot keep {copies} copies on {members} members; write a number of copies from 2 to {}",
        (*members).min(255)
    )]
    Copies { copies: u32, members: usize },
    /// A chunk that the kernel would refuse.
    #[error("{layout} cannot have a chunk of {chunk}; write {wanted}")]
    Chunk { layout: &'static str, chunk: Bytes, wanted: &'static str },
    /// A leaf that has no size.
    #[error("the layout names volume {index}, but there are only {volumes} volumes; number them from 0")]
    UnknownVolume { index: usize, volumes: usize },
    /// One volume in two places of the tree: two array bytes would share a byte of it.
    #[error("volume {index} is a member twice; name every volume once in a layout")]
    VolumeTwice { index: usize },
    /// A member without room for one chunk (of every copy).
    #[error(
        "member {member} of the {layout} holds {size}, less than the {least} that the layout needs of each; make it larger or the chunk smaller"
    )]
    MemberTooSmall {
        layout: &'static str,
        /// Position among the members of that array, from 0.
        member: usize,
        size: Bytes,
        least: Bytes,
    },
    /// More bytes than a file offset can count.
    #[error(
        "the {layout} would hold more than 2^63 - 1 bytes, the most that an offset can count; use smaller or fewer members"
    )]
    TooLarge { layout: &'static str },
    /// Nested beyond all use.
    #[error("arrays are nested more than {most} deep; flatten the layout")]
    TooDeep { most: usize },
}

/// Why an extent cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum ExtentError {
    /// It reaches beyond the end of the array.
    #[error(
        "{} bytes at offset {} reach beyond the end of the array at {}; stay below it", .length.0, .offset.0, .capacity.0
    )]
    OutOfBounds { offset: ArrayOffset, length: Bytes, capacity: Bytes },
    /// A level with parity in the tree: a write would have to compute it.
    #[error(
        "writes through a {} in user space are not supported; build it with the kernel backend",
        LayoutName::names(" or ", |layout| layout.parity() > 0)
    )]
    ParityWrite,
}

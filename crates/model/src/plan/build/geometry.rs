//! What a file system should know of the array below it.

use crate::layout::{Arrangement, ArrayKind, LayoutNode};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Chunk and width of the stripes that a file system lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Bytes on one member before the next one's turn: XFS' `su`, ext4's `stride`.
    pub chunk: Bytes,
    /// Members whose data make one full stripe: XFS' `sw`, ext4's `stripe_width` over `stride`.
    pub width: u64,
}

impl Geometry {
    /// Of `layout`; nothing where there are no stripes.
    ///
    /// Of stripes within stripes the outermost counts, as in md's own `io_opt`. A mirror has the stripes of its
    /// members. As md has it (`raid10_set_io_opt`), a raid10 is as wide as its members over its near copies where
    /// these divide, and as wide as its members otherwise.
    pub fn of(layout: &LayoutNode) -> Option<Geometry> {
        let LayoutNode::Array { kind, members } = layout else { return None };
        let count = members.len() as u64;
        let width = match *kind {
            ArrayKind::Linear => return None,
            ArrayKind::Mirror => return members.first().and_then(Geometry::of),
            ArrayKind::Raid10 { copies, arrangement, .. } => {
                let near = if arrangement == Arrangement::Near { u64::from(copies) } else { 1 };
                if near > 0 && count.is_multiple_of(near) { count / near } else { count }
            }
            ArrayKind::Stripe { .. } | ArrayKind::Raid5 { .. } | ArrayKind::Raid6 { .. } => {
                count.saturating_sub(kind.facts().parity as u64)
            }
        };
        kind.chunk().filter(|_| width > 0).map(|chunk| Geometry { chunk, width })
    }
}

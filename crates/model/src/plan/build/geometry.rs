//! What a file system should know of the array below it.

use crate::layout::{Arrangement, LayoutNode};
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
    /// members. As md has it (`raid10_set_io_opt`), an array of copies is as wide as its members over its near copies
    /// where these divide, and as wide as its members otherwise.
    pub fn of(layout: &LayoutNode) -> Option<Geometry> {
        let LayoutNode::Array { kind, members } = layout else { return None };
        let Some(chunk) = kind.chunk() else {
            return members.first().filter(|_| kind.facts().is_redundant()).and_then(Geometry::of);
        };
        let data = members.len().saturating_sub(kind.facts().parity()) as u64;
        let near = match kind.copies() {
            Some((copies, Arrangement::Near)) => u64::from(copies),
            Some((_, Arrangement::Far | Arrangement::Offset)) | None => 1,
        };
        let width = if near > 0 && data.is_multiple_of(near) { data / near } else { data };
        (width > 0).then_some(Geometry { chunk, width })
    }

    /// Bytes of a whole stripe.
    pub fn stripe(self) -> Bytes {
        Bytes(self.chunk.0.saturating_mul(self.width))
    }
}

//! Layouts: which bytes of which members hold an extent of the array, and back.
//!
//! A [`LayoutNode`] describes an array, [`Map`] compiles it for members of known sizes. Each level
//! has its arithmetic and a picture of it in a file of its own.

mod balance;
pub mod compare;
mod divisor;
mod error;
mod level;
mod linear;
mod map;
mod mirror;
mod name;
mod parity;
mod piece;
mod raid10;
pub mod replicated;
mod stripe;
#[cfg(test)]
mod tests;

pub use balance::{Balance, Choice, Reads, Standing};
pub use error::{ExtentError, LayoutError};
pub use map::{Map, Place};
pub use name::{Chunks, LayoutFacts, Redundancy};

use crate::units::{ArrayOffset, Bytes, MemberOffset};
use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, EnumString, IntoStaticStr, VariantArray, VariantNames};

/// How RAID10 places the copies of a chunk (md's `--layout=n2|f2|o2`).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Default,
    Serialize,
    Deserialize,
    EnumString,
    IntoStaticStr,
    VariantArray,
    VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Arrangement {
    /// Copies side by side in the same stripe row.
    #[default]
    Near,
    /// Copies in separate zones of the members, each zone laid out like RAID0.
    Far,
    /// Copies in consecutive rows, each row shifted by one member.
    Offset,
}

impl Arrangement {
    /// All, in the order in which they are listed.
    pub const ALL: &[Arrangement] = <Arrangement as VariantArray>::VARIANTS;

    /// What it is, in few words.
    pub const fn what(self) -> &'static str {
        match self {
            Arrangement::Near => "Copies side by side",
            Arrangement::Far => "Copies in sections of their own",
            Arrangement::Offset => "Copies in the next row, shifted by one member",
        }
    }
}

/// The kind of an array with the parameters that only it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, EnumDiscriminants)]
#[serde(tag = "layout", rename_all = "lowercase")]
#[strum_discriminants(
    name(LayoutName),
    doc = "A layout by its name on the command line and in experiment files.",
    derive(Hash, EnumString, IntoStaticStr, VariantArray, VariantNames),
    strum(serialize_all = "lowercase"),
    allow(missing_docs)
)]
pub enum ArrayKind {
    /// Members one after the other (md linear, LVM linear).
    Linear,
    /// RAID0: chunks go to the members in turn.
    Stripe {
        /// Bytes on one member before the next member's turn.
        chunk: Bytes,
    },
    /// RAID1: every member holds everything.
    Mirror,
    /// RAID10 as md does it: `copies` of every chunk over any number of members.
    Raid10 {
        /// Bytes on one member before the next member's turn.
        chunk: Bytes,
        /// Copies of every chunk, at least 2, at most the number of members.
        copies: u32,
        /// Where the copies go.
        arrangement: Arrangement,
    },
    /// RAID5, left-symmetric (md's default).
    Raid5 {
        /// Bytes on one member before the next member's turn.
        chunk: Bytes,
    },
    /// RAID6, left-symmetric (md's default).
    Raid6 {
        /// Bytes on one member before the next member's turn.
        chunk: Bytes,
    },
}

impl ArrayKind {
    /// Bytes on one member before the next member's turn; `None` for layouts without chunks.
    pub const fn chunk(self) -> Option<Bytes> {
        match self {
            ArrayKind::Linear | ArrayKind::Mirror => None,
            ArrayKind::Stripe { chunk }
            | ArrayKind::Raid10 { chunk, .. }
            | ArrayKind::Raid5 { chunk }
            | ArrayKind::Raid6 { chunk } => Some(chunk),
        }
    }

    /// Copies of every chunk and where they go, of layouts whose arrays say so ([`Redundancy::Copies`]).
    pub const fn copies(self) -> Option<(u32, Arrangement)> {
        match self {
            ArrayKind::Raid10 { copies, arrangement, .. } => Some((copies, arrangement)),
            ArrayKind::Linear
            | ArrayKind::Mirror
            | ArrayKind::Stripe { .. }
            | ArrayKind::Raid5 { .. }
            | ArrayKind::Raid6 { .. } => None,
        }
    }
}

/// A layout as a tree: leaves are volumes, inner nodes are arrays of arrays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutNode {
    /// A volume, by its index among the leaves (in an experiment: index into `Experiment::volumes`).
    Volume(usize),
    /// An array over other nodes.
    Array {
        /// What kind of array.
        kind: ArrayKind,
        /// Its members in order.
        members: Vec<LayoutNode>,
    },
}

impl LayoutNode {
    /// What it holds over volumes of these sizes, where those that it takes are known and it is possible.
    pub fn capacity(&self, sizes: &[Option<Bytes>]) -> Option<Bytes> {
        let known = self.volumes().into_iter().all(|volume| sizes.get(volume).copied().flatten().is_some());
        let sizes: Vec<Bytes> = sizes.iter().map(|size| size.unwrap_or_default()).collect();
        known.then(|| Map::new(self, &sizes).ok()).flatten().map(|map| map.capacity())
    }

    /// How many volumes may fail, whichever they are, before data are lost.
    pub fn survives(&self) -> usize {
        let LayoutNode::Array { kind, members } = self else { return 0 };
        // A member is lost with one volume more than it survives; so is the array with its members, the weakest first.
        let mut fatal: Vec<usize> = members.iter().map(|member| member.survives() + 1).collect();
        fatal.sort_unstable();
        let lost: usize = fatal.iter().take(kind.survives(members.len()) + 1).sum();
        lost.saturating_sub(1)
    }

    /// The leaf volumes, in the order in which the tree names them.
    pub fn volumes(&self) -> Vec<usize> {
        match self {
            LayoutNode::Volume(volume) => vec![*volume],
            LayoutNode::Array { members, .. } => members.iter().flat_map(LayoutNode::volumes).collect(),
        }
    }

    /// The same layout over other volumes: `of` says which takes the place of each.
    pub fn with_volumes(&self, of: &impl Fn(usize) -> usize) -> LayoutNode {
        match self {
            LayoutNode::Volume(volume) => LayoutNode::Volume(of(*volume)),
            LayoutNode::Array { kind, members } => LayoutNode::Array {
                kind: *kind,
                members: members.iter().map(|member| member.with_volumes(of)).collect(),
            },
        }
    }

    /// The smallest chunk of all its levels, where one has chunks.
    pub fn smallest_chunk(&self) -> Option<Bytes> {
        let LayoutNode::Array { kind, members } = self else { return None };
        members.iter().filter_map(LayoutNode::smallest_chunk).chain(kind.chunk()).min()
    }
}

/// What a member's extent is to the array. Data come before parity in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// User data; copy number 0 is the primary one.
    Data {
        /// Which copy, from 0.
        copy: u32,
    },
    /// XOR parity of RAID5 and RAID6 (P).
    ParityP,
    /// Reed-Solomon parity of RAID6 (Q).
    ParityQ,
}

/// A run of bytes on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    /// Index of the leaf volume.
    pub member: usize,
    /// First byte on that member.
    pub offset: MemberOffset,
    /// At least 1.
    pub length: Bytes,
    /// What the bytes are for: data, a copy, parity.
    pub role: Role,
    /// First byte in the array (for parity: of the stripe it protects).
    pub array_offset: ArrayOffset,
}

/// What one byte of a member is to the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reverse {
    /// The byte in the array (for parity: the first of the stripe it protects).
    pub array_offset: ArrayOffset,
    /// What the byte is for: data, a copy, parity.
    pub role: Role,
}

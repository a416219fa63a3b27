//! The layouts by name, and what is known of each without sizes: one entry per layout, from which the command line,
//! experiment files, their schema and all wordings are made.

use super::stripe::LEAST_MEMBERS;
use super::{Arrangement, ArrayKind, LayoutName, LayoutNode};
use crate::units::{Bytes, format_count};
use std::fmt;
use strum::VariantArray;

/// What is known of a layout without sizes.
#[derive(Debug)]
pub struct LayoutFacts {
    /// Its name in a sentence: `RAID5`.
    pub title: &'static str,
    /// What it is, in few words.
    pub what: &'static str,
    /// What others call it, in lower case and without separators.
    pub other_names: &'static [&'static str],
    /// Fewest members that it can have.
    pub least_members: usize,
    /// The chunks in which bytes go to members.
    pub chunks: Chunks,
    /// What it keeps beside the data, so that members may be lost.
    pub redundancy: Redundancy,
    /// Its level, as mdadm's `--level` takes it.
    pub md_level: &'static str,
    /// Its segment type, as lvcreate's `--type` takes it.
    pub lvm_segment: &'static str,
}

/// What a layout keeps beside the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redundancy {
    /// Nothing: a member that is lost takes data with it.
    None,
    /// A copy on every member.
    EveryMember,
    /// As many copies as the array says ([`ArrayKind::copies`]).
    Copies,
    /// So many members' worth of parity in each stripe, each of which makes up for one member.
    Parity(usize),
}

impl LayoutFacts {
    /// Members' worth of parity in each stripe.
    pub const fn parity(&self) -> usize {
        match self.redundancy {
            Redundancy::Parity(members) => members,
            Redundancy::None | Redundancy::EveryMember | Redundancy::Copies => 0,
        }
    }

    /// Whether it loses a member without losing data.
    pub const fn is_redundant(&self) -> bool {
        !matches!(self.redundancy, Redundancy::None)
    }

    /// Whether it loses one because others hold copies of it.
    pub const fn has_copies(&self) -> bool {
        matches!(self.redundancy, Redundancy::EveryMember | Redundancy::Copies)
    }
}

/// The chunks that md accepts of 4 KiB to 1 GiB: RAID0 takes any whole number of KiB (`raid0.c` divides where it is not
/// a power of two), the others powers of two of at least one page (`raid10.c` and `raid5.c`, setup_conf). md keeps it as
/// a 32-bit number of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunks {
    /// The layout has no chunks.
    None,
    /// Any number of whole KiB.
    WholeKib,
    /// Powers of two only.
    PowerOfTwo,
}

impl Chunks {
    /// Why `chunk` is none of them: what would be.
    pub(super) fn refuse(self, chunk: Bytes) -> Option<&'static str> {
        let in_range = (4 * Bytes::KIB..=Bytes::GIB).contains(&chunk.0);
        let (fits, wanted) = match self {
            Chunks::None => return None,
            Chunks::WholeKib => {
                (chunk.0.is_multiple_of(Bytes::KIB), "a whole number of KiB from 4KiB to 1GiB")
            }
            Chunks::PowerOfTwo => (chunk.0.is_power_of_two(), "a power of two from 4KiB to 1GiB"),
        };
        (!in_range || !fits).then_some(wanted)
    }
}

impl LayoutName {
    /// All, in the order in which they are listed.
    pub const ALL: &[LayoutName] = <LayoutName as VariantArray>::VARIANTS;

    /// What is known of it.
    pub const fn facts(self) -> &'static LayoutFacts {
        match self {
            LayoutName::Linear => &LayoutFacts {
                title: "linear",
                what: "members one after the other",
                other_names: &["concat", "jbod", "span", "single"],
                least_members: 1,
                chunks: Chunks::None,
                redundancy: Redundancy::None,
                md_level: "linear",
                lvm_segment: "linear",
            },
            LayoutName::Stripe => &LayoutFacts {
                title: "stripe",
                what: "RAID0",
                other_names: &["raid0", "0", "striped", "stripes"],
                least_members: LEAST_MEMBERS,
                chunks: Chunks::WholeKib,
                redundancy: Redundancy::None,
                md_level: "0",
                lvm_segment: "striped",
            },
            LayoutName::Mirror => &LayoutFacts {
                title: "mirror",
                what: "RAID1",
                other_names: &["raid1", "1", "mirrored", "mirrors"],
                least_members: 2,
                chunks: Chunks::None,
                redundancy: Redundancy::EveryMember,
                md_level: "1",
                lvm_segment: "raid1",
            },
            LayoutName::Raid10 => &LayoutFacts {
                title: "RAID10",
                what: "RAID10 over any number of members",
                other_names: &["raid1e", "10", "raid01", "raid0+1"],
                least_members: 2,
                chunks: Chunks::PowerOfTwo,
                redundancy: Redundancy::Copies,
                md_level: "10",
                lvm_segment: "raid10",
            },
            LayoutName::Raid5 => &LayoutFacts {
                title: "RAID5",
                what: "RAID5, left-symmetric",
                other_names: &["5"],
                least_members: 3,
                chunks: Chunks::PowerOfTwo,
                redundancy: Redundancy::Parity(1),
                md_level: "5",
                lvm_segment: "raid5_ls",
            },
            LayoutName::Raid6 => &LayoutFacts {
                title: "RAID6",
                what: "RAID6, left-symmetric",
                other_names: &["6"],
                least_members: 4,
                chunks: Chunks::PowerOfTwo,
                redundancy: Redundancy::Parity(2),
                md_level: "6",
                lvm_segment: "raid6_nc",
            },
        }
    }

    /// Its name on the command line and in experiment files.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The names of those of which `which` is true, separated by `separator`.
    pub fn names(separator: &str, which: impl Fn(&LayoutFacts) -> bool) -> String {
        let some = Self::ALL.iter().filter(|layout| which(layout.facts()));
        some.map(|layout| layout.name()).collect::<Vec<_>>().join(separator)
    }

    /// The array of this name; what it does not have is not used.
    pub const fn array(self, chunk: Bytes, copies: u32, arrangement: Arrangement) -> ArrayKind {
        match self {
            LayoutName::Linear => ArrayKind::Linear,
            LayoutName::Stripe => ArrayKind::Stripe { chunk },
            LayoutName::Mirror => ArrayKind::Mirror,
            LayoutName::Raid10 => ArrayKind::Raid10 { chunk, copies, arrangement },
            LayoutName::Raid5 => ArrayKind::Raid5 { chunk },
            LayoutName::Raid6 => ArrayKind::Raid6 { chunk },
        }
    }
}

impl ArrayKind {
    /// The layout of this kind of array.
    pub fn layout(self) -> LayoutName {
        self.into()
    }

    /// What is known of it without sizes.
    pub fn facts(self) -> &'static LayoutFacts {
        self.layout().facts()
    }

    /// Its name on the command line and in experiment files.
    pub fn name(self) -> &'static str {
        self.layout().name()
    }

    /// Copies of every byte in an array of `members`, 1 where there are no further ones.
    pub fn copies_on(self, members: usize) -> usize {
        match self.facts().redundancy {
            Redundancy::EveryMember => members,
            Redundancy::Copies => self.copies().map_or(1, |(copies, _)| copies as usize),
            Redundancy::None | Redundancy::Parity(_) => 1,
        }
    }

    /// How many of `members` may fail, whichever they are, before data are lost.
    pub fn survives(self, members: usize) -> usize {
        self.facts().parity() + self.copies_on(members).saturating_sub(1)
    }

    /// Whether md takes up, while the array is used, what its members grow by: every level with redundancy does (mdadm(8),
    /// `--size`), but for copies in sections of their own (raid10.c, raid10_resize).
    pub fn grows_in_use(self) -> bool {
        self.facts().is_redundant()
            && self.copies().is_none_or(|(_, arrangement)| arrangement != Arrangement::Far)
    }
}

impl fmt::Display for LayoutNode {
    /// `stripe of 8, chunk 256KiB`, `stripe of 4 (each a mirror of 2), chunk 64KiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LayoutNode::Array { kind, members } = self else { return f.write_str("a single volume") };
        let title = kind.facts().title;
        if *kind == ArrayKind::Linear {
            write!(f, "{title}, {}", format_count(members.len() as u64, "member"))?;
        } else {
            write!(f, "{title} of {}", members.len())?;
        }
        if let Some(array @ LayoutNode::Array { .. }) = members.first() {
            write!(f, " (each a {array})")?;
        }
        if let Some((copies, arrangement)) = kind.copies() {
            write!(f, ", {copies} {} copies", <&str>::from(arrangement))?;
        }
        kind.chunk().map_or(Ok(()), |chunk| write!(f, ", chunk {chunk}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_has_one_name_everywhere() {
        for layout in LayoutName::ALL {
            let kind = layout.array(Bytes(Bytes::MIB), 2, Arrangement::Far);
            assert_eq!(kind.layout(), *layout);
            assert_eq!(layout.name().parse(), Ok(*layout));
            assert_eq!(kind.chunk().is_some(), layout.facts().chunks != Chunks::None);
            assert_eq!(kind.copies().is_some(), layout.facts().redundancy == Redundancy::Copies);
            let stored = serde_json::to_value(kind).expect("serialises");
            assert_eq!(stored["layout"], layout.name(), "what a stored session calls it");
        }
    }

    #[test]
    fn a_layout_in_words() {
        let volumes = |from: usize| (from..from + 2).map(LayoutNode::Volume).collect();
        let mirror = |from| LayoutNode::Array { kind: ArrayKind::Mirror, members: volumes(from) };
        let chunk = Bytes(64 * Bytes::KIB);
        let of = |kind, members| LayoutNode::Array { kind, members }.to_string();
        let stripe = ArrayKind::Stripe { chunk };
        assert_eq!(of(stripe, vec![mirror(0), mirror(2)]), "stripe of 2 (each a mirror of 2), chunk 64KiB");
        let raid10 = ArrayKind::Raid10 { chunk, copies: 2, arrangement: Arrangement::Near };
        assert_eq!(of(raid10, volumes(0)), "RAID10 of 2, 2 near copies, chunk 64KiB");
        assert_eq!(of(ArrayKind::Linear, volumes(0)), "linear, 2 members");
    }
}

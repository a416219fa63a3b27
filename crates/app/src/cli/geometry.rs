//! Options that describe an array, shared by the subcommands that reason about layouts.

use super::CliError;
use clap::{Args, ValueEnum};
use ebbtide_model::layout::{Arrangement, ArrayKind, LayoutNode};
use ebbtide_model::units::Bytes;

/// Layouts by their names in experiment files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LayoutName {
    /// Members one after the other
    Linear,
    /// RAID0
    Stripe,
    /// RAID1
    Mirror,
    /// RAID10 over any number of members
    Raid10,
    /// RAID5, left-symmetric
    Raid5,
    /// RAID6, left-symmetric
    Raid6,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ArrangementName {
    /// Copies side by side
    Near,
    /// Copies in sections of their own
    Far,
    /// Copies in the next row, shifted by one member
    Offset,
}

/// The members of an array.
#[derive(Debug, Args)]
pub(super) struct MemberArgs {
    /// Number of members [default: as many as sizes are given]
    #[arg(long, value_name = "N")]
    members: Option<usize>,
    /// Size of every member's data area (without metadata), or one size per member: 1GiB,1GiB,2GiB
    #[arg(long = "member-size", value_name = "SIZE", value_delimiter = ',')]
    sizes: Vec<Bytes>,
}

impl MemberArgs {
    pub fn given(&self) -> bool {
        self.members.is_some() || !self.sizes.is_empty()
    }

    /// One size per member.
    pub fn sizes(&self) -> Result<Vec<u64>, CliError> {
        /// More cannot be meant; md itself stops below (super1.c: 1920 with 1.x metadata).
        const MOST: usize = 4096;
        let usage = |text: String| Err(CliError::Usage(text));
        let sizes: Vec<u64> = self.sizes.iter().map(|s| s.0).collect();
        match (self.members, sizes.as_slice()) {
            (_, []) => usage("the members' sizes are missing; add for example --member-size 1GiB".to_owned()),
            (Some(n), _) if n > MOST => {
                usage(format!("--members {n} is more than {MOST}; write at most {MOST}"))
            }
            (Some(n), [size]) => Ok(vec![*size; n]),
            (Some(n), many) if n != many.len() => usage(format!(
                "--members {n} does not fit the {} sizes of --member-size; write one size for all, or {n} sizes",
                many.len()
            )),
            _ => Ok(sizes),
        }
    }
}

/// The array over them.
#[derive(Debug, Args)]
pub(super) struct ArrayArgs {
    /// Layout of the array
    #[arg(long, value_enum)]
    layout: Option<LayoutName>,
    /// Bytes on one member before the next member's turn
    #[arg(long, default_value = "512KiB", value_name = "SIZE")]
    chunk: Bytes,
    /// raid10: copies of every chunk
    #[arg(long, default_value_t = 2, value_name = "K")]
    copies: u32,
    /// raid10: where the copies go
    #[arg(long, value_enum, default_value = "near")]
    arrangement: ArrangementName,
}

impl ArrayArgs {
    pub fn given(&self) -> bool {
        self.layout.is_some()
    }

    /// The array over members 0 to `members - 1`.
    pub fn layout(&self, members: usize) -> Result<LayoutNode, CliError> {
        let chunk = self.chunk;
        let kind = match self.layout {
            None => {
                let text = "which array? write --layout linear, stripe, mirror, raid10, raid5 or raid6 with \
                            --members and --member-size, or --file FILE --design NAME";
                return Err(CliError::Usage(text.to_owned()));
            }
            Some(LayoutName::Linear) => ArrayKind::Linear,
            Some(LayoutName::Stripe) => ArrayKind::Stripe { chunk },
            Some(LayoutName::Mirror) => ArrayKind::Mirror,
            Some(LayoutName::Raid10) => {
                let arrangement = match self.arrangement {
                    ArrangementName::Near => Arrangement::Near,
                    ArrangementName::Far => Arrangement::Far,
                    ArrangementName::Offset => Arrangement::Offset,
                };
                ArrayKind::Raid10 { chunk, copies: self.copies, arrangement }
            }
            Some(LayoutName::Raid5) => ArrayKind::Raid5 { chunk },
            Some(LayoutName::Raid6) => ArrayKind::Raid6 { chunk },
        };
        Ok(LayoutNode::Array { kind, members: (0..members).map(LayoutNode::Volume).collect() })
    }
}

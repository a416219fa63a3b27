//! Options that describe an array, shared by the subcommands that reason about layouts.

use crate::error::CliError;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ebbtide_model::layout::{Arrangement, LayoutName, LayoutNode};
use ebbtide_model::units::Bytes;
use std::str::FromStr;

/// The words of an enum of the model's, with what they are.
fn words<T>(words: impl IntoIterator<Item = (&'static str, &'static str)>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = strum::ParseError> + Clone + Send + Sync + 'static,
{
    let values = words.into_iter().map(|(word, what)| PossibleValue::new(word).help(what));
    PossibleValuesParser::new(values).try_map(|word| word.parse::<T>())
}

fn layouts() -> impl TypedValueParser<Value = LayoutName> {
    words(LayoutName::ALL.iter().map(|layout| (layout.name(), layout.facts().what)))
}

fn arrangements() -> impl TypedValueParser<Value = Arrangement> {
    words(Arrangement::ALL.iter().map(|arrangement| (arrangement.into(), arrangement.what())))
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
    pub fn sizes(&self) -> Result<Vec<Bytes>, CliError> {
        /// More cannot be meant; md itself stops below (super1.c: 1920 with 1.x metadata).
        const MOST: usize = 4096;
        let usage = |text: String| Err(CliError::Usage(text));
        match (self.members, self.sizes.as_slice()) {
            (_, []) => usage("the members' sizes are missing; add for example --member-size 1GiB".to_owned()),
            (Some(n), _) if n > MOST => {
                usage(format!("--members {n} is more than {MOST}; write at most {MOST}"))
            }
            (Some(n), [size]) => Ok(vec![*size; n]),
            (Some(n), many) if n != many.len() => usage(format!(
                "--members {n} does not fit the {} sizes of --member-size; write one size for all, or {n} sizes",
                many.len()
            )),
            (_, sizes) => Ok(sizes.to_vec()),
        }
    }
}

/// The array over them.
#[derive(Debug, Args)]
pub(super) struct ArrayArgs {
    /// Layout of the array
    #[arg(long, value_parser = layouts())]
    layout: Option<LayoutName>,
    /// Bytes on one member before the next member follows
    #[arg(long, default_value = "512KiB", value_name = "SIZE")]
    chunk: Bytes,
    /// raid10: copies of every chunk
    #[arg(long, default_value_t = 2, value_name = "K")]
    copies: u32,
    /// raid10: where the copies go
    #[arg(long, value_parser = arrangements(), default_value = "near")]
    arrangement: Arrangement,
}

impl ArrayArgs {
    pub fn given(&self) -> bool {
        self.layout.is_some()
    }

    /// The array over members 0 to `members - 1`.
    pub fn layout(&self, members: usize) -> Result<LayoutNode, CliError> {
        let Some(layout) = self.layout else {
            let text = format!(
                "no array: write --layout {} with --members and --member-size, or name a design, FILE:DESIGN",
                LayoutName::ALL.iter().map(|layout| layout.name()).collect::<Vec<_>>().join(", ")
            );
            return Err(CliError::Usage(text));
        };
        let kind = layout.array(self.chunk, self.copies, self.arrangement);
        Ok(LayoutNode::Array { kind, members: (0..members).map(LayoutNode::Volume).collect() })
    }
}

//! Values of options that have a grammar of their own: how numbers in them are read, and what can be wrong.

use crate::units::{Bytes, UnitError};

/// Reads a number of bytes as the writer of the value means it.
pub type Sizes<'a> = &'a dyn Fn(&str) -> Result<Bytes, TextError>;

/// Why a text is no such value. What to write instead is the example in the option's row of the table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TextError {
    /// A number of bytes or a time in it is none.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A number of bytes that the grammar does not read, as that grammar says it.
    #[error("{0}")]
    Size(String),
    /// No number at all.
    #[error("`{0}` is no number")]
    NoNumber(String),
    /// No number of those that are possible.
    #[error("`{text}` is no number {range}")]
    OutOfRange {
        /// As it is written.
        text: String,
        /// What would be: `between 0 and 1`.
        range: &'static str,
    },
    /// A word that is none of those there are.
    #[error("`{0}` is unknown")]
    Unknown(String),
    /// A criterion without its limit.
    #[error("`{0}` has no limit after a colon")]
    NoLimit(String),
    /// A word that is no criterion.
    #[error("`{0}` is none of iops, iops_slope, bw, bw_slope, lat and lat_slope")]
    Criterion(String),
    /// The limit of a criterion that nothing could keep.
    #[error("its limit is {0}, but must be more than 0")]
    Limit(String),
    /// Lists beyond those of reads and writes.
    #[error("a list for reads and one for writes are taken; trim is not measured")]
    ThirdList,
    /// More parts than are drawn from.
    #[error("{found} {parts} are more than {most}")]
    TooMany {
        /// Parts that are written.
        found: usize,
        /// What they are: `zones`.
        parts: &'static str,
        /// Most that are taken.
        most: usize,
    },
    /// A size that no operation has.
    #[error("a size of {0} is not from 1 byte to 1GiB")]
    SizeOutOfRange(Bytes),
    /// Percentages that do not make a whole.
    #[error("its shares of the {of} make {sum}%, and have to make 100%")]
    Shares {
        /// What is shared out: `operations`.
        of: &'static str,
        /// What they make, in percent.
        sum: f64,
    },
    /// Not a percentage from 0 to 100.
    #[error("`{0}` is not a percentage from 0 to 100")]
    Percent(String),
    /// A law with more parameters than its one.
    #[error("`{0}`: one number for reads and writes is taken, and no centre")]
    OneNumber(String),
    /// Zones in bytes (fio's `zoned_abs`).
    #[error("zones of so many bytes are not done")]
    ZonesInBytes,
    /// Zones of reads and others of writes.
    #[error("zones are the same for reads and writes")]
    ZonesOfEach,
    /// A part that is no zone.
    #[error("`{0}` is no zone: percent of the operations / percent of the region")]
    Zone(String),
    /// Operations with nowhere to go.
    #[error("a zone of 0% of the region has operations")]
    EmptyZone,
}

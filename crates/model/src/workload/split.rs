//! Operations of several sizes: fio's `bssplit`.

use super::distribution::{PARTS_MOST, percent, percents};
use super::text::{Sizes, TextError};
use super::{Mix, OpKind};
use crate::per_op::PerOp;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Sizes of operations, drawn one by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Of reads and of writes, in ascending order, each at least one; the percentages of each make 100.
    pub sizes: PerOp<Vec<Size>>,
}

/// One size of operations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// At least 1.
    pub bytes: Bytes,
    /// Percent of the operations, more than 0.
    pub percent: f64,
}

impl Split {
    /// What `text` says in fio's words: `4k/60:64k/40`, or a list for reads and one for writes with a comma between; `size`
    /// reads a number of bytes.
    ///
    /// # Errors
    /// What is wrong, without what to write instead.
    pub fn parse(text: &str, size: Sizes<'_>) -> Result<Split, TextError> {
        let mut lists = text.split(',').map(|list| sizes(list, size));
        let read = lists.next().unwrap_or_else(|| sizes("", size))?;
        let write = lists.next().unwrap_or_else(|| Ok(read.clone()))?;
        if lists.next().is_some() {
            return Err(TextError::ThirdList);
        }
        Ok(Split { sizes: PerOp { read, write } })
    }

    /// Sizes of the kinds of operations that `mix` has.
    fn of(&self, mix: Mix) -> impl Iterator<Item = &Size> {
        let (reads, writes) = match mix {
            // What is written back is what was read.
            Mix::Read | Mix::Rewrite => (true, false),
            Mix::Write => (false, true),
            Mix::Mixed { read_percent } => (read_percent > 0, read_percent < 100),
        };
        let kinds = [(reads, OpKind::Read), (writes, OpKind::Write)].into_iter().filter(|(used, _)| *used);
        kinds.flat_map(|(_, kind)| self.sizes.get(kind))
    }

    /// The largest size that a workload of `mix` has.
    pub fn largest(&self, mix: Mix) -> Bytes {
        self.of(mix).map(|size| size.bytes).max().unwrap_or_default()
    }

    /// Whether all sizes are multiples of `bytes`.
    pub fn is_multiple_of(&self, bytes: u64) -> bool {
        self.sizes.read.iter().chain(&self.sizes.write).all(|size| size.bytes.0.is_multiple_of(bytes))
    }

    /// Bytes of an operation of `mix`, on average.
    pub fn mean(&self, mix: Mix) -> f64 {
        let mean = |sizes: &[Size]| sizes.iter().map(|size| size.bytes.0 as f64 * size.percent / 100.0).sum();
        let (read, write): (f64, f64) = (mean(&self.sizes.read), mean(&self.sizes.write));
        match mix {
            Mix::Read | Mix::Rewrite => read,
            Mix::Write => write,
            Mix::Mixed { read_percent } => {
                let reads = f64::from(read_percent.min(100)) / 100.0;
                reads * read + (1.0 - reads) * write
            }
        }
    }
}

fn sizes(list: &str, size: Sizes<'_>) -> Result<Vec<Size>, TextError> {
    let parts: Vec<&str> = list.split(':').collect();
    if parts.len() > PARTS_MOST {
        return Err(TextError::TooMany { found: parts.len(), parts: "sizes", most: PARTS_MOST });
    }
    let (mut all, mut shares) = (Vec::new(), Vec::new());
    for part in parts {
        let (bytes, share) = part.split_once('/').unwrap_or((part, ""));
        let bytes = size(bytes)?;
        if bytes == Bytes(0) || bytes.0 > Bytes::GIB {
            return Err(TextError::SizeOutOfRange(bytes));
        }
        all.push(bytes);
        shares.push(percent(share)?);
    }
    let sizes = all.into_iter().zip(percents(&shares, "operations")?);
    let mut sizes: Vec<Size> =
        sizes.filter(|(_, percent)| *percent > 0.0).map(|(bytes, percent)| Size { bytes, percent }).collect();
    sizes.sort_by_key(|size| size.bytes);
    Ok(sizes)
}

/// In fio's words, sizes in bytes.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |sizes: &[Size]| {
            let each = sizes.iter().map(|size| format!("{}/{}", size.bytes.0, size.percent));
            each.collect::<Vec<_>>().join(":")
        };
        let (read, write) = (list(&self.sizes.read), list(&self.sizes.write));
        if read == write { f.write_str(&read) } else { write!(f, "{read},{write}") }
    }
}

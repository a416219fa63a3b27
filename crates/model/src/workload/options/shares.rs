//! Amounts that are shares of what is there.

use super::{Amount, Draft};
use crate::units::Bytes;

/// Why a share is no number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "`what` is the option, `percent` its value")]
pub enum ShareError {
    /// Of what is not there yet.
    #[error("{what}={percent}%: that is a share of a file or device that is there; write bytes")]
    OfNothing { what: &'static str, percent: u8 },
    /// Less than a block of these bytes.
    #[error("{what}={percent}% ends before it begins: that is not a block of {of}")]
    Empty { what: &'static str, percent: u8, of: Bytes },
}

impl Draft {
    /// Makes its shares into bytes, in whole blocks as fio has it: of `whole`, and io_size of what is used.
    ///
    /// # Errors
    /// When one is no number of bytes.
    pub fn take_shares(&mut self, whole: Option<Bytes>) -> Result<(), ShareError> {
        let bs = self.workload.bs.0;
        let bytes = |what: &'static str, amount: Amount, of: Option<Bytes>, most: Option<Bytes>| match amount
        {
            Amount::Bytes(bytes) => Ok(bytes),
            Amount::Percent(percent) => {
                let of = of.ok_or(ShareError::OfNothing { what, percent })?;
                let share = (u128::from(of.0) * u128::from(percent) / 100) as u64;
                let share = share.min(most.map_or(share, |most| most.0)) / bs * bs;
                if share == 0 && !what.starts_with("offset") {
                    return Err(ShareError::Empty { what, percent, of });
                }
                Ok(Bytes(share))
            }
        };
        let offset = bytes("offset", self.offset, whole, None)?;
        let step = bytes("offset_increment", self.step, whole, None)?;
        let rest = whole.map(|whole| Bytes(whole.0.saturating_sub(offset.0)));
        // All of what is not there yet is what a job without a size uses. A share ends where the whole does.
        let asked = self.region.filter(|region| *region != Amount::Percent(100) || rest.is_some());
        let size = asked.map(|size| bytes("size", size, whole, rest)).transpose()?;
        let moved = self.moved.map(|moved| bytes("io_size", moved, size.or(rest), None)).transpose()?;
        (self.offset, self.step) = (Amount::Bytes(offset), Amount::Bytes(step));
        (self.region, self.moved) = (size.map(Amount::Bytes), moved.map(Amount::Bytes));
        Ok(())
    }
}

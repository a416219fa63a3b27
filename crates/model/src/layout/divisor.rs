//! Division by a number that is fixed when a map is built.

use crate::units::Bytes;

/// A divisor; powers of two are divided by shifting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Divisor {
    value: u64,
    /// log2 of `value`, or [`NOT_A_POWER`].
    shift: u32,
}

const NOT_A_POWER: u32 = u32::MAX;

impl Divisor {
    /// `value` of at least 1; 0 counts as 1.
    pub fn new(value: u64) -> Self {
        let value = value.max(1);
        let shift = if value.is_power_of_two() { value.trailing_zeros() } else { NOT_A_POWER };
        Divisor { value, shift }
    }

    /// Divides into parts of `bytes`, at least 1.
    pub fn of(bytes: Bytes) -> Self {
        Divisor::new(bytes.0)
    }

    pub fn get(self) -> u64 {
        self.value
    }

    /// Length of one part.
    pub fn bytes(self) -> Bytes {
        Bytes(self.value)
    }

    /// Quotient and remainder of the division.
    #[inline(always)]
    pub fn div_rem(self, dividend: u64) -> (u64, u64) {
        if self.shift != NOT_A_POWER {
            (dividend >> (self.shift & 63), dividend & (self.value - 1))
        } else {
            (dividend / self.value, dividend % self.value)
        }
    }

    /// Whole parts of `length`, and the bytes behind them.
    #[inline(always)]
    pub fn parts(self, length: Bytes) -> (u64, Bytes) {
        let (whole, rest) = self.div_rem(length.0);
        (whole, Bytes(rest))
    }
}

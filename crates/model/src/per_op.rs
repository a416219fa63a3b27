//! What there is once for reads and once for writes.

use crate::workload::OpKind;
use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::{AddAssign, SubAssign};

/// One value for reads and one for writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PerOp<T> {
    /// That of reads.
    pub read: T,
    /// That of writes.
    pub write: T,
}

impl PerOp<u64> {
    /// Reads and writes together.
    pub fn total(self) -> u64 {
        self.read.saturating_add(self.write)
    }
}

impl Sum for PerOp<u64> {
    fn sum<I: Iterator<Item = PerOp<u64>>>(all: I) -> PerOp<u64> {
        all.fold(PerOp::default(), |sum, more| PerOp {
            read: sum.read.saturating_add(more.read),
            write: sum.write.saturating_add(more.write),
        })
    }
}

impl<T: AddAssign> AddAssign for PerOp<T> {
    fn add_assign(&mut self, more: Self) {
        self.read += more.read;
        self.write += more.write;
    }
}

impl<T: SubAssign> SubAssign for PerOp<T> {
    fn sub_assign(&mut self, less: Self) {
        self.read -= less.read;
        self.write -= less.write;
    }
}

impl<T> PerOp<T> {
    /// What `make` makes, for each.
    pub fn each(mut make: impl FnMut() -> T) -> Self {
        PerOp { read: make(), write: make() }
    }
    /// What `of` makes of each.
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> PerOp<U> {
        PerOp { read: of(self.read), write: of(self.write) }
    }
    /// Both with those of `other`.
    pub fn zip<U>(self, other: PerOp<U>) -> PerOp<(T, U)> {
        PerOp { read: (self.read, other.read), write: (self.write, other.write) }
    }
    /// References to both.
    pub fn as_ref(&self) -> PerOp<&T> {
        PerOp { read: &self.read, write: &self.write }
    }
    /// The value for `op`.
    pub fn get(&self, op: OpKind) -> &T {
        match op {
            OpKind::Read => &self.read,
            OpKind::Write => &self.write,
        }
    }
    /// The value for `op`, to change.
    pub fn get_mut(&mut self, op: OpKind) -> &mut T {
        match op {
            OpKind::Read => &mut self.read,
            OpKind::Write => &mut self.write,
        }
    }
}

//! What there is once for reads and once for writes.

use crate::workload::OpKind;
use serde::{Deserialize, Serialize};

/// One value for reads and one for writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PerOp<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
}

impl PerOp<u64> {
    /// Both together.
    pub fn total(self) -> u64 {
        self.read.saturating_add(self.write)
    }
}

impl<T> PerOp<T> {
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

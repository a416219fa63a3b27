//! Writes that can be proved later, and the proof.
//!
//! With a ledger this is no measurement: every write is accompanied by two appends to the ledger. Each slot of the queue is a thread
//! that writes through the layout as any other operation does.

mod check;
mod read_back;
mod write;

pub use check::{BadRange, CheckResult, check};
pub(crate) use read_back::read_back;
pub use write::{Book, Written, write};

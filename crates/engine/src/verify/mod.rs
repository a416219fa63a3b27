//! Writes that can be proved later, and the proof.
//!
//! This is no measurement: every write is accompanied by two appends to the ledger. Each slot of the queue is a thread
//! that writes through the layout as any other operation does.

mod check;
mod write;

pub use check::{Bad, Found, check};
pub use write::{Written, write};

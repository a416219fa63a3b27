//! Proof that acknowledged writes are there: blocks that know what they are, and a ledger of what was acknowledged.
//!
//! Every write is cut into *units* of at most 4 KiB. A unit carries its place, the generation of its write and a
//! checksum over all of it ([`stamp`], [`read`]). The ledger says which writes began and which were acknowledged
//! ([`Header`], [`Entry`]); [`Replay`] takes its lines, [`Ledger`] judges what is found.

mod block;
mod ledger;
#[cfg(test)]
mod tests;

pub use block::{Stamp, Unreadable, read, stamp};
pub use ledger::{Entry, Header, HeaderMember, Ledger, LedgerError, Replay, Unit, UnitFinding, unit_of};

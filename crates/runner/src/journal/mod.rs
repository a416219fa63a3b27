//! The journal as files: one per run, in the user's state directory, locked while its run lives.
//!
//! The kernel drops the lock when the program ends in whatever way, so a journal that can be locked belongs to
//! nobody, and what it leaves may be put back. A run that put everything back removes its journal.

mod abandoned;
mod file;
mod put_back;
#[cfg(test)]
mod tests;

pub use abandoned::{Abandoned, Held, LeftBehind, abandoned};
pub use file::JournalFile;
pub use put_back::{PutBack, PutBackError, foresee, shown};

//! What is told of a run.

use ebbtide_model::limit::Counts;
use std::time::Duration;

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Course {
    /// How long it took.
    pub elapsed: Duration,
    /// Bytes moved.
    pub moved: Counts,
    /// How often the program was stopped.
    pub stops: u64,
    /// For how long in all.
    pub held: Duration,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this exit status.
    Exited(u8),
    /// It was ended by the signal of this number.
    Signalled(u8),
    /// Nobody here knows how: it was another's child.
    Unknown,
    /// It did not: this signal came, and it goes on without a limit.
    Released(i32),
}

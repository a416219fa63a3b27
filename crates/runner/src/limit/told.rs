//! What is told of a run.

use super::groups::LimitMethods;
use ebbtide_model::limit::Counts;
use std::time::Duration;

/// How it is going.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Course {
    /// Since the beginning, but for `paused`.
    pub elapsed: Duration,
    /// For how long somebody else had stopped the program, as by a key.
    pub paused: Duration,
    /// Operations and bytes moved so far.
    pub moved: Counts,
    /// Of that, what the group with the kernel's limit has passed to devices.
    pub by_kernel: Option<Counts>,
    /// How often the program was stopped.
    pub stops: u64,
    /// For how long in all.
    pub held: Duration,
    /// The longest of these stops.
    pub longest: Duration,
    /// What was moved at one time beyond all that the limits had given until then.
    pub burst: Counts,
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

/// What is told of a run as it goes on: a terminal, or a test.
pub trait LimitListener {
    /// Before anything is started or stopped.
    fn begins(&mut self, ways: &LimitMethods);
    /// From time to time, with what was moved so far.
    fn goes_on(&mut self, course: &Course);
    /// Something that is not as it was asked for.
    fn remark(&mut self, text: &str);
}

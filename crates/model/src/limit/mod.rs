//! Holding a program to a rate: what is counted ([`Counts`]), what may be moved in a second ([`Limits`]), what a tree of processes
//! has moved although some of them have ended ([`Tally`]), and when the program has to stop ([`Pacer`]).

mod pacer;
mod tally;
#[cfg(test)]
mod tests;

pub use pacer::{LONGEST_REST, LONGEST_SILENCE, Pacer, QUANTUM, Step};
pub use tally::{Member, Tally};

use std::ops::{Index, IndexMut};

/// What is counted and may be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Bytes read from storage.
    Read,
    /// Bytes written to storage, when they enter the page cache or, past it, when they are handed to the device.
    Write,
    /// Bytes of TCP, received and acknowledged by the other end.
    Net,
    /// Operations that read or write.
    Ops,
}

impl Kind {
    /// Each, in the order in which they are shown.
    pub const ALL: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Net, Kind::Ops];

    /// As options and JSON call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Net => "net",
            Kind::Ops => "iops",
        }
    }

    /// More than a program moves in a second on common hardware: what has not been seen to be slower may be this fast.
    fn presumed(self) -> f64 {
        match self {
            Kind::Ops => 100_000.0,
            _ => 1e9,
        }
    }
}

/// A number for each [`Kind`]: bytes, or operations, since some beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts(pub [u64; 4]);

impl Counts {
    /// Each of `self` with that of `other`.
    pub fn with(self, other: Counts, join: impl Fn(u64, u64) -> u64) -> Counts {
        Counts(std::array::from_fn(|kind| join(self.0[kind], other.0[kind])))
    }

    /// The sum of each count; saturates.
    pub fn plus(self, other: Counts) -> Counts {
        self.with(other, u64::saturating_add)
    }

    /// What `self` is more than `other`, at least nothing.
    pub fn minus(self, other: Counts) -> Counts {
        self.with(other, u64::saturating_sub)
    }
}

impl Index<Kind> for Counts {
    type Output = u64;
    fn index(&self, kind: Kind) -> &u64 {
        &self.0[kind as usize]
    }
}

impl IndexMut<Kind> for Counts {
    fn index_mut(&mut self, kind: Kind) -> &mut u64 {
        &mut self.0[kind as usize]
    }
}

/// The most of each [`Kind`] in a second, at least 1; nothing where it is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits(pub [Option<u64>; 4]);

impl Limits {
    /// Those that are set.
    pub fn set(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        Kind::ALL.into_iter().filter_map(|kind| Some((kind, self.of(kind)?)))
    }

    /// Limit of `kind` per second, where it is set.
    pub fn of(&self, kind: Kind) -> Option<u64> {
        self.0[kind as usize]
    }
}

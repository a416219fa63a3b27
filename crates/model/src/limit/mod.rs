//! Holding a program to a rate: what is counted ([`Counts`]), what may be moved in a second ([`Limits`]), and when the program has to
//! stop ([`Pacer`]).

mod pacer;
#[cfg(test)]
mod tests;

pub use pacer::{LONGEST_REST, LONGEST_SILENCE, Pacer, Step};

use std::ops::{Index, IndexMut};

/// What is counted and may be limited, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Read from storage.
    Read,
    /// Written to storage, when they enter the page cache or, past it, when they are handed to the device.
    Write,
    /// Over TCP, received and acknowledged by the other end.
    Net,
}

impl Kind {
    /// Each, in the order in which they are shown, with its name in options and JSON.
    pub const ALL: [(Kind, &'static str); 3] =
        [(Kind::Read, "read"), (Kind::Write, "write"), (Kind::Net, "net")];
}

/// Bytes of each [`Kind`] since some beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts(pub [u64; 3]);

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
pub struct Limits(pub [Option<u64>; 3]);

impl Limits {
    /// Those that are set, with their names.
    pub fn set(&self) -> impl Iterator<Item = (Kind, &'static str, u64)> + '_ {
        Kind::ALL.into_iter().filter_map(|(kind, name)| Some((kind, name, self.of(kind)?)))
    }

    /// Limit of `kind` per second, where it is set.
    pub fn of(&self, kind: Kind) -> Option<u64> {
        self.0[kind as usize]
    }
}

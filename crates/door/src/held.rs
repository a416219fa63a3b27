//! What this process has claimed: nothing may be claimed a second time under another name.

use crate::footprint::Footprint;
use std::sync::{Mutex, PoisonError};

static HELD: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Entry {
    number: u64,
    what: String,
    footprint: Footprint,
    /// Others of the same kind may hold it too: a database is opened more than once.
    shared: bool,
}

/// What a claim would overlap, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InTheWay(String);

/// A claim of this process, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held(u64);

impl Held {
    /// Claims what `footprint` covers; else what overlaps it.
    pub(crate) fn claim(what: String, footprint: Footprint) -> Result<Held, InTheWay> {
        Held::enter(what, footprint, false)
    }

    /// The same beside others that share it.
    pub(crate) fn share(what: String, footprint: Footprint) -> Result<Held, InTheWay> {
        Held::enter(what, footprint, true)
    }

    fn enter(what: String, footprint: Footprint, shared: bool) -> Result<Held, InTheWay> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let in_the_way = |other: &&Entry| !(shared && other.shared) && other.footprint.overlaps(&footprint);
        if let Some(other) = held.iter().find(in_the_way) {
            return Err(InTheWay(other.what.clone()));
        }
        let number = held.iter().map(|entry| entry.number).max().unwrap_or(0) + 1;
        held.push(Entry { number, what, footprint, shared });
        Ok(Held(number))
    }

    /// How many claims of this process, shared ones too, overlap `footprint`.
    pub(crate) fn count(footprint: &Footprint) -> usize {
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().filter(|other| other.footprint.overlaps(footprint)).count()
    }

    /// What of this process's claims overlaps `footprint`, in words.
    pub(crate) fn overlapping(footprint: &Footprint) -> Option<String> {
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().find(|other| other.footprint.overlaps(footprint)).map(|other| other.what.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.lock().unwrap_or_else(PoisonError::into_inner).retain(|entry| entry.number != self.0);
    }
}

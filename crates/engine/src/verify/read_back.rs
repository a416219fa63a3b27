//! What a measured trial wrote, read back: each page of it says where it belongs.
//!
//! No ledger is kept, so nothing is slower than without. The operations of a trial are drawn from its seed: as many as have begun
//! are drawn again, and say where was written. A page is the content of the jobs' buffers but for its first word, which is made of the
//! seed and its place. A write that was lost, went elsewhere or was damaged shows; not which of two writes to one place of the
//! same trial came last, of which `ebb bench --verify` keeps a ledger.

use super::check::{copy_of, get};
use crate::buffers::{Buffers, PAGE, place_stamp};
use crate::error::EngineError;
use crate::target::Target;
use ebbtide_model::backend::Control;
use ebbtide_model::layout::Extent;
use ebbtide_model::units::{ArrayOffset, Bytes};
use ebbtide_model::workload::{Generator, OpKind, Workload};
use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Most threads that read.
const READERS: usize = 16;

/// What the jobs wrote from, by its second word: pages of the buffers before they were stamped.
type Pages = HashMap<u64, Vec<Vec<u8>>>;

/// Result of reading back what a trial wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadBack {
    /// Bytes, each copy counted.
    pub(crate) bytes: u64,
}

/// What is wrong, first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wrong {
    at: ArrayOffset,
    copy: u32,
    what: String,
}

/// Reads back what `begun` operations of each job of `workload` wrote to `target`, whose content `contents` give: the buffers of
/// each thread, filled as they were.
pub(crate) fn read_back(
    target: &Target,
    workload: &Workload,
    seed: u64,
    begun: &[u64],
    contents: Vec<Buffers>,
    control: &Control,
) -> Result<ReadBack, EngineError> {
    let pages = pages(contents);
    let written = written(target, workload, seed, begun)?;
    let written: Vec<(ArrayOffset, Bytes)> = written.into_iter().collect();
    let next = AtomicUsize::new(0);
    let wrong: Mutex<Vec<Wrong>> = Mutex::new(Vec::new());
    let total: u64 = written.iter().map(|(_, length)| length.0).sum();
    control.prepare_total.store(total, Ordering::Relaxed);
    control.prepared.store(0, Ordering::Relaxed);
    let readers = READERS.min(written.len().max(1));
    let read = thread::scope(|scope| {
        let reader = || -> Result<u64, EngineError> {
            let mut buffers = Buffers::one(workload.bs)?;
            let mut bytes = 0;
            while let Some((offset, length)) = written.get(next.fetch_add(1, Ordering::Relaxed)) {
                if control.stop.load(Ordering::Relaxed) {
                    return Err(EngineError::Stopped { seen: None });
                }
                let mut extents: Vec<Extent> = Vec::new();
                target.map.write_extents(*offset, *length, &mut |extent| extents.push(extent))?;
                for copy in extents.chunk_by(|a, b| copy_of(a) == copy_of(b)) {
                    let number = copy.first().map_or(0, copy_of);
                    let buffer = buffers.first(*length);
                    let found = match get(target, *offset, copy, buffer) {
                        Ok(()) => compare(buffer, *offset, seed, &pages),
                        Err(error) => Err((*offset, error.to_string())),
                    };
                    if let Err((at, what)) = found {
                        let mut wrong = wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        wrong.push(Wrong { at, copy: number, what });
                    }
                    bytes += length.0;
                }
                control.prepared.fetch_add(length.0, Ordering::Relaxed);
            }
            Ok(bytes)
        };
        let threads: Vec<_> = (0..readers).map(|_| scope.spawn(reader)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(EngineError::Stopped { seen: None })))
            .sum::<Result<u64, EngineError>>()
    })?;
    let mut wrong = wrong.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    wrong.sort_by_key(|one| (one.at, one.copy));
    match wrong.first() {
        None => Ok(ReadBack { bytes: read }),
        Some(first) => Err(EngineError::NotAsWritten {
            number: wrong.len() as u64,
            of: written.len() as u64,
            offset: first.at,
            copy: first.copy,
            what: first.what.clone(),
        }),
    }
}

/// Pages of `contents` by their second word.
fn pages(contents: Vec<Buffers>) -> Pages {
    let mut pages = Pages::new();
    for mut buffers in contents {
        for page in buffers.memory.bytes().chunks_exact(PAGE) {
            let same = pages.entry(word(page, 1)).or_default();
            if !same.iter().any(|known| known[8..] == page[8..]) {
                same.push(page.to_vec());
            }
        }
    }
    pages
}

/// Where was written, each place once.
fn written(
    target: &Target,
    workload: &Workload,
    seed: u64,
    begun: &[u64],
) -> Result<BTreeSet<(ArrayOffset, Bytes)>, EngineError> {
    let mut places = BTreeSet::new();
    for (job, number) in (0..).zip(begun) {
        let mut generator = Generator::new(workload, target.map.capacity(), seed, job)?;
        for _ in 0..*number {
            let op = generator.next_op();
            if op.kind == OpKind::Write {
                places.insert((op.offset, op.length));
            }
        }
    }
    Ok(places)
}

fn word(bytes: &[u8], index: usize) -> u64 {
    bytes.get(8 * index..8 * (index + 1)).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// Compares what is at `offset` with what was written there.
///
/// # Errors
/// The first page that is not as it was written, and what is wrong with it.
fn compare(bytes: &[u8], offset: ArrayOffset, seed: u64, pages: &Pages) -> Result<(), (ArrayOffset, String)> {
    for (index, page) in (0..).zip(bytes.chunks(PAGE)) {
        let at = offset + Bytes(index * PAGE as u64);
        let known =
            pages.get(&word(page, 1)).is_some_and(|same| same.iter().any(|k| k[8..page.len()] == page[8..]));
        let stamped = word(page, 0) == place_stamp(seed, at);
        let what = match (known, stamped) {
            (true, true) => continue,
            (true, false) => "it holds what was written to another place, or by another trial",
            (false, true) => "it is damaged: its beginning is there, and the rest is not what was written",
            (false, false) => "what is there was not written by this trial",
        };
        return Err((at, what.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
#[path = "read_back_tests.rs"]
mod tests;

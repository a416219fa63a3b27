//! Reads every unit that was acknowledged, each copy of it, and says what is wrong.

use crate::buffers::Buffers;
use crate::error::EngineError;
use crate::target::Target;
use ebbtide_model::backend::Control;
use ebbtide_model::layout::{Extent, Role};
use ebbtide_model::units::{ArrayOffset, Bytes, MemberOffset};
use ebbtide_model::verify::{Ledger, UnitFinding, Unreadable, read};
use rustix::io::{Errno, pread};
use std::sync::atomic::Ordering;

/// A run of units that are not as they were acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRange {
    /// Where in the array it begins.
    pub offset: ArrayOffset,
    /// How long it is.
    pub length: Bytes,
    /// Number of the copy, from 0.
    pub copy: u32,
    /// Members that hold it: index, from where, how much.
    pub places: Vec<(usize, MemberOffset, Bytes)>,
    /// What is wrong with it, as a clause.
    pub what: String,
}

/// What a check of acknowledged writes found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckResult {
    /// Units that were acknowledged, each copy counted.
    pub units: u64,
    /// Those that are as they should be.
    pub good: u64,
    /// Those over which a write was in flight and that are not whole: nothing was promised of them.
    pub in_flight: u64,
    /// Those that hold a newer write than the ledger knows of: its end is lost.
    pub newer: u64,
    /// The others, neighbours with the same trouble together.
    pub bad: Vec<BadRange>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Checks everything that `ledger` says was acknowledged on `target`.
///
/// # Errors
/// When the ledger does not fit the target. A member that cannot be read is in what was found.
pub fn check(target: &Target, ledger: &Ledger, control: &Control) -> Result<CheckResult, EngineError> {
    let unit = ledger.header.unit;
    let mut buffers = Buffers::one(unit)?;
    let mut found = CheckResult::default();
    let mut extents: Vec<Extent> = Vec::new();
    control.prepare_total.store(ledger.units.len() as u64 * unit.0, Ordering::Relaxed);
    for (offset, known) in &ledger.units {
        control.prepared.fetch_add(unit.0, Ordering::Relaxed);
        if known.acknowledged.is_none() {
            continue;
        }
        if control.stop.load(Ordering::Relaxed) {
            found.stopped = true;
            break;
        }
        extents.clear();
        target
            .map
            .write_extents(*offset, unit, &mut |extent| extents.push(extent))
            .map_err(EngineError::Ledger)?;
        // Copy 0 of all of it comes first, then copy 1, and so on.
        for copy in extents.chunk_by(|a, b| copy_of(a) == copy_of(b)) {
            found.units += 1;
            let buffer = buffers.first(unit);
            let verdict = match get(target, *offset, copy, buffer) {
                Ok(()) => ledger.judge(*offset, known, read(buffer)),
                Err(error) => {
                    note(&mut found.bad, *offset, unit, copy, error.to_string());
                    continue;
                }
            };
            match verdict {
                UnitFinding::Good => found.good += 1,
                UnitFinding::InFlight => found.in_flight += 1,
                UnitFinding::Newer { .. } => found.newer += 1,
                bad => note(&mut found.bad, *offset, unit, copy, words(bad)),
            }
        }
    }
    Ok(found)
}

pub(super) fn copy_of(extent: &Extent) -> u32 {
    match extent.role {
        Role::Data { copy } => copy,
        Role::ParityP | Role::ParityQ => u32::MAX,
    }
}

fn words(verdict: UnitFinding) -> String {
    match verdict {
        UnitFinding::Good | UnitFinding::InFlight | UnitFinding::Newer { .. } => String::new(),
        UnitFinding::Lost { .. } => "an older write is there: the acknowledged one is lost".to_owned(),
        UnitFinding::Misplaced { .. } => "it holds what was written to another place".to_owned(),
        UnitFinding::Foreign => "it holds what another run wrote".to_owned(),
        UnitFinding::Unreadable(error) => match error {
            Unreadable::NoStamp | Unreadable::Damaged => error.to_string(),
        },
    }
}

/// What kept a unit from being read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the member ends before it: it has been truncated")]
    End,
    #[error("it cannot be read: {0}")]
    Errno(Errno),
}

/// Reads one copy of a unit.
pub(super) fn get(
    target: &Target,
    offset: ArrayOffset,
    copy: &[Extent],
    buffer: &mut [u8],
) -> Result<(), ReadError> {
    for extent in copy {
        let member = &target.members[extent.member];
        let at = (extent.array_offset - offset).0 as usize;
        let bytes = &mut buffer[at..][..extent.length.0 as usize];
        let mut done = 0;
        while done < bytes.len() {
            match pread(&member.file, &mut bytes[done..], extent.offset.0 + done as u64) {
                Ok(0) => return Err(ReadError::End),
                Ok(read) => done += read,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(ReadError::Errno(errno)),
            }
        }
    }
    Ok(())
}

/// Adds a bad unit, to its neighbour where the trouble is the same.
fn note(bad: &mut Vec<BadRange>, offset: ArrayOffset, unit: Bytes, copy: &[Extent], what: String) {
    let number = copy.first().map_or(0, copy_of);
    let before = bad.iter_mut().rev().take(8).find(|before| {
        before.copy == number && before.offset + before.length == offset && before.what == what
    });
    let before = match before {
        Some(before) => {
            before.length += unit;
            before
        }
        None => {
            bad.push(BadRange { offset, length: unit, copy: number, places: Vec::new(), what });
            // Just pushed.
            let last = bad.len() - 1;
            &mut bad[last]
        }
    };
    for extent in copy {
        match before.places.last_mut() {
            Some((member, at, length)) if *member == extent.member && *at + *length == extent.offset => {
                *length += extent.length;
            }
            _ => before.places.push((extent.member, extent.offset, extent.length)),
        }
    }
}

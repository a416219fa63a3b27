//! The ledger: a header line (JSON), then a line for every write that began (`b GENERATION OFFSET LENGTH`) and one for
//! every write that was acknowledged (`a GENERATION`).
//!
//! A line is one append, so a writer that is killed leaves at most its last line torn; what that would have said was
//! not acknowledged to anybody.

use super::block::{Stamp, Unreadable};
use crate::layout::LayoutNode;
use crate::units::{ArrayOffset, Bytes};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;

/// Largest unit in which writes are recorded, in bytes: a page, by which they are compared.
const UNIT: Bytes = Bytes(4096);
/// Smallest unit: a sector.
const UNIT_MIN: Bytes = Bytes(512);

/// The unit of writes of `bs` bytes; `None` when they cannot be cut into units.
pub fn unit_of(bs: Bytes) -> Option<Bytes> {
    if bs >= UNIT && bs % UNIT == Bytes(0) {
        return Some(UNIT);
    }
    (bs.0.is_power_of_two() && (UNIT_MIN..UNIT).contains(&bs)).then_some(bs)
}

/// One member as the writer found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderMember {
    /// Name of the volume.
    pub name: String,
    /// Path of its file or device.
    pub path: String,
    /// What of it is used.
    pub size: Bytes,
}

/// What the writer wrote on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name and version of the form: [`Header::SCHEMA`].
    pub schema: String,
    /// Number of the run, in every unit.
    pub run: u64,
    /// Size of a unit.
    pub unit: Bytes,
    /// Members, in the order of the layout's leaves.
    pub members: Vec<HeaderMember>,
    /// How they make one array; leaf `i` is `members[i]`.
    pub layout: LayoutNode,
    /// Whether writes went past the page cache (O_DIRECT).
    pub direct: bool,
    /// Whether each was durable before it was acknowledged (O_SYNC).
    pub sync: bool,
}

impl Header {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "ebbtide.ledger/1";
}

/// One line below the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A write is about to be submitted.
    Begin {
        /// The write's number, counted from 1.
        generation: u64,
        /// Its first byte in the array.
        offset: ArrayOffset,
        /// How long it is.
        length: Bytes,
    },
    /// A write has come back without an error.
    Acknowledged {
        /// That of the entry that said it began.
        generation: u64,
    },
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Begin { generation, offset, length } => {
                writeln!(f, "b {generation} {} {}", offset.0, length.0)
            }
            Entry::Acknowledged { generation } => writeln!(f, "a {generation}"),
        }
    }
}

fn entry(line: &str) -> Option<Entry> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let entry = match kind {
        "b" => {
            Entry::Begin { generation: number()?, offset: ArrayOffset(number()?), length: Bytes(number()?) }
        }
        "a" => Entry::Acknowledged { generation: number()? },
        _ => return None,
    };
    words.next().is_none().then_some(entry)
}

/// Why a text is no ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The first line is no header.
    #[error("line 1: it is no ledger of `ebb bench --verify`: {0}")]
    Header(String),
    /// A line is no entry.
    #[error("line {line}: `{text}` is no entry of a ledger")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The line as it stands there.
        text: String,
    },
    /// A line says something impossible.
    #[error("line {line}: {what}")]
    Impossible {
        /// Its number, from 1.
        line: usize,
        /// Why it is, as a sentence.
        what: &'static str,
    },
}

/// What is known of one unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unit {
    /// Newest generation that was acknowledged.
    pub acknowledged: Option<u64>,
    /// Generations that had begun and not been acknowledged when the ledger ends.
    pub in_flight: Vec<u64>,
}

/// What was found where a unit should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitFinding {
    /// What was acknowledged, or what was in flight over it.
    Good,
    /// Unreadable, and a write was in flight over it: nothing was promised.
    InFlight,
    /// An older generation: the acknowledged write is lost.
    Lost {
        /// The generation that is there.
        found: u64,
    },
    /// A generation that the ledger does not know of: its end is lost, and what was acknowledged then cannot be proved.
    Newer {
        /// The generation that is there.
        found: u64,
    },
    /// The unit of another place.
    Misplaced {
        /// The place that it says.
        offset: ArrayOffset,
    },
    /// A unit that another run wrote.
    Foreign,
    /// No unit can be read there.
    Unreadable(Unreadable),
}

/// What a ledger says of each unit, all its lines applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// What the writer wrote on.
    pub header: Header,
    /// Every unit that a write touched, by offset in the array.
    pub units: BTreeMap<ArrayOffset, Unit>,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Writes that had begun and not been acknowledged.
    pub in_flight: u64,
}

/// A ledger as its lines come: what is kept of them is what they touched.
#[derive(Debug, Default)]
pub struct Replay {
    ledger: Option<Ledger>,
    begun: HashMap<u64, Range<u64>>,
    lines: usize,
}

impl Replay {
    /// Takes the next whole line, without its end.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn take(&mut self, text: &str) -> Result<(), LedgerError> {
        self.lines += 1;
        let line = self.lines;
        let Some(ledger) = &mut self.ledger else {
            let header = header(text)?;
            self.ledger = Some(Ledger { header, units: BTreeMap::new(), acknowledged: 0, in_flight: 0 });
            return Ok(());
        };
        let unit = ledger.header.unit.0;
        let impossible = |what| LedgerError::Impossible { line, what };
        match entry(text).ok_or_else(|| LedgerError::Line { line, text: excerpt(text) })? {
            Entry::Begin { generation, offset, length } => {
                let (offset, length) = (offset.0, length.0);
                let end = offset.checked_add(length).ok_or(impossible("it ends beyond 64 bits"))?;
                if !offset.is_multiple_of(unit) || !length.is_multiple_of(unit) || length > 1 << 32 {
                    return Err(impossible("offset and length are no multiples of the unit, or too long"));
                }
                if self.begun.insert(generation, offset..end).is_some() {
                    return Err(impossible("a generation begins twice"));
                }
            }
            Entry::Acknowledged { generation } => {
                let places = self.begun.remove(&generation);
                let places = places.ok_or(impossible("it was acknowledged before it began"))?;
                ledger.acknowledged += 1;
                for at in places.step_by(unit as usize) {
                    let known = ledger.units.entry(ArrayOffset(at)).or_default();
                    known.acknowledged = known.acknowledged.max(Some(generation));
                }
            }
        }
        Ok(())
    }

    /// The whole ledger.
    ///
    /// # Errors
    /// When not even its header came.
    pub fn finish(self) -> Result<Ledger, LedgerError> {
        let mut ledger = match self.ledger {
            Some(ledger) => ledger,
            None => return Err(LedgerError::Header("it has no whole line".to_owned())),
        };
        ledger.in_flight = self.begun.len() as u64;
        for (generation, places) in self.begun {
            for at in places.step_by(ledger.header.unit.0 as usize) {
                ledger.units.entry(ArrayOffset(at)).or_default().in_flight.push(generation);
            }
        }
        Ok(ledger)
    }
}

fn header(line: &str) -> Result<Header, LedgerError> {
    let header: Header =
        serde_json::from_str(line).map_err(|error| LedgerError::Header(error.to_string()))?;
    if header.schema != Header::SCHEMA {
        let what = format!("its format is `{}` and not `{}`", header.schema, Header::SCHEMA);
        return Err(LedgerError::Header(what));
    }
    if unit_of(header.unit) != Some(header.unit) {
        return Err(LedgerError::Header(format!("a unit of {} bytes is not possible", header.unit.0)));
    }
    Ok(header)
}

/// The beginning of a line that may be anything.
fn excerpt(line: &str) -> String {
    const SHOWN: usize = 60;
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

impl Ledger {
    /// Replays `text`.
    ///
    /// # Errors
    /// See [`LedgerError`]. A torn last line is none.
    pub fn parse(text: &str) -> Result<Ledger, LedgerError> {
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut replay = Replay::default();
        whole.split_terminator('\n').try_for_each(|line| replay.take(line))?;
        replay.finish()
    }

    /// Judges what was found where the unit at `offset` should be.
    pub fn judge(&self, offset: ArrayOffset, unit: &Unit, found: Result<Stamp, Unreadable>) -> UnitFinding {
        match found {
            Err(_) if !unit.in_flight.is_empty() => UnitFinding::InFlight,
            Err(error) => UnitFinding::Unreadable(error),
            Ok(stamp) if stamp.run != self.header.run => UnitFinding::Foreign,
            Ok(stamp) if stamp.offset != offset => UnitFinding::Misplaced { offset: stamp.offset },
            Ok(stamp)
                if Some(stamp.generation) == unit.acknowledged
                    || unit.in_flight.contains(&stamp.generation) =>
            {
                UnitFinding::Good
            }
            Ok(stamp) if Some(stamp.generation) > unit.acknowledged => {
                UnitFinding::Newer { found: stamp.generation }
            }
            Ok(stamp) => UnitFinding::Lost { found: stamp.generation },
        }
    }
}

//! What SQLite's files hold, as far as it tells whose they are (https://www.sqlite.org/fileformat.html).

use crate::own::{APPLICATION_ID, DATABASE};
use ebbtide_model::session::STORE_APPLICATION_ID;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The first bytes of a database, of a page in a log, of a journal: what is looked at of them.
const HEADER: usize = 108;
/// Where a database's header has its user version, and its first page its kind and the number of entries: a leaf without any is of a
/// database without tables (file format 1.3, 1.6).
const USER_VERSION: std::ops::Range<usize> = 60..64;
const KIND: usize = 100;
const LEAF: u8 = 13;
const ENTRIES: std::ops::Range<usize> = 103..105;
const PAGE_SIZE: std::ops::Range<usize> = 16..18;
const READ_VERSION: usize = 19;

/// What else changes where a database begins its log: the two versions, the change counter, and that for which it is valid with the version of the
/// library (file format 1.3).
const CHANGED_WITH_LOG: [std::ops::Range<usize>; 3] = [18..20, 24..28, 92..100];

/// A rollback journal's magic number (file format 3).
const JOURNAL: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The end of a journal that names a super-journal: length of the name, its checksum, the magic number (file format 3).
const SUPER_END: u64 = 16;
/// A write-ahead log's magic numbers, its header, the header of each frame (file format 4.1).
const LOG: [u32; 2] = [0x377f_0682, 0x377f_0683];
const LOG_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;
/// The version that a log's header and the index of a log have (file format 4.1, and "WAL-mode File Format" 2).
const LOG_VERSION: u32 = 3_007_000;
/// An index grows by this much, and begins with a header of which this is the first copy ("WAL-mode File Format" 2).
const INDEX_PIECE: u64 = 32_768;
const INDEX_HEADER: usize = 48;
/// The first to open a log cuts its index to this many bytes, then lengthens it again by a byte at the end of each page, whatever the
/// host's pages are (`unixLockSharedMemory` and `unixShmMap` in SQLite's os_unix.c). A kill may leave any of these lengths.
const INDEX_CUT: usize = 3;
const INDEX_PAGE: u64 = 4096;
/// A file without a byte that is not zero is nobody's; longer ones are not read to the end for it. A power cut leaves
/// an index of 32 KiB like that, or a log that was just begun.
const BLANK_MOST: u64 = 1 << 20;

/// What a database file holds, with its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// No byte; SQLite takes whatever is beside it for what an earlier database left.
    Nothing,
    /// A database without tables.
    Empty,
    /// A store of `ebb`'s.
    Store,
    /// The database of another program.
    Foreign,
    /// Not a database of SQLite's.
    Other,
}

impl Content {
    /// Of the database `main` with the log `log`. Nothing is changed by looking.
    pub fn of(main: &File, log: Option<&File>) -> io::Result<Content> {
        if main.metadata()?.len() == 0 {
            return Ok(Content::Nothing);
        }
        let header = begin(main, 0)?;
        if !header.starts_with(DATABASE) {
            return Ok(Content::Other);
        }
        if is_ours(&header) {
            return Ok(Content::Store);
        }
        if header[APPLICATION_ID] != [0; 4] || header[USER_VERSION] != [0; 4] {
            return Ok(Content::Foreign);
        }
        // The first transaction of a store that was killed early is in its log alone.
        let page_size = match be16(&header, PAGE_SIZE) {
            1 => 65_536,
            size => u64::from(size),
        };
        match log.map(|log| first_page(log, page_size)).transpose()?.flatten() {
            Some(page) if is_ours(&page) => Ok(Content::Store),
            Some(_) => Ok(Content::Foreign),
            None if has_no_tables(&header) => Ok(Content::Empty),
            None => Ok(Content::Foreign),
        }
    }

    /// What it is instead of a store, in words.
    pub fn foreign(self) -> Option<&'static str> {
        match self {
            Content::Nothing | Content::Empty | Content::Store => None,
            Content::Foreign => Some("it is the database of another program"),
            Content::Other => Some("it is not an SQLite database"),
        }
    }
}

/// Whether the database `main` has a write-ahead log instead of a journal (file format 1.3.3: read version 2).
pub(super) fn keeps_log(main: &File) -> io::Result<bool> {
    Ok(begin(main, 0)?[READ_VERSION] == 2)
}

/// The header of the first page in `log`, wherever it is in it; that of another page where it has none. Nothing of a log
/// without a whole page.
fn first_page(log: &File, page_size: u64) -> io::Result<Option<[u8; HEADER]>> {
    let length = log.metadata()?.len();
    let (mut at, mut found) = (LOG_HEADER, None);
    while at + FRAME_HEADER + page_size <= length {
        let frame = begin(log, at)?;
        let is_first = be32(&frame, 0) == 1;
        if is_first || found.is_none() {
            found = Some(begin(log, at + FRAME_HEADER)?);
        }
        if is_first {
            break;
        }
        at += FRAME_HEADER + page_size;
    }
    Ok(found)
}

fn is_ours(header: &[u8; HEADER]) -> bool {
    header.starts_with(DATABASE) && header[APPLICATION_ID] == STORE_APPLICATION_ID.to_be_bytes()
}

fn has_no_tables(header: &[u8; HEADER]) -> bool {
    header[KIND] == LEAF && be16(header, ENTRIES) == 0
}

/// What a rollback journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Journal {
    /// Of a database that had no page before.
    OfNothing,
    /// Of a database of which the first page is not in it.
    OfSome,
    /// Of a store of `ebb`'s, or of what became one.
    OfStore,
    /// Of another program's database.
    OfForeign,
    /// It names another file, which SQLite would read, and delete.
    Super,
    /// No journal of SQLite's.
    Other,
}

impl Journal {
    /// Reads what kind of journal `file` is.
    pub fn of(file: &File) -> io::Result<Journal> {
        let length = file.metadata()?.len();
        if let Some(end) = length.checked_sub(SUPER_END) {
            let mut bytes = [0; SUPER_END as usize];
            file.read_exact_at(&mut bytes, end)?;
            let name = u64::from(be32(&bytes, 0));
            // Whether the checksum is right, which SQLite asks too, is no matter: nothing else ends like that.
            if bytes.ends_with(&JOURNAL) && name > 0 && name <= end {
                return Ok(Journal::Super);
            }
        }
        let header = begin(file, 0)?;
        // One whose writer was killed early has zeros for its magic number and count of records.
        let magic = header.starts_with(&JOURNAL) || header[..12] == [0; 12];
        let (sector, page) = (be32(&header, 20), be32(&header, 24));
        let sizes = sector.is_power_of_two()
            && (32..=65_536).contains(&sector)
            && page.is_power_of_two()
            && (512..=65_536).contains(&page);
        if !magic || !sizes {
            return Ok(Journal::Other);
        }
        let pages = be32(&header, 16);
        let empty = |page: &[u8; HEADER]| {
            page[APPLICATION_ID] == [0; 4] && page[USER_VERSION] == [0; 4] && has_no_tables(page)
        };
        Ok(match first_page_kept(file, u64::from(sector), u64::from(page), pages)? {
            _ if pages == 0 => Journal::OfNothing,
            None => Journal::OfSome,
            Some(first) if is_ours(&first) || empty(&first) => Journal::OfStore,
            Some(_) => Journal::OfForeign,
        })
    }
}

/// The header of the first page of a database as the journal `file` keeps it: its records follow the first sector, each with the page's
/// number before it and a checksum behind (file format 3).
fn first_page_kept(file: &File, sector: u64, page: u64, pages: u32) -> io::Result<Option<[u8; HEADER]>> {
    let length = file.metadata()?.len();
    let mut at = sector;
    while at + 4 + page <= length {
        match be32(&begin(file, at)?, 0) {
            1 => return begin(file, at + 4).map(Some),
            number if number == 0 || number > pages => break,
            _ => at += page + 8,
        }
    }
    Ok(None)
}

/// Whether the journal `journal` is what the database `main` leaves where a kill comes while it begins its log: its first page as it was before,
/// and nothing else. A copy of the database that went on by itself has changed more, and its journal holds more.
pub(super) fn begins_log(journal: &File, main: &File) -> io::Result<bool> {
    let header = begin(journal, 0)?;
    let [pages, sector, page] = [16, 20, 24].map(|at| u64::from(be32(&header, at)));
    let second = sector + 4 + page + 4;
    let is_whole = main.metadata()?.len() == pages * page && journal.metadata()?.len() >= second;
    if !is_whole || be32(&begin(journal, sector)?, 0) != 1 || be32(&begin(journal, second)?, 0) != 0 {
        return Ok(false);
    }
    let (mut before, mut now) = (vec![0; page as usize], vec![0; page as usize]);
    journal.read_exact_at(&mut before, sector + 4)?;
    main.read_exact_at(&mut now, 0)?;
    for bytes in [&mut before, &mut now] {
        CHANGED_WITH_LOG.into_iter().for_each(|range| bytes[range].fill(0));
    }
    Ok(before == now)
}

/// Whether `file` begins as a write-ahead log does.
pub(super) fn is_log(file: &File) -> io::Result<bool> {
    let header = begin(file, 0)?;
    Ok(LOG.contains(&be32(&header, 0)) && be32(&header, 4) == LOG_VERSION)
}

/// Whether `file` is the index of a write-ahead log, which is in the byte order of the host, or what a kill left of one. Its header is
/// written last.
pub(super) fn is_index(file: &File) -> io::Result<bool> {
    let header = begin(file, 0)?;
    let length = file.metadata()?.len();
    let version = LOG_VERSION.to_ne_bytes();
    let rest_is_zero = |from: usize| header[from..INDEX_HEADER].iter().all(|byte| *byte == 0);
    let is_cut = header[..INDEX_CUT] == version[..INDEX_CUT] && rest_is_zero(INDEX_CUT);
    Ok(if length < INDEX_HEADER as u64 {
        length >= INDEX_CUT as u64 && is_cut
    } else if length.is_multiple_of(INDEX_PIECE) {
        header[..4] == version || is_cut || rest_is_zero(0)
    } else {
        length.is_multiple_of(INDEX_PAGE) && (header[..4] == version || is_cut)
    })
}

/// Whether `file` has no byte that is not zero.
pub(super) fn is_blank(file: &File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    if length > BLANK_MOST {
        return Ok(false);
    }
    let mut bytes = vec![0; length as usize];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| bytes.iter().all(|byte| *byte == 0)),
    }
}

/// The bytes of `file` from `offset` on, zeros after its end.
fn begin(file: &File, offset: u64) -> io::Result<[u8; HEADER]> {
    let (mut bytes, mut read) = ([0; HEADER], 0);
    while read < HEADER {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |four| u32::from_be_bytes(*four))
}

fn be16(bytes: &[u8], range: std::ops::Range<usize>) -> u16 {
    bytes[range].first_chunk().map_or(0, |two| u16::from_be_bytes(*two))
}

//! The ledger of a run, read back, and the members that it names.

use super::error::VerifyError;
use crate::RunnerError;
use ebbtide_door::read::{self, ReadError};
use ebbtide_door::{Access, Expected, Handle, Wanted};
use ebbtide_engine::descriptors::make_room;
use ebbtide_engine::{Target, TargetMember};
use ebbtide_host::judge;
use ebbtide_model::guard::{Permission, WriteRequest};
use ebbtide_model::layout::Map;
use ebbtide_model::units::Bytes;
use ebbtide_model::verify::{Ledger, LedgerError, Replay};
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest line of a ledger: its first one names every member.
const LONGEST_LINE: u64 = 16 << 20;

/// The ledger at `path`.
///
/// # Errors
/// When it cannot be read or is none.
pub fn ledger(path: &Path) -> Result<Ledger, RunnerError> {
    let wrong = |error| VerifyError::Ledger { path: path.to_owned(), error };
    let unreadable = |error: ReadError| VerifyError::Read { path: path.to_owned(), error };
    let mut ledger = BufReader::new(read::regular(path).map_err(unreadable)?);
    let mut replay = Replay::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = Read::take(&mut ledger, LONGEST_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| unreadable(error.into()))?;
        if length as u64 == LONGEST_LINE {
            let what = format!("a line has more than {LONGEST_LINE} bytes");
            return Err(wrong(LedgerError::Header(what)).into());
        }
        // A torn last line says nothing.
        let Some(whole) = line.strip_suffix(b"\n") else { break };
        replay.take(&String::from_utf8_lossy(whole)).map_err(wrong)?;
    }
    Ok(replay.finish().map_err(wrong)?)
}

/// The members that the ledger names, opened to be read; `moved` says where some are now. With `array`, the whole is
/// one device or file now.
///
/// # Errors
/// When one is missing.
pub fn open(
    ledger: &Ledger,
    moved: &[(String, PathBuf)],
    array: Option<&Path>,
) -> Result<Target, RunnerError> {
    let header = &ledger.header;
    for (name, _) in moved {
        if !header.members.iter().any(|member| member.name == *name) {
            let names: Vec<&str> = header.members.iter().map(|member| member.name.as_str()).collect();
            return Err(VerifyError::NoMember { name: name.clone(), members: names.join(", ") }.into());
        }
    }
    let sizes: Vec<Bytes> = header.members.iter().map(|member| member.size).collect();
    let map = Map::new(&header.layout, &sizes).map_err(VerifyError::Array)?;
    if let Some(path) = array {
        let member = TargetMember {
            name: path.to_string_lossy().into_owned(),
            file: file(path)?,
            size: map.capacity(),
            shaper: None,
        };
        return Ok(Target::single(member).map_err(VerifyError::Array)?);
    }
    make_room(2 * header.members.len() as u64).map_err(VerifyError::from)?;
    let members = header
        .members
        .iter()
        .map(|member| {
            let place = moved.iter().find(|(name, _)| *name == member.name);
            let path = place.map_or_else(|| PathBuf::from(&member.path), |(_, path)| path.clone());
            let file = file(&path)?;
            Ok(TargetMember { name: member.name.clone(), file, size: member.size, shaper: None })
        })
        .collect::<Result<Vec<_>, VerifyError>>()?;
    Ok(Target::new(members, map))
}

/// Opened past the page cache where that is possible, so that the device answers.
fn file(path: &Path) -> Result<Handle, VerifyError> {
    let request =
        WriteRequest { path, permission: Permission::User { id: None, destroy: false, used: false } };
    let wanted = Wanted { request, expected: Expected::Any, write: false };
    let claims = judge::door().claim(&[wanted]).map_err(|(_, error)| VerifyError::Member(error))?;
    let open = |direct| match claims.first() {
        Some(claim) => claim.open(Access { direct, ..Access::default() }),
        None => Err(io::Error::other("it was not opened")),
    };
    let file = match open(true) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => open(false),
        other => other,
    };
    let file = file.map_err(|error| VerifyError::Open { path: path.to_owned(), error })?;
    // Advice: where it is not taken, the page cache answers what O_DIRECT would not be asked for.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    Ok(file)
}

//! `ebb import`: results of fio and bonnie++ become sessions of the store.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views;
use clap::Args;
use ebbtide_door::read::{self, ReadError};
use ebbtide_formats::import;
use ebbtide_model::civil::Civil;
use ebbtide_model::session::{Ending, Session};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::{UnixTime, format_count};
use ebbtide_runner::store::Store;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Import results of fio and bonnie++ as sessions
///
/// Reads the JSON of fio 2.x and 3.x (--output-format=json, with whatever fio printed before it) and the CSV
/// of bonnie++ 1.03, 1.96 and later. A file that was imported before is not stored again.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files to read
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Largest file that is read: fio's JSON of a thousand jobs is some 20 MB.
const LARGEST: u64 = 256 << 20;

/// One session that came of a file.
struct Taken {
    file: PathBuf,
    session: Session,
    new: bool,
}

/// Runs `ebb import`: every file is read and understood before anything is stored.
///
/// # Errors
/// When a file cannot be read or is no result, or the store cannot be written.
pub fn run(args: &ImportArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let mut taken = Vec::new();
    for file in &args.files {
        let (text, modified) = read(file)?;
        let imported =
            import::parse(&text).map_err(|error| CliError::Failed(format!("{}: {error}", file.shown())))?;
        // FNV's offset basis.
        let whole = hash(0x811c_9dc5, text.as_bytes());
        let mut ids = HashSet::new();
        for (index, imported) in imported.into_iter().enumerate() {
            let when = Civil::from_unix(imported.ended_unix.unwrap_or(modified)).compact();
            let mut own = hash(whole, &index.to_le_bytes());
            let mut id = format!("{when}-{own:08x}");
            // Of thousands of results of one file two may have the same hash.
            while !ids.insert(id.clone()) {
                own = hash(own, b"+");
                id = format!("{when}-{own:08x}");
            }
            let session = import::session(imported, id, env!("CARGO_PKG_VERSION"), modified);
            taken.push(Taken { file: file.clone(), session, new: true });
        }
    }
    let mut store = Store::open(globals.store.as_deref()).map_err(CliError::failed)?;
    let mut known: HashSet<String> =
        store.list().map_err(CliError::failed)?.into_iter().map(|s| s.id).collect();
    for taken in &mut taken {
        taken.new = known.insert(taken.session.meta.id.clone());
    }
    let new = taken.iter().filter(|taken| taken.new).map(|Taken { session, .. }| {
        let headline = format!("{}, imported", format_count(session.trials.len() as u64, "measurement"));
        let failed = if let Ending::Failed(why) = &session.meta.ending { Some(why) } else { None };
        (session, failed.map_or(headline, |why| format!("failed: {why}")))
    });
    store.add_all(new).map_err(CliError::failed)?;
    tell(&taken, globals)
}

/// The text of `file`, and when it was last written.
fn read(file: &Path) -> Result<(String, UnixTime), CliError> {
    let failed = |error: ReadError| CliError::Failed(format!("{}: {error}", file.shown()));
    let mut open = read::regular(file).map_err(failed)?;
    let modified = open.metadata().and_then(|meta| meta.modified()).map_err(|error| failed(error.into()))?;
    let bytes = read::up_to(&mut open, LARGEST).map_err(failed)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), UnixTime::from(modified)))
}

/// FNV-1a of what has the hash `before` with `bytes` after it: the same file gets the same ids.
fn hash(before: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(before, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn tell(taken: &[Taken], globals: &Globals) -> Result<ExitCode, CliError> {
    let (mut text, mut sessions) = (String::new(), Vec::new());
    // A file of many results says the same of many of them.
    let (mut notes, mut in_order): (HashMap<(&PathBuf, &str), usize>, Vec<_>) = Default::default();
    for Taken { file, session, new } in taken {
        let (id, experiment) = (&session.meta.id, &session.experiment);
        let failed = if let Ending::Failed(why) = &session.meta.ending { Some(why) } else { None };
        sessions.push(serde_json::json!({
            "id": id,
            "file": file.to_string_lossy(),
            "experiment": experiment.name,
            "trials": session.trials.len(),
            "new": new,
            "failed": failed,
        }));
        let names: Vec<&str> = experiment.workloads.iter().map(|w| w.name.as_str()).collect();
        let how = if *new { "" } else { " (already imported)" };
        let how = if failed.is_some() { format!(" (it failed){how}") } else { how.to_owned() };
        text += &format!("{id}  {}  {}  {}{how}\n", experiment.name, names.join(", "), file.shown());
        // The first note is about every import and is in the report.
        for note in session.meta.warnings.iter().skip(1).filter(|_| *new) {
            let note = (file, note.as_str());
            let said = notes.entry(note).or_insert(0);
            *said += 1;
            if *said == 1 {
                in_order.push(note);
            }
        }
    }
    for note in in_order.iter().filter(|_| !globals.quiet && !globals.json()) {
        let times = match notes.get(note) {
            None | Some(1) => String::new(),
            Some(times) => format!(" (in {times} results)"),
        };
        views::say(&format!("ebb: {}: {}{times}", note.0.shown(), note.1));
    }
    views::answer(
        globals.json(),
        &serde_json::json!({ "schema": "ebbtide.import/1", "sessions": sessions }),
        &text,
    )
}

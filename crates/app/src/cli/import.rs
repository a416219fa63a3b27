//! `ebb import`: results of fio and bonnie++ become sessions of the store.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::store::Store;
use crate::views;
use clap::Args;
use ebbtide_door::read::{self, ReadError};
use ebbtide_formats::import;
use ebbtide_model::civil::Civil;
use ebbtide_model::session::Session;
use ebbtide_model::shown::Shown;
use ebbtide_model::units::{Nanos, format_count};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

/// Take results of fio and bonnie++ into the store, to list, show, report and compare with new ones
///
/// Reads the JSON of fio 2.x and 3.x (--output-format=json, with whatever fio printed before it) and the CSV
/// of bonnie++ 1.96 and later. A file that is there already is not taken twice.
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
        let whole = Fingerprint::default().and(text.as_bytes());
        let mut ids = HashSet::new();
        for (index, imported) in imported.into_iter().enumerate() {
            let when = Civil::from_unix(imported.ended_unix.unwrap_or(modified)).compact();
            let mut own = whole.and(&index.to_le_bytes());
            let mut id = format!("{when}-{own}");
            // Of thousands of results of one file two may have the same fingerprint.
            while !ids.insert(id.clone()) {
                own = own.and(b"+");
                id = format!("{when}-{own}");
            }
            let session = import::session(imported, id, env!("CARGO_PKG_VERSION"), modified);
            taken.push(Taken { file: file.clone(), session, new: true });
        }
    }
    let failed = |error: crate::store::StoreError| CliError::Failed(error.to_string());
    let mut store = Store::open(globals.store.as_deref()).map_err(failed)?;
    let mut known: HashSet<String> = store.list().map_err(failed)?.into_iter().map(|s| s.id).collect();
    for taken in &mut taken {
        taken.new = known.insert(taken.session.meta.id.clone());
    }
    let new = taken.iter().filter(|taken| taken.new).map(|Taken { session, .. }| {
        let headline = format!("{}, imported", format_count(session.trials.len() as u64, "measurement"));
        (session, headline)
    });
    store.add_all(new).map_err(failed)?;
    tell(&taken, globals)?;
    Ok(ExitCode::SUCCESS)
}

/// The text of `file`, and when it was last written.
fn read(file: &Path) -> Result<(String, Nanos), CliError> {
    let failed = |error: ReadError| CliError::Failed(format!("{}: {error}", file.shown()));
    let mut open = read::regular(file).map_err(failed)?;
    let modified = open.metadata().and_then(|meta| meta.modified()).map_err(|error| failed(error.into()))?;
    let bytes = read::up_to(&mut open, LARGEST).map_err(failed)?;
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    let modified = Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    Ok((String::from_utf8_lossy(&bytes).into_owned(), modified))
}

/// FNV-1a of a file's text and the number of a result in it: the same file gets the same ids.
#[derive(Clone, Copy)]
struct Fingerprint(u32);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint(0x811c_9dc5)
    }
}

impl Fingerprint {
    /// Of what came before and `bytes`.
    fn and(self, bytes: &[u8]) -> Fingerprint {
        Fingerprint(
            bytes.iter().fold(self.0, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)),
        )
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

fn tell(taken: &[Taken], globals: &Globals) -> Result<(), CliError> {
    if globals.json {
        let sessions: Vec<serde_json::Value> = taken
            .iter()
            .map(|taken| {
                serde_json::json!({
                    "id": taken.session.meta.id,
                    "file": taken.file.to_string_lossy().into_owned(),
                    "experiment": taken.session.experiment.name,
                    "trials": taken.session.trials.len(),
                    "new": taken.new,
                })
            })
            .collect();
        let value = serde_json::json!({ "schema": "ebbtide.import/1", "sessions": sessions });
        return views::print_json(&value);
    }
    let mut text = String::new();
    // A file of many results says the same of many of them.
    let (mut notes, mut in_order): (HashMap<(&PathBuf, &str), usize>, Vec<_>) = Default::default();
    for Taken { file, session, new } in taken {
        let names: Vec<&str> = session.experiment.workloads.iter().map(|w| w.name.as_str()).collect();
        let how = if *new { "" } else { " (was there already)" };
        let (id, program) = (&session.meta.id, &session.experiment.name);
        text.push_str(&format!("{id}  {program}  {}  {}{how}\n", names.join(", "), file.shown()));
        if *new {
            // The first is about every import and is in the report.
            for note in session.meta.warnings.iter().skip(1) {
                let note = (file, note.as_str());
                let said = notes.entry(note).or_insert(0);
                *said += 1;
                if *said == 1 {
                    in_order.push(note);
                }
            }
        }
    }
    for note in in_order.iter().filter(|_| !globals.quiet) {
        let times = match notes.get(note) {
            None | Some(1) => String::new(),
            Some(times) => format!(" (in {times} results)"),
        };
        views::say(&format!("ebb: {}: {}{times}", note.0.shown(), note.1));
    }
    views::print(&text)
}

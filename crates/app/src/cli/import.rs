//! `ebb import`: results of fio and bonnie++ become sessions of the store.

use super::{CliError, Globals};
use crate::store::Store;
use crate::views;
use clap::Args;
use ebbtide_core::civil::Civil;
use ebbtide_core::import;
use ebbtide_core::session::Session;
use ebbtide_core::units::{Nanos, format_count};
use std::io::Read;
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
            import::parse(&text).map_err(|error| CliError::Failed(format!("{}: {error}", file.display())))?;
        for (index, imported) in imported.into_iter().enumerate() {
            let when = imported.ended_unix.unwrap_or(modified);
            let id = format!("{}-{:08x}", Civil::from_unix(when).compact(), fingerprint(&text, index));
            let session = import::session(imported, id, env!("CARGO_PKG_VERSION"), &text, modified);
            taken.push(Taken { file: file.clone(), session, new: true });
        }
    }
    let failed = |error: crate::store::StoreError| CliError::Failed(error.to_string());
    let mut store = Store::open(globals.store.as_deref()).map_err(failed)?;
    let known: Vec<String> = store.list().map_err(failed)?.into_iter().map(|s| s.id).collect();
    for index in 0..taken.len() {
        let id = &taken[index].session.meta.id;
        let earlier = taken[..index].iter().any(|other| other.session.meta.id == *id);
        if earlier || known.contains(id) {
            taken[index].new = false;
            continue;
        }
        let session = &taken[index].session;
        let headline = format!("{}, imported", format_count(session.trials.len() as u64, "measurement"));
        store.add(session, &serde_json::Value::Null, &headline).map_err(failed)?;
    }
    tell(&taken, globals)?;
    Ok(ExitCode::SUCCESS)
}

/// The text of `file`, and when it was last written.
fn read(file: &Path) -> Result<(String, Nanos), CliError> {
    let failed = |error: std::io::Error| CliError::Failed(format!("{}: {error}", file.display()));
    let open = std::fs::File::open(file).map_err(failed)?;
    let modified = open.metadata().and_then(|meta| meta.modified()).map_err(failed)?;
    let mut bytes = Vec::new();
    open.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        let most = LARGEST >> 20;
        return Err(CliError::Failed(format!(
            "{}: larger than {most} MiB: this is no result",
            file.display()
        )));
    }
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    let modified = Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    Ok((String::from_utf8_lossy(&bytes).into_owned(), modified))
}

/// FNV-1a of the text and the number of the result in it: the same file gets the same id.
fn fingerprint(text: &str, index: usize) -> u32 {
    let bytes = text.bytes().chain(index.to_le_bytes());
    bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn tell(taken: &[Taken], globals: &Globals) -> Result<(), CliError> {
    if globals.json {
        let sessions: Vec<serde_json::Value> = taken
            .iter()
            .map(|taken| {
                serde_json::json!({
                    "id": taken.session.meta.id,
                    "file": taken.file.display().to_string(),
                    "experiment": taken.session.experiment.name,
                    "trials": taken.session.trials.len(),
                    "new": taken.new,
                })
            })
            .collect();
        let value = serde_json::json!({ "schema": "ebbtide.import/1", "sessions": sessions });
        return views::print(&format!("{value:#}\n"));
    }
    let mut text = String::new();
    for Taken { file, session, new } in taken {
        let names: Vec<&str> = session.experiment.workloads.iter().map(|w| w.name.as_str()).collect();
        let how = if *new { "" } else { " (was there already)" };
        let (id, program) = (&session.meta.id, &session.experiment.name);
        text.push_str(&format!("{id}  {program}  {}  {}{how}\n", names.join(", "), file.display()));
        if *new && !globals.quiet {
            // The first is about every import and is in the report.
            for note in session.meta.warnings.iter().skip(1) {
                views::say(&format!("ebb: {}: {note}", file.display()));
            }
        }
    }
    views::print(&text)
}

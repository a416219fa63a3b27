//! `ebb cleanup`: puts back what killed runs left behind.

use super::{CliError, Globals};
use crate::session::journal;
use crate::views;
use clap::Args;
use ebbtide_host::build::Outcome;
use ebbtide_model::journal::Leftover;
use ebbtide_model::shown::Shown;
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

/// Put back what killed runs left behind: only what the journal says that ebb made
#[derive(Debug, Args)]
pub struct CleanupArgs {
    /// List it and touch nothing
    #[arg(long)]
    dry_run: bool,
}

/// How it went with something that a run left.
enum Went {
    /// Nothing was tried.
    Would,
    Did(Outcome),
    Cannot(String),
}

/// Runs `ebb cleanup`.
///
/// # Errors
/// When a journal cannot be read, or something cannot be removed.
pub fn run(args: &CleanupArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let directory = journal::directory().map_err(CliError::Failed)?;
    let mut records: Vec<Value> = Vec::new();
    let mut text = String::new();
    let mut failed = 0;
    let found = journal::abandoned(&directory).map_err(CliError::Failed)?;
    for run in found.abandoned {
        let name = run.run.clone();
        let mut note = |leftover: &Leftover, went: Went| {
            let kind = match leftover {
                Leftover::Path { directory: true, .. } => "directory",
                Leftover::Path { .. } => "file",
                Leftover::Step { .. } => "step",
            };
            let shown = journal::shown(leftover);
            let (now, wish) = if kind == "step" { ("put back", "put back") } else { ("removed", "remove") };
            let what = format!("{kind} {shown} of session {name}");
            text.push_str(&match &went {
                Went::Would => format!("would {wish} {what}\n"),
                Went::Did(Outcome::Done) => format!("{now} {what}\n"),
                Went::Did(Outcome::Before) => format!("nothing to {wish}: {what}\n"),
                Went::Did(Outcome::Left(why)) => format!("left alone {what}: {why}\n"),
                Went::Cannot(error) => format!("cannot {wish} {what}: {error}\n"),
            });
            let (removed, left, error) = match went {
                Went::Would => (false, None, None),
                Went::Did(Outcome::Left(why)) => (false, Some(why), None),
                Went::Did(outcome) => (outcome == Outcome::Done, None, None),
                Went::Cannot(error) => (false, None, Some(error)),
            };
            records.push(json!({
                "session": name, "path": shown, "kind": kind, "removed": removed, "left": left, "error": error,
            }));
        };
        if args.dry_run {
            for leftover in &run.left {
                note(
                    leftover,
                    match journal::foresee(leftover, &name) {
                        Err(error) if error.kind() != ErrorKind::NotFound => Went::Cannot(error.to_string()),
                        _ => Went::Would,
                    },
                );
            }
            continue;
        }
        for (leftover, result) in run.put_back() {
            failed += usize::from(result.is_err());
            note(&leftover, result.map_or_else(Went::Cannot, Went::Did));
        }
    }
    if globals.json {
        let unreadable = |(path, error): &(PathBuf, String)| json!({ "path": path.to_string_lossy().into_owned(), "error": error });
        let unreadable: Vec<Value> = found.unreadable.iter().map(unreadable).collect();
        let value = json!({ "schema": "ebbtide.cleanup/1", "leftovers": records, "unreadable": unreadable });
        views::print_json(&value)?;
    } else if !records.is_empty() {
        views::print(&text)?;
    } else if !globals.quiet && found.unreadable.is_empty() {
        crate::views::say("ebb: nothing to clean up");
    }
    for (path, error) in &found.unreadable {
        crate::views::say(&format!("ebb: cannot read the journal {}: {error}", path.shown()));
    }
    match (failed, found.unreadable.len()) {
        (0, 0) => Ok(ExitCode::SUCCESS),
        (0, n) => Err(CliError::Failed(format!("{n} journals could not be read; the others were worked on"))),
        (n, _) => {
            Err(CliError::Failed(format!("{n} leftovers stay; remove the cause and run `ebb cleanup` again")))
        }
    }
}

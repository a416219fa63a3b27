//! `ebb cleanup`: puts back what killed runs left behind.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::{keeping, views};
use clap::Args;
use ebbtide_host::build::Outcome;
use ebbtide_host::judge::Program;
use ebbtide_model::journal::Leftover;
use ebbtide_model::shown::Shown;
use ebbtide_runner::journal::{self, Held, LeftBehind};
use ebbtide_runner::places;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Remove what killed runs left behind
///
/// As recorded in their journals.
#[derive(Debug, Args)]
pub struct CleanupArgs {
    /// List it, and touch nothing
    #[arg(long)]
    dry_run: bool,
}

/// Looks at journals that somebody holds who cannot be seen: they may just be ending.
const LOOKS: usize = 3;
/// Between two of them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// How it went with something that a run left.
enum Went {
    /// `--dry-run`: nothing was tried.
    Would,
    Did(Outcome),
    Cannot(String),
}

/// What is said of each thing, at once as text or in the end as JSON.
struct Account {
    json: bool,
    records: Vec<Value>,
    held: Vec<Value>,
    /// Lines that were said.
    lines: usize,
    /// That standard output cannot be written; what is begun is ended all the same.
    mute: Option<CliError>,
}

impl Account {
    fn line(&mut self, line: &str) {
        self.lines += 1;
        if !self.json && self.mute.is_none() {
            self.mute = views::print(line).err();
        }
    }

    fn note(&mut self, session: &str, leftover: &Leftover, went: Went) {
        let kind = match leftover {
            Leftover::Path { directory: true, .. } => "directory",
            Leftover::Path { .. } => "file",
            Leftover::Step { .. } => "step",
        };
        let shown = journal::shown(leftover);
        let (now, wish) = if kind == "step" { ("put back", "put back") } else { ("removed", "remove") };
        let what = format!("{kind} {shown} of session {session}");
        self.line(&match &went {
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
        self.records.push(json!({
            "session": session, "path": shown, "kind": kind, "removed": removed, "left": left, "error": error,
        }));
    }

    /// Says who holds the journal of a run; whether the run is still running, or another clean-up is.
    fn held(&mut self, held: &Held, by: &[Program]) -> bool {
        let session = &held.run;
        let running = by.iter().find_map(|program| Some((program.pid, subcommand(program.own.as_ref()?))));
        self.line(&match running {
            Some((pid, "cleanup")) => {
                format!("another `ebb cleanup` (process {pid}) is cleaning up session {session}\n")
            }
            Some((pid, command)) => {
                format!("session {session} is running (`ebb {command}`, process {pid}); it is left alone\n")
            }
            None => {
                let name = |program: &Program| format!("{}, process {}", program.name, program.pid);
                let by = match by {
                    [] => "a program that this user cannot see holds its journal".to_owned(),
                    by => by.iter().map(name).collect::<Vec<_>>().join("; "),
                };
                format!("session {session} was ended but is still running ({by}): run `ebb cleanup` again when that has ended\n")
            }
        });
        let by: Vec<Value> =
            by.iter().map(|program| json!({ "name": program.name, "pid": program.pid })).collect();
        self.held.push(json!({ "session": session, "running": running.is_some(), "by": by }));
        running.is_some()
    }
}

/// The subcommand of a command line of `ebb`'s.
fn subcommand(line: &[String]) -> &str {
    line.iter().skip(1).find(|word| !word.starts_with('-')).map_or("", String::as_str)
}

/// What runs left, and who holds the journals of those that are not over.
fn look(directory: &Path) -> Result<(LeftBehind, Vec<Vec<Program>>), CliError> {
    let mut look = 1;
    loop {
        let found = journal::abandoned(directory)?;
        let by: Vec<Vec<Program>> = found.held.iter().map(Held::by).collect();
        if look == LOOKS || by.iter().all(|by| !by.is_empty()) {
            return Ok((found, by));
        }
        drop(found);
        std::thread::sleep(BETWEEN_LOOKS);
        look += 1;
    }
}

/// Runs `ebb cleanup`.
///
/// # Errors
/// When a journal cannot be read, something cannot be removed, or a program of a killed run is still at work.
pub fn run(args: &CleanupArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let directory = places::journals()?;
    let (found, by) = look(&directory)?;
    let mut account =
        Account { json: globals.json(), records: Vec::new(), held: Vec::new(), lines: 0, mute: None };
    let (mut failed, mut at_work) = (0, 0);
    for (held, by) in found.held.iter().zip(&by) {
        at_work += usize::from(!account.held(held, by));
    }
    for run in found.abandoned {
        let name = run.run.clone();
        if args.dry_run {
            for (leftover, foreseen) in journal::foresee(&run) {
                failed += usize::from(foreseen.is_err());
                let went = match foreseen {
                    Ok(Outcome::Done) => Went::Would,
                    Ok(outcome) => Went::Did(outcome),
                    Err(error) => Went::Cannot(error.to_string()),
                };
                account.note(&name, &leftover, went);
            }
            continue;
        }
        run.put_back(&keeping::telling(globals), &mut |(leftover, result)| {
            failed += usize::from(result.is_err());
            let cannot = |error: &journal::PutBackError| Went::Cannot(error.to_string());
            account.note(
                &name,
                leftover,
                result.as_ref().map_or_else(cannot, |done| Went::Did(done.clone())),
            );
        });
    }
    if globals.json() {
        let unreadable = |(path, error): &(PathBuf, String)| json!({ "path": path.to_string_lossy().into_owned(), "error": error });
        let unreadable: Vec<Value> = found.unreadable.iter().map(unreadable).collect();
        let value = json!({
            "schema": "ebbtide.cleanup/1", "leftovers": account.records, "held": account.held, "unreadable": unreadable,
        });
        views::print_json(&value)?;
    } else if account.lines == 0 && !globals.quiet && found.unreadable.is_empty() {
        crate::views::say("ebb: nothing to clean up");
    }
    if let Some(error) = account.mute {
        return Err(error);
    }
    for (path, error) in &found.unreadable {
        crate::views::say(&format!("ebb: cannot read the journal {}: {error}", path.shown()));
    }
    let unread = found.unreadable.len();
    let said = [
        (failed, "leftover stays; remove the cause", "leftovers stay; remove the causes"),
        (
            at_work,
            "killed session is still running; wait for it",
            "killed sessions are still running; wait for them",
        ),
        (unread, "journal could not be read; see above", "journals could not be read; see above"),
    ];
    let said = said.into_iter().filter(|(n, ..)| *n > 0);
    let said: Vec<String> =
        said.map(|(n, one, more)| format!("{n} {}", if n == 1 { one } else { more })).collect();
    if said.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(CliError::Failed(format!("{}; then run `ebb cleanup` again", said.join("; "))))
}

//! `ebb monitor changes`: lasting changes of the volumes that were monitored.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::monitor::kept;
use crate::views::{self, changes as view};
use clap::Args;
use ebbtide_model::monitor::Watched;
use ebbtide_model::shown::{Shown, one_line};
use ebbtide_runner::monitor::changes::{Changes, changes};
use ebbtide_runner::store::Store;
use std::process::ExitCode;

/// Show since when a volume is slower or faster for good, and whether the other volumes of its host are too
///
/// Looks at what `ebb monitor run` has stored: a week of it at least. A change is told when it has lasted for 12 hours and is at least
/// 5%; at most one a year and volume is a false alarm (docs/explanation/statistics.md).
///
/// Exit status: 0 done, also where no change is told or there is too little to tell one; 1 the store cannot be read; 2 wrong usage, or a
/// store that is not there.
#[derive(Debug, Args)]
pub struct ChangesArgs {
    /// Only this volume: its name or its id, as `ebb monitor status` shows them
    volume: Option<String>,
}

/// Runs `ebb monitor changes`.
///
/// # Errors
/// When the store that is named does not exist, cannot be read, or knows no such volume.
pub fn run(args: &ChangesArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let store = Store::open_existing(kept::store(globals).as_deref()).map_err(CliError::failed)?;
    if let (None, Some(named)) = (&store, &globals.store) {
        return Err(CliError::Usage(format!(
            "{}: there is no store of passes; `ebb monitor run --store` with the same name makes one",
            named.shown()
        )));
    }
    let mut found =
        store.map_or(Ok(Changes::default()), |store| changes(&store)).map_err(CliError::failed)?;
    if let Some(asked) = &args.volume {
        let is = |volume: &Watched| volume.name == *asked || volume.id == *asked;
        if !found.known.iter().any(|known| is(&known.volume)) {
            return Err(CliError::Usage(unknown(asked, &found)));
        }
        found.known.retain(|known| is(&known.volume));
        found.told.retain(|told| is(&told.volume));
        found.happened.retain(|happened| is(&happened.volume));
    }
    if found.known.is_empty() && !globals.json() {
        if !globals.quiet {
            views::say("ebb: no volume was monitored yet; `ebb monitor run` measures each once");
        }
        return Ok(ExitCode::SUCCESS);
    }
    views::answer(globals.json(), &view::json(&found), &view::text(&found))
}

/// That there is no volume `asked`, and which there are.
fn unknown(asked: &str, found: &Changes) -> String {
    let mut names: Vec<&str> = found.known.iter().map(|known| known.volume.name.as_str()).collect();
    names.dedup();
    match names.as_slice() {
        [] => "no volume was monitored yet; `ebb monitor run` measures each once".to_owned(),
        names => format!("no volume {} was monitored; there is {}", one_line(asked), names.join(", ")),
    }
}

//! `ebb list`: what the store holds.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::stored::{ended, trials};
use crate::views;
use clap::Args;
use ebbtide_model::civil::Civil;
use ebbtide_model::shown::columns;
use ebbtide_runner::store::{Store, Summary};
use std::process::ExitCode;

/// List stored sessions, the newest first
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Show at most N sessions
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    limit: Option<u64>,
}

/// Runs `ebb list`.
///
/// # Errors
/// When the store cannot be read.
pub fn run(args: &ListArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let store = Store::open_existing(globals.store.as_deref()).map_err(CliError::failed)?;
    let mut sessions = store.map_or(Ok(Vec::new()), |store| store.list()).map_err(CliError::failed)?;
    sessions.truncate(args.limit.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX));
    if sessions.is_empty() && !globals.json() {
        if !globals.quiet {
            views::say("ebb: no sessions yet; `ebb run FILE` makes one");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let value = serde_json::json!({ "schema": "ebbtide.sessions/1", "sessions": sessions });
    views::answer(globals.json(), &value, &table(&sessions))
}

fn table(sessions: &[Summary]) -> String {
    let mut rows =
        vec![["SESSION", "STARTED", "EXPERIMENT", "ON", "TRIALS", "ENDED", "ANSWER"].map(str::to_owned)];
    rows.extend(sessions.iter().map(|session| {
        [
            session.id.clone(),
            Civil::from_unix(session.started_unix).to_string(),
            session.experiment.clone(),
            session.backend.clone(),
            trials(session),
            ended(session).to_owned(),
            session.headline.clone().unwrap_or_default(),
        ]
    }));
    columns(&rows, 0)
}

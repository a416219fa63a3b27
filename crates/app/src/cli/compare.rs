//! `ebb compare`: sessions of the store beside one another, imported ones too.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::store::Store;
use crate::views;
use clap::Args;
use ebbtide_analysis::{Analysis, analyse};
use ebbtide_model::session::Session;
use ebbtide_report::{Beside, beside};
use std::process::ExitCode;

/// Put sessions beside one another, imported ones too
///
/// One table for each workload, with a row for each session and design. Trials of different sessions are not paired:
/// the ratios are of medians and have no interval. To find out whether a design is faster, run both in one experiment.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Session ids, or beginnings of them, or `last`; ratios are to the first row of each table
    #[arg(required = true, num_args = 2.., value_name = "SESSION")]
    sessions: Vec<String>,
    /// Only this workload; several names with commas between them are taken for the same and share a table [default: all]
    #[arg(long, short, value_name = "NAME[,NAME...]")]
    workload: Vec<String>,
}

/// Runs `ebb compare`.
///
/// # Errors
/// When a session is not there or is named twice, or no session has a workload that was asked for.
pub fn run(args: &CompareArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let failed = |error: crate::store::StoreError| CliError::Failed(error.to_string());
    let store = Store::open_existing(globals.store.as_deref()).map_err(failed)?.ok_or_else(|| {
        CliError::Failed(
            "nothing is stored yet; `ebb run FILE` or `ebb import FILE` makes a session".to_owned(),
        )
    })?;
    let mut sessions: Vec<Session> = Vec::new();
    for which in &args.sessions {
        let session = store.load(which).map_err(failed)?;
        if sessions.iter().any(|other| other.meta.id == session.meta.id) {
            return Err(CliError::Usage(format!(
                "`{which}` is session {}, which is named already; name another one (`ebb list` shows them)",
                session.meta.id
            )));
        }
        sessions.push(session);
    }
    let analyses: Vec<Analysis> = sessions.iter().map(analyse).collect();
    let both: Vec<(&Session, &Analysis)> = sessions.iter().zip(&analyses).collect();
    let tables: Vec<Vec<String>> = args
        .workload
        .iter()
        .map(|names| names.split(',').map(|name| name.trim().to_owned()).collect())
        .collect();
    let compared = Beside::new(&both, &tables).map_err(|error| CliError::Usage(error.to_string()))?;
    if globals.json {
        views::print_json(&compared.json())?;
    } else {
        let (columns, color) = views::stdout_width();
        views::print_styled(&beside(&compared, columns, color))?;
    }
    Ok(ExitCode::SUCCESS)
}

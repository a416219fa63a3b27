//! `ebb show`: a stored session as it was printed when it ended.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::store::Store;
use crate::views::{self, Format};
use clap::Args;
use ebbtide_analysis::analyse;
use ebbtide_report::{JsonOptions, Report};
use std::process::ExitCode;

/// Show a stored session, finished or not
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Session id, the beginning of one, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// Text: add each trial's figure, with mean and standard deviation
    #[arg(long)]
    trials: bool,
    /// One row per trial and metric, for spreadsheets, R and pandas
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// The experiment file's text as it was run
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    experiment: bool,
}

/// Runs `ebb show`.
///
/// # Errors
/// When there is no such session or it cannot be read.
pub fn run(args: &ShowArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let failed = |error: crate::store::StoreError| CliError::Failed(error.to_string());
    let store = Store::open_existing(globals.store.as_deref()).map_err(failed)?.ok_or_else(|| {
        CliError::Failed("nothing is stored yet; `ebb run FILE` runs an experiment".to_owned())
    })?;
    let session = store.load(&args.session).map_err(failed)?;
    if args.experiment {
        views::print_data(&session.experiment_text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = Report::new(&session, &analyse(&session));
    report.each_trial = args.trials;
    match (globals.json, args.csv) {
        (true, _) => views::print_data(&views::render(&report, Format::Json(JsonOptions::default())))?,
        (_, true) => views::print_data(&views::render(&report, Format::Csv))?,
        _ => views::print_styled(&views::for_stdout(&report))?,
    }
    Ok(ExitCode::SUCCESS)
}

//! `ebb show`: a stored session as it was printed when it ended.

use super::stored;
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views::{self, Format};
use clap::Args;
use ebbtide_report::JsonOptions;
use std::process::ExitCode;

/// Show a stored session, finished or not
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Session id, the beginning of one, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// Text: add every trial's figure, with mean and standard deviation
    #[arg(long)]
    trials: bool,
    /// Text: show every design, where there are many
    #[arg(long)]
    all: bool,
    /// One row per trial and metric, for spreadsheets, R and pandas
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// The experiment file as it was run
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    experiment: bool,
}

/// Runs `ebb show`.
///
/// # Errors
/// When there is no such session or it cannot be read.
pub fn run(args: &ShowArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    if args.experiment {
        let session = stored::open(globals)?.head(&args.session).map_err(CliError::failed)?;
        views::print_data(&session.experiment_text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let format = match (globals.json, args.csv) {
        (true, _) => Format::Json(JsonOptions::default()),
        (_, true) => Format::Csv,
        _ => Format::Text,
    };
    let mut report = stored::report(globals, &args.session, format)?;
    (report.each_trial, report.all) = (args.trials, args.all);
    match format {
        Format::Text => views::print_styled(&views::for_stdout(&report))?,
        _ => views::print_data(&views::render(&report, format))?,
    }
    Ok(ExitCode::SUCCESS)
}

//! `ebb report`: a finished session as a file.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::store::Store;
use crate::views::{self, Format};
use clap::Args;
use ebbtide_analysis::analyse;
use ebbtide_model::shown::Shown;
use ebbtide_report::{JsonOptions, Report};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the report of a session: HTML, JSON, CSV or text.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Session id, the beginning of one, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// File to write; its ending (.html, .json, .csv, .txt) says what, unless an option does; `-` is standard output [default: text on standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Text: add each trial's figure, with mean and standard deviation
    #[arg(long)]
    trials: bool,
    /// One row per trial and metric, for spreadsheets, R and pandas
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// JSON: add percentiles of every result, and every trial's series and what was observed around it
    #[arg(long)]
    full: bool,
}

/// Loads the session, analyses it anew and writes the report.
///
/// # Errors
/// When there is no such session, the file's ending says nothing, or the file cannot be written.
pub fn run(args: &ReportArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let format = format(args, globals.json)?;
    let store = Store::open_existing(globals.store.as_deref())
        .map_err(|error| CliError::Failed(error.to_string()))?
        .ok_or_else(|| {
            CliError::Failed("nothing is stored yet; measure something first with `ebb run`".to_owned())
        })?;
    let session = store.load(&args.session).map_err(|error| CliError::Failed(error.to_string()))?;
    let mut report = Report::new(&session, &analyse(&session));
    report.each_trial = args.trials;
    match &args.output {
        None if format == Format::Text => views::print_styled(&views::for_stdout(&report))?,
        None => views::print_data(&views::render(&report, format))?,
        Some(path) => {
            views::save(path, &views::render(&report, format))?;
            if !globals.quiet && path.as_os_str() != "-" {
                views::say(&format!("session {}: report written to {}", session.meta.id, path.shown()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What to write: what an option says, or else what the file's ending says.
fn format(args: &ReportArgs, json: bool) -> Result<Format, CliError> {
    let json_format = Format::Json(JsonOptions { percentiles: args.full, series: args.full });
    if json {
        return Ok(json_format);
    }
    if args.csv {
        return Ok(Format::Csv);
    }
    match &args.output {
        None => Ok(Format::Text),
        Some(path) if path == Path::new("-") => Ok(Format::Text),
        Some(path) => format_of(path, args.full),
    }
}

/// What the ending of `path` says to write.
pub(super) fn format_of(path: &Path, full: bool) -> Result<Format, CliError> {
    match ending(path).as_deref() {
        Some("html" | "htm") => Ok(Format::Html),
        Some("json") => Ok(Format::Json(JsonOptions { percentiles: full, series: full })),
        Some("csv") => Ok(Format::Csv),
        Some("txt" | "text") => Ok(Format::Text),
        _ => Err(CliError::Usage(format!(
            "{}: the ending does not say what to write; use .html, .json, .csv or .txt",
            path.shown()
        ))),
    }
}

fn ending(path: &Path) -> Option<String> {
    path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase)
}

//! `ebb report`: a finished session as a file.

use super::{best, stored};
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views::{self, Format};
use clap::Args;
use ebbtide_model::shown::Shown;
use ebbtide_report::JsonOptions;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the report of a session as HTML, JSON, CSV or text
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Session id, the beginning of one, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// File to write, in the format of its extension (.html, .json, .csv, .txt; .toml: the best design of a sweep, as an experiment) unless an option says otherwise; `-` is
    /// standard output [default: text on standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Text: add every trial's figure, with mean and standard deviation
    #[arg(long)]
    trials: bool,
    /// Text: show every design, where there are many
    #[arg(long)]
    all: bool,
    /// One row per trial and metric, for spreadsheets, R and pandas
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// JSON: add percentiles, and every trial's series and observations
    #[arg(long)]
    full: bool,
}

/// Loads the session, analyses it anew and writes the report.
///
/// # Errors
/// When there is no such session, the file's ending says nothing, or the file cannot be written.
pub fn run(args: &ReportArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let best = args.output.as_deref().filter(|path| best::is_asked(path) && !args.csv && !globals.json);
    if let Some(path) = best {
        let (session, analysis) = stored::analysis(globals, &args.session)?;
        best::may_replace(path)?;
        let race = analysis.race.as_ref().ok_or_else(|| best::none(path))?;
        let best = best::best(&session, race).map_err(|none| none.error(path))?;
        views::save(path, &best.text)?;
        if !globals.quiet {
            views::say(&format!("session {}: {}; written to {}", session.meta.id, best.said, path.shown()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let format = format(args, globals.json)?;
    let mut report = stored::report(globals, &args.session, format)?;
    (report.each_trial, report.all) = (args.trials, args.all);
    match &args.output {
        None if format == Format::Text => views::print_styled(&views::for_stdout(&report))?,
        None => views::print_data(&views::render(&report, format))?,
        Some(path) => {
            views::save(path, &views::render(&report, format))?;
            if !globals.quiet && path.as_os_str() != "-" {
                views::say(&format!("session {}: report written to {}", report.session.id, path.shown()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What to write: what an option says, or else what the file's ending says.
fn format(args: &ReportArgs, json: bool) -> Result<Format, CliError> {
    match &args.output {
        _ if json => Ok(Format::Json(JsonOptions { percentiles: args.full, series: args.full })),
        _ if args.csv => Ok(Format::Csv),
        Some(path) if path != Path::new("-") => format_of(path, args.full),
        _ => Ok(Format::Text),
    }
}

/// What the ending of `path` says to write.
pub(super) fn format_of(path: &Path, full: bool) -> Result<Format, CliError> {
    let ending = path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    match ending.as_deref() {
        Some("html" | "htm") => Ok(Format::Html),
        Some("json") => Ok(Format::Json(JsonOptions { percentiles: full, series: full })),
        Some("csv") => Ok(Format::Csv),
        Some("txt" | "text") => Ok(Format::Text),
        _ => Err(CliError::Usage(format!(
            "{}: the extension names no format; use .html, .json, .csv or .txt, or .toml for the best design of a sweep",
            path.shown()
        ))),
    }
}

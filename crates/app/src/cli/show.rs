//! `ebb show`: a stored session, on the terminal or as a file.

use super::{best, stored};
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views::{self, Format};
use clap::Args;
use ebbtide_analysis::DesignResult;
use ebbtide_model::shown::Shown;
use ebbtide_report::JsonOptions;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show a stored session, or write its report
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Session id, the beginning of one, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// File to write, in the format of its extension unless an option says otherwise: .html, .json, .csv, .txt. With .toml, the best design of a
    /// sweep as an experiment. `-` is standard output [default: text on standard output]
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["why", "experiment"])]
    output: Option<PathBuf>,
    /// With --why: only this design
    #[arg(requires = "why")]
    design: Option<String>,
    /// Why each design has its verdict: how busy each resource was, what waited for it, what the short runs gained when it was changed; every
    /// figure, and why each other cause was ruled out
    #[arg(long, conflicts_with_all = ["trials", "all", "csv", "experiment"])]
    why: bool,
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
    #[arg(long, conflicts_with_all = ["why", "experiment"])]
    full: bool,
    /// The experiment file as it was run
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    experiment: bool,
}

/// Runs `ebb show`.
///
/// # Errors
/// When there is no such session or it cannot be read, the file's ending says nothing, or the file cannot be written.
pub fn run(args: &ShowArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    if args.experiment {
        let session = stored::open(globals)?.head(&args.session).map_err(stored::wrong)?;
        views::print_data(&session.experiment_text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.why {
        return why(args, globals);
    }
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

fn why(args: &ShowArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (session, analysis) = stored::analysis(globals, &args.session)?;
    let asked = |r: &&DesignResult| args.design.as_ref().is_none_or(|design| r.design == *design);
    let results: Vec<&DesignResult> = analysis.results.iter().filter(asked).collect();
    if results.is_empty() {
        let names: Vec<&str> = session.experiment.designs.iter().map(|d| d.name.as_str()).collect();
        return Err(match &args.design {
            Some(design) => CliError::Usage(format!(
                "session {} has no result of a design `{design}`; its designs are {}",
                session.meta.id,
                names.join(", ")
            )),
            None => CliError::Failed(format!("session {} has no finished trial to explain", session.meta.id)),
        });
    }
    let value = serde_json::json!({
        "schema": "ebbtide.explain/1",
        "session": session.meta.id,
        "results": results,
    });
    views::answer(globals.json, &value, &ebbtide_report::why(&results))
}

/// What to write: what an option says, or else what the file's ending says.
fn format(args: &ShowArgs, json: bool) -> Result<Format, CliError> {
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

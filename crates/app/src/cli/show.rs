//! `ebb show`: a stored session as it was printed when it ended.

use super::stored;
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views::{self, Format};
use clap::Args;
use ebbtide_analysis::DesignResult;
use ebbtide_report::JsonOptions;
use std::process::ExitCode;

/// Show a stored session, finished or not
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Session id, the beginning of one, or `last`
    #[arg(default_value = "last")]
    session: String,
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
    if args.why {
        return why(args, globals);
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

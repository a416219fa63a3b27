//! `ebb show`: a stored session, on the terminal or as a file.

use super::{best, stored};
use crate::cli::globals::Globals;
use crate::cli::output::{Form, Kind, Output};
use crate::error::CliError;
use crate::experiment_file::no_design;
use crate::stored::session_and_design;
use crate::views;
use clap::Args;
use ebbtide_analysis::DesignResult;
use ebbtide_model::shown::Shown;
use std::process::ExitCode;

/// Show a stored session, or write its report
///
/// With `-o FILE` nothing is printed. Of a sweep, `-o best.toml` writes the best design as an experiment of its own.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Session id, the beginning of one, or `last`; with --why also SESSION:DESIGN
    #[arg(default_value = "last")]
    session: String,
    #[command(flatten)]
    output: Output,
    /// Why each design has its verdict: how busy each resource was, what waited for it, what the short runs gained when it was changed; every
    /// figure, and why each other cause was ruled out
    #[arg(long, conflicts_with_all = ["trials", "all", "output", "experiment"])]
    why: bool,
    /// Text: add every trial's figure, with mean and standard deviation
    #[arg(long)]
    trials: bool,
    /// Text: show every design, where there are many
    #[arg(long)]
    all: bool,
    /// JSON: add percentiles, and every trial's series and observations
    #[arg(long, conflicts_with_all = ["why", "experiment"])]
    full: bool,
    /// The experiment file as it was run
    #[arg(long, conflicts_with = "output")]
    experiment: bool,
}

/// Runs `ebb show`.
///
/// # Errors
/// When there is no such session or it cannot be read, the file's ending says nothing, or the file cannot be written.
pub fn run(args: &ShowArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (which, design) = session_and_design(&args.session);
    if let Some(design) = design.filter(|_| !args.why) {
        return Err(CliError::Usage(format!(
            "a report is of all designs; write `ebb show {which}`, or `ebb show {which}:{design} --why` for what limits that one"
        )));
    }
    if args.experiment {
        globals.printed.among("`ebb show --experiment`", &[Form::Text])?;
        let session = stored::open(globals)?.head(which).map_err(stored::wrong)?;
        views::print_data(&session.experiment_text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.why {
        return why((which, design), globals);
    }
    let experiment = stored::open(globals)?.head(which).map_err(stored::wrong)?.experiment;
    let output = args.output.file(globals, Kind::of_session(&experiment))?;
    if let (Some((path, kind)), Some(form)) = (output, globals.printed.asked())
        && kind != form.into()
    {
        return Err(CliError::Usage(format!(
            "-o {}: its ending and --format say two kinds; leave out --format",
            path.shown()
        )));
    }
    if let Some((path, Kind::Toml)) = output {
        let (session, analysis) = stored::analysis(globals, which)?;
        best::may_replace(path)?;
        let none = || best::NoBest::None.error(path);
        let race = analysis.race.as_ref().ok_or_else(none)?;
        let best = best::best(&session, race).map_err(|none| none.error(path))?;
        views::save(path, &best.text)?;
        if !globals.quiet {
            views::say(&format!("session {}: {}; written to {}", session.meta.id, best.said, path.shown()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let format = output.and_then(|(_, kind)| kind.format(args.full));
    let format = format.unwrap_or_else(|| globals.form().format(args.full));
    let mut report = stored::report(globals, which, format)?;
    (report.each_trial, report.all) = (args.trials, args.all);
    match output {
        None => views::print_report(&report, format)?,
        Some((path, _)) => {
            views::save(path, &views::render(&report, format))?;
            if !globals.quiet {
                views::say(&format!("session {}: report written to {}", report.session.id, path.shown()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn why((which, design): (&str, Option<&str>), globals: &Globals) -> Result<ExitCode, CliError> {
    globals.printed.among("`ebb show --why`", Form::PLAIN)?;
    let (session, analysis) = stored::analysis(globals, which)
        .map_err(|error| if design.is_none() { stored::is_design(globals, which, error) } else { error })?;
    let id = &session.meta.id;
    if let Some(design) = design.filter(|name| session.experiment.designs.iter().all(|d| d.name != *name)) {
        return Err(CliError::Usage(format!("session {id}: {}", no_design(design, &session.experiment))));
    }
    let asked = |r: &&DesignResult| design.is_none_or(|design| r.design == *design);
    let results: Vec<&DesignResult> = analysis.results.iter().filter(asked).collect();
    if results.is_empty() {
        let of = design.map_or(String::new(), |design| format!(" of {design}"));
        return Err(CliError::Failed(format!("session {id} has no finished trial{of} to explain")));
    }
    let value = serde_json::json!({
        "schema": "ebbtide.explain/1",
        "session": session.meta.id,
        "results": results,
    });
    views::answer(globals.json(), &value, &ebbtide_report::why(&results))
}

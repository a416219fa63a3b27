//! `ebb check`: checks experiment files and prints their schema; touches nothing.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::experiment_file::{ProfilesBeside, read};
use crate::kernel_names;
use crate::views;
use clap::Args;
use ebbtide_experiment::{Summary, json_schema};
use ebbtide_model::catalog::Catalog;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::shown::Shown;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check experiment files: what each would do, or its mistakes
///
/// Touches nothing. Exit status: 0 all are right; 2 one is not.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Experiment files (TOML)
    #[arg(required_unless_present = "schema", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print the JSON Schema of experiment files, for editors
    #[arg(long, conflicts_with = "files")]
    schema: bool,
}

/// Runs `ebb check`.
///
/// # Errors
/// A file that cannot be read or is wrong (status 2), or standard output that cannot be written.
pub fn run(args: &CheckArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    if args.schema {
        return views::print_json(&json_schema()).map(|()| ExitCode::SUCCESS);
    }
    check(&args.files, globals)
}

fn check(files: &[PathBuf], globals: &Globals) -> Result<ExitCode, CliError> {
    let mut records = Vec::new();
    let mut good = true;
    let catalog = super::catalog::load(globals)?;
    for (index, file) in files.iter().enumerate() {
        let name = file.to_string_lossy();
        let (record, told) = match load(file, &catalog).map(|experiment| summary(&experiment)) {
            Ok(summary) => {
                let gap = if index > 0 { "\n" } else { "" };
                (json!({ "file": name, "ok": true, "summary": summary }), Ok(format!("{gap}{summary}")))
            }
            Err(wrong) => (json!({ "file": name, "ok": false, "errors": wrong.records }), Err(wrong.text)),
        };
        good &= told.is_ok();
        records.push(record);
        match told {
            _ if globals.json() => {}
            Ok(text) => views::print(&text)?,
            Err(text) => views::say(&text),
        }
    }
    if globals.json() {
        views::print_json(&json!({ "schema": "ebbtide.experiment-check/1", "files": records }))?;
    }
    Ok(ExitCode::from(if good { 0 } else { 2 }))
}

/// What `experiment` would do, and which devices this host may number anew.
fn summary(experiment: &Experiment) -> Summary {
    let mut summary = Summary::new(experiment);
    summary.notes.extend(kernel_names::notes(experiment));
    summary
}

/// Why a file is no experiment, for people and for programs.
struct Wrong {
    text: String,
    records: Value,
}

fn load(file: &Path, catalog: &Catalog) -> Result<Experiment, Wrong> {
    let name = file.to_string_lossy();
    let text = read(file).map_err(|what| Wrong {
        text: format!("ebb: {}: {what}", file.shown()),
        records: json!([{ "file": name, "message": what.to_string() }]),
    })?;
    ebbtide_experiment::parse_with(&text, &name, catalog, &ProfilesBeside(file))
        .map_err(|errors| Wrong { text: errors.to_string(), records: json!(errors.records()) })
}

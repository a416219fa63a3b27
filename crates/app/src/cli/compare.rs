//! `ebb compare`: sessions of the store against one another, imported ones too.

use super::stored;
use crate::cli::globals::Globals;
use crate::cli::output::{Form, Kind, Output};
use crate::error::CliError;
use crate::stored::{CompareError, asked, beside as beside_of};
use crate::values::{THRESHOLD, metric, share};
use crate::views;
use clap::Args;
use ebbtide_analysis::between::Gate;
use ebbtide_model::metric::Metric;
use ebbtide_model::shown::{self, Shown};
use ebbtide_report::{Beside, beside, beside_csv, beside_html, beside_markdown};
use std::process::ExitCode;

/// Compare sessions with the first one, imported ones too
///
/// For each design and workload that both have: both medians, their ratio with its interval, and what it allows to say. Also what
/// differs between the sessions, and the difference that these trials could have shown.
///
/// Exit status: 0 no regression; 1 something is worse than in the first session by more than the threshold; 3 some interval reaches
/// beyond the threshold, so that it is not decided; 2 wrong usage.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Session ids, their beginnings, or `last`; the others are compared with the first. SESSION:DESIGN is one design of a session; two
    /// designs of the same session are paired by round
    #[arg(required = true, num_args = 2.., value_name = "SESSION")]
    sessions: Vec<String>,
    /// Only this workload; names separated by commas are treated as the same workload [default: all, by their names]
    #[arg(long, short, value_name = "NAME[,NAME...]")]
    workload: Vec<String>,
    /// Only these metrics: throughput, iops, lat_p50, lat_p99 [default: what suits each workload, and lat_p99]
    #[arg(long, short, value_name = "METRIC[,METRIC...]", value_delimiter = ',', value_parser = metric)]
    metric: Vec<Metric>,
    /// What is worse by more than this is a regression
    #[arg(long, value_name = "PERCENT", default_value = THRESHOLD, value_parser = share)]
    threshold: f64,
    /// Within this nothing is called faster or slower [default: 2%, or the threshold where that is less]
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    indifference: Option<f64>,
    #[command(flatten)]
    output: Output,
}

/// Runs `ebb compare`.
///
/// # Errors
/// When a session is not there or is named twice, no session has a workload that was asked for, or a file cannot be written.
pub fn run(args: &CompareArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let asked = asked(&args.workload, args.metric.clone(), args.threshold, args.indifference).ok_or_else(|| {
        CliError::Usage(
            "--indifference is more than --threshold: a regression would not even be called slower; write a smaller one".to_owned(),
        )
    })?;
    let output = args.output.file(globals, Kind::REPORT)?;
    if let Some((file, _)) = output {
        views::can_save(file)?;
    }
    let store = stored::open(globals)?;
    let compared = beside_of(&store, &args.sessions, &asked).map_err(|error| match error {
        CompareError::Store(error) => stored::wrong(error),
        CompareError::Beside(_) => CliError::usage(error),
    })?;
    if let Some((file, kind)) = output {
        views::save(file, &rendered(&compared, kind))?;
        if !globals.quiet {
            views::say(&format!("comparison written to {}", file.shown()));
        }
    }
    match globals.form() {
        Form::Text => {
            let (columns, color) = views::stdout_width();
            views::print_styled(&beside(&compared, columns, color))?;
        }
        other => views::print_data(&rendered(&compared, other.into()))?,
    }
    Ok(match compared.gate() {
        Gate::Pass => ExitCode::SUCCESS,
        Gate::Regression => ExitCode::from(1),
        Gate::Undecided => ExitCode::from(3),
    })
}

/// `compared` as a file of `kind`.
fn rendered(compared: &Beside, kind: Kind) -> String {
    match kind {
        Kind::Html => beside_html(compared),
        Kind::Json => shown::json(&compared.json()),
        Kind::Csv => beside_csv(compared),
        Kind::Markdown => beside_markdown(compared),
        Kind::Text | Kind::Toml => beside(compared, views::COLUMNS_ELSEWHERE, false).into_string(),
    }
}

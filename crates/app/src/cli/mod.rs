//! The command line: each subcommand has its own file with its arguments and a `run` function.

mod bench;
mod catalog;
mod cleanup;
mod compare;
mod experiment;
mod explain;
mod geometry;
mod globals;
mod import;
mod lab;
mod layouts;
mod list;
mod locate;
mod report;
mod run;
mod show;
mod verify;
mod volumes;
mod watch;

use crate::error::CliError;
use crate::views;
use clap::{Parser, Subcommand};
use globals::Globals;
use std::process::ExitCode;
use tracing::level_filters::LevelFilter;

/// What the help says once for all subcommands.
const UNITS: &str = "\
Sizes: 4k, 4K and 4KiB are 4096 bytes, 1m and 1MiB are 2^20, 10g and 10GiB are 10 x 2^30; 4kB is 4000 bytes, \
10GB is 10^10. Printed: MB/s is 10^6 bytes per second, MiB is 2^20 bytes. Times: 500us, 0.5ms, 10s, 2m.
Exit status: 0 done, 1 failed, 2 wrong usage, 3 it ran but the answer is inconclusive, 130 interrupted.
EBB_LOG=debug tells on standard error what is tried and why it does not work [default: warn].
First steps: `ebb run experiments/first-run.toml -o report.html`, then `ebb list` and `ebb show`.";

/// Build candidate arrays from block volumes, measure them fairly, explain the winner.
#[derive(Debug, Parser)]
#[command(name = "ebb", version, propagate_version = true, max_term_width = 100, after_help = UNITS)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Bench(Box<bench::BenchArgs>),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Compare(compare::CompareArgs),
    Catalog(catalog::CatalogArgs),
    Cleanup(cleanup::CleanupArgs),
    /// Check experiment files, print their schema
    Experiment(experiment::ExperimentArgs),
    Explain(explain::ExplainArgs),
    Import(import::ImportArgs),
    Lab(lab::LabArgs),
    Layouts(layouts::LayoutsArgs),
    Report(report::ReportArgs),
    Verify(verify::VerifyArgs),
    Where(locate::WhereArgs),
    Volumes(volumes::VolumesArgs),
    Watch(watch::WatchArgs),
}

/// Parses the command line, runs the subcommand, and turns its end into an exit status:
/// 0 done, 1 failed, 2 wrong usage, 3 ran but inconclusive, 130 interrupted.
pub fn main() -> ExitCode {
    views::tell_panics();
    ebbtide_host::tell_bus_errors();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(u8::try_from(views::command_line(&error)).unwrap_or(2)),
    };
    let globals = cli.globals;
    let result = log(&globals).and_then(|()| run(&cli.command, &globals));
    result.unwrap_or_else(|error| {
        views::say(&format!("ebb: {error}"));
        ExitCode::from(error.status())
    })
}

/// Sends what the program says of itself to standard error, from the level that `EBB_LOG` names.
fn log(globals: &Globals) -> Result<(), CliError> {
    const VARIABLE: &str = "EBB_LOG";
    let level = match std::env::var(VARIABLE) {
        Ok(text) => text.parse().map_err(|_| {
            CliError::Usage(format!("{VARIABLE}={text}: write off, error, warn, info, debug or trace"))
        })?,
        Err(_) if globals.quiet => LevelFilter::ERROR,
        Err(_) => LevelFilter::WARN,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| views::Lines)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .init();
    Ok(())
}

fn run(command: &Command, globals: &Globals) -> Result<ExitCode, CliError> {
    match command {
        Command::Run(args) => run::run(args, globals),
        Command::Bench(args) => bench::run(args, globals),
        Command::List(args) => list::run(args, globals),
        Command::Show(args) => show::run(args, globals),
        Command::Compare(args) => compare::run(args, globals),
        Command::Catalog(args) => catalog::run(args, globals),
        Command::Cleanup(args) => cleanup::run(args, globals),
        Command::Experiment(args) => experiment::run(args, globals),
        Command::Explain(args) => explain::run(args, globals),
        Command::Import(args) => import::run(args, globals),
        Command::Lab(args) => lab::run(args, globals),
        Command::Layouts(args) => layouts::run(args, globals),
        Command::Report(args) => report::run(args, globals),
        Command::Verify(args) => verify::run(args, globals),
        Command::Where(args) => locate::run(args, globals),
        Command::Volumes(args) => volumes::run(args, globals),
        Command::Watch(args) => watch::run(args, globals),
    }
}

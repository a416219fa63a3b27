//! The command line: each subcommand has its own file with its arguments and a `run` function.

mod apply;
mod attach;
mod attribute;
mod bench;
mod best;
mod catalog;
mod changes;
mod cleanup;
mod compare;
mod completions;
mod dialect;
mod experiment;
mod explain;
mod export;
mod fio;
mod geometry;
pub(crate) mod globals;
mod hosts;
mod identity;
mod import;
mod jobs;
mod lab;
mod layouts;
mod limit;
mod line;
mod list;
mod locate;
mod man;
mod monitor;
mod plan;
mod profile;
mod report;
mod run;
mod selftest;
mod serve;
mod show;
mod status;
mod stored;
mod undo;
mod user_data;
mod verify;
mod volumes;
mod watch;
mod worker;
mod workload;

use crate::error::CliError;
use crate::signals;
use crate::views;
use clap::{CommandFactory, Parser, Subcommand};
use ebbtide_model::shown::{LINE_MOST, excerpt, one_line};
use ebbtide_runner::worker::Whereabouts;
pub use globals::Globals;
use std::ffi::OsString;
use std::process::ExitCode;
use tracing::level_filters::LevelFilter;

/// What the help says once for all subcommands.
const UNITS: &str = "\
Sizes: 4k, 4K and 4KiB are 4096 bytes, 1m and 1MiB are 2^20, 10g and 10GiB are 10 x 2^30; 4kB is 4000 bytes, \
10GB is 10^10. Printed: MB/s is 10^6 bytes per second, MiB is 2^20 bytes. Times: 500us, 0.5ms, 10s, 2m.
Exit status: 0 done, 1 failed, 2 wrong usage, 3 it ran but the answer is inconclusive, 130 interrupted.
EBB_LOG=debug logs to standard error what is tried and why it fails [default: warn].
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
    Apply(apply::ApplyArgs),
    Attach(Box<attach::AttachArgs>),
    /// Keeps the SSH connection of an attachment
    #[command(name = attach::SUPERVISOR, hide = true)]
    AttachSupervisor(attach::SupervisorArgs),
    Attribute(attribute::AttributeArgs),
    Status(status::StatusArgs),
    Undo(undo::UndoArgs),
    Bench(Box<bench::BenchArgs>),
    Profile(profile::ProfileArgs),
    Fio(fio::FioArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Compare(compare::CompareArgs),
    Catalog(catalog::CatalogArgs),
    Changes(changes::ChangesArgs),
    Cleanup(cleanup::CleanupArgs),
    Completions(completions::CompletionsArgs),
    /// Check experiment files, or print their JSON Schema
    Experiment(experiment::ExperimentArgs),
    Explain(explain::ExplainArgs),
    /// Says which build this is, to another `ebb`
    #[command(hide = true)]
    Identity,
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Lab(lab::LabArgs),
    Layouts(layouts::LayoutsArgs),
    Limit(limit::LimitArgs),
    Man(man::ManArgs),
    Monitor(monitor::MonitorArgs),
    Plan(plan::PlanArgs),
    Report(report::ReportArgs),
    /// Measure the tool itself: the clock, and the engine's ceiling on this host
    SelfTest,
    Serve(serve::ServeArgs),
    UserData(user_data::UserDataArgs),
    Verify(verify::VerifyArgs),
    Where(locate::WhereArgs),
    Volumes(volumes::VolumesArgs),
    Watch(watch::WatchArgs),
    /// The half of `ebb run --hosts` that is on each host
    #[command(name = ebbtide_runner::hosts::WORKER, hide = true)]
    Worker,
}

/// Parses the command line, runs the subcommand, and turns its end into an exit status:
/// 0 done, 1 failed, 2 wrong usage, 3 ran but inconclusive, 130 interrupted.
pub fn main() -> ExitCode {
    views::tell_panics();
    ebbtide_host::tell_bus_errors();
    signals::file_size_limit_is_an_error();
    let line: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&line) {
        Ok(cli) => cli,
        Err(error) => {
            // It quotes arguments, which may have any length and line breaks: those of this line have neither.
            let quotable: Vec<OsString> =
                line.iter().map(|word| quotable(&word.to_string_lossy()).into()).collect();
            let error = Cli::try_parse_from(&quotable).err().unwrap_or(error);
            let error = line::with_tip(error, &quotable);
            return ExitCode::from(u8::try_from(views::command_line(&error)).unwrap_or(2));
        }
    };
    let globals = cli.globals;
    let result = log(&globals).and_then(|()| run(&cli.command, &globals));
    result.unwrap_or_else(|error| {
        views::say(&format!("ebb: {error}"));
        ExitCode::from(error.status())
    })
}

/// `word` on one line of bounded length.
fn quotable(word: &str) -> String {
    if word.len() > LINE_MOST { excerpt(word) } else { one_line(word).into_owned() }
}

/// Whether `line`, which begins with the program's name, is a command line of `ebb`: nothing is run.
///
/// # Errors
/// What is wrong with it.
pub fn check(line: &[OsString]) -> Result<(), clap::Error> {
    Cli::try_parse_from(line).map(drop)
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
        Command::Apply(args) => apply::run(args, globals),
        Command::Attach(args) => attach::run(args, globals),
        Command::AttachSupervisor(args) => attach::supervise(args),
        Command::Attribute(args) => attribute::run(args, globals),
        Command::Status(args) => status::run(args, globals),
        Command::Undo(args) => undo::run(args, globals),
        Command::Bench(args) => bench::run(args, globals),
        Command::Profile(args) => profile::run(args, globals),
        Command::Fio(args) => fio::run(args, globals),
        Command::List(args) => list::run(args, globals),
        Command::Show(args) => show::run(args, globals),
        Command::Compare(args) => compare::run(args, globals),
        Command::Catalog(args) => catalog::run(args, globals),
        Command::Changes(args) => changes::run(args, globals),
        Command::Cleanup(args) => cleanup::run(args, globals),
        Command::Completions(args) => completions::run(args, Cli::command()),
        Command::Experiment(args) => experiment::run(args, globals),
        Command::Explain(args) => explain::run(args, globals),
        Command::Identity => identity::run(),
        Command::Export(args) => export::run(args, globals),
        Command::Import(args) => import::run(args, globals),
        Command::Lab(args) => lab::run(args, globals),
        Command::Layouts(args) => layouts::run(args, globals),
        Command::Limit(args) => limit::run(args, globals),
        Command::Man(args) => man::run(args, globals.quiet, Cli::command()),
        Command::Monitor(args) => monitor::run(args, globals),
        Command::Plan(args) => plan::run(args, globals),
        Command::Report(args) => report::run(args, globals),
        Command::SelfTest => selftest::run(globals),
        Command::Serve(args) => serve::run(args, globals),
        Command::UserData(args) => user_data::run(args, globals),
        Command::Verify(args) => verify::run(args, globals),
        Command::Where(args) => locate::run(args, globals),
        Command::Volumes(args) => volumes::run(args, globals),
        Command::Watch(args) => watch::run(args, globals),
        Command::Worker => worker::run(Whereabouts::Host),
    }
}

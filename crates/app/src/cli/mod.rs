//! The command line: each subcommand has its own file with its arguments and a `run` function.

mod apply;
mod attach;
mod bench;
mod best;
mod blame;
mod catalog;
mod check;
mod cleanup;
mod compare;
mod completions;
mod export;
mod geometry;
pub(crate) mod globals;
mod help;
mod hosts;
mod identity;
mod import;
mod lab;
mod layout;
mod limit;
mod list;
mod locate;
mod man;
mod monitor;
mod output;
mod plan;
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

use crate::error::CliError;
use crate::signals;
use crate::views;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use ebbtide_model::shown::{LINE_MOST, excerpt, one_line};
use ebbtide_runner::worker::Whereabouts;
pub use globals::Globals;
use output::Form;
use std::ffi::OsString;
use std::process::ExitCode;
use strum::AsRefStr;
use tracing::level_filters::LevelFilter;

/// Build candidate arrays from block volumes, measure them fairly, explain the winner.
#[derive(Debug, Parser)]
#[command(
    name = "ebb",
    version,
    propagate_version = true,
    max_term_width = 100,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand, AsRefStr)]
#[strum(serialize_all = "kebab-case")]
enum Command {
    Run(run::RunArgs),
    Apply(apply::ApplyArgs),
    Attach(Box<attach::AttachArgs>),
    /// Keeps the SSH connection of an attachment
    #[command(name = attach::SUPERVISOR, hide = true)]
    AttachSupervisor(attach::SupervisorArgs),
    Blame(blame::BlameArgs),
    Status(status::StatusArgs),
    Undo(undo::UndoArgs),
    Bench(Box<bench::BenchArgs>),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Compare(compare::CompareArgs),
    Catalog(catalog::CatalogArgs),
    Cleanup(cleanup::CleanupArgs),
    Completions(completions::CompletionsArgs),
    Check(check::CheckArgs),
    #[command(hide = true)]
    Help(help::HelpArgs),
    /// Says which build this is, to another `ebb`
    #[command(hide = true)]
    Identity,
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Lab(lab::LabArgs),
    Layout(layout::LayoutArgs),
    Limit(limit::LimitArgs),
    Man(man::ManArgs),
    Monitor(monitor::MonitorArgs),
    Plan(plan::PlanArgs),
    /// Measure the clock, and the engine's ceiling on this host
    SelfTest,
    Serve(serve::ServeArgs),
    UserData(user_data::UserDataArgs),
    Verify(verify::VerifyArgs),
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
    let cli = match parsed(&line) {
        Ok(cli) => cli,
        Err(error) => {
            // It quotes arguments, which may have any length and line breaks: those of this line have neither.
            let quotable: Vec<OsString> =
                line.iter().map(|word| quotable(&word.to_string_lossy()).into()).collect();
            let error = parsed(&quotable).err().unwrap_or(error);
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

/// What `line` asks for. What help shows is put together only where it is shown, or the line is wrong.
fn parsed(line: &[OsString]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line).or_else(|_| {
        let is_long = line.iter().any(|word| word == "--help");
        let matches = help::told(Cli::command(), is_long).try_get_matches_from(line)?;
        Cli::from_arg_matches(&matches)
    })
}

/// The help that `line` asks for, which ends with `--help`, or why there is none.
fn asked(line: Vec<String>) -> clap::Error {
    let line: Vec<OsString> = line.into_iter().map(OsString::from).collect();
    parsed(&line).err().unwrap_or_else(|| clap::Error::new(clap::error::ErrorKind::DisplayHelp))
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
    parsed(line).map(drop)
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

impl Command {
    /// The forms in which it prints. What only some of its uses have is refused there.
    fn forms(&self) -> &'static [Form] {
        match self {
            Command::Run(_) | Command::Bench(_) | Command::Show(_) | Command::Compare(_) => Form::ALL,
            Command::Watch(_) => &[Form::Text, Form::Json, Form::Csv],
            Command::Completions(_) | Command::Help(_) => &[Form::Text],
            _ => Form::PLAIN,
        }
    }
}

fn run(command: &Command, globals: &Globals) -> Result<ExitCode, CliError> {
    globals.printed.among(&format!("`ebb {}`", command.as_ref()), command.forms())?;
    match command {
        Command::Run(args) => run::run(args, globals),
        Command::Apply(args) => apply::run(args, globals),
        Command::Attach(args) => attach::run(args, globals),
        Command::AttachSupervisor(args) => attach::supervise(args),
        Command::Blame(args) => blame::run(args, globals),
        Command::Status(args) => status::run(args, globals),
        Command::Undo(args) => undo::run(args, globals),
        Command::Bench(args) => bench::run(args, globals),
        Command::List(args) => list::run(args, globals),
        Command::Show(args) => show::run(args, globals),
        Command::Compare(args) => compare::run(args, globals),
        Command::Catalog(args) => catalog::run(args, globals),
        Command::Cleanup(args) => cleanup::run(args, globals),
        Command::Completions(args) => completions::run(args, Cli::command()),
        Command::Check(args) => check::run(args, globals),
        Command::Help(args) => help::run(args, &Cli::command(), asked),
        Command::Identity => identity::run(),
        Command::Export(args) => export::run(args, globals),
        Command::Import(args) => import::run(args, globals),
        Command::Lab(args) => lab::run(args, globals),
        Command::Layout(args) => layout::run(args, globals),
        Command::Limit(args) => limit::run(args, globals),
        Command::Man(args) => man::run(args, globals.quiet, Cli::command()),
        Command::Monitor(args) => monitor::run(args, globals),
        Command::Plan(args) => plan::run(args, globals),
        Command::SelfTest => selftest::run(globals),
        Command::Serve(args) => serve::run(args, globals),
        Command::UserData(args) => user_data::run(args, globals),
        Command::Verify(args) => verify::run(args, globals),
        Command::Volumes(args) => volumes::run(args, globals),
        Command::Watch(args) => watch::run(args, globals),
        Command::Worker => worker::run(Whereabouts::Host),
    }
}

//! `ebb monitor`: short reads of volumes, again and again, for `ebb changes`.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::monitor::busy::{self, Reading};
use crate::monitor::canary::{self, CanaryError};
use crate::monitor::subject::{Subject, subjects};
use crate::signals;
use crate::views::{self, monitor as view};
use clap::{Args, Subcommand};
use ebbtide_host::hostinfo;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::Control;
use ebbtide_model::monitor::{Measure, Pass};
use ebbtide_model::shown::Shown;
use ebbtide_runner::store::{Monitored, Store};
use ebbtide_runner::{clock, places};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use view::{Outcome, Seen};

/// Measure volumes for a moment, again and again, and keep what was seen for years
#[derive(Debug, Args)]
pub struct MonitorArgs {
    #[command(subcommand)]
    command: MonitorCommand,
}

#[derive(Debug, Subcommand)]
enum MonitorCommand {
    Run(RunArgs),
    Status(StatusArgs),
}

/// One pass: read each volume for at most two seconds, and store what it gave and what the host did with it since the last pass
///
/// Reads only, 64 times 4 KiB at random places and 64 MiB in a row, with O_DIRECT: with a pass every 15 minutes at most 0.2% of a volume's
/// time. A volume that is busy is not read, nor is any while the host is busy or a pause file exists (`ebb monitor status` shows where).
/// `ebb changes` needs passes over a week at least.
///
/// Exit status: 0 done, also where volumes were left alone; 1 a volume cannot be read; 2 wrong usage.
#[derive(Debug, Args)]
struct RunArgs {
    /// Devices, stable ids or files [default: every disk but that of the root file system]
    #[arg(value_name = "VOLUME")]
    volumes: Vec<String>,
    /// Read also what is busy, and while the host is
    #[arg(long)]
    busy_too: bool,
}

/// Show which volumes were monitored, when last, and whether passes are paused
#[derive(Debug, Args)]
struct StatusArgs {}

/// Runs `ebb monitor`.
///
/// # Errors
/// When a volume or the store cannot be read, or what was seen cannot be stored.
pub fn run(args: &MonitorArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match &args.command {
        MonitorCommand::Run(args) => pass(args, globals),
        MonitorCommand::Status(StatusArgs {}) => status(globals),
    }
}

fn pass(args: &RunArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let sys = Sys::host();
    let host = hostinfo::host_info(&sys).hostname;
    let subjects = subjects(&args.volumes, &sys, &host)?;
    let paused = paused();
    let control = signals::stoppable(globals.quiet)?;
    let mut store = Store::open(globals.store.as_deref()).map_err(CliError::failed)?;
    let known = store.monitored().map_err(CliError::failed)?;
    let host_busy = if args.busy_too { None } else { busy::host(&sys) };
    let before = Reading::now(&sys);
    if paused.is_none() {
        std::thread::sleep(busy::LOOK);
    }
    let mut seen: Vec<Seen> = Vec::new();
    let mut passes: Vec<Pass> = Vec::new();
    for subject in subjects {
        let now = Reading::now(&sys);
        let alone = paused
            .as_ref()
            .map(|file| format!("paused: {} exists", file.shown()))
            .or_else(|| host_busy.clone())
            .or_else(|| is_busy(&subject, &now, &before).filter(|_| !args.busy_too));
        let (pass, outcome) = one(&subject, &known, (&sys, &now), alone, &control)?;
        seen.push(Seen { volume: pass.volume.clone(), values: pass.values.clone(), outcome });
        passes.push(pass);
    }
    store.add_passes(&passes).map_err(CliError::failed)?;
    views::answer(globals.json, &view::pass_json(&seen), &view::pass_text(&seen))?;
    let failed = seen.iter().any(|seen| matches!(seen.outcome, Outcome::Failed(_)));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A pass over `subject`, of which nothing is read where there is a reason to leave it `alone`.
fn one(
    subject: &Subject,
    known: &[Monitored],
    (sys, now): (&Sys, &Reading),
    alone: Option<String>,
    control: &Arc<Control>,
) -> Result<(Pass, Outcome), CliError> {
    let device = subject.device.as_deref();
    let counted = device.and_then(|device| now.counted(device));
    let last = known.iter().find(|known| known.volume.id == subject.watched.id).and_then(Monitored::counted);
    let mut values: Vec<(Measure, f64)> =
        counted.zip(last).map(|(now, before)| now.since(&before)).unwrap_or_default();
    let outcome = match alone {
        Some(why) => Outcome::LeftAlone(why),
        None => match canary::measure(&subject.path, control) {
            Ok(measured) => {
                values.extend(measured);
                Outcome::Measured
            }
            Err(CanaryError::Interrupted) => {
                return Err(CliError::Interrupted("nothing of this pass is stored".to_owned()));
            }
            Err(error) => Outcome::Failed(error.to_string()),
        },
    };
    // What the canary read is not what the host does.
    let counted = device.and_then(|device| Reading::now(sys).counted(device));
    let volume = subject.watched.clone();
    Ok((Pass { volume, at: clock::now(), values, counted }, outcome))
}

/// That the volume is busy, in words.
fn is_busy(subject: &Subject, now: &Reading, before: &Reading) -> Option<String> {
    let busy = now.utilisation(subject.device.as_deref()?, before).filter(|busy| *busy > busy::BUSY)?;
    Some(format!("busy for {:.0}% of the last {} ms", busy.min(1.0) * 100.0, busy::LOOK.as_millis()))
}

/// The pause file, where it exists.
fn paused() -> Option<PathBuf> {
    places::pause_file().filter(|file| file.exists())
}

fn status(globals: &Globals) -> Result<ExitCode, CliError> {
    let store = Store::open_existing(globals.store.as_deref()).map_err(CliError::failed)?;
    let volumes = store.map_or(Ok(Vec::new()), |store| store.monitored()).map_err(CliError::failed)?;
    let (paused, pause_file) = (paused().is_some(), places::pause_file());
    let value = view::status_json(&volumes, pause_file.as_deref(), paused);
    views::answer(globals.json, &value, &view::status_text(&volumes, pause_file.as_deref(), paused))
}

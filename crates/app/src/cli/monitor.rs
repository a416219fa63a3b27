//! `ebb monitor`: short reads of volumes, again and again, for `ebb monitor changes`.

mod changes;
mod install;

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::keeping;
use crate::monitor::busy::{self, Reading};
use crate::monitor::canary::{self, CanaryError};
use crate::monitor::kept;
use crate::monitor::subject::{Subject, there};
use crate::signals;
use crate::views::{self, monitor as view};
use clap::{Args, Subcommand};
use ebbtide_host::observe::EbsLimits;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::Control;
use ebbtide_model::monitor::{Measure, Pass, Watched};
use ebbtide_model::shown::Shown;
use ebbtide_runner::monitor::changes::{Happened, changes, happened};
use ebbtide_runner::monitor::metrics::figures;
use ebbtide_runner::store::{Monitored, Store, StoreError};
use ebbtide_runner::{clock, places};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use view::{Outcome, VolumePass};

/// Measure volumes for a moment, again and again, for years
#[derive(Debug, Args)]
pub struct MonitorArgs {
    #[command(subcommand)]
    command: MonitorCommand,
}

#[derive(Debug, Subcommand)]
enum MonitorCommand {
    Run(RunArgs),
    Install(install::InstallArgs),
    Status(StatusArgs),
    Changes(changes::ChangesArgs),
}

/// One pass: read each volume for at most two seconds, and store what it gave and what the host did with it since the last pass
///
/// Reads only, 64 times 4 KiB at random places and 64 MiB in a row, with O_DIRECT: with a pass every 15 minutes at most 0.2% of a volume's
/// time. A volume that is busy is not read, nor is any while the host is busy or a pause file exists (`ebb monitor status` shows where).
/// `ebb monitor changes` needs passes over a week at least.
///
/// Exit status: 0 done, also where volumes were left alone; 1 a volume cannot be read; 2 wrong usage.
#[derive(Debug, Args)]
struct RunArgs {
    /// Devices, stable ids or files [default: every disk but that of the root file system]
    #[arg(value_name = "VOLUME")]
    volumes: Vec<String>,
    /// Read volumes that are busy too, and read while the host is busy
    #[arg(long)]
    busy_too: bool,
    /// Read nothing while this file exists [default: as `ebb monitor status` says]
    #[arg(long, value_name = "FILE")]
    pause_file: Option<PathBuf>,
    /// Then write what the store says of all its volumes there, for the textfile collector of Prometheus' node exporter: newest values, times of
    /// passes, the newest lasting changes. The file, whose name ends with .prom, is replaced as a whole, unless something else is in it
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
}

/// Show which volumes were monitored, when last, whether passes are paused, and the state of the service that `ebb monitor install` installed
#[derive(Debug, Args)]
struct StatusArgs {}

/// Runs `ebb monitor`.
///
/// # Errors
/// When a volume or the store cannot be read, or what was seen cannot be stored.
pub fn run(args: &MonitorArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match &args.command {
        MonitorCommand::Run(args) => pass(args, globals),
        MonitorCommand::Install(args) => install::run(args, globals),
        MonitorCommand::Status(StatusArgs {}) => status(globals),
        MonitorCommand::Changes(args) => changes::run(args, globals),
    }
}

fn pass(args: &RunArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    if let Some(file) = &args.metrics {
        kept::can_hold_figures(file)?;
    }
    let sys = Sys::host();
    let (subjects, absent) = there(&args.volumes, &sys)?;
    let paused = paused(args.pause_file.clone().or_else(places::pause_file));
    let control = signals::stoppable(globals.quiet)?;
    let mut store = Store::open(globals.store.as_deref()).map_err(CliError::failed)?;
    let known = store.monitored().map_err(CliError::failed)?;
    let host_busy = if args.busy_too { None } else { busy::host(&sys) };
    let before = Reading::now(&sys);
    if paused.is_none() {
        std::thread::sleep(busy::LOOK);
    }
    let mut seen: Vec<VolumePass> = Vec::new();
    let mut passes: Vec<Pass> = Vec::new();
    for subject in subjects {
        let now = Reading::now(&sys);
        let alone = paused
            .as_ref()
            .map(|file| format!("paused: {} exists", file.shown()))
            .or_else(|| host_busy.clone())
            .or_else(|| is_busy(&subject, &now, &before).filter(|_| !args.busy_too));
        let (pass, outcome) = one(&subject, &known, (&sys, &now), alone, &control)?;
        seen.push(VolumePass {
            volume: pass.volume.clone(),
            values: pass.values.clone(),
            outcome,
            note: subject.note,
        });
        passes.push(pass);
    }
    seen.extend(absent.into_iter().map(|absent| VolumePass {
        volume: Watched { id: absent.name.clone(), name: absent.name, host: String::new() },
        values: Vec::new(),
        outcome: Outcome::Failed(absent.why),
        note: None,
    }));
    store.add_passes(&passes).map_err(CliError::failed)?;
    if let Some(file) = &args.metrics {
        let found = changes(&store).and_then(|changes| figures(&store, &changes, paused.is_some()));
        let text = found.map_err(CliError::failed)?.text();
        kept::write_figures(file, &text)?;
    }
    views::answer(globals.json(), &view::pass_json(&seen), &view::pass_text(&seen))?;
    let mut failed = false;
    for seen in &seen {
        let Outcome::Failed(why) = &seen.outcome else { continue };
        failed = true;
        // A service has its table read by nobody.
        if globals.quiet {
            views::say(&format!("ebb: {}: {why}", seen.volume.name));
        }
    }
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
    let limits = EbsLimits::host(ebbtide_engine::nvme::log_page);
    let counted = device.and_then(|device| now.counted(device, &limits));
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
    let counted = device.and_then(|device| Reading::now(sys).counted(device, &limits));
    let volume = subject.watched.clone();
    let found = Some(subject.found.clone());
    Ok((Pass { volume, at: clock::now(), values, counted, found }, outcome))
}

/// That the volume is busy, in words.
fn is_busy(subject: &Subject, now: &Reading, before: &Reading) -> Option<String> {
    let busy = now.utilisation(subject.device.as_deref()?, before).filter(|busy| *busy > busy::BUSY)?;
    Some(format!("busy for {:.0}% of the last {} ms", busy.min(1.0) * 100.0, busy::LOOK.as_millis()))
}

/// `file`, where it exists.
fn paused(file: Option<PathBuf>) -> Option<PathBuf> {
    file.filter(|file| file.exists())
}

fn status(globals: &Globals) -> Result<ExitCode, CliError> {
    let installed = keeping::with(globals, &AtomicBool::new(false), |keeper| Ok(keeper.monitor()))
        .map_err(CliError::failed)?;
    let place = kept::store(globals);
    let store = Store::open_existing(place.as_deref()).map_err(CliError::failed)?;
    let kept_at = store.as_ref().map(|store| store.path().to_owned());
    let (volumes, happened) =
        store.map_or(Ok(Default::default()), |store| known(&store)).map_err(CliError::failed)?;
    let pause_file = kept::pause_file(place.as_deref());
    let paused = paused(pause_file.clone()).is_some();
    let shown = view::Status { volumes, happened, store: kept_at, pause_file, paused, installed };
    views::answer(globals.json(), &shown.json(), &shown.text())
}

/// The volumes of `store`, each with what was measured of it last, and what happened to them.
fn known(store: &Store) -> Result<(Vec<view::Volume>, Vec<Happened>), StoreError> {
    let volumes = store.monitored()?;
    let happened = happened(store, &volumes)?;
    let with_newest = |known: Monitored| Ok(view::Volume { newest: store.newest(&known)?, known });
    Ok((volumes.into_iter().map(with_newest).collect::<Result<_, StoreError>>()?, happened))
}

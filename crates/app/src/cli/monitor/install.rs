//! `ebb monitor install`: a service and a timer of systemd's that measure.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::monitor::kept;
use crate::monitor::subject::{Subject, subjects};
use crate::{keeping, signals, views};
use clap::Args;
use ebbtide_host::made::ThisHost;
use ebbtide_host::monitor::{AFTER_INSTALL, Monitors, found};
use ebbtide_host::probe;
use ebbtide_host::sys::{self, Sys};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Nanos;
use ebbtide_provision::files::Part;
use ebbtide_provision::monitor::{self, Every, Monitor, MonitorError, Readers, STORE, TIMER, User};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Have systemd call `ebb monitor run` every so often: writes a service and a timer, and starts the timer
///
/// The service runs as a user of its own that may read the volumes and nothing else, keeps what it sees in
/// /var/lib/ebbtide-monitor/store.sqlite, and runs the very program that installs it: `ebb` has to be where only root writes. `ebb monitor changes`
/// and `ebb monitor status` read that store where no other is named.
///
/// Exit status: 0 it is installed; 1 failed; 2 wrong usage.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// Devices or stable ids [default: at each pass, every disk but that of the root file system]
    #[arg(value_name = "VOLUME")]
    volumes: Vec<String>,
    /// Time between two passes: 5, 6, 10, 12, 15, 20 or 30 min, 1, 2, 3, 4, 6, 8 or 12 h, 24 h
    #[arg(long, value_name = "TIME", default_value = "15min", value_parser = every)]
    every: Every,
    /// Who measures: a user of this host, who with the group of the volumes may read them [default: one that exists while it runs]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Have each pass write figures for Prometheus there, as `ebb monitor run --metrics` does; needs --user
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Print the units, and touch nothing
    #[arg(long)]
    dry_run: bool,
}

fn every(text: &str) -> Result<Every, String> {
    let time: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    Every::of(time).map_err(|error| error.to_string())
}

/// Runs `ebb monitor install`.
///
/// # Errors
/// When what it would run or measure is nothing to count on, or systemd does not take it.
pub fn run(args: &InstallArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    if globals.store.is_some() {
        return Err(CliError::Usage(format!("the service keeps what it sees in {STORE}: leave out --store")));
    }
    let sys = Sys::host();
    let parts = parts(args, &sys)?;
    if args.dry_run {
        let text: String = parts
            .iter()
            .map(|part| format!("{}:\n{}\n", part.path.shown(), part.lines))
            .chain(AFTER_INSTALL.map(|words| format!("then {}\n", words.join(" "))))
            .collect();
        return views::answer(globals.json(), &value("ebbtide.monitor-plan/1", &parts), &text);
    }
    keeping::needs_root("ebb monitor install")?;
    let control = signals::stoppable(globals.quiet)?;
    let changed = keeping::on_host(globals, &ThisHost, &control.stop, true, |context| {
        Monitors::new(context).install(&parts)
    })?;
    let written: String = parts.iter().map(|part| format!("  {}\n", part.path.shown())).collect();
    let what = if !changed { "installed already" } else { "installed" };
    let text = format!(
        "{what}: a pass every {}, kept in {STORE}\n{written}`ebb monitor status` says how it goes, `ebb undo monitor` takes it away\n",
        args.every
    );
    views::answer(globals.json(), &value("ebbtide.monitor-installed/1", &parts), &text)
}

fn value(schema: &str, parts: &[Part]) -> serde_json::Value {
    let files: Vec<_> =
        parts.iter().map(|part| json!({ "path": part.path.to_string_lossy(), "text": part.lines })).collect();
    json!({ "schema": schema, "timer": TIMER, "store": STORE, "files": files })
}

/// The units that the arguments ask for.
fn parts(args: &InstallArgs, sys: &Sys) -> Result<Vec<Part>, CliError> {
    let program = std::env::current_exe().and_then(std::fs::canonicalize).map_err(|error| {
        CliError::Failed(format!(
            "it cannot be told where this program is, which the service would run: {error}"
        ))
    })?;
    monitor::check_program(&program, found).map_err(CliError::failed)?;
    let subjects = subjects(&args.volumes, sys)?;
    let groups = groups(&subjects, sys, args.user.is_some())?;
    let user = User::of(args.user.as_deref(), groups).map_err(CliError::usage)?;
    let volumes = if args.volumes.is_empty() { Vec::new() } else { stable(&subjects, sys)? };
    let metrics = args.metrics.as_deref().map(|file| place(file, args.user.is_some())).transpose()?;
    let metrics = metrics.as_deref();
    Ok(Monitor { program: &program, every: args.every, user, volumes, metrics }.parts())
}

/// The absolute path of `file`, which somebody who is `named` is to write in a directory that is there.
fn place(file: &Path, named: bool) -> Result<String, CliError> {
    if !named {
        return Err(CliError::usage(MonitorError::Metrics(file.shown())));
    }
    let wrong = |what: &str| CliError::Usage(format!("--metrics {}: {what}", file.shown()));
    let path = std::path::absolute(file).map_err(|error| wrong(&error.to_string()))?;
    if path.file_name().is_none() || !path.parent().is_some_and(Path::is_dir) {
        return Err(wrong("its directory does not exist: make it, or name another file"));
    }
    kept::can_hold_figures(&path)?;
    path.into_os_string().into_string().map_err(|_| wrong("a unit cannot name it: it is no UTF-8"))
}

/// The groups that may read the devices of `subjects`; who is `named` may read what no group may.
fn groups(subjects: &[Subject], sys: &Sys, named: bool) -> Result<Vec<String>, CliError> {
    let names = sys::text(&sys.root().join("etc/group")).unwrap_or_default();
    let mut groups = Vec::new();
    for subject in subjects {
        let path = subject.path.shown();
        if subject.device.is_none() {
            return Err(CliError::usage(MonitorError::NoDevice(path)));
        }
        let node = std::fs::metadata(Path::new(&subject.path))
            .map_err(|error| CliError::Failed(format!("{path}: {error}")))?;
        match Readers::of(node.mode(), node.gid(), &names) {
            Readers::Group(group) if !groups.contains(&group) => groups.push(group),
            Readers::None if !named => return Err(CliError::failed(MonitorError::Closed(path))),
            _ => {}
        }
    }
    Ok(groups)
}

/// By what each of `subjects` is found again.
fn stable(subjects: &[Subject], sys: &Sys) -> Result<Vec<String>, CliError> {
    let devices = probe::devices(sys);
    let id = |subject: &Subject| {
        let device = subject.device.as_deref().and_then(|name| devices.get(name));
        let id = device.and_then(|device| device.ids.best()).map(str::to_owned);
        id.ok_or_else(|| CliError::usage(MonitorError::Unstable(subject.path.shown())))
    };
    subjects.iter().map(id).collect()
}

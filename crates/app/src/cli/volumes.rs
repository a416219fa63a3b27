//! `ebb volumes`: every block device, what it is, what is on it, and what could be better.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::known_limits;
use crate::views::{self, volumes};
use clap::Args;
use ebbtide_host::findings::{self, FindingFacts};
use ebbtide_host::probe;
use ebbtide_host::sys::Sys;
use ebbtide_model::shown::Shown;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show block devices, what is on them, which are free
///
/// Also their known limits, and advice.
///
/// Changes nothing and needs no privileges. As root it also identifies the content of devices that udev does not know,
/// and reads the health of NVMe drives.
#[derive(Debug, Args)]
pub struct VolumesArgs {
    /// Only these devices, and those below and above them
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// Examine the host whose root is mounted (or recorded) at DIR
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Also show device numbers (major:minor), and sizes in decimal units and in bytes
    #[arg(long, conflicts_with = "json")]
    wide: bool,
}

/// Runs `ebb volumes`.
///
/// # Errors
/// When a device that is asked for does not exist, or there is no sysfs.
pub fn run(args: &VolumesArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let sys = args.root.as_deref().map_or_else(Sys::host, Sys::below);
    if !sys.sys.join("block").is_dir() {
        return Err(CliError::Failed(format!(
            "{} does not exist: sysfs must be mounted to see block devices",
            sys.sys.join("block").shown()
        )));
    }
    let mut devices = probe::devices(&sys);
    let wanted = volumes::select(&devices, &args.devices).map_err(CliError::usage)?;
    if sys.is_host() {
        probe::ask_health(&sys, &mut devices, ebbtide_engine::nvme::log_page);
        probe::look_for_data(&sys, &mut devices, &wanted);
    }
    let facts = FindingFacts::read(&sys, devices);
    let mut found = findings::find(&facts);
    found.retain(|f| wanted.contains(&f.device));
    let catalog = super::catalog::load(globals)?;
    let shown = || facts.devices.devices.iter().filter(|d| wanted.contains(&d.name));
    let unread: Vec<String> = probe::unread(shown()).into_iter().collect();
    let known = known_limits::known(&catalog, probe::cloud(&sys).as_ref(), shown());
    let devices: Vec<_> = shown().collect();
    let value = serde_json::json!({
        "schema": "ebbtide.volumes/1",
        "devices": devices,
        "limits": known,
        "findings": found,
        "unread": unread,
    });
    let text = volumes::text(&facts.devices, &wanted, &known, &found, args.wide);
    let answered = views::answer(globals.json(), &value, &text)?;
    if !globals.json() && !globals.quiet {
        unread.iter().for_each(|line| views::say(&format!("ebb: {line}")));
    }
    Ok(answered)
}

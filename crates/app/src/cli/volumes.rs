//! `ebb volumes`: every block device, what it is, what is on it, and what could be better.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::limits;
use crate::views::{self, volumes};
use clap::Args;
use ebbtide_host::findings::{self, Facts};
use ebbtide_host::probe;
use ebbtide_host::sys::Sys;
use ebbtide_model::shown::Shown;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show block devices: what they are, what is on them, which are free, their known limits, and what could be better
///
/// Changes nothing and needs no privilege; as root it also reads what is on devices that udev does not know, and what
/// NVMe drives say of their health.
#[derive(Debug, Args)]
pub struct VolumesArgs {
    /// Only these devices, with what is below and above them
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// Look at the host whose root is mounted (or recorded) at DIR
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Show device numbers (major:minor) and sizes in decimal units and bytes too
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
            "{} is not there: sysfs must be mounted to see block devices",
            sys.sys.join("block").shown()
        )));
    }
    let mut devices = probe::devices(&sys);
    if sys.is_host() {
        probe::ask_health(&sys, &mut devices, ebbtide_engine::nvme::log_page);
    }
    let facts = Facts::read(&sys, devices);
    let wanted = volumes::select(&facts.devices, &args.devices).map_err(|unknown| {
        let names: Vec<&str> = facts.devices.devices.iter().map(|d| d.shown_name()).collect();
        CliError::Usage(format!("there is no block device `{unknown}`; there are {}", names.join(", ")))
    })?;
    let mut found = findings::find(&facts);
    found.retain(|f| wanted.contains(&f.device));
    let catalog = super::catalog::load(globals)?;
    let shown = || facts.devices.devices.iter().filter(|d| wanted.contains(&d.name));
    let unread: Vec<String> = probe::unread(shown()).into_iter().collect();
    let known = limits::known(&catalog, probe::cloud(&sys).as_ref(), shown());
    if globals.json {
        let devices: Vec<_> = shown().collect();
        let value = serde_json::json!({
            "schema": "ebbtide.volumes/1",
            "devices": devices,
            "limits": known,
            "findings": found,
            "unread": unread,
        });
        views::print_json(&value)?;
    } else {
        views::print(&volumes::text(&facts.devices, &wanted, &known, &found, args.wide))?;
        if !globals.quiet {
            unread.iter().for_each(|line| crate::views::say(&format!("ebb: {line}")));
        }
    }
    Ok(ExitCode::SUCCESS)
}

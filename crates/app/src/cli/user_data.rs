//! `ebb user-data`: what makes an array at a machine's first boot.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::experiment_file::{design, wrong};
use crate::kernel_names;
use crate::{experiment_file, views};
use clap::{Args, ValueEnum};
use ebbtide_model::experiment::Experiment;
use ebbtide_provision::boot::{Boot, BootOrder, Members, USER_DATA_MAX, cloud_config};
use ebbtide_provision::default_name;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print what makes a design at a machine's first boot: user data for cloud-init, or a shell script
///
/// The array is made once, of exactly as many blank disks as the design has. From then on the machine's own files bring it back. A
/// disk that carries anything is never written: then nothing is made, the log says why, and the machine boots all the same.
#[derive(Debug, Args)]
pub struct UserDataArgs {
    /// Experiment file (TOML), such as `ebb run -o best.toml` writes
    file: PathBuf,
    /// The design to make [default: the only one]
    #[arg(long, value_name = "NAME")]
    design: Option<String>,
    /// What to call it: the array, its unit, its script [default: the design's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where to mount its file system
    #[arg(long, value_name = "DIRECTORY", default_value = "/data")]
    mount: PathBuf,
    /// Which disks: instance-store, ebs, or a pattern of links such as '/dev/disk/by-id/virtio-data*', of which as many are there as
    /// the design has
    /// [default: the volumes of the design, by their ids]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    members: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::CloudConfig)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// User data for cloud-init
    CloudConfig,
    /// A script for images without cloud-init, and for a machine that runs
    Script,
}

/// Runs `ebb user-data`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &UserDataArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (_, experiment) = experiment_file::load(&args.file, &super::catalog::load(globals)?)?;
    let boot = boot(args, &experiment)?;
    if !globals.quiet {
        kernel_names::notes(&experiment).iter().for_each(|note| views::say(&format!("ebb: {note}")));
    }
    let has_instance_store = boot.members.has_instance_store();
    if has_instance_store && !globals.quiet {
        views::say(
            "ebb: instance store comes back blank after a stop, and this makes the array at the first boot only",
        );
    }
    let script = boot.script();
    let text = match args.format {
        Format::CloudConfig => cloud_config(&boot.name, &script, has_instance_store),
        Format::Script => script,
    };
    if text.len() > USER_DATA_MAX && !globals.quiet {
        views::say(&format!(
            "ebb: these are {} bytes, and EC2 takes {USER_DATA_MAX}: compress it (gzip), which cloud-init undoes",
            text.len()
        ));
    }
    if globals.json {
        let value = json!({
            "schema": "ebbtide.user-data/1", "name": boot.name, "mount": boot.mountpoint, "members": boot.members.links(),
            "disks": boot.wanted, "text": text,
        });
        views::print_json(&value)?;
    } else {
        views::print_data(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn boot(args: &UserDataArgs, experiment: &Experiment) -> Result<Boot, CliError> {
    let design = design(&args.file, experiment, args.design.as_deref())?;
    let members = match args.members.as_slice() {
        [] => None,
        words => Some(Members::kind(words).map_err(|error| wrong(&args.file, error))?),
    };
    let fallback = default_name(&experiment.designs[design].name);
    let order = BootOrder {
        experiment,
        design,
        name: args.name.as_deref().unwrap_or(&fallback),
        mountpoint: &args.mount,
        members,
    };
    order.boot().map_err(|error| wrong(&args.file, error))
}

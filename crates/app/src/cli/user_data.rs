//! `ebb user-data`: what makes an array at a machine's first boot.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::experiment_file::{design, wrong};
use crate::kernel_names;
use crate::{experiment_file, views};
use clap::{Args, ValueEnum};
use ebbtide_model::experiment::Experiment;
use ebbtide_provision::boot::{Boot, BootOrder, Members, USER_DATA_MAX};
use ebbtide_provision::{Class, default_name};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use strum::VariantNames;

/// Print what makes a design at a machine's first boot, without `ebb`: user data for cloud-init, or a shell script
///
/// The array is made where every disk that is asked for is blank, started at each boot, and mounted. Instance store that came
/// back blank after a stop is made anew. A disk that carries anything else is never written: then nothing is mounted, the journal says
/// why, and the machine boots all the same.
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
    /// Which disks: instance-store, ebs, or a pattern of links such as '/dev/disk/by-id/virtio-data*', each whatever is there of them
    /// [default: the volumes of the design, by their ids]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    members: Vec<String>,
    /// Fewest disks of a kind to make it of [default: as many as the design has]
    #[arg(long, value_name = "N", requires = "members", value_parser = clap::value_parser!(u16).range(1..))]
    least: Option<u16>,
    /// What becomes of it when its disks come back blank: ephemeral, made anew; persistent, left alone [default: ephemeral on
    /// instance store, persistent on all else]
    #[arg(long, value_name = "CLASS", value_parser = clap::builder::PossibleValuesParser::new(Class::VARIANTS))]
    class: Option<String>,
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
    let text = match args.format {
        Format::CloudConfig => boot.cloud_config(),
        Format::Script => boot.installer(),
    };
    if text.len() > USER_DATA_MAX && !globals.quiet {
        views::say(&format!(
            "ebb: these are {} bytes, and EC2 takes {USER_DATA_MAX}: compress it (gzip), which cloud-init undoes",
            text.len()
        ));
    }
    if globals.json {
        let value = json!({
            "schema": "ebbtide.user-data/1", "name": boot.name, "class": boot.class, "uuid": boot.uuid,
            "filesystem_uuid": boot.filesystem_uuid, "mount": boot.mountpoint, "members": boot.members.links(), "text": text,
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
        class: args.class.as_deref().and_then(|class| class.parse().ok()),
        least: args.least.map(usize::from),
    };
    order.boot().map_err(|error| wrong(&args.file, error))
}

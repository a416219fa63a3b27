//! `ebb user-data`: what makes an array at a machine's first boot.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::experiment_file::{DesignName, NamedDesign, wrong};
use crate::kernel_names;
use crate::views;
use clap::{Args, ValueHint};
use ebbtide_provision::boot::{BootOrder, Ebb, Members, USER_DATA_MAX, cloud_config};
use ebbtide_provision::{Class, default_name};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use strum::VariantNames;

/// Print what makes a design at a machine's first boot
///
/// As user data for cloud-init, or as a shell script.
///
/// The array is made once, of exactly as many blank disks as the design has. From then on the machine's own files bring it back. A
/// disk that carries anything is never written: then nothing is made, the log says why, and the machine boots all the same.
#[derive(Debug, Args)]
pub struct UserDataArgs {
    /// Experiment file (TOML), such as `ebb run -o best.toml` writes, and its design to make; FILE alone where it has one
    #[arg(value_name = "FILE:DESIGN", value_hint = ValueHint::FilePath)]
    design: DesignName,
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
    /// Have `ebb apply` make it: `installed` where the image has `ebb`, or the URL from which the machine fetches it
    #[arg(long, value_name = "WHERE")]
    ebb: Option<String>,
    /// SHA-256 of what is at the URL
    #[arg(long, value_name = "SUM", requires = "ebb")]
    sha256: Option<String>,
    /// With --ebb, what becomes of it when its disks come back blank: ephemeral, made anew; persistent, left alone [default: as `ebb apply`
    /// has it]
    #[arg(long, value_name = "CLASS", requires = "ebb", value_parser = clap::builder::PossibleValuesParser::new(Class::VARIANTS))]
    class: Option<String>,
    /// A shell script, for images without cloud-init and for a machine that runs
    #[arg(long)]
    script: bool,
}

/// Runs `ebb user-data`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &UserDataArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let NamedDesign { file, text: experiment_text, experiment, design } =
        args.design.load(&super::catalog::load(globals)?)?;
    let file = file.as_path();
    let members = match args.members.as_slice() {
        [] => None,
        words => Some(Members::kind(words).map_err(|error| wrong(file, error))?),
    };
    let fallback = default_name(&experiment.designs[design].name);
    let name = args.name.as_deref().unwrap_or(&fallback);
    let order = BootOrder { experiment: &experiment, design, name, mountpoint: &args.mount, members };
    let (members, script) = match &args.ebb {
        None => {
            let boot = order.boot().map_err(|error| wrong(file, error))?;
            let script = boot.script();
            (boot.members, script)
        }
        Some(place) => {
            // As the machine reads it, which has no other files.
            ebbtide_experiment::parse(&experiment_text, &file.to_string_lossy()).map_err(|errors| {
                CliError::Usage(format!("{errors}\n(as the machine reads it, with nothing beside it)"))
            })?;
            let ebb = ebb(place, args.sha256.as_deref())?;
            let brought = order.brought(&experiment_text, ebb, args.class.as_deref());
            let brought = brought.map_err(|error| wrong(file, error))?;
            let script = brought.script();
            (brought.members, script)
        }
    };
    let has_instance_store = members.has_instance_store();
    if !globals.quiet {
        kernel_names::notes(&experiment).iter().for_each(|note| views::say(&format!("ebb: {note}")));
        if has_instance_store && args.ebb.is_none() {
            views::say(
                "ebb: instance store comes back blank after a stop, and this makes the array at the first boot only; with --ebb it is made anew",
            );
        }
    }
    let text = if args.script { script } else { cloud_config(name, &script, has_instance_store) };
    if text.len() > USER_DATA_MAX && !globals.quiet {
        views::say(&format!(
            "ebb: these are {} bytes, and EC2 takes {USER_DATA_MAX}: compress it (gzip), which cloud-init undoes",
            text.len()
        ));
    }
    if globals.json() {
        let value = json!({
            "schema": "ebbtide.user-data/1", "name": name, "mount": args.mount, "members": members.links(),
            "disks": experiment.designs[design].volumes().len(), "text": text,
        });
        views::print_json(&value)?;
    } else {
        views::print_data(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where `ebb` comes from.
fn ebb(place: &str, sha256: Option<&str>) -> Result<Ebb, CliError> {
    let is_url = place.starts_with("https://") || place.starts_with("http://");
    let is_sum = |sum: &str| sum.len() == 64 && sum.bytes().all(|digit| digit.is_ascii_hexdigit());
    let wrong = match (place, sha256) {
        ("installed", None) => return Ok(Ebb::Installed),
        ("installed", Some(_)) => "--sha256: what is installed is not fetched; remove it".to_owned(),
        (url, Some(sum)) if is_url && is_sum(sum) => {
            return Ok(Ebb::Fetched { url: url.to_owned(), sha256: sum.to_ascii_lowercase() });
        }
        (_, Some(sum)) if is_url => {
            format!("--sha256 {sum}: write the 64 digits that `sha256sum ebb` prints")
        }
        (_, None) if is_url => "--ebb: a URL needs --sha256, which `sha256sum ebb` prints".to_owned(),
        (other, _) => format!("--ebb {other}: write `installed`, or a URL that begins with https://"),
    };
    Err(CliError::Usage(wrong))
}

//! `ebb apply`: a design of an experiment, made to stay.

use crate::cli::globals::Globals;
use crate::cli::status;
use crate::error::CliError;
use crate::experiment_file::{DesignName, NamedDesign, wrong};
use crate::{disks, keeping, kernel_names, signals, views};
use clap::{Args, ValueHint};
use ebbtide_host::build::lasting::{self, Applied, Planned};
use ebbtide_host::build::missing;
use ebbtide_host::probe::{self, Kind};
use ebbtide_host::sys::Sys;
use ebbtide_model::experiment::{Experiment, VolumeSource};
use ebbtide_model::units::format_count;
use ebbtide_provision::status::{Array, State, Status};
use ebbtide_provision::{Class, DesignRequest, Desired, default_name};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use strum::VariantNames;

/// Build a design to stay, also over reboots
///
/// The arrays, the file system, the mount, the tunables, and what brings them back at boot.
///
/// Run again it changes nothing, or mends what is not as it was. `ebb status` says how it is, `ebb undo` takes it away.
/// Exit status: 0 all is as it should be or on its way there, 1 failed, refused, or a member or host is missing, 2 wrong usage.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Experiment file (TOML), such as `ebb run -o best.toml` writes, and its design to build; FILE alone where it has one
    #[arg(required_unless_present = "at_boot", value_name = "FILE:DESIGN", value_hint = ValueHint::FilePath)]
    design: Option<DesignName>,
    /// What to call it on this host: the array, the volume group, the unit [default: the design's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where to mount its file system
    #[arg(long, value_name = "DIRECTORY")]
    mount: Option<PathBuf>,
    /// Take this machine's disks for the volumes: instance-store, ebs, or a pattern of links such as '/dev/disk/by-id/virtio-data*'. As many
    /// that nobody uses have to be there as the design has; they are waited for
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    members: Vec<String>,
    /// What becomes of it when its members come back empty: ephemeral, made anew where all of them are blank; persistent, never
    /// formatted again [default: ephemeral on instance store, persistent on all else]
    #[arg(long, value_name = "CLASS", value_parser = clap::builder::PossibleValuesParser::new(Class::VARIANTS))]
    class: Option<String>,
    /// Overwrite members that carry something, where the experiment gives their ids: their content is lost
    #[arg(long)]
    destroy: bool,
    /// Leave this host out: its members are taken from arrays that run, for its maintenance; where an array is started, what only this host
    /// may have is given up. Without it, `ebb apply` brings the host back
    #[arg(long, value_name = "HOST")]
    without: Vec<String>,
    /// Print commands and changes of files, and touch nothing
    #[arg(long)]
    dry_run: bool,
    /// For the unit that `ebb apply` writes: start NAME, or make it anew where it is ephemeral and all its members are blank
    #[arg(long, value_name = "NAME", hide = true, conflicts_with_all = ["design", "name", "mount", "members", "class", "destroy", "without", "dry_run"])]
    at_boot: Option<String>,
}

/// How long the unit waits for members: udev has named all that a machine has long before.
const AT_BOOT: Duration = Duration::from_secs(60);

/// Runs `ebb apply`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &ApplyArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let named = match (&args.at_boot, &args.design) {
        (Some(name), _) => return at_boot(name, globals),
        (None, Some(named)) => named,
        (None, None) => return Err(CliError::usage("no design: write FILE:DESIGN")),
    };
    let NamedDesign { file, mut experiment, design, .. } = named.load(&super::catalog::load(globals)?)?;
    let control = signals::stoppable(globals.quiet)?;
    let fallback = default_name(&experiment.designs[design].name);
    let name = args.name.as_deref().unwrap_or(&fallback);
    if !args.members.is_empty() {
        disks::choose(&mut experiment, design, name, &args.members, &control.stop, globals)?;
    }
    let desired = desired(args, &file, (&experiment, design), name, globals.quiet)?;
    if !globals.quiet {
        kernel_names::notes(&experiment).iter().for_each(|note| views::say(&format!("ebb: {note}")));
    }
    let lacks = missing(desired.build.programs.iter().map(String::as_str));
    lacks.map_err(|what| CliError::Failed(format!("this host cannot make it: {what}")))?;
    keeping::with(globals, &control.stop, |keeper| status::must_answer(keeper, &desired.name))?;
    if args.dry_run {
        let planned = keeping::with(globals, &control.stop, |keeper| {
            keeper.plan(desired.clone(), args.destroy, &args.without)
        })?;
        let value = json!({
            "schema": "ebbtide.apply-plan/1",
            "name": desired.name,
            "steps": planned.steps,
            "files": planned.files,
            "after": planned.after,
            "notes": planned.notes.iter().chain(&desired.notes).collect::<Vec<_>>(),
        });
        let array = if planned.is_nothing() { array(&desired.name, &control.stop, globals)? } else { None };
        views::answer(globals.json(), &value, &shown(&desired, &planned, array.as_ref()))?;
        return Ok(ending(array.as_ref()));
    }
    keeping::needs_root("ebb apply")?;
    let applied = keeping::with(globals, &control.stop, |keeper| {
        keeper.apply(desired.clone(), args.destroy, &args.without)
    })?;
    let array = array(&desired.name, &control.stop, globals)?;
    answer(&desired.name, &desired.notes, &applied, array.as_ref(), globals)?;
    Ok(ending(array.as_ref()))
}

/// How the array `name` is; nothing where there is none.
fn array(name: &str, stop: &AtomicBool, globals: &Globals) -> Result<Option<Array>, CliError> {
    keeping::with(globals, stop, |keeper| {
        let record = keeper.record(name)?;
        record.map(|record| status::array(keeper, &record)).transpose()
    })
}

/// The exit status, which `ebb status` has too: what an apply cannot bring back is not as it should be.
fn ending(array: Option<&Array>) -> ExitCode {
    if array.is_none_or(Array::is_complete) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How `array` is, as `ebb status` says it, where that is not as it should be.
fn trouble(array: Option<&Array>) -> Option<String> {
    let array = array.filter(|array| array.state != State::Healthy)?;
    Some(Status::of(vec![array.clone()]).text())
}

fn at_boot(name: &str, globals: &Globals) -> Result<ExitCode, CliError> {
    keeping::needs_root("ebb apply")?;
    let control = signals::stoppable(globals.quiet)?;
    let applied = keeping::with(globals, &control.stop, |keeper| keeper.at_boot(name, AT_BOOT))?;
    // What runs without a host runs, and what the unit is for is done.
    answer(name, &[], &applied, None, globals)
}

fn answer(
    name: &str,
    notes: &[String],
    applied: &Applied,
    array: Option<&Array>,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let Applied { steps, files, after } = applied;
    let text = match (applied.is_nothing(), trouble(array)) {
        (true, None) => format!("{name}: {NOTHING}\n"),
        (true, Some(trouble)) => format!("{name}: {NOTHING_MORE}\n{trouble}"),
        (false, trouble) => {
            let notes: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
            let after: String = after.iter().map(|command| format!(", `{command}`")).collect();
            format!(
                "{name}: applied ({}, {}{after})\n{notes}{}",
                format_count(*steps as u64, "step"),
                format_count(*files as u64, "file"),
                trouble.unwrap_or_default()
            )
        }
    };
    let mut value = json!({
        "schema": "ebbtide.applied/1", "name": name, "steps": steps, "files": files, "after": after, "notes": notes,
    });
    if let Some(array) = array {
        value["array"] = json!(array);
    }
    views::answer(globals.json(), &value, &text)
}

/// What is said where nothing is to be done.
const NOTHING: &str = "nothing to do, all is as it should be";
/// The same where something is not as it should be.
const NOTHING_MORE: &str = "nothing that `ebb apply` can do, and not all is as it should be";

/// What the arguments and the experiment ask for, on this host.
fn desired(
    args: &ApplyArgs,
    file: &Path,
    (experiment, design): (&Experiment, usize),
    name: &str,
    quiet: bool,
) -> Result<Desired, CliError> {
    let sys = Sys::host();
    let devices = probe::devices(&sys);
    let used = experiment.designs[design].volumes();
    let mut paths = vec![String::new(); experiment.volumes.len()];
    let cache = experiment.designs[design].stack.cache.as_ref();
    let (mut kinds, mut of_cache) = (Vec::new(), Vec::new());
    for index in used {
        if let VolumeSource::Device { path, .. } = &experiment.volumes[index].source {
            paths[index] = lasting::stable_path(&sys, &devices, path).unwrap_or_default();
            let is_cache = cache.is_some_and(|cache| cache.members.contains(&index));
            let kinds = if is_cache { &mut of_cache } else { &mut kinds };
            kinds.extend(lasting::kind(&sys, &devices, path));
        }
    }
    let own = |kind: &Kind| *kind == Kind::InstanceStore;
    let asked = args.class.as_deref().and_then(|class| class.parse().ok());
    let class = Class::of_members(asked, (kinds.iter().any(own), kinds.iter().all(own)))
        .and_then(|class| match cache {
            Some(cache) => class.with_cache(cache, (of_cache.iter().any(own), of_cache.iter().all(own))),
            None => Ok(class),
        })
        .map_err(|unfit| wrong(file, unfit))?;
    let program = std::env::current_exe().ok();
    let mountpoint = args.mount.as_deref().map(|path| keeping::mount_point(path, quiet)).transpose()?;
    let order = DesignRequest {
        experiment,
        design,
        name,
        class,
        mountpoint: mountpoint.as_deref(),
        devices: &paths,
        machine: &lasting::machine(&sys),
        system: &lasting::system(&sys),
        program: program.as_ref().and_then(|path| path.to_str()),
    };
    order.desired().map_err(|error| wrong(file, error))
}

fn shown(desired: &Desired, planned: &Planned, array: Option<&Array>) -> String {
    if planned.is_nothing() {
        let notes: String = planned.notes.iter().map(|note| format!("note: {note}\n")).collect();
        let trouble = trouble(array);
        let nothing = if trouble.is_none() { NOTHING } else { NOTHING_MORE };
        return format!("{}: {nothing}\n{}{notes}", desired.name, trouble.unwrap_or_default());
    }
    let mut text = format!(
        "{} ({}), of design {} of {}:\n",
        desired.name,
        desired.class.as_ref(),
        desired.design,
        desired.experiment
    );
    text += &keeping::changes(planned);
    for note in planned.notes.iter().chain(&desired.notes) {
        text += &format!("note: {note}\n");
    }
    text
}

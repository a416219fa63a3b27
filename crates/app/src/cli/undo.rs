//! `ebb undo`: takes away what `ebb apply`, `ebb attach`, `ebb export` or `ebb monitor install` made, and nothing else.

use crate::cli::globals::Globals;
use crate::cli::{export, status};
use crate::error::CliError;
use crate::{attaching, keeping, signals, views};
use clap::{Args, ValueEnum};
use ebbtide_host::attach::{self, Real};
use ebbtide_host::build::lasting::monitor;
use ebbtide_host::sys::Sys;
use ebbtide_model::shown::{Shown, excerpt};
use ebbtide_model::units::format_count;
use ebbtide_provision::monitor::DIRECTORY;
use serde_json::json;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Take away what `ebb apply`, `ebb attach`, `ebb export` or `ebb monitor install` made; what is on volumes stays
///
/// Of an array: the mount, its lines in the host's files, the array that runs. Of an attached volume: the mount, the mapping, the session, the
/// export on the other host, the SSH connection. What the monitor has measured stays.
///
/// Exit status: 0 it is away, 1 failed (something still uses it), 2 wrong usage.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// What it is called on this host, as `ebb status` says
    name: String,
    /// What it is, where two have this name
    #[arg(long)]
    kind: Option<Kind>,
    /// Of an array: also erase its superblocks and file systems from its members; their content is lost
    #[arg(long)]
    destroy: bool,
    /// Of an export: also while its client is connected
    #[arg(long)]
    force: bool,
    /// Print what would be done, and each change of a file as a diff; touches nothing
    #[arg(long)]
    dry_run: bool,
}

/// What can be made to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Made by `ebb apply`
    Array,
    /// A volume of another host, by `ebb attach`
    Attached,
    /// By `ebb export`
    Export,
    /// By `ebb monitor install`
    Monitor,
}

impl Kind {
    /// As it is written and said.
    fn name(self) -> &'static str {
        match self {
            Kind::Array => "array",
            Kind::Attached => "attached",
            Kind::Export => "export",
            Kind::Monitor => "monitor",
        }
    }
}

/// What the monitor is called: a host has one.
pub const MONITOR: &str = "monitor";

/// Runs `ebb undo`.
///
/// # Errors
/// When there is nothing of that name, or something of it is still in use.
pub fn run(args: &UndoArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    if !args.dry_run {
        keeping::needs_root("ebb undo")?;
    }
    let kind = match args.kind {
        Some(kind) => kind,
        None => found(&args.name, globals)?,
    };
    if args.destroy && kind != Kind::Array || args.force && kind != Kind::Export {
        let (option, of) = if args.destroy { ("--destroy", "an array") } else { ("--force", "an export") };
        return Err(CliError::Usage(format!(
            "{option} is for {of}; {} is of the kind `{}`",
            excerpt(&args.name),
            kind.name()
        )));
    }
    match kind {
        Kind::Array => array(args, globals),
        Kind::Attached => attached(args, globals),
        Kind::Export => exported(args, globals),
        Kind::Monitor => monitor(args, globals),
    }
}

/// Of which kind `name` is.
fn found(name: &str, globals: &Globals) -> Result<Kind, CliError> {
    let (sys, never) = (Sys::host(), AtomicBool::new(false));
    // One that cannot be read is told by whoever takes it away.
    let is_array = keeping::with(globals, &never, |keeper| Ok(!matches!(keeper.record(name), Ok(None))))
        .map_err(CliError::failed)?;
    let exports = export::with(globals, &never, |exporter| exporter.list());
    let is_export = exports.as_ref().is_ok_and(|exports| exports.iter().any(|export| export.name == name));
    let is_monitor = name == MONITOR && monitor::is_installed(&sys);
    let kinds = [
        (Kind::Array, is_array),
        (Kind::Attached, attach::is_recorded(&sys, name)),
        (Kind::Export, is_export),
        (Kind::Monitor, is_monitor),
    ];
    let kinds: Vec<Kind> = kinds.into_iter().filter_map(|(kind, is)| is.then_some(kind)).collect();
    match kinds.as_slice() {
        [kind] => Ok(*kind),
        [] => {
            let records =
                keeping::with(globals, &never, |keeper| Ok(keeper.records())).map_err(CliError::failed)?;
            let mut names: Vec<String> =
                records.into_iter().flatten().map(|record| record.desired.name).collect();
            names.extend(exports?.into_iter().map(|export| export.name));
            let there = match names.as_slice() {
                [] => String::new(),
                names => format!(", among them {}", names.join(", ")),
            };
            Err(CliError::Failed(format!(
                "there is no {} that ebb made on this host; `ebb status` lists what there is{there}",
                excerpt(name)
            )))
        }
        several => {
            let kinds: Vec<&str> = several.iter().map(|kind| kind.name()).collect();
            Err(CliError::Usage(format!(
                "{} is the name of several things: say which by `--kind`, {}",
                excerpt(name),
                kinds.join(" or ")
            )))
        }
    }
}

/// What would be done, step by step, where no file is changed.
fn planned(args: &UndoArgs, globals: &Globals, kind: Kind, steps: &[String]) -> Result<ExitCode, CliError> {
    let value = json!({
        "schema": "ebbtide.undo-plan/1", "name": args.name, "kind": kind.name(), "steps": steps, "files": [], "after": [], "notes": [],
    });
    let text = format!("{}, to be taken away:\n{}", args.name, keeping::numbered(steps));
    views::answer(globals.json, &value, &text)
}

/// What was done; `text` says it for people.
fn undone(
    args: &UndoArgs,
    globals: &Globals,
    kind: Kind,
    left: &[String],
    mut text: String,
) -> Result<ExitCode, CliError> {
    text.extend(left.iter().map(|left| format!("left alone: {left}\n")));
    let value = json!({ "schema": "ebbtide.undone/1", "name": args.name, "kind": kind.name(), "left": left });
    views::answer(globals.json, &value, &text)
}

fn array(args: &UndoArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let control = signals::stoppable(globals.quiet)?;
    let name = &args.name;
    keeping::with(globals, &control.stop, |keeper| status::must_answer(keeper, name))
        .map_err(CliError::failed)?;
    if args.dry_run {
        let planned = keeping::with(globals, &control.stop, |keeper| keeper.plan_undo(name, args.destroy))
            .map_err(CliError::failed)?;
        let value = json!({
            "schema": "ebbtide.undo-plan/1",
            "name": name,
            "kind": Kind::Array.name(),
            "steps": planned.steps,
            "files": planned.files,
            "after": planned.after,
            "notes": planned.notes,
        });
        let notes: String = planned.notes.iter().map(|note| format!("note: {note}\n")).collect();
        let text = format!("{name}, to be taken away:\n{}{notes}", keeping::changes(&planned));
        return views::answer(globals.json, &value, &text);
    }
    let done = keeping::with(globals, &control.stop, |keeper| keeper.undo(name, args.destroy))
        .map_err(CliError::failed)?;
    let (steps, files) = (done.steps as u64, done.files as u64);
    let is_nothing = !done.was_begun && steps == 0 && files == 0;
    let mut text = match is_nothing {
        true => format!("{name}: nothing of it was made; its record is removed\n"),
        false => {
            format!("{name}: taken away ({}, {})\n", format_count(steps, "step"), format_count(files, "file"))
        }
    };
    if !args.destroy && done.left.is_empty() && !is_nothing {
        text += "its volumes keep their data; an array on them may be started again at the next boot. `ebb apply` takes them into use again, \
                 `ebb undo --destroy` would have erased them\n";
    }
    undone(args, globals, Kind::Array, &done.left, text)
}

fn attached(args: &UndoArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let control = signals::stoppable(globals.quiet)?;
    let real = Real::at(&Sys::host());
    let name = &args.name;
    if args.dry_run {
        let steps = attaching::with(globals, &real, &control.stop, false, |keeper| keeper.plan_detach(name))?;
        return planned(args, globals, Kind::Attached, &steps);
    }
    let left = attaching::with(globals, &real, &control.stop, true, |keeper| keeper.detach(name))?;
    undone(args, globals, Kind::Attached, &left, format!("{name}: detached\n"))
}

fn exported(args: &UndoArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let control = signals::stoppable(globals.quiet)?;
    let name = &args.name;
    if args.dry_run {
        let steps = export::with(globals, &control.stop, |exporter| exporter.plan_remove(name))?;
        return planned(args, globals, Kind::Export, &steps);
    }
    let gone = export::with(globals, &control.stop, |exporter| exporter.remove(name, args.force))?;
    let text = format!("{name}: {} is not exported any more\n", gone.device.shown());
    undone(args, globals, Kind::Export, &[], text)
}

fn monitor(args: &UndoArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let control = signals::stoppable(globals.quiet)?;
    if args.dry_run {
        let units = keeping::with(globals, &control.stop, |keeper| keeper.monitor_units());
        let units = units.map_err(CliError::failed)?;
        let steps: Vec<String> =
            units.iter().rev().map(|unit| format!("remove {}", unit.path.shown())).collect();
        return planned(args, globals, Kind::Monitor, &steps);
    }
    let gone =
        keeping::with(globals, &control.stop, |keeper| keeper.remove_monitor()).map_err(CliError::failed)?;
    let text = match gone.as_slice() {
        [] => "nothing to take away: no monitor is installed on this host\n".to_owned(),
        gone => {
            let lines: String = gone.iter().map(|path| format!("  {path}\n")).collect();
            format!("{MONITOR}: taken away\n{lines}{DIRECTORY} stays, with what was measured\n")
        }
    };
    undone(args, globals, Kind::Monitor, &[], text)
}

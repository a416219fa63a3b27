//! `ebb undo`: takes away what `ebb apply`, `ebb attach`, `ebb export` or `ebb monitor install` made, and nothing else.

use crate::cli::globals::Globals;
use crate::cli::status;
use crate::error::CliError;
use crate::{keeping, signals, views};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ebbtide_host::made::{Engine, Plan, ThisHost, recorded};
use ebbtide_host::monitor::{MONITOR, Monitoring};
use ebbtide_host::sys::Sys;
use ebbtide_model::export::Exporting;
use ebbtide_model::made::{Kind, Record};
use ebbtide_model::shown::{Shown, excerpt};
use ebbtide_model::units::format_count;
use ebbtide_provision::attached::Attachment;
use ebbtide_provision::monitor::DIRECTORY;
use serde_json::json;
use std::process::ExitCode;

/// Take away what was made to stay
///
/// What `ebb apply`, `ebb attach`, `ebb export` or `ebb monitor install` made; what is on volumes stays.
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
    #[arg(long, value_parser = kinds())]
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

/// What `--kind` takes.
pub(super) fn kinds() -> impl TypedValueParser<Value = Kind> {
    let value = |kind: Kind| PossibleValue::new(kind.name()).help(format!("Made by `{}`", kind.command()));
    PossibleValuesParser::new(Kind::ALL.map(value)).try_map(|name| name.parse::<Kind>())
}

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
        None => found(&args.name)?,
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
        Kind::Attached => of_kind::<Attachment>(args, globals, |gone| format!("{}: detached\n", gone.name)),
        Kind::Export => of_kind::<Exporting>(args, globals, |gone| {
            format!("{}: {} is not exported any more\n", gone.name, gone.device.shown())
        }),
        Kind::Monitor => of_kind::<Monitoring>(args, globals, |gone| {
            let units = gone.parts.iter().rev().map(|part| format!("  {}\n", part.path.shown()));
            format!(
                "{MONITOR}: taken away\n{}{DIRECTORY} stays, with what was measured\n",
                units.collect::<String>()
            )
        }),
    }
}

/// Of which kind `name` is.
fn found(name: &str) -> Result<Kind, CliError> {
    let all = recorded(&Sys::host());
    let kinds: Vec<Kind> = all.iter().filter(|(_, known)| known == name).map(|(kind, _)| *kind).collect();
    match kinds.as_slice() {
        [kind] => Ok(*kind),
        [] => {
            let names: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
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
    views::answer(globals.json(), &value, &text)
}

fn array(args: &UndoArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let control = signals::stoppable(globals.quiet)?;
    let name = &args.name;
    keeping::with(globals, &control.stop, |keeper| status::must_answer(keeper, name))?;
    if args.dry_run {
        let planned = keeping::with(globals, &control.stop, |keeper| keeper.plan_undo(name, args.destroy))?;
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
        return views::answer(globals.json(), &value, &text);
    }
    let done = keeping::with(globals, &control.stop, |keeper| keeper.undo(name, args.destroy))?;
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

/// Takes away what the engine has made; `said` says for people what is gone.
fn of_kind<P: Plan>(
    args: &UndoArgs,
    globals: &Globals,
    said: impl Fn(&Record<P>) -> String,
) -> Result<ExitCode, CliError> {
    let control = signals::stoppable(globals.quiet)?;
    let (name, kind) = (&args.name, P::KIND);
    if args.dry_run {
        let steps = keeping::on_host(globals, &ThisHost, &control.stop, false, |context| {
            Engine::<P>::new(context).plan_undo(name)
        })?;
        let value = json!({
            "schema": "ebbtide.undo-plan/1", "name": name, "kind": kind.name(), "steps": steps, "files": [], "after": [], "notes": [],
        });
        let text = format!("{name}, to be taken away:\n{}", keeping::numbered(&steps));
        return views::answer(globals.json(), &value, &text);
    }
    let (gone, left) = keeping::on_host(globals, &ThisHost, &control.stop, true, |context| {
        Engine::<P>::new(context).undo(name, args.force)
    })?;
    undone(args, globals, kind, &left, said(&gone))
}

//! `ebb undo`: takes away what `ebb apply` made, and nothing else.

use crate::cli::globals::Globals;
use crate::cli::status;
use crate::error::CliError;
use crate::{keeping, signals, views};
use clap::Args;
use ebbtide_model::units::format_count;
use serde_json::json;
use std::process::ExitCode;

/// Take away what `ebb apply` made: the mount, its lines in the host's files, the running array; members keep their data
///
/// Exit status: 0 it is away, 1 failed (something still uses it), 2 wrong usage.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// What it is called on this host, as `ebb status` says
    name: String,
    /// Also erase its superblocks and file systems from its members: their content is lost
    #[arg(long)]
    destroy: bool,
    /// Print what would be done, and each change of a file as a diff; touches nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs `ebb undo`.
///
/// # Errors
/// When there is nothing of that name, or something of it is still in use.
pub fn run(args: &UndoArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let control = signals::stoppable(globals.quiet)?;
    keeping::with(globals, &control.stop, |keeper| status::must_answer(keeper, &args.name))
        .map_err(CliError::failed)?;
    if args.dry_run {
        let planned =
            keeping::with(globals, &control.stop, |keeper| keeper.plan_undo(&args.name, args.destroy))
                .map_err(CliError::failed)?;
        let value = json!({
            "schema": "ebbtide.undo-plan/1",
            "name": args.name,
            "steps": planned.steps,
            "files": planned.files,
            "after": planned.after,
            "notes": planned.notes,
        });
        let notes: String = planned.notes.iter().map(|note| format!("note: {note}\n")).collect();
        let text = format!("{}, to be taken away:\n{}{notes}", args.name, keeping::changes(&planned));
        return views::answer(globals.json, &value, &text);
    }
    keeping::needs_root("ebb undo")?;
    let undone = keeping::with(globals, &control.stop, |keeper| keeper.undo(&args.name, args.destroy))
        .map_err(CliError::failed)?;
    let (steps, files) = (undone.steps as u64, undone.files as u64);
    let is_nothing = !undone.was_begun && steps == 0 && files == 0;
    let mut text = match is_nothing {
        true => format!("{}: nothing of it was made; its record is removed\n", args.name),
        false => format!(
            "{}: taken away ({}, {})\n",
            args.name,
            format_count(steps, "step"),
            format_count(files, "file")
        ),
    };
    if !args.destroy && undone.left.is_empty() && !is_nothing {
        text += "its volumes keep their data; an array on them may be started again at the next boot. `ebb apply` takes them into use again, \
                 `ebb undo --destroy` would have erased them\n";
    }
    for left in &undone.left {
        text += &format!("left alone: {left}\n");
    }
    let value = json!({ "schema": "ebbtide.undone/1", "name": args.name, "steps": undone.steps, "files": undone.files, "left": undone.left });
    views::answer(globals.json, &value, &text)
}

//! `ebb detach`: takes away what `ebb attach` attached.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::{attaching, keeping, signals, views};
use clap::Args;
use ebbtide_host::attach::Real;
use ebbtide_host::sys::Sys;
use serde_json::json;
use std::process::ExitCode;

/// Take away what `ebb attach` attached: the mount, the mapping, the session, the export on the other host, the SSH connection
///
/// What is on the volume stays. Exit status: 0 it is away, 1 failed (something still uses it), 2 wrong usage.
#[derive(Debug, Args)]
pub struct DetachArgs {
    /// What it is called on this host, as `ebb status` says
    name: String,
    /// Print what would be done, and touch nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs `ebb detach`.
///
/// # Errors
/// When there is nothing of that name, or it is in use.
pub fn run(args: &DetachArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    keeping::needs_root("ebb detach")?;
    let control = signals::stoppable(globals.quiet)?;
    let real = Real::at(&Sys::host());
    let name = &args.name;
    if args.dry_run {
        let steps = attaching::with(globals, &real, &control.stop, false, |keeper| keeper.plan_detach(name))?;
        let value = json!({ "schema": "ebbtide.detach-plan/1", "name": name, "steps": steps });
        let text: String = (1..).zip(&steps).map(|(number, step)| format!("{number:>4}. {step}\n")).collect();
        return views::answer(globals.json, &value, &format!("{name}, to be taken away:\n{text}"));
    }
    let left = attaching::with(globals, &real, &control.stop, true, |keeper| keeper.detach(name))?;
    let mut text = format!("{name}: detached\n");
    for left in &left {
        text += &format!("left alone: {left}\n");
    }
    views::answer(globals.json, &json!({ "schema": "ebbtide.detached/1", "name": name, "left": left }), &text)
}

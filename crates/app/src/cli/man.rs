//! `ebb man`: manual pages, from what the help is made from.

use crate::error::CliError;
use crate::views;
use clap::{Args, Command};
use clap_mangen::Man;
use ebbtide_model::shown::Shown;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the manual pages, one for each command
///
/// `ebb man ~/.local/share/man/man1` and then `man ebb-run`. `-` prints the page of ebb itself.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// An existing directory; pages of these names in it are replaced
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Runs `ebb man` for the command line `command`.
///
/// # Errors
/// When a page cannot be written.
pub fn run(args: &ManArgs, quiet: bool, mut command: Command) -> Result<ExitCode, CliError> {
    command.build();
    if args.directory == Path::new("-") {
        views::print_data(&page(&command)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut pages = Vec::new();
    collect(&command, &mut pages);
    let path = |one: &Command| args.directory.join(format!("{}.1", one.get_name()));
    pages.iter().try_for_each(|one| views::can_save(&path(one)))?;
    for one in &pages {
        views::save(&path(one), &page(one)?)?;
    }
    if !quiet {
        views::say(&format!("{} pages written to {}", pages.len(), args.directory.shown()));
    }
    Ok(ExitCode::SUCCESS)
}

/// `command` and all below it, each called by its whole name: `ebb-profile-run`.
fn collect(command: &Command, pages: &mut Vec<Command>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    pages.push(command.clone().name(name).disable_help_subcommand(true));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        collect(below, pages);
    }
}

fn page(command: &Command) -> Result<String, CliError> {
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text).map_err(CliError::failed)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

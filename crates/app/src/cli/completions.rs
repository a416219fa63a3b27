//! `ebb completions`: what a shell needs to complete command lines.

use crate::error::CliError;
use crate::views;
use clap::{Args, ValueEnum};
use clap_complete::Shell as Complete;
use std::process::ExitCode;

/// Print a script that completes commands in a shell
///
/// Bash: `ebb completions bash >/etc/bash_completion.d/ebb`. Zsh: `ebb completions zsh` into `_ebb` in a directory of `$fpath`.
/// Fish: `ebb completions fish >~/.config/fish/completions/ebb.fish`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Runs `ebb completions` for the command line `command`.
///
/// # Errors
/// When standard output takes nothing.
pub fn run(args: &CompletionsArgs, mut command: clap::Command) -> Result<ExitCode, CliError> {
    let shell = match args.shell {
        Shell::Bash => Complete::Bash,
        Shell::Zsh => Complete::Zsh,
        Shell::Fish => Complete::Fish,
    };
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    views::print_data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

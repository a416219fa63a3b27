//! `ebb worker`: the half of `ebb run --hosts` that is on each host, told over its standard input what to do. Not for people.

use crate::error::CliError;
use crate::views;
use ebbtide_runner::worker::{self, Whereabouts};
use std::io::BufReader;
use std::process::ExitCode;

/// Runs `ebb worker` (on a host) and `ebb lab worker` (in a guest).
///
/// # Errors
/// When the other side cannot be understood or reached, or what was made cannot be put back.
pub fn run(whereabouts: Whereabouts) -> Result<ExitCode, CliError> {
    worker::serve(BufReader::new(std::io::stdin()), views::to_program(), whereabouts)
        .map_err(|error| CliError::Failed(format!("the conversation with the other side failed: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

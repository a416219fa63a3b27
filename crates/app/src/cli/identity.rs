//! `ebb identity`: which build this is, for another `ebb` that reached it over ssh. Not for people, who have `--version`.

use crate::error::CliError;
use crate::views;
use ebbtide_host::command::Real;
use ebbtide_host::program;
use std::process::ExitCode;

/// Runs `ebb identity`.
///
/// # Errors
/// When the program's own file cannot be read.
pub fn run() -> Result<ExitCode, CliError> {
    let own = program::own_identity(&Real).map_err(CliError::failed)?;
    let text = serde_json::to_string(&own).map_err(CliError::failed)?;
    views::print_data(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

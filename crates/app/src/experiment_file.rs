//! Experiment files and the profile files that they name, as text.

use crate::error::CliError;
use ebbtide_experiment::ProfileFiles;
use ebbtide_model::catalog::Catalog;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::shown::Shown;
use std::path::Path;

/// Longest file that is read: an experiment, a profile or a job file is a few kilobytes.
pub const LONGEST: u64 = 256 << 10;

/// The profile files that the experiment file at this path names, relative to its directory.
#[derive(Debug, Clone, Copy)]
pub struct ProfilesBeside<'a>(pub &'a Path);

impl ProfileFiles for ProfilesBeside<'_> {
    fn read(&self, name: &str) -> Result<String, String> {
        read(&self.0.parent().unwrap_or(Path::new("")).join(name)).map_err(|what| format!("it {what}"))
    }
}

/// The text of an experiment file.
///
/// # Errors
/// Why it cannot be read and what to do.
pub fn read(file: &Path) -> Result<String, String> {
    ebbtide_door::read::text(file, LONGEST).map_err(|error| error.to_string())
}

/// The experiment in `file`, and its text.
///
/// # Errors
/// Wrong usage: why it cannot be read, or all that is wrong with it, with lines.
pub fn load(file: &Path, catalog: &Catalog) -> Result<(String, Experiment), CliError> {
    let name = file.to_string_lossy();
    let text = read(file).map_err(|what| CliError::Usage(format!("{}: {what}", file.shown())))?;
    let experiment = ebbtide_experiment::parse_with(&text, &name, catalog, &ProfilesBeside(file))
        .map_err(|errors| CliError::Usage(errors.to_string()))?;
    Ok((text, experiment))
}

//! Experiment files and the profile files that they name, as text.

use crate::cli::CliError;
use ebbtide_core::catalog::Catalog;
use ebbtide_core::experiment::{Experiment, ProfileFiles};
use std::path::Path;

/// Longest file that is read: an experiment is a few kilobytes.
const LONGEST: u64 = 256 << 10;

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
    let metadata = std::fs::metadata(file).map_err(|error| format!("cannot be read: {error}"))?;
    if !metadata.is_file() {
        return Err("is not a file; give the path of an experiment file (TOML)".to_owned());
    }
    if metadata.len() > LONGEST {
        return Err(format!("has {} bytes; an experiment file has at most {LONGEST}", metadata.len()));
    }
    let bytes = std::fs::read(file).map_err(|error| format!("cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        format!("line {} is not UTF-8 text; save the file as UTF-8", line + 1)
    })
}

/// The experiment in `file`, and its text.
///
/// # Errors
/// Wrong usage: why it cannot be read, or all that is wrong with it, with lines.
pub fn load(file: &Path, catalog: &Catalog) -> Result<(String, Experiment), CliError> {
    let name = file.to_string_lossy();
    let text = read(file).map_err(|what| CliError::Usage(format!("{name}: {what}")))?;
    let experiment = Experiment::parse_with(&text, &name, catalog, &ProfilesBeside(file))
        .map_err(|errors| CliError::Usage(errors.to_string()))?;
    Ok((text, experiment))
}

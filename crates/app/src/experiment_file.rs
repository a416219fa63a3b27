//! Experiment files and the profile files that they name, as text.

use crate::bench::fio;
use crate::error::CliError;
use ebbtide_door::read::{ReadError, text};
use ebbtide_experiment::{FileJob, ProfileFiles};
use ebbtide_model::catalog::Catalog;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::shown::Shown;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// Longest file that is read: an experiment, a profile or a job file is a few kilobytes.
pub const LONGEST: u64 = 256 << 10;

/// The profile files and job files that the experiment file at this path names, relative to its directory.
#[derive(Debug, Clone, Copy)]
pub struct ProfilesBeside<'a>(pub &'a Path);

impl ProfileFiles for ProfilesBeside<'_> {
    fn read(&self, name: &str) -> io::Result<String> {
        read(&self.0.parent().unwrap_or(Path::new("")).join(name))
            .map_err(|what| io::Error::other(format!("it {what}")))
    }

    fn jobs(&self, name: &str, beside: &[(String, String)]) -> Result<Vec<FileJob>, Vec<String>> {
        fio::jobs(&self.0.parent().unwrap_or(Path::new("")).join(name), beside)
    }
}

/// The text of an experiment file.
///
/// # Errors
/// Why it cannot be read and what to do.
pub fn read(file: &Path) -> Result<String, ReadError> {
    text(file, LONGEST)
}

/// The same, for those who name the file on the command line.
///
/// # Errors
/// Wrong usage: why it cannot be read.
pub fn named(file: &Path) -> Result<String, CliError> {
    read(file).map_err(|error| wrong(file, error))
}

/// Wrong usage: what is wrong with what `file` says, or with what is asked of it.
pub fn wrong(file: &Path, what: impl Display) -> CliError {
    CliError::Usage(format!("{}: {what}", file.shown()))
}

/// Index of the design of `experiment`, which `file` holds, that is asked for; of a single one none has to be.
///
/// # Errors
/// Wrong usage: there is no such design, or there are several.
pub fn design(file: &Path, experiment: &Experiment, wanted: Option<&str>) -> Result<usize, CliError> {
    let names: Vec<&str> = experiment.designs.iter().map(|design| design.name.as_str()).collect();
    match wanted {
        Some(wanted) => names
            .iter()
            .position(|name| *name == wanted)
            .ok_or_else(|| wrong(file, format!("it has no design {wanted}; it has {}", names.join(", ")))),
        None if names.len() == 1 => Ok(0),
        None => {
            let which =
                format!("it has {} designs; say which with --design: {}", names.len(), names.join(", "));
            Err(wrong(file, which))
        }
    }
}

/// The experiment in `file`, and its text.
///
/// # Errors
/// Wrong usage: why it cannot be read, or all that is wrong with it, with lines.
pub fn load(file: &Path, catalog: &Catalog) -> Result<(String, Experiment), CliError> {
    let name = file.to_string_lossy();
    let text = named(file)?;
    let experiment = ebbtide_experiment::parse_with(&text, &name, catalog, &ProfilesBeside(file))
        .map_err(|errors| CliError::Usage(errors.to_string()))?;
    Ok((text, experiment))
}

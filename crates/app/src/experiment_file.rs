//! Experiment files and the profile files that they name, as text.

use crate::bench::fio;
use crate::error::CliError;
use ebbtide_door::read::{ReadError, text};
use ebbtide_experiment::{FileJob, ProfileFiles};
use ebbtide_model::catalog::Catalog;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::shown::Shown;
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

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

/// A design of an experiment file as the command line names it: FILE:DESIGN, or FILE where it has one.
#[derive(Debug, Clone)]
pub struct DesignName(OsString);

impl From<OsString> for DesignName {
    fn from(text: OsString) -> DesignName {
        DesignName(text)
    }
}

/// A design that was named, and where it stands.
#[derive(Debug)]
pub struct NamedDesign {
    /// The file.
    pub file: PathBuf,
    /// Its text.
    pub text: String,
    /// What it describes.
    pub experiment: Experiment,
    /// Index of the design.
    pub design: usize,
}

impl DesignName {
    /// The file, and the design where one is named. A file's name may contain `:`, which no design's does: what exists wins.
    fn parts(&self) -> (PathBuf, Option<&str>) {
        let whole = Path::new(&self.0);
        let named = self.0.to_str().and_then(|text| text.rsplit_once(':'));
        match named.filter(|(_, design)| !design.contains('/') && !whole.exists()) {
            Some((file, design)) => (file.into(), Some(design)),
            None => (whole.to_owned(), None),
        }
    }

    /// The design, and the experiment that has it.
    ///
    /// # Errors
    /// Wrong usage: as [`load`], there is no such design, or there are several.
    pub fn load(&self, catalog: &Catalog) -> Result<NamedDesign, CliError> {
        let (file, wanted) = self.parts();
        let (text, experiment) = load(&file, catalog)?;
        let design = match (wanted, experiment.designs.len()) {
            (Some(wanted), _) => experiment
                .designs
                .iter()
                .position(|design| design.name == wanted)
                .ok_or_else(|| no_design(wanted, &experiment)),
            (None, 1) => Ok(0),
            (None, several) => {
                Err(format!("it has {several} designs; name one, as FILE:DESIGN: {}", names(&experiment)))
            }
        };
        let design = design.map_err(|what| wrong(&file, what))?;
        Ok(NamedDesign { file, text, experiment, design })
    }
}

fn names(experiment: &Experiment) -> String {
    let names: Vec<&str> = experiment.designs.iter().map(|design| design.name.as_str()).collect();
    names.join(", ")
}

/// That a file or a session has no design `wanted`, and which it has.
pub fn no_design(wanted: &str, experiment: &Experiment) -> String {
    format!("it has no design `{wanted}`; it has {}", names(experiment))
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

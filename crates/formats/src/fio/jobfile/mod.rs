//! fio job files: text in, jobs out. What is not understood is refused with file and line, never passed over.
//!
//! Units are fio's with `kb_base=1024`, its default: `4k`, `4kb` and `4K` are 4096, `4ki` and `4kib` are 4000
//! (HOWTO, "Parameter types"); `kb_base=1000` turns them around. Times without a unit are seconds, `thinktime` and
//! `startdelay` have their own.

mod finish;
mod known;
mod lines;
mod options;
#[cfg(test)]
mod tests;
pub(crate) mod values;

pub use known::{Accepted, ONE_VALUE, WITHOUT_EFFECT, without_effect};
pub use options::{FileJob, Target, accept};

use ebbtide_model::units::Bytes;
use std::fmt;

/// Where something stands in a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the job file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What is wrong with a job file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct JobFileError {
    /// Where it stands.
    pub place: Place,
    /// What, and what to write instead.
    pub what: String,
}

/// What a job file may ask of its surroundings.
pub trait Surroundings {
    /// The text of the file that `include NAME` names; `from` is the file that says so.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn include(&self, name: &str, from: &str) -> Result<String, String>;
    /// The value of an environment variable, empty where there is none (as in fio).
    fn variable(&self, name: &str) -> String;
    /// Bytes of the file or device `name`, where it is there: what `size=50%` is a share of.
    fn length(&self, name: &str) -> Option<Bytes>;
}

/// What a job file says.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// The options of all its [global] sections, in their order.
    pub global: Vec<(String, String)>,
    /// Its jobs, at least one.
    pub jobs: Vec<FileJob>,
}

/// Reads the jobs of `text`, which is the content of `file`.
///
/// # Errors
/// The first thing that is wrong or that this program does not do.
pub fn parse(text: &str, file: &str, surroundings: &dyn Surroundings) -> Result<JobFile, JobFileError> {
    let sections = lines::sections(text, file, surroundings)?;
    options::jobs(&sections, file, surroundings)
}

//! fio job files: text in, jobs out. What is not understood is refused with file and line, never passed over.
//!
//! Units are as fio reads them with `kb_base=1024`, its default: `4k`, `4kb` and `4ki` are 4096, `4kib` is 4000;
//! `kb_base=1000` turns them around. Times without a unit are seconds, `thinktime` and
//! `startdelay` have their own.

mod error;
mod files;
mod finish;
mod jobs;
mod known;
mod lines;
#[cfg(test)]
mod tests;
pub(crate) mod values;

pub use error::{JobFileError, JobFileErrors, Mistake, OptionMistake, ValueError};
pub use files::{FILES_MOST, FileOrder, NotOnFiles, Service, size_of_each};
pub use jobs::{FileJob, Target, accept};
pub use known::{
    AT_DEFAULT, Accepted, DO_VERIFY, ONLY_TOLD, Verify, WITHOUT_EFFECT, only_told, verify, without_effect,
};

use ebbtide_model::units::Bytes;
use std::fmt;
use std::io;

/// Where something stands in a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the job file.
    pub file: String,
    /// The line, from 1; 0 for what stands beside the file.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// What a job file may ask of its surroundings.
pub trait JobFileContext {
    /// The text of the file that `include NAME` names; `from` is the file that says so.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn include(&self, name: &str, from: &str) -> io::Result<String>;
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

/// Reads the jobs of `text`, which is the content of `file`; options `beside` it are those of jobs that do not have them
/// themselves, as in fio.
///
/// # Errors
/// Everything that is wrong or that this program does not do.
pub fn parse(
    text: &str,
    file: &str,
    beside: &[(String, String)],
    surroundings: &dyn JobFileContext,
) -> Result<JobFile, JobFileErrors> {
    let (sections, wrong) = lines::sections(text, file, surroundings);
    jobs::jobs(&sections, wrong, (file, beside), surroundings)
}

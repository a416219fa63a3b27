//! Arrays that stay: made from their record, looked at, taken away.
//!
//! The record ([`Record`]) has every identity before anything exists, and is on disk before the first step. Each step is asked whether it
//! stands, by identity; what does not is done. A step that destroys what was there (a superblock, a file system) is noted as begun before
//! it and as done after it: what is noted as done is never done again, what is only begun is put back and begun anew. So it does not matter
//! where a kill or a power cut came: the next `ebb apply` goes on, `ebb undo` takes away, and until then the host boots, because its files
//! name only what was there when they were written, and nothing that boot waits for.

mod ahead;
mod apply;
mod boot;
mod copies;
mod files;
mod grow;
mod look;
pub mod monitor;
mod records;
mod refuse;
mod renew;
mod running;
mod site;
mod spread;
mod start;
#[cfg(test)]
mod tests;
mod undo;
mod used;
mod waits;
mod whose;

pub use apply::{Applied, Planned};
pub use look::StepState;
pub use records::Unreadable;
pub use site::{free_disks, kind, machine, may_build, stable_path, system};
pub use undo::Undone;

use super::BuildError;
use crate::command::Runner;
use crate::sys::Sys;
use ebbtide_model::shown::Shown;
use ebbtide_provision::files::FileError;
use ebbtide_provision::{Member, Record};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where records are, below the root of a host.
pub const RECORDS: &str = "var/lib/ebbtide/apply";

/// Decides whether members may be overwritten: in words why not.
pub type MayBuild<'a> = dyn Fn(&[&Member], bool) -> Result<(), String> + 'a;

/// Makes, looks at and takes away what stays on one host.
pub struct Keeper<'a> {
    /// The host's file trees.
    pub sys: Sys,
    /// Runs the programs that build and look.
    pub runner: &'a dyn Runner,
    /// Decides about members, with whether their content may be lost.
    pub may_build: &'a MayBuild<'a>,
    /// Told of each thing as it is done.
    pub tell: &'a dyn Fn(&str),
    /// Ends it before the next step.
    pub stop: &'a AtomicBool,
    /// Called between any two changes: tests end everything there, as a kill would.
    pub boundary: &'a dyn Fn(),
}

/// Why something was not made to stay, or not taken away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A step failed, or a program that was asked.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// It must not be done; why, and what to do.
    #[error("{0}")]
    Refused(String),
    /// A record or a file of the host's that could not be read or written.
    #[error("{}: {what}", path.shown())]
    File {
        /// The record or the file.
        path: PathBuf,
        /// As the system says it.
        what: String,
    },
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure::File { path: error.path, what: error.what }
    }
}

impl Failure {
    fn file(path: &Path, what: impl std::fmt::Display) -> Failure {
        Failure::File { path: path.to_owned(), what: what.to_string() }
    }
}

impl Keeper<'_> {
    fn next(&self) -> Result<(), Failure> {
        (self.boundary)();
        if self.stop.load(Ordering::Relaxed) { Err(BuildError::Stopped.into()) } else { Ok(()) }
    }

    /// Directory of the records.
    fn place(&self) -> PathBuf {
        self.sys.root().join(RECORDS)
    }

    fn path_of(&self, record: &Record) -> PathBuf {
        self.place().join(format!("{}.json", record.desired.name))
    }
}

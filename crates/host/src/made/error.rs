//! Why something was not made to stay, or not taken away.

use crate::build::BuildError;
use crate::command::CommandError;
use ebbtide_door::DoorError;
use ebbtide_model::journal::JournalError;
use ebbtide_model::shown::Shown;
use ebbtide_provision::files::FileError;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Why something was not made to stay, or not taken away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A program failed, or a step of a build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// It must not be done, or cannot; why, and what to do.
    #[error("{0}")]
    Refused(String),
    /// What is asked for cannot be meant; what to write instead.
    #[error("{0}")]
    Usage(String),
    /// The other host cannot be reached, or does not do what it is asked.
    #[error("{host}: {what}")]
    Far {
        /// As the place names it.
        host: String,
        /// Why, and what to do.
        what: String,
    },
    /// A file that could not be read or written.
    #[error("{}: {what}", path.shown())]
    File {
        /// The file's path.
        path: PathBuf,
        /// As the system says it.
        what: String,
    },
    /// It failed, and then what was done could not be taken away.
    #[error("{why}; and then: {left}; `ebb cleanup` tries again")]
    Both {
        /// Why it failed.
        why: Box<Failure>,
        /// Why the rest stays.
        left: Box<Failure>,
    },
    /// Ended by the user.
    #[error("stopped")]
    Stopped,
}

impl Failure {
    pub(crate) fn file(path: &Path, what: impl Display) -> Failure {
        Failure::File { path: path.to_owned(), what: what.to_string() }
    }

    pub(crate) fn far(host: &str, what: impl Display) -> Failure {
        Failure::Far { host: host.to_owned(), what: what.to_string() }
    }

    /// Why the file `path` of the host's is not changed.
    pub(crate) fn unchanged(path: &Path, error: DoorError) -> Failure {
        match error {
            DoorError::Refused(refusal) => Failure::file(path, refusal.reasons_in_words()),
            DoorError::System { what, source, .. } => {
                Failure::file(path, format!("cannot {what} it: {source}"))
            }
            other => Failure::file(path, other),
        }
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Failure {
        Failure::Build(error.into())
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Failure {
        Failure::Build(error.into())
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure::File { path: error.path, what: error.what }
    }
}

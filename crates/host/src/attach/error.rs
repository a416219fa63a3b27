//! Why a volume was not attached, or not detached.

use crate::build::BuildError;
use crate::command::CommandError;
use ebbtide_model::journal::JournalError;
use ebbtide_model::shown::Shown;
use std::path::{Path, PathBuf};

/// Why a volume was not attached, or not detached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A program failed, or a step of a build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// It must not be done; why, and what to do.
    #[error("{0}")]
    Refused(String),
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
    pub(super) fn file(path: &Path, what: impl std::fmt::Display) -> Failure {
        Failure::File { path: path.to_owned(), what: what.to_string() }
    }

    pub(super) fn far(host: &str, what: impl std::fmt::Display) -> Failure {
        Failure::Far { host: host.to_owned(), what: what.to_string() }
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

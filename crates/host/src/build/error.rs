//! What can go wrong while a design is built or put back.

use crate::command::{CommandError, said};
use ebbtide_model::journal::JournalError;
use ebbtide_model::shown::Shown;
use std::fmt;
use std::path::PathBuf;

/// Why a design was not built, or not put back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum BuildError {
    /// A program failed: what was run and what it said.
    #[error("`{command}` {}{}", status_text(*status), told(stdout, stderr))]
    Command {
        command: String,
        /// Exit status; nothing when a signal ended it.
        status: Option<i32>,
        /// What it wrote on standard output.
        stdout: String,
        /// What it wrote on standard error.
        stderr: String,
    },
    /// A step that needs the key which was never asked for.
    #[error("`{command}` needs a key, and none was given")]
    NoKey { command: String },
    /// A program could not be started.
    #[error(transparent)]
    Start(#[from] CommandError),
    /// An answer that is not what the program's documentation says.
    #[error("cannot read what `{program}` answered: {what}")]
    Answer { program: &'static str, what: String },
    /// Members that LVM would put in another order.
    #[error(
        "LVM orders unequal members by size and uses as much of each as of the smallest, so that the layout would not \
         be the design's: {members}; give it members of one size, or write `backing = \"md\"`"
    )]
    Unequal { members: String },
    /// A tunable that the kernel did not take.
    #[error("{file} of {device} cannot be {value}: {what}")]
    Queue {
        /// The device, as the setting names it.
        device: String,
        file: &'static str,
        value: String,
        what: String,
    },
    /// A directory that could not be made or removed.
    #[error("{}: {what}", path.shown())]
    Path { path: PathBuf, what: String },
    /// Something is still there after it was removed.
    #[error("{what} is still there")]
    StillThere {
        /// Kind and name of what was to go.
        what: String,
    },
    /// A loop device that somebody uses: detached now, it would go as soon as they close it, and with it what is on it.
    #[error("{device} is in use: {what}")]
    InUse {
        /// Its node, such as `/dev/loop3`.
        device: String,
        /// By whom, and what to do.
        what: String,
        /// Whether it is only open in programs, which may be looking at it for a moment.
        passing: bool,
    },
    /// What is left of something that was to stay could not be taken away.
    #[error("{name}: {what}")]
    Made { name: String, what: String },
    /// The journal could not be written, without which nothing is done.
    #[error("{0}")]
    Journal(String),
    /// Ended by the user.
    #[error("stopped")]
    Stopped,
    /// Steps that could not be undone, the first tried first.
    #[error("not undone: {}", list(.0))]
    Undo(Vec<BuildError>),
    /// A step failed, and then what was done could not be undone.
    #[error("{build}; and then: {undo}; `ebb cleanup` tries again")]
    Both { build: Box<BuildError>, undo: Box<BuildError> },
}

impl From<JournalError> for BuildError {
    fn from(error: JournalError) -> Self {
        BuildError::Journal(error.to_string())
    }
}

impl BuildError {
    /// Whether the same may work in a moment.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self,
            BuildError::Command { .. }
                | BuildError::StillThere { .. }
                | BuildError::InUse { passing: true, .. }
        )
    }
}

fn status_text(status: Option<i32>) -> String {
    status.map_or_else(|| "was ended by a signal".to_owned(), |status| format!("ended with status {status}"))
}

fn told(stdout: &str, stderr: &str) -> String {
    let said = said(stderr, stdout);
    if said.is_empty() { said } else { format!(": {said}") }
}

fn list(errors: &[BuildError]) -> impl fmt::Display {
    errors.iter().map(BuildError::to_string).collect::<Vec<_>>().join("; ")
}

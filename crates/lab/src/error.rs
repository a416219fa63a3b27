//! What can go wrong in the laboratory.

use ebbtide_host::command::CommandError;
use ebbtide_model::shown::Shown;
use std::io;
use std::path::{Path, PathBuf};

/// A failure of the laboratory.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Programs that are not installed.
    #[error("the lab needs {programs}; install them: apt-get install {packages}")]
    Missing {
        /// Programs, comma separated.
        programs: String,
        /// Debian packages that bring them, space separated.
        packages: String,
    },
    /// A machine that the lab knows no packages for.
    #[error("the lab's guests are x86-64 machines made of Debian packages; this is {0}")]
    Architecture(&'static str),
    /// A file or directory.
    #[error("cannot {what} {}: {error}", path.shown())]
    File {
        /// What was tried, in words.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// As the kernel says it.
        error: io::Error,
    },
    /// No guest without an image.
    #[error(
        "there is no guest image of this version yet: `ebb lab build` makes it, once (downloads about 100 MB)"
    )]
    NoImage,
    /// A program that could not be run.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A program that failed.
    #[error("`{command}` ended with {status}: {said}")]
    Program {
        /// Program and arguments.
        command: String,
        /// Exit status or signal.
        status: String,
        /// The end of its standard error.
        said: String,
    },
    /// Something that was downloaded is not as expected.
    #[error("{0}")]
    Unexpected(String),
    /// A disk that QEMU cannot have.
    #[error("disk {name}: {why}")]
    Disk {
        /// As the guest was to see it.
        name: String,
        /// What is wrong with it, and what to write instead.
        why: String,
    },
    /// The guest did not start, or ended.
    #[error("the guest {what}{log}")]
    Guest {
        /// What happened to it, as the rest of a sentence.
        what: String,
        /// The last lines of QEMU and of the guest's console, or nothing.
        log: String,
    },
    /// A command that could not be started in the guest.
    #[error("in the guest: {0}")]
    Start(String),
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
}

impl LabError {
    /// For `map_err` on what is done with a file.
    pub(super) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_owned();
        move |error| LabError::File { what, path, error }
    }
}

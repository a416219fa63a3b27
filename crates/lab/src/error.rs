//! What can go wrong in the laboratory.

use ebbtide_host::command::CommandError;
use ebbtide_model::backend::BackendError;
use ebbtide_model::shown::Shown;
use std::io;
use std::path::{Path, PathBuf};

/// A failure of the laboratory.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum LabError {
    /// Programs that are not installed, and the Debian packages that bring them.
    #[error("the lab needs {programs}; install them: apt-get install {packages}")]
    Missing { programs: String, packages: String },
    /// A machine that the lab knows no packages for.
    #[error("the lab's guests are x86-64 machines made of Debian packages; this is {0}")]
    Architecture(&'static str),
    /// A file or directory.
    #[error("cannot {what} {}: {error}", path.shown())]
    File { what: &'static str, path: PathBuf, error: io::Error },
    /// No guest without an image.
    #[error(
        "there is no guest image of this version yet: `ebb lab build` makes it, once (downloads about 100 MB)"
    )]
    NoImage,
    /// A program that could not be run.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A program that failed, with the end of its standard error.
    #[error("`{command}` ended with {status}: {said}")]
    Program { command: String, status: String, said: String },
    /// A path that programs cannot be told.
    #[error("the path {} is not UTF-8; XDG_CACHE_HOME chooses another place", path.shown())]
    NotUtf8 { path: PathBuf },
    /// The worker in the guest could not begin.
    #[error(transparent)]
    Worker(#[from] BackendError),
    /// A thread that talked to a guest ended without saying why.
    #[error("a guest's thread broke")]
    ThreadDied,
    /// A disk that QEMU cannot have: what is wrong with it, and what to write instead.
    #[error("disk {name}: {why}")]
    Disk { name: String, why: String },
    /// The guest did not start, or ended. The log has the last lines of QEMU and of the guest's console, or nothing.
    #[error("the guest {what}{log}")]
    Guest { what: String, log: String },
    /// A command that could not be started in the guest.
    #[error("in the guest: {0}")]
    Start(String),
    /// A machine that is on or off and has to be the other.
    #[error("the guest is {is}: {what}")]
    Power { is: &'static str, what: &'static str },
    /// A file of a guest's system that is not there, is empty, or could not be written.
    #[error(
        "cannot use {path} in the guest's system: it is missing or empty, or no absolute path of letters, digits, - _ . and /, in no link"
    )]
    Inside { path: String },
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

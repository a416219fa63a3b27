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
    File { what: &'static str, path: PathBuf, error: io::Error },
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
        command: String,
        status: String,
        /// The end of its standard error.
        said: String,
    },
    /// The package sources do not have the kernel of the guests.
    #[error("the package sources of this host have no {package}: the lab needs those of Debian")]
    NoPackage { package: &'static str },
    /// A package that was asked for and did not come.
    #[error("apt-get has not downloaded {package}")]
    NotDownloaded { package: String },
    /// Not the modules of one kernel.
    #[error("expected the modules of one kernel, found {found}")]
    Kernels { found: usize },
    /// A kernel without modules that a guest needs.
    #[error("kernel {release} has no module {modules}")]
    NoModule {
        release: String,
        /// Those that are missing, separated by commas.
        modules: String,
    },
    /// A path that programs cannot be told.
    #[error("the path {} is not UTF-8; XDG_CACHE_HOME chooses another place", path.shown())]
    NotUtf8 { path: PathBuf },
    /// A lock that somebody else has.
    #[error("somebody holds {}", path.shown())]
    Held { path: PathBuf },
    /// A directory that was there a moment ago.
    #[error("{} is gone", path.shown())]
    Gone { path: PathBuf },
    /// A guest of this name is running.
    #[error("a guest named {name} is running already")]
    Runs { name: String },
    /// A guest of this name has left its files.
    #[error("a guest named {name} has left its files; `ebb lab clean` removes them")]
    Left { name: String },
    /// Something else is where a guest's files would go.
    #[error("{} is in the way: {why}", path.shown())]
    InTheWay {
        path: PathBuf,
        /// What tells that it is not the lab's.
        why: String,
    },
    /// What the worker in the guest said when it was to say what it runs on.
    #[error("the guest's worker answered before it was asked")]
    Early,
    /// The worker in the guest could not begin.
    #[error(transparent)]
    Worker(BackendError),
    /// A thread that talked to a guest ended without saying why.
    #[error("a guest's thread broke")]
    ThreadDied,
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
    /// A guest that ended while a system disk was set up in it, or a script that failed there.
    #[error("the system disk could not be set up: its script ended with status {status}: {said}")]
    SetUp {
        status: i32,
        /// The end of what it said.
        said: String,
    },
    /// A machine that has to be off.
    #[error("the guest runs: shut it down before you {what}")]
    On {
        /// What was to be done, as the rest of a sentence.
        what: &'static str,
    },
    /// A machine that has to run.
    #[error("the guest is off: boot it first")]
    Off,
    /// A system without a kernel or an initramfs.
    #[error("the guest's system has no {path}, or an empty one")]
    NoBoot { path: String },
    /// A file of a guest's system that could not be written.
    #[error(
        "cannot write {path} into the guest's system: write an absolute path of letters, digits, - _ . and /, in no link"
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

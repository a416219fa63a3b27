//! Why something is not exported, or not taken away.

use crate::build::BuildError;
use crate::rbd::NotHere;
use ebbtide_door::DoorError;
use ebbtide_model::export::Transport;
use ebbtide_model::guard::Refusal;
use ebbtide_model::journal::JournalError;
use ebbtide_model::shown::Shown;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Why something is not exported, or not taken away.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum ExportError {
    /// It must not be given away; every reason.
    #[error("{} is not exported; {}", .0.path, .0.reasons_in_words())]
    Refused(Refusal),
    /// It could not be opened.
    #[error(transparent)]
    Door(DoorError),
    /// There is nothing of that name.
    #[error("{}: {error}; write a device (`ebb volumes` lists them), the stable id of one, or a file", path.shown())]
    NotThere { path: PathBuf, error: std::io::Error },
    /// It is an image of Ceph that is no device of this host.
    #[error(transparent)]
    NotMapped(#[from] NotHere),
    /// No export can be called after it.
    #[error("no export can be called after {}: say what it is to be called with --name", .0.shown())]
    NoName(PathBuf),
    /// The kernel does not take its path or size.
    #[error("{}: {what}", path.shown())]
    Path { path: PathBuf, what: &'static str },
    /// It would not be found again after a boot.
    #[error(
        "{} has no name below /dev/disk/by-id by which it would be found after a boot: leave out --persistent, or give it a serial number",
        .0.shown()
    )]
    Unstable(PathBuf),
    /// The file with the secret.
    #[error("{}: {what}", file.shown())]
    Secret { file: PathBuf, what: String },
    /// The kernel cannot ask for a secret.
    #[error(
        "this kernel cannot ask NVMe initiators for a secret (it was built without CONFIG_NVME_TARGET_AUTH, which Linux has since 6.0): \
         write --transport iscsi, which has CHAP, or leave out --secret and let clients come through SSH to a listener on loopback"
    )]
    NoDhChap,
    /// The client has one.
    #[error(
        "{client} has another secret already, which its other exports of this host ask for: give the file with that one, or take those away first \
         (`ebb status`)"
    )]
    OtherSecret { client: String },
    /// A module that is not there.
    #[error("the kernel has no {module}: {why}; install the modules of the running kernel (`uname -r`)")]
    NoModule { module: String, why: String },
    /// There is no target.
    #[error(
        "the kernel's target for {transport} is not in /sys/kernel/config: mount it with `mount -t configfs configfs /sys/kernel/config`"
    )]
    NoTarget { transport: Transport },
    /// Somebody else's port.
    #[error(
        "nvmet listens at {listen} already, and not for ebb ({}): write another --listen, such as 127.0.0.1:4421",
        object.shown()
    )]
    ForeignPort { listen: String, object: PathBuf },
    /// All numbers are taken.
    #[error("nvmet has a thousand ports of ebb's: take exports away that nobody needs (`ebb status`)")]
    NoPort,
    /// The kernel refused something.
    #[error("{}: {what}", path.shown())]
    Kernel { path: PathBuf, what: String },
    /// Another one is at it.
    #[error("another `ebb export` is at work on this host; wait until it has ended")]
    AtWork,
    /// A run was killed.
    #[error("the export {name} was being made or taken away when `ebb` was killed: run `ebb cleanup` first")]
    Unfinished { name: String },
    /// It is exported in another way.
    #[error(
        "it is exported already as {name}, in another way: {}; write the same, or `ebb undo {name}` first",
        differences.join("; ")
    )]
    Otherwise { name: String, differences: Vec<String> },
    /// Somebody removed a part of it.
    #[error(
        "a part of the export {name} was taken out of the kernel by hand: `ebb undo {name}` takes the rest away"
    )]
    Half { name: String },
    /// No such export.
    #[error("there is no export {name}: {}", if names.is_empty() { "nothing is exported".to_owned() } else { format!("there are {}", names.join(", ")) })]
    Unknown { name: String, names: Vec<String> },
    /// A client is connected, or the volume is mounted or written to.
    #[error(
        "{name} is in use: {what}; disconnect there first (`ebb undo`), or say --force, which breaks the connection"
    )]
    Connected { name: String, what: String },
    /// It cannot be brought back at boot.
    #[error("{0}")]
    Persistent(String),
    /// It is stopped.
    #[error("it was stopped, and nothing is left of it")]
    Stopped,
    /// It failed, and what was made could not be taken away.
    #[error("{made}; and what was made could not be taken away: {taken}; `ebb cleanup` tries again")]
    Both { made: Box<ExportError>, taken: Box<ExportError> },
    /// A record or another file.
    #[error("{}: {what}", path.shown())]
    File { path: PathBuf, what: String },
    /// A program failed.
    #[error(transparent)]
    Program(#[from] BuildError),
    /// Nothing can be announced.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl ExportError {
    pub(super) fn file(path: &Path, what: impl Display) -> ExportError {
        ExportError::File { path: path.to_owned(), what: what.to_string() }
    }

    /// Whether the command line is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            ExportError::NotThere { .. }
                | ExportError::NotMapped(_)
                | ExportError::NoName(_)
                | ExportError::Unstable(_)
                | ExportError::Secret { .. }
        )
    }
}

impl From<DoorError> for ExportError {
    fn from(error: DoorError) -> ExportError {
        match error {
            DoorError::Refused(refusal) => ExportError::Refused(refusal),
            other => ExportError::Door(other),
        }
    }
}

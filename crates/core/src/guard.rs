//! May this device be written? The question and its answers as data; the host crate answers it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Answers whether a file or device may be written. Asked before anything is opened for writing.
pub trait DeviceGuard {
    /// Whether `request.path` may be written now.
    ///
    /// # Errors
    /// A [`Refusal`] with every reason that stands against it.
    fn may_write(&self, request: &WriteRequest<'_>) -> Result<(), Refusal>;
}

/// What somebody wants to write, and what they said to be allowed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteRequest<'a> {
    /// The device or file.
    pub path: &'a Path,
    /// Stable id that the experiment gives for it: a name below /dev/disk/by-id, a serial, a WWID, or an EBS volume id.
    pub id: Option<&'a str>,
    /// Whether the command line says `--destroy`.
    pub destroy: bool,
}

/// Why a device must not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// It, a partition of it or an array over it is mounted.
    Mounted,
    /// It is swap in use.
    Swap,
    /// A kernel device is built on it (md, dm, LVM, bcache, a loop device).
    Held,
    /// The device is read-only.
    ReadOnly,
    /// It carries a signature: a file system, a member superblock, swap, encryption.
    Signature,
    /// It carries a partition table.
    PartitionTable,
    /// What is on it could not be read.
    Unreadable,
    /// The stable id that the experiment gives is not this device's.
    WrongId,
    /// The experiment gives no stable id, and content would be destroyed.
    NoId,
    /// The command line does not say `--destroy`.
    NotDestroy,
    /// It is not there, or not a block device or regular file.
    NotADevice,
}

impl RefusalKind {
    /// Whether no option lifts it: a device in use is never written.
    pub fn is_absolute(self) -> bool {
        matches!(
            self,
            RefusalKind::Mounted
                | RefusalKind::Swap
                | RefusalKind::Held
                | RefusalKind::ReadOnly
                | RefusalKind::WrongId
                | RefusalKind::NotADevice
        )
    }
}

/// One reason, with the way out of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Which reason.
    pub kind: RefusalKind,
    /// What was found, for example "nvme1n1p1 is mounted on /data".
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// A device that must not be written, with every reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Refusal {
    /// The path as it was asked for.
    pub path: String,
    /// Reasons, the ones that no option lifts first; never empty.
    pub reasons: Vec<Reason>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not written to", self.path)?;
        for reason in &self.reasons {
            write!(f, "; {} ({})", reason.what, reason.remedy)?;
        }
        Ok(())
    }
}

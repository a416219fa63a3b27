//! May this be written? The question and its answers as data; the host crate answers it, the door asks.

use crate::shown::one_line;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// What somebody wants to write, and what they said to be allowed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteRequest<'a> {
    /// The device or file, as the user wrote it.
    pub path: &'a Path,
    /// Why it may be overwritten.
    pub permission: Permission<'a>,
}

/// Who allows that something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission<'a> {
    /// The user, with what they said.
    User {
        /// Stable id that the experiment gives for it: a name below /dev/disk/by-id, a serial, a WWID, an EBS volume
        /// id, or an image of Ceph as `rbd:POOL/IMAGE`.
        id: Option<&'a str>,
        /// Whether the command line says `--destroy`.
        destroy: bool,
        /// Whether this run has written it before: data on it without a signature are the run's.
        used: bool,
    },
    /// The user, who gives another host access to write it: nothing is lost by that, but what is on it is in other hands then.
    Exported {
        /// Stable id that it was named by, as in [`User`](Self::User).
        id: Option<&'a str>,
        /// UUID of what it is said to carry.
        carries: Option<&'a str>,
    },
    /// Nobody needs to: this run built the device itself, and what is on it is the run's. It must still not be in use.
    Built,
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
    /// A program has it open, or holds a lock on it.
    Open,
    /// Whether somebody uses it could not be found out.
    Untold,
    /// The device is read-only.
    ReadOnly,
    /// It carries a signature: a file system, a member superblock, swap, encryption.
    Signature,
    /// It carries a partition table.
    PartitionTable,
    /// It carries data of an unknown kind.
    Data,
    /// What is on it could not be read.
    Unreadable,
    /// The stable id that the experiment gives is not this device's, or it carries something else than was said.
    WrongId,
    /// The experiment gives no stable id, and content would be destroyed.
    NoId,
    /// The command line does not say `--destroy`.
    NotDestroy,
    /// It is not there, or not a block device or regular file.
    NotADevice,
    /// It is a store, a ledger or a journal of `ebb`'s own.
    Own,
    /// It is, or shares blocks with, what this program has claimed already.
    Twice,
}

impl RefusalKind {
    /// Whether no option lifts it: a device in use is never written.
    pub fn is_absolute(self) -> bool {
        matches!(
            self,
            RefusalKind::Mounted
                | RefusalKind::Swap
                | RefusalKind::Held
                | RefusalKind::Open
                | RefusalKind::ReadOnly
                | RefusalKind::WrongId
                | RefusalKind::NotADevice
                | RefusalKind::Own
                | RefusalKind::Twice
        )
    }
}

/// One reason, with the way out of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Which of the reasons there are.
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

impl Refusal {
    /// Every reason with the way out of it, without the path: on one line, as mount points and labels are others' text.
    pub fn reasons_in_words(&self) -> String {
        let words = |reason: &Reason| format!("{} ({})", reason.what, reason.remedy);
        one_line(&self.reasons.iter().map(words).collect::<Vec<_>>().join("; ")).into_owned()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not written to; {}", self.path, self.reasons_in_words())
    }
}

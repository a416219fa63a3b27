//! How a member of an array that stays is.

use serde::{Deserialize, Serialize};
use strum::AsRefStr;

/// A member as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, AsRefStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum MemberState {
    /// Active in the array.
    InUse,
    /// It is there, and the array does not use it.
    Unused,
    /// Its array is put together, and does not run: it waits for others.
    Inactive,
    /// It is being brought up to date.
    Resyncing,
    /// The array has thrown it out.
    Faulty,
    /// The device is there, and what is behind it does not answer: its host is gone, or the way to it.
    Unreachable,
    /// There is no such device.
    Missing,
}

/// What a member carries that its array does not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carried {
    /// A superblock of the array.
    Own,
    /// A superblock of the array, which was run without those that are in use: when it was last written to.
    Apart(String),
    /// Nothing.
    Nothing,
    /// Something else: a sentence that says so.
    Other(String),
}

/// What was seen of a member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberSeen {
    /// Nothing where there is no such device.
    pub state: Option<MemberState>,
    /// Errors that the array counted of it, or the file system on it.
    pub errors: u64,
    /// What the drive says of its own health, where that is trouble.
    pub troubles: Vec<String>,
    /// What it carries, where its array runs without it.
    pub carries: Option<Carried>,
    /// Whether its array keeps a bitmap of what was written: without one md takes back no member as what it was, only as a new one.
    pub has_bitmap: bool,
}

/// How a member is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemberStatus {
    /// Name of the volume.
    pub name: String,
    /// Its device, a link below /dev/disk.
    pub path: String,
    /// State of the member.
    pub state: MemberState,
    /// Errors that the array counted of it.
    pub errors: u64,
    /// What the drive says of its own health, where that is trouble.
    pub troubles: Vec<String>,
}

//! A file known again: not by its path, at which there may be another by then.

use crate::units::UnixTime;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// A file or directory as the kernel tells it apart from another of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// Device number (`st_dev`).
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Birth, where the file system records it: an inode number is used again soon
    /// after its file is removed, a birth is not.
    #[serde(default)]
    pub born_unix_ns: Option<UnixTime>,
}

impl FileId {
    /// From what `stat` and `statx` say.
    pub fn new(dev: u64, ino: u64, born: Option<SystemTime>) -> Self {
        let born_unix_ns = born
            .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
            .and_then(|since| u64::try_from(since.as_nanos()).ok().map(UnixTime));
        FileId { dev, ino, born_unix_ns }
    }
}

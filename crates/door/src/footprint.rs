//! What a file or device is, and which bytes it stands on.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// One file or device, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// A regular file, by its inode.
    File {
        /// Device number of its file system.
        dev: u64,
        /// Inode number.
        ino: u64,
    },
    /// A block device by its number.
    Device(u64),
}

impl Identity {
    /// Of the file or block device that `found` is of.
    pub fn of(found: &Metadata) -> Identity {
        if found.file_type().is_block_device() {
            Identity::Device(found.rdev())
        } else {
            Identity::File { dev: found.dev(), ino: found.ino() }
        }
    }
}

/// Which bytes something stands on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Footprint {
    /// What it is: itself, and what a loop device passes everything on to.
    pub covers: Vec<Identity>,
    /// What it has a part of: the disk of a partition, the members of an array, the physical volumes of a logical one.
    pub within: Vec<Identity>,
}

impl Footprint {
    /// Of something that nothing is known about but itself.
    pub fn alone(identity: Identity) -> Footprint {
        Footprint { covers: vec![identity], within: Vec::new() }
    }

    /// Whether writing the one may change the other.
    pub fn overlaps(&self, other: &Footprint) -> bool {
        let shared = |these: &[Identity], those: &[Identity]| these.iter().any(|one| those.contains(one));
        shared(&self.covers, &other.covers)
            || shared(&self.covers, &other.within)
            || shared(&self.within, &other.covers)
    }
}

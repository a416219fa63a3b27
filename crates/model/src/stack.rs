//! What a design is built of in the kernel beside its layout: md or LVM, encryption, a file system, tunables.
//!
//! The layout says where bytes go and is the same on every backend. What stands here only the kernel has; the
//! other backends refuse what they can neither do nor model ([`Stack::kernel_only`]).

use crate::layout::LayoutNode;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a design has on top of, below and around its layout.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stack {
    /// How each array is built, an array before the arrays among its members; those that are not here by md.
    pub arrays: Vec<ArrayBacking>,
    /// Encryption of the whole array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// The file system in which trials use a file; without one they use the array itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<Filesystem>,
    /// Mount options as `mount -o` takes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<String>,
    /// Readahead of the device that trials or the file system use; a multiple of 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readahead: Option<Bytes>,
    /// I/O scheduler of the members' disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Requests that the queue of each member's disk holds (`nr_requests`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Largest request to each member's disk (`max_sectors_kb`); a whole number of KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sectors: Option<Bytes>,
    /// Swap spaces that are on while trials run; their arrays follow those of the layout in `arrays`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub swap: Vec<Swap>,
}

impl Stack {
    /// Keys of the experiment file that only the kernel can honour, in the order of the documentation.
    ///
    /// `backing = ...` is not among them: md, LVM and user space compute the same layout.
    pub fn kernel_only(&self) -> Vec<&'static str> {
        let any = |of: fn(&ArrayBacking) -> bool| self.arrays.iter().any(of);
        let keys = [
            ("metadata", any(|array| array.metadata.is_some())),
            ("bitmap", any(|array| array.bitmap.is_some())),
            ("write_mostly", any(|array| !array.write_mostly.is_empty())),
            ("encryption", self.encryption.is_some()),
            ("filesystem", self.filesystem.is_some()),
            ("mount_options", self.mount_options.is_some()),
            ("readahead", self.readahead.is_some()),
            ("scheduler", self.scheduler.is_some()),
            ("queue_depth", self.queue_depth.is_some()),
            ("max_sectors", self.max_sectors.is_some()),
            ("swap", !self.swap.is_empty()),
        ];
        keys.into_iter().filter_map(|(key, given)| given.then_some(key)).collect()
    }
}

/// How one array is built.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayBacking {
    /// By what; md when the file does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backing: Option<Backing>,
    /// md: version of the metadata, which says where it lies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// md: whether a bitmap records which regions are being written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bitmap: Option<Bitmap>,
    /// md mirror: volumes that are read only when the others fail; indices into `Experiment::volumes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write_mostly: Vec<usize>,
}

/// Declares an enum whose values are words of the experiment file.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$value_meta:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$value_meta])* #[serde(rename = $word)] $value,)*
        }

        impl $name {
            /// Every value's word, in their order.
            pub const WORDS: &[&str] = &[$($word),*];

            /// The value that `word` stands for.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some($name::$value),)*
                    _ => None,
                }
            }

            /// What the value is called in experiments and by the tools.
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)*
                }
            }
        }
    };
}

words! {
    /// What builds an array.
    Backing {
        /// The md driver, by mdadm.
        Md = "md",
        /// LVM: a volume group of the members with one logical volume.
        Lvm = "lvm",
    }
}

words! {
    /// Version of md's metadata (`mdadm --metadata`).
    Metadata {
        /// Near the start of each member, as mdadm does it by default.
        V12 = "1.2",
        /// At the start of each member.
        V11 = "1.1",
        /// At the end of each member.
        V10 = "1.0",
        /// The old one at the end of each member, members below 2 TiB.
        V090 = "0.90",
    }
}

words! {
    /// md's write-intent bitmap.
    Bitmap {
        /// None: after a crash all of a redundant array is resynced.
        None = "none",
        /// Next to the metadata; costs a write to it before the first write to a region.
        Internal = "internal",
    }
}

words! {
    /// What an array is formatted with, by the word that follows `mkfs.`.
    Filesystem {
        /// ext4.
        Ext4 = "ext4",
        /// XFS.
        Xfs = "xfs",
        /// btrfs, as one device.
        Btrfs = "btrfs",
        /// ext2: no journal.
        Ext2 = "ext2",
        /// ext3.
        Ext3 = "ext3",
        /// JFS.
        Jfs = "jfs",
    }
}

/// Encryption of the array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encryption {
    /// How it is encrypted.
    pub format: EncryptionFormat,
    /// File whose bytes are the key, of which only the path is ever on a command line; without one the key is asked
    /// for at the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

/// Swap spaces of one priority: the kernel fills them in turn, page cluster by page cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// Each becomes a swap space: volumes, or arrays of volumes.
    pub members: Vec<LayoutNode>,
    /// From 0 to [`Swap::PRIORITY_MAX`], the highest is used first; without one the kernel gives each a lower one than
    /// the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
}

impl Swap {
    /// The kernel's highest priority (`SWAP_FLAG_PRIO_MASK`).
    pub const PRIORITY_MAX: u32 = 0x7fff;
}

words! {
    /// A format of encryption.
    EncryptionFormat {
        /// dm-crypt with a LUKS2 header and cryptsetup's default cipher.
        Luks2 = "luks2",
    }
}

//! What a design is built of in the kernel beside its layout: md or LVM, encryption, a file system, tunables.
//!
//! The layout says where bytes go and is the same on every backend. What stands here only the kernel has; the
//! other backends refuse what they can neither do nor model ([`Stack::kernel_only`]).

use crate::layout::LayoutNode;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use strum::{AsRefStr, EnumString, VariantNames};

/// What a design has on top of, below and around its layout.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stack {
    /// A directory that is measured as it stands, instead of something that is built; the design's volume is a file in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
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
    /// Fast volumes as a cache in front of the outermost array, which is LVM's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
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
            ("consistency_policy", any(|array| array.consistency_policy.is_some())),
            ("stripe_cache_size", any(|array| array.stripe_cache_size.is_some())),
            ("group_thread_cnt", any(|array| array.group_thread_cnt.is_some())),
            ("cache", self.cache.is_some()),
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
    /// md RAID5 without a bitmap: how parity is made right after a crash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consistency_policy: Option<ConsistencyPolicy>,
    /// md RAID5 and RAID6: pages of 4 KiB of each member that are held to be put together, in [`ArrayBacking::STRIPE_CACHE`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripe_cache_size: Option<u32>,
    /// md RAID5 and RAID6: threads beside the array's own that compute and write, per group of processors; at most
    /// [`ArrayBacking::THREADS_MAX`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_thread_cnt: Option<u32>,
    /// md, redundant: the members that are on other hosts than the array, where each member is on a host of its own; indices into
    /// `Experiment::volumes`. What follows from that: a bitmap, so that a host that comes back is brought up to date by what it missed;
    /// errors of these members throw them out at once; and a mirror reads from its members that are here, where it has some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<usize>,
}

impl ArrayBacking {
    /// What the kernel takes as `stripe_cache_size` (`raid5_set_cache_size`).
    pub const STRIPE_CACHE: RangeInclusive<u32> = 17..=32768;
    /// The most that the kernel takes as `group_thread_cnt` (`raid5_store_group_thread_cnt`).
    pub const THREADS_MAX: u32 = 8192;

    /// Whether its members are on different hosts.
    pub fn is_across_hosts(&self) -> bool {
        !self.elsewhere.is_empty()
    }

    /// The bitmap, where the design does not say: with members on other hosts there is one.
    pub fn bitmap_or_default(&self) -> Bitmap {
        let default = if self.is_across_hosts() { Bitmap::Internal } else { Bitmap::None };
        self.bitmap.unwrap_or(default)
    }
}

/// What builds an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, AsRefStr, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Backing {
    /// The md driver, by mdadm.
    Md,
    /// LVM: a volume group of the members with one logical volume.
    Lvm,
}

/// A cache of LVM's in front of an array (lvmcache(7)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Volumes whose room it takes, one after the other; indices into `Experiment::volumes`.
    pub members: Vec<usize>,
    /// What it holds.
    pub kind: CacheKind,
    /// When writes reach the array; a `writecache` always writes back.
    pub mode: CacheMode,
}

impl Cache {
    /// What is lost with a disk of it, in a sentence.
    pub fn loss(&self) -> &'static str {
        self.mode.loss()
    }

    /// Whether what was written may be lost with a disk of it.
    pub fn loses(&self) -> bool {
        self.mode.loses()
    }
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, AsRefStr, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum CacheKind {
    /// What is read and written often (dm-cache).
    Cache,
    /// Writes alone (dm-writecache).
    Writecache,
}

/// When what is written through a cache reaches the array behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, AsRefStr, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum CacheMode {
    /// Before the write has ended.
    Writethrough,
    /// Some time later.
    Writeback,
}

impl CacheMode {
    /// Whether what was written may be lost with a disk of such a cache.
    pub const fn loses(self) -> bool {
        matches!(self, CacheMode::Writeback)
    }

    /// What is lost with a disk of such a cache, in a sentence.
    pub const fn loss(self) -> &'static str {
        match self {
            CacheMode::Writethrough => {
                "nothing is lost with a disk of the cache: each write is on the array before it has ended"
            }
            CacheMode::Writeback => {
                "with a disk of the cache all of the array is lost: what was written last is on that disk alone, so that the file system is damaged"
            }
        }
    }
}

/// Version of md's metadata (`mdadm --metadata`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, AsRefStr, EnumString, VariantNames)]
pub enum Metadata {
    /// Near the start of each member, as mdadm does it by default.
    #[serde(rename = "1.2")]
    #[strum(serialize = "1.2")]
    V12,
    /// At the start of each member.
    #[serde(rename = "1.1")]
    #[strum(serialize = "1.1")]
    V11,
    /// At the end of each member.
    #[serde(rename = "1.0")]
    #[strum(serialize = "1.0")]
    V10,
    /// The old one at the end of each member, members below 2 TiB.
    #[serde(rename = "0.90")]
    #[strum(serialize = "0.90")]
    V090,
}

/// md's write-intent bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, AsRefStr, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Bitmap {
    /// None: after a crash all of a redundant array is resynced.
    None,
    /// Next to the metadata; costs a write to it before the first write to a region.
    Internal,
}

/// How md makes the parity of an array right after a crash (`mdadm --consistency-policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, AsRefStr, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ConsistencyPolicy {
    /// All of it is computed anew.
    Resync,
    /// A log of partial parity on the members: only what was being written, and data of a member that fails meanwhile are not lost
    /// with it. Each write costs one more to the member with the parity.
    Ppl,
}

/// What an array is formatted with, by the word that follows `mkfs.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, AsRefStr, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Filesystem {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs, as one device.
    Btrfs,
    /// ext2: no journal.
    Ext2,
    /// ext3.
    Ext3,
    /// JFS.
    Jfs,
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
    /// Reads are decrypted by whoever completes them, and not by a thread of dm-crypt's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_read_workqueue: bool,
    /// Writes are encrypted by whoever sends them, and not by a thread of dm-crypt's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_write_workqueue: bool,
    /// What is encrypted in one piece, in bytes: one of [`Encryption::SECTOR_SIZES`]; without one, what cryptsetup takes for the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sector_size: Option<u32>,
}

impl Encryption {
    /// The sizes that LUKS2 knows.
    pub const SECTOR_SIZES: [u32; 4] = [512, 1024, 2048, 4096];
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

/// A format of encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, AsRefStr, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum EncryptionFormat {
    /// dm-crypt with a LUKS2 header and cryptsetup's default cipher.
    Luks2,
}

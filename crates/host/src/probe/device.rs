//! What is known of one block device.

use super::kind::Kind;
use super::signature::Content;
use super::tables::Mount;
use crate::graph::{KernelExport, MdArray};
use crate::sys::DevNum;
use ebbtide_model::graph::Join;
use ebbtide_model::observe::nvme::Health;
use ebbtide_model::units::Bytes;
use serde::Serialize;

/// One block device: a disk, a partition, or a device made of others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockDevice {
    /// Kernel name, for example `nvme0n1p1`.
    pub name: String,
    /// Name that people use where it differs (`vg0-data` for `dm-0`).
    pub alias: Option<String>,
    /// Device number.
    pub dev: DevNum,
    /// Size of the device.
    pub size: Bytes,
    /// Kind; a partition has its disk's.
    pub kind: Kind,
    /// The disk that it is a partition of.
    pub partition_of: Option<String>,
    /// Where the partition begins on its disk.
    pub start: Option<Bytes>,
    /// Whether it cannot be written.
    pub read_only: bool,
    /// Whether the medium can be taken out.
    pub removable: bool,
    /// Stable names and numbers.
    pub ids: Ids,
    /// How the kernel queues requests to it (partitions: their disk's).
    pub queue: Queue,
    /// Devices that it is made of.
    pub slaves: Vec<String>,
    /// Devices that are made of it.
    pub holders: Vec<String>,
    /// Kernel names of its partitions.
    pub partitions: Vec<String>,
    /// What is written on it.
    pub content: Content,
    /// Where it is mounted, as this program sees it.
    pub mounts: Vec<Mount>,
    /// Where it is mounted in other mount namespaces, where it is not in this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounted_elsewhere: Vec<String>,
    /// Bytes of swap in use when it is an active swap area.
    pub swap_used: Option<Bytes>,
    /// The array, when it is one of md's.
    pub md: Option<MdArray>,
    /// What it is made of, where that is other devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<Made>,
    /// The file system over several devices that it is one of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Made>,
    /// The file behind a loop device.
    pub backing_file: Option<String>,
    /// What gives it to other hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<KernelExport>,
    /// What an NVMe drive says of its health, once it was asked ([`ask_health`](super::ask_health)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

/// What a device is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Made {
    /// How they are put together.
    pub join: Join,
    /// Names of the devices that hold its data, in the array's order where it is known.
    pub of: Vec<String>,
    /// How many more there should be.
    pub missing: u32,
}

/// Stable identity of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Ids {
    /// Model as the device reports it.
    pub model: Option<String>,
    /// Serial number, as the device gives it.
    pub serial: Option<String>,
    /// World-wide identifier (NGUID, EUI-64, NAA).
    pub wwid: Option<String>,
    /// What its provider calls it: an EBS volume id with its dash, an image of Ceph as `rbd:POOL/IMAGE`.
    pub volume_id: Option<String>,
    /// Names below /dev/disk/by-id.
    pub by_id: Vec<String>,
}

impl Ids {
    /// Whether `id` names this device: a by-id name or path, the serial, the WWID or the volume id, in full.
    pub fn matches(&self, id: &str) -> bool {
        let id = id.trim();
        let name = id.strip_prefix("/dev/disk/by-id/").unwrap_or(id);
        !name.is_empty()
            && (self.by_id.iter().any(|n| n == name)
                || [&self.serial, &self.wwid, &self.volume_id]
                    .into_iter()
                    .any(|v| v.as_deref() == Some(name)))
    }

    /// The id best given in an experiment: the volume id, else a by-id name, else serial or WWID.
    pub fn best(&self) -> Option<&str> {
        self.volume_id
            .as_deref()
            .or_else(|| best_name(&self.by_id))
            .or(self.serial.as_deref())
            .or(self.wwid.as_deref())
    }
}

/// How well a name below /dev/disk/by-id tells a device. Best is model and serial, then numbers that nobody reads. What is on it, who made it
/// and a host's name change.
fn rank(name: &str) -> usize {
    const RANKS: [&[&str]; 3] = [
        &["wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nvme."],
        &["md-uuid-", "dm-name-", "dm-uuid-"],
        &["lvm-pv-uuid-", "md-name-"],
    ];
    RANKS.iter().position(|kinds| kinds.iter().any(|kind| name.starts_with(kind))).map_or(0, |at| at + 1)
}

/// The best of these names below /dev/disk/by-id; of those that tell it as well the shortest.
pub fn best_name(by_id: &[String]) -> Option<&str> {
    by_id.iter().map(String::as_str).min_by_key(|name| (rank(name), name.len(), *name))
}

/// The best of those that stay whatever is written to the device.
pub fn steadiest_name(by_id: &[String]) -> Option<&str> {
    best_name(by_id).filter(|name| rank(name) < 2)
}

/// Whether the link `path` says which device it is, or where that is plugged in: a copy of what is on it takes over no such link, as it does those
/// by UUID and label.
pub fn is_steady_link(path: &str) -> bool {
    let by_id = path.strip_prefix("/dev/disk/by-id/");
    path.starts_with("/dev/disk/by-path/") || by_id.is_some_and(|name| rank(name) < 3)
}

/// Whether a serial number or world-wide identifier says which device it is. Where there is none, drivers and firmware give `(null)`, blanks or zeros,
/// and other devices have the same.
pub(super) fn identifies(id: &str) -> bool {
    let number = ["naa.", "eui.", "uuid.", "t10.", "0x"].iter().find_map(|kind| id.strip_prefix(kind));
    let digits = number.unwrap_or(id).chars().filter(|sign| !sign.is_whitespace() && !"-_.:".contains(*sign));
    let digits: String = digits.collect();
    !digits.chars().all(|digit| digit == '0')
        && !["(null)", "null"].contains(&digits.to_ascii_lowercase().as_str())
}

/// How the kernel queues requests. A device without a request queue of its own (zram, a bare dm) lacks some.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Queue {
    /// I/O scheduler in use (`queue/scheduler`).
    pub scheduler: Option<String>,
    /// Schedulers that can be chosen.
    pub schedulers: Vec<String>,
    /// Readahead in bytes; `blockdev --getra` prints it in sectors of 512 bytes.
    pub readahead: Option<Bytes>,
    /// Requests that the kernel queues (`nr_requests`).
    pub requests: Option<u64>,
    /// Commands that the device takes at once, where the driver says (SCSI `queue_depth`).
    pub device_depth: Option<u64>,
    /// Whether the kernel believes that seeks cost time.
    pub rotational: Option<bool>,
    /// Logical block size (`queue/logical_block_size`).
    pub logical_block: Option<Bytes>,
    /// Smallest block written without reading first.
    pub physical_block: Option<Bytes>,
    /// Smallest preferred request (an array's chunk).
    pub minimum_io: Option<Bytes>,
    /// Preferred request (an array's stripe of data); absent when the device gives none.
    pub optimal_io: Option<Bytes>,
    /// Largest request before the kernel splits it.
    pub maximum_io: Option<Bytes>,
}

impl Queue {
    /// Readahead in sectors of 512 bytes, as `blockdev --getra` and `--setra` count it.
    pub fn readahead_sectors(&self) -> Option<u64> {
        self.readahead.map(|bytes| bytes.0 / 512)
    }
}

impl BlockDevice {
    /// The name to print: the alias where there is one.
    pub fn shown_name(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }

    /// Whether nothing uses it and nothing is known to be written on it.
    pub fn is_free(&self) -> bool {
        !self.is_used() && !self.read_only && self.size.0 > 0 && self.content == Content::Nothing
    }

    /// Whether it is mounted, swapped on, divided into partitions, part of another device or given to another host.
    pub fn is_used(&self) -> bool {
        !(self.holders.is_empty()
            && self.partitions.is_empty()
            && self.mounts.is_empty()
            && self.mounted_elsewhere.is_empty()
            && self.exports.is_empty()
            && self.swap_used.is_none())
    }

    /// Whether it may be free or not: nothing uses it, and what is on it could not be read.
    pub fn is_unknown(&self) -> bool {
        !self.is_used() && matches!(self.content, Content::Unknown(_))
    }
}

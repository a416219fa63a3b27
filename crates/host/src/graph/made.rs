//! How a device that is made of others is put together: from md's own words in sysfs, from device-mapper's tables where
//! they can be seen, and from names where not.

use super::Node;
use super::dm::Tables;
use crate::sys::md::Synced;
use crate::sys::{self, DevNum, Sys};
use ebbtide_model::graph::{Below, Join};
use ebbtide_model::units::Bytes;
use serde::Serialize;
use std::path::Path;

/// Suffixes of the names that LVM gives to the hidden parts of a logical volume, before their number (lvm2, lib/metadata).
const DESCRIBES: [&str; 3] = ["_rmeta_", "_mlog", "_imeta"];
/// Suffixes of device-mapper uuids that LVM gives to the layers below thin volumes, snapshots and deduplication.
const INDIRECT: [&str; 7] = ["-tpool", "-tdata", "-tmeta", "-real", "-cow", "-vpool", "-vdata"];
/// The same below caches.
const CACHED: [&str; 5] = ["-cdata", "-cmeta", "-corig", "-cvol", "-cpool"];

/// State of an md array.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MdArray {
    /// `raid0`, `raid1`, `raid10`, `raid5`, `raid6`, `linear`.
    pub level: String,
    /// Bytes on one member before the next member's turn; absent for levels without stripes.
    pub chunk: Option<Bytes>,
    /// md's own number for how a RAID10 or RAID5 arranges its chunks.
    pub layout: Option<u32>,
    /// Members that it should have.
    pub members: u32,
    /// Members that it lacks.
    pub degraded: u32,
    /// Kernel names of devices that it holds and uses no more, because they failed.
    pub faulty: Vec<String>,
    /// `idle`, `resync`, `recover`, `check`, ...
    pub action: Option<String>,
    /// Share of that action done, 0 to 1.
    pub done: Option<f64>,
    /// `clean`, `active`, `inactive`, ...
    pub state: Option<String>,
}

impl MdArray {
    /// The array `name` with its directory in sysfs; nothing where it is none of md's.
    pub(super) fn read(sys: &Sys, name: &str, md: &Path) -> Option<MdArray> {
        let level = sys::word(&md.join("level"))?;
        let action = sys::word(&md.join("sync_action"));
        // Of what is at rest nobody has to read how far it is.
        let at_work = action.as_deref().is_some_and(sys::md::is_action);
        Some(MdArray {
            level,
            chunk: sys::number(&md.join("chunk_size")).filter(|c| *c != 0).map(Bytes),
            layout: sys::number(&md.join("layout")),
            members: sys::number(&md.join("raid_disks")).unwrap_or_default(),
            degraded: sys::number(&md.join("degraded")).unwrap_or_default(),
            action,
            done: at_work.then(|| sys::md::synced(sys, name)).flatten().map(Synced::share),
            state: sys::word(&md.join("array_state")),
            faulty: faulty(md),
        })
    }

    /// What it makes of these devices that it holds.
    pub(super) fn made(&self, place: &Path, slaves: &[usize], nodes: &[Node]) -> Below {
        // Members in the order of their slots, and what keeps a journal; a spare, and one that failed, hold no data.
        let slot = |at: &usize| sys::word(&place.join(format!("md/dev-{}/slot", nodes[*at].name)));
        let mut members: Vec<(u32, usize)> = slaves
            .iter()
            .map(|at| (slot(at), *at))
            .filter(|(slot, _)| slot.as_deref() != Some("none"))
            .map(|(slot, at)| (slot.and_then(|slot| slot.parse().ok()).unwrap_or(u32::MAX), at))
            .collect();
        members.sort_by_key(|(slot, _)| *slot);
        let devices: Vec<usize> = members.into_iter().map(|(_, at)| at).collect();
        let parity = |parity| Join::Parity { parity, of: self.members, chunk: self.chunk };
        let join = match self.level.as_str() {
            "raid0" => Join::Stripe { chunk: self.chunk },
            "linear" => alone_or(&devices, Join::Linear),
            "raid1" => Join::Mirror { copies: self.members },
            "raid10" => Join::StripedMirror { copies: self.copies(), chunk: self.chunk },
            "raid4" | "raid5" => parity(1),
            "raid6" => parity(2),
            "multipath" => Join::Paths,
            _ => alone_or(&devices, Join::Other),
        };
        Below { devices, join, missing: self.degraded }
    }

    /// Copies of every byte of a RAID10: near copies in the lowest byte of its layout, far ones or those at an offset in the next
    /// (md(4)).
    fn copies(&self) -> u32 {
        self.layout.map_or(2, |layout| (layout & 0xff) * (layout >> 8 & 0xff)).max(1)
    }
}

/// Devices of the array at `md` whose state (`dev-NAME/state`, a list) says that they failed.
pub(super) fn faulty(md: &Path) -> Vec<String> {
    let devices =
        sys::names(md).into_iter().filter_map(|name| Some((name.strip_prefix("dev-")?.to_owned(), name)));
    let failed = devices.filter(|(_, entry)| {
        let state = sys::word(&md.join(entry).join("state"));
        state.is_some_and(|state| state.split(',').any(|word| word == "faulty"))
    });
    failed.map(|(device, _)| device).collect()
}

fn alone_or(devices: &[usize], several: Join) -> Join {
    if devices.len() < 2 { Join::Through } else { several }
}

/// What the device at this place, which is one of device-mapper's or another that the kernel makes up, makes of those that it holds.
pub(super) fn made(at: usize, slaves: &[usize], nodes: &[Node], place: &Path, tables: &Tables<'_>) -> Below {
    let node = &nodes[at];
    let of = |join: Join| Below { devices: slaves.to_vec(), join, missing: 0 };
    if !node.name.starts_with("dm-") {
        return of(if node.name.starts_with("bcache") { Join::Cache } else { alone_or(slaves, Join::Other) });
    }
    let (uuid, one) = (node.dm_uuid.as_str(), slaves.len() == 1);
    // The plainest and most frequent needs no asking: a logical volume on one disk.
    let plain = uuid.starts_with("LVM-") && !slaves.iter().any(|slave| nodes[*slave].name.starts_with("dm-"));
    if one && (plain || uuid.starts_with("CRYPT-") || uuid.starts_with("part")) {
        return of(Join::Through);
    }
    if uuid.starts_with("mpath-") {
        return of(Join::Paths);
    }
    if let Some(mapping) = tables.of(node.shown_name()) {
        let place_of = |dev: &DevNum| nodes.iter().position(|node| node.dev == *dev);
        let devices: Vec<usize> = mapping.devices.iter().filter_map(place_of).collect();
        if !devices.is_empty() {
            return Below { devices, join: mapping.join, missing: mapping.missing };
        }
    }
    by_names(slaves, nodes, uuid, place)
}

/// What names tell where the table may not be seen.
fn by_names(slaves: &[usize], nodes: &[Node], uuid: &str, place: &Path) -> Below {
    let any = |test: &dyn Fn(&Node) -> bool| slaves.iter().any(|slave| test(&nodes[*slave]));
    let ends = |with: &[&str]| any(&|slave| with.iter().any(|suffix| slave.dm_uuid.ends_with(suffix)));
    let join = if ends(&INDIRECT) {
        Join::Indirect
    } else if ends(&CACHED) {
        Join::Cache
    } else if any(&|slave| slave.shown_name().contains("_rimage_")) {
        Join::Other
    } else if any(&|slave| slave.shown_name().contains("_mimage_")) {
        Join::Mirror { copies: slaves.len() as u32 }
    } else if uuid.starts_with("LVM-") && slaves.len() > 1 {
        striped(place, slaves.len()).unwrap_or(Join::Linear)
    } else {
        alone_or(slaves, Join::Other)
    };
    let describes = |at: &&usize| DESCRIBES.iter().any(|part| nodes[**at].shown_name().contains(part));
    Below { devices: slaves.iter().filter(|at| !describes(at)).copied().collect(), join, missing: 0 }
}

/// A striped logical volume publishes its chunk as minimum_io_size and its stripe as optimal_io_size.
fn striped(place: &Path, devices: usize) -> Option<Join> {
    let limit = |name: &str| sys::number::<u64>(&place.join("queue").join(name)).filter(|bytes| *bytes > 0);
    let (chunk, whole) = (limit("minimum_io_size")?, limit("optimal_io_size")?);
    (whole == chunk.checked_mul(devices as u64)?).then_some(Join::Stripe { chunk: Some(Bytes(chunk)) })
}

/// What a btrfs over the devices of the directory `place` below /sys/fs/btrfs does with its data.
pub(super) fn btrfs(place: &Path, devices: usize) -> (Join, u32) {
    let data = place.join("allocation/data");
    // A profile that is being left, or was never used, has no bytes.
    let in_use = |profile: &String| {
        sys::number::<u64>(&data.join(profile).join("total_bytes")).is_some_and(|bytes| bytes > 0)
    };
    let profiles: Vec<String> = sys::names(&data).into_iter().filter(in_use).collect();
    let ids = sys::names(&place.join("devinfo"));
    let gone = |id: &&String| sys::number::<u8>(&place.join("devinfo").join(id).join("missing")) == Some(1);
    let missing = ids.iter().filter(gone).count() as u32;
    let of = devices as u32 + missing;
    let chunk = Some(BTRFS_STRIPE);
    let several = |join: Join| if of > 1 { join } else { Join::Through };
    let copies = |copies: u32| {
        if of <= copies { Join::Mirror { copies } } else { Join::StripedMirror { copies, chunk: None } }
    };
    let join = match profiles.as_slice() {
        [one] => match one.as_str() {
            "single" => several(Join::Linear),
            "raid0" => several(Join::Stripe { chunk }),
            "dup" => Join::Mirror { copies: 2 },
            "raid1" => copies(2),
            "raid1c3" => copies(3),
            "raid1c4" => copies(4),
            "raid10" => Join::StripedMirror { copies: 2, chunk },
            "raid5" => Join::Parity { parity: 1, of, chunk },
            "raid6" => Join::Parity { parity: 2, of, chunk },
            _ => several(Join::Other),
        },
        _ => several(Join::Other),
    };
    (join, missing)
}

/// btrfs' stripe is fixed (fs/btrfs/volumes.h, BTRFS_STRIPE_LEN).
const BTRFS_STRIPE: Bytes = Bytes(64 * Bytes::KIB);

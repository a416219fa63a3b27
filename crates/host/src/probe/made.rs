//! How a device that is made of others is put together: from md's own words in sysfs, from device-mapper's tables where
//! they can be seen, and from names where not.

use super::dm::Tables;
use super::{MdArray, md_array, tables};
use crate::sys::{self, DevNum, Sys};
use ebbtide_model::samples::Join;
use ebbtide_model::units::Bytes;
use serde::Serialize;
use std::path::Path;

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

/// Suffixes of the names that LVM gives to the hidden parts of a logical volume, before their number (lvm2, lib/metadata).
const DESCRIBES: [&str; 3] = ["_rmeta_", "_mlog", "_imeta"];
/// Suffixes of device-mapper uuids that LVM gives to the layers below thin volumes, snapshots and deduplication.
const INDIRECT: [&str; 7] = ["-tpool", "-tdata", "-tmeta", "-real", "-cow", "-vpool", "-vdata"];
/// The same below caches.
const CACHED: [&str; 5] = ["-cdata", "-cmeta", "-corig", "-cvol", "-cpool"];

/// What the device at `place` in sysfs is made of; nothing is below a disk. Partitions and loop devices are known to the caller.
pub fn made(sys: &Sys, place: &Path, tables: &Tables<'_>) -> Made {
    let slaves = sys::names(&place.join("slaves"));
    let name = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if slaves.is_empty() {
        return Made::default();
    }
    if let Some(md) = md_array(sys, place) {
        return of_md(&md, in_order(place, slaves));
    }
    if name.starts_with("dm-") {
        return of_mapping(sys, place, slaves, tables);
    }
    let join = if name.starts_with("bcache") { Join::Cache } else { alone_or(&slaves, Join::Other) };
    Made { join, of: slaves, missing: 0 }
}

fn alone_or(devices: &[String], several: Join) -> Join {
    if devices.len() < 2 { Join::Through } else { several }
}

/// Members in the order of their slots; those without (spares) last.
fn in_order(place: &Path, mut members: Vec<String>) -> Vec<String> {
    let slot = |name: &String| -> Option<u32> { sys::number(&place.join(format!("md/dev-{name}/slot"))) };
    members.sort_by_key(|name| slot(name).unwrap_or(u32::MAX));
    members
}

fn of_md(md: &MdArray, of: Vec<String>) -> Made {
    let parity = |parity| Join::Parity { parity, of: md.members, chunk: md.chunk };
    let join = match md.level.as_str() {
        "raid0" => Join::Stripe { chunk: md.chunk },
        "linear" => alone_or(&of, Join::Linear),
        "raid1" => Join::Mirror { copies: md.members },
        "raid10" => Join::StripedMirror { copies: md.copies(), chunk: md.chunk },
        "raid4" | "raid5" => parity(1),
        "raid6" => parity(2),
        "multipath" => Join::Paths,
        _ => alone_or(&of, Join::Other),
    };
    Made { join, of, missing: md.degraded }
}

fn of_mapping(sys: &Sys, place: &Path, slaves: Vec<String>, tables: &Tables<'_>) -> Made {
    let uuid = sys::word(&place.join("dm/uuid")).unwrap_or_default();
    if ["CRYPT-", "part"].iter().any(|kind| uuid.starts_with(kind)) && slaves.len() == 1 {
        return Made { join: Join::Through, of: slaves, missing: 0 };
    }
    if uuid.starts_with("mpath-") {
        return Made { join: Join::Paths, of: slaves, missing: 0 };
    }
    // The plainest and most frequent needs no asking: a logical volume on one disk.
    if uuid.starts_with("LVM-") && slaves.len() == 1 && !slaves[0].starts_with("dm-") {
        return Made { join: Join::Through, of: slaves, missing: 0 };
    }
    let mapping = sys::word(&place.join("dm/name")).and_then(|name| tables.of(&name));
    if let Some(mapping) = mapping {
        let name = |dev: &DevNum| {
            let place = std::fs::read_link(sys.sys.join("dev/block").join(dev.to_string())).ok()?;
            place.file_name()?.to_str().map(str::to_owned)
        };
        let of: Vec<String> = mapping.devices.iter().filter_map(name).collect();
        let missing = mapping.missing;
        if !of.is_empty() {
            return Made { join: mapping.join, of, missing };
        }
    }
    by_names(place, slaves, &uuid)
}

/// What names tell where the table may not be seen.
fn by_names(place: &Path, slaves: Vec<String>, uuid: &str) -> Made {
    let dm = |slave: &str, what: &str| {
        sys::word(&place.join("slaves").join(slave).join("dm").join(what)).unwrap_or_default()
    };
    let ends = |text: &str, with: &[&str]| with.iter().any(|suffix| text.ends_with(suffix));
    let any = |test: &dyn Fn(&str) -> bool| slaves.iter().any(|slave| test(slave));
    let join = if any(&|slave| ends(&dm(slave, "uuid"), &INDIRECT)) {
        Join::Indirect
    } else if any(&|slave| ends(&dm(slave, "uuid"), &CACHED)) {
        Join::Cache
    } else if any(&|slave| dm(slave, "name").contains("_rimage_")) {
        Join::Other
    } else if any(&|slave| dm(slave, "name").contains("_mimage_")) {
        Join::Mirror { copies: slaves.len() as u32 }
    } else if uuid.starts_with("LVM-") && slaves.len() > 1 {
        striped(place, slaves.len()).unwrap_or(Join::Linear)
    } else {
        alone_or(&slaves, Join::Other)
    };
    let describes = |slave: &String| DESCRIBES.iter().any(|part| dm(slave, "name").contains(part));
    let of = slaves.iter().filter(|slave| !describes(slave)).cloned().collect();
    Made { join, of, missing: 0 }
}

/// A striped logical volume publishes its chunk as minimum_io_size and its stripe as optimal_io_size.
fn striped(place: &Path, devices: usize) -> Option<Join> {
    let limit = |name: &str| sys::number::<u64>(&place.join("queue").join(name)).filter(|bytes| *bytes > 0);
    let (chunk, whole) = (limit("minimum_io_size")?, limit("optimal_io_size")?);
    (whole == chunk.checked_mul(devices as u64)?).then_some(Join::Stripe { chunk: Some(Bytes(chunk)) })
}

/// A file system over several devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Where it is mounted, or its UUID.
    pub name: String,
    /// Kernel names of those that it is over.
    pub devices: Vec<String>,
    /// What it does with its data on them.
    pub join: Join,
    /// Devices that it lacks.
    pub missing: u32,
}

/// Mounted file systems over several devices: btrfs.
pub fn file_systems(sys: &Sys) -> Vec<FileSystem> {
    let all = sys.sys.join("fs/btrfs");
    let mounts = tables::mounts_of(sys);
    let found = sys::names(&all).into_iter().map(|uuid| {
        let devices = sys::names(&all.join(&uuid).join("devices"));
        let is_one = |source: &str| devices.iter().any(|name| source.strip_prefix("/dev/") == Some(name));
        let mount = mounts.iter().find(|mount| mount.fstype == "btrfs" && is_one(&mount.source));
        let (join, missing) = btrfs(&all.join(&uuid), devices.len());
        FileSystem { name: mount.map_or(uuid, |mount| mount.mountpoint.clone()), devices, join, missing }
    });
    let mut found: Vec<FileSystem> = found.filter(|found| found.devices.len() > 1).collect();
    found.sort_by(|a, b| sys::natural_order(&a.name, &b.name));
    found
}

/// What a btrfs over the devices of the directory `place` below /sys/fs/btrfs does with its data.
pub fn btrfs(place: &Path, devices: usize) -> (Join, u32) {
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

//! Every block device of a host, with what it is, what it is part of and what is on it.

mod cloud;
mod data;
mod device;
pub mod dm;
mod health;
mod kind;
mod made;
mod relations;
pub mod signature;
pub mod tables;
#[cfg(test)]
mod tests;

pub use cloud::{Cloud, cloud};
pub use data::{foreign_data, foreign_data_over, look_for_data};
pub use device::{BlockDevice, Ids, MdArray, Queue, best_name, is_steady_link, steadiest_name};
pub use health::ask_health;
pub use kind::{Kind, classify};
pub use made::{FileSystem, Made, btrfs, file_systems, made};
pub use relations::{Relation, relations};
pub use signature::{Content, Signature};

use crate::command::{Never, Real, Runner};
use crate::exposed::{self, Exposed, KernelExport};
use crate::rbd;
use crate::sys::md::Synced;
use crate::sys::{self, DevNum, Sys};
use ebbtide_model::units::Bytes;
use kind::DeviceTraits;
use serde::Serialize;
use std::path::Path;
use tables::{Mount, Swap, Udev};

/// More layers than anybody stacks; ends a walk through a damaged or circular tree.
pub const DEEPEST: usize = 16;

/// The block devices of a host.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Devices {
    /// Devices by kernel name in the order in which people count; partitions follow their disk.
    pub devices: Vec<BlockDevice>,
}

impl Devices {
    /// The device with this kernel name or alias.
    pub fn get(&self, name: &str) -> Option<&BlockDevice> {
        self.devices
            .iter()
            .find(|d| d.name == name)
            .or_else(|| self.devices.iter().find(|d| d.alias.as_deref() == Some(name)))
    }

    /// The device with this number.
    pub fn by_dev(&self, dev: DevNum) -> Option<&BlockDevice> {
        self.devices.iter().find(|d| d.dev == dev)
    }

    /// Whole disks below `name`: itself, or through partitions, md, dm and loop devices. Sorted, no repeats.
    pub fn disks_below(&self, name: &str) -> Vec<&str> {
        let mut disks = Vec::new();
        self.collect_disks(name, &mut disks, 0);
        disks.sort_by(|a, b| sys::natural_order(a, b));
        disks.dedup();
        disks
    }

    fn collect_disks<'a>(&'a self, name: &str, disks: &mut Vec<&'a str>, depth: usize) {
        let Some(device) = self.get(name).filter(|_| depth < DEEPEST) else { return };
        if let Some(disk) = &device.partition_of {
            self.collect_disks(disk, disks, depth + 1);
        } else if device.slaves.is_empty() {
            disks.push(&device.name);
        } else {
            device.slaves.iter().for_each(|slave| self.collect_disks(slave, disks, depth + 1));
        }
    }
}

/// Reads every block device. Needs no privilege; what a privilege would add is said by [`unread`].
pub fn devices(sys: &Sys) -> Devices {
    if sys.is_host() { devices_with(sys, &Real) } else { devices_with(sys, &Never) }
}

/// The same, with signatures that udev does not know asked from `runner`.
pub fn devices_with(sys: &Sys, runner: &dyn Runner) -> Devices {
    let reader = Reader::new(sys, runner);
    let disks = sys::names(&sys.sys.join("block"));
    let mut devices: Vec<BlockDevice> = disks.iter().flat_map(|name| reader.disk(name)).collect();
    // The kernel does not count a loop device among the holders of the device that it stands on.
    let loops: Vec<(String, String)> = devices
        .iter()
        .filter(|device| device.backing_file.is_some())
        .flat_map(|over| over.slaves.iter().map(|below| (below.clone(), over.name.clone())))
        .collect();
    for (below, over) in loops {
        if let Some(device) = devices.iter_mut().find(|device| device.name == below) {
            device.holders.push(over);
        }
    }
    Devices { devices }
}

/// Of the same, only the disk that the device `dev` is, or is a partition of, with all its partitions; nothing where
/// there is no such device.
pub fn disk_with(sys: &Sys, dev: DevNum, runner: &dyn Runner) -> Devices {
    let Ok(place) = std::fs::canonicalize(sys.sys.join("dev/block").join(dev.to_string())) else {
        return Devices::default();
    };
    let disk = if place.join("partition").exists() { place.parent() } else { Some(place.as_path()) };
    let name = disk.and_then(Path::file_name).and_then(|name| name.to_str());
    Devices { devices: name.map_or_else(Vec::new, |name| Reader::new(sys, runner).disk(name)) }
}

/// The kernel's own node for the device with the number `raw`, as `stat` gives it; nothing where it has none.
pub fn node(sys: &Sys, raw: u64) -> Option<String> {
    let place =
        std::fs::canonicalize(sys.sys.join("dev/block").join(DevNum::from_raw(raw).to_string())).ok()?;
    // Names in sysfs have `!` where those of nodes have a slash.
    Some(format!("/dev/{}", place.file_name()?.to_str()?.replace('!', "/")))
}

/// The kind of the whole disk with this kernel name. Partitions have their disk's and are not known here.
pub fn classify_disk(sys: &Sys, name: &str) -> Kind {
    let place = sys.sys.join("block").join(name);
    kind_at(&place, name, model(&place, &Udev::default()).as_deref())
}

/// The kind of the disk at `place` in sysfs.
fn kind_at(place: &Path, name: &str, model: Option<&str>) -> Kind {
    let here = std::fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
    classify(&DeviceTraits {
        name,
        model: model.unwrap_or_default(),
        place: &here.to_string_lossy(),
        dm_uuid: sys::word(&place.join("dm/uuid")).unwrap_or_default().as_str(),
        transport: sys::word(&place.join("device/transport")).unwrap_or_default().as_str(),
    })
}

fn model(place: &Path, udev: &Udev) -> Option<String> {
    sys::word(&place.join("device/model")).or_else(|| udev.get("ID_MODEL").map(str::to_owned))
}

/// Says which of `devices` may be free or not because what is on them could not be read, and what would help; nothing
/// when there are none.
pub fn unread<'a>(devices: impl Iterator<Item = &'a BlockDevice>) -> Option<String> {
    let unknown: Vec<&BlockDevice> = devices.filter(|d| d.is_unknown()).collect();
    let why = unknown.iter().find_map(|d| match &d.content {
        Content::Unknown(why) => Some(why.as_str()),
        _ => None,
    })?;
    let names: Vec<&str> = unknown.iter().map(|d| d.shown_name()).collect();
    let advice = if rustix::process::geteuid().is_root() { "" } else { "; root can read it" };
    Some(format!("what is on {} is not known ({why}){advice}", names.join(", ")))
}

struct Reader<'a> {
    sys: &'a Sys,
    runner: &'a dyn Runner,
    mounts: Vec<Mount>,
    swaps: Vec<Swap>,
    /// Names below /dev/disk/by-id, each with the kernel name of the device that it leads to.
    by_id: Vec<(String, String)>,
    tables: dm::Tables<'a>,
    file_systems: Vec<FileSystem>,
    exports: Vec<KernelExport>,
}

impl<'a> Reader<'a> {
    fn new(sys: &'a Sys, runner: &'a dyn Runner) -> Reader<'a> {
        let directory = sys.dev.join("disk/by-id");
        let leads_to = |link: &str| {
            let to = std::fs::read_link(directory.join(link)).ok()?;
            to.file_name()?.to_str().map(str::to_owned)
        };
        let links = sys::names(&directory).into_iter();
        Reader {
            sys,
            runner,
            mounts: tables::mounts_of(sys),
            swaps: tables::swaps_of(sys),
            by_id: links.filter_map(|link| leads_to(&link).map(|name| (link, name))).collect(),
            tables: dm::Tables::new(runner),
            file_systems: file_systems(sys),
            exports: exposed::seen(sys),
        }
    }

    /// Reads the disk with this kernel name, then its partitions.
    fn disk(&self, name: &str) -> Vec<BlockDevice> {
        let place = self.sys.sys.join("block").join(name);
        let Some(mut disk) = self.device(&place, name, None) else { return Vec::new() };
        let mut partitions = Vec::new();
        for part in sys::names(&place).into_iter().filter(|n| n.starts_with(name)) {
            let place = place.join(&part);
            if place.join("partition").exists()
                && let Some(partition) = self.device(&place, &part, Some(&disk))
            {
                disk.partitions.push(part);
                partitions.push(partition);
            }
        }
        partitions.insert(0, disk);
        partitions
    }

    /// Reads the device at `place`; nothing when it vanishes meanwhile or has no medium or backing.
    fn device(&self, place: &Path, name: &str, disk: Option<&BlockDevice>) -> Option<BlockDevice> {
        let dev: DevNum = sys::text(&place.join("dev"))?.parse().ok()?;
        // sysfs counts in 512-byte sectors whatever the device's block size.
        let size = Bytes(sys::number::<u64>(&place.join("size"))?.checked_mul(512)?);
        if size.0 == 0 {
            return None;
        }
        let udev = self.udev(dev);
        let dm_name = sys::word(&place.join("dm/name"));
        let (kind, ids) = match disk {
            Some(disk) => (disk.kind, Ids { by_id: self.by_id(name, &udev), ..Ids::default() }),
            None => self.identity(place, name, &udev),
        };
        let (mounts, swap_used) = self.uses(dev, name, dm_name.as_deref());
        let made = made(self.sys, place, &self.tables);
        let shares = self.file_systems.iter().find(|all| all.devices.iter().any(|one| one == name));
        let shares = shares.map(|all| Made { join: all.join, of: all.devices.clone(), missing: all.missing });
        let backing_file = sys::word(&place.join("loop/backing_file"));
        let behind = backing_file.as_deref().and_then(|path| self.backing_device(path));
        Some(BlockDevice {
            name: name.to_owned(),
            dev,
            size,
            kind,
            partition_of: disk.map(|d| d.name.clone()),
            start: disk.and_then(|_| sys::number::<u64>(&place.join("start"))?.checked_mul(512)).map(Bytes),
            read_only: sys::number::<u8>(&place.join("ro")) == Some(1),
            removable: sys::number::<u8>(&place.join("removable")) == Some(1),
            ids,
            queue: disk.map_or_else(|| queue(place), |d| d.queue.clone()),
            slaves: behind.map_or_else(|| sys::names(&place.join("slaves")), |below| vec![below]),
            holders: sys::names(&place.join("holders")),
            partitions: Vec::new(),
            content: self.content(name, &udev, disk),
            mounts,
            swap_used,
            md: md_array(self.sys, place),
            made: Some(made).filter(|made| !made.of.is_empty()),
            shares,
            backing_file,
            exports: self
                .exports
                .iter()
                .filter(|seen| seen.exposed == Exposed::Device(dev))
                .cloned()
                .collect(),
            alias: dm_name.filter(|n| n != name),
            health: None,
        })
    }

    /// Kernel name of the block device that a loop device stands on, when that is one and not a file.
    fn backing_device(&self, path: &str) -> Option<String> {
        let node = self.sys.dev.join(path.strip_prefix("/dev/")?);
        let node = std::fs::canonicalize(&node).unwrap_or(node);
        let name = node.file_name()?.to_str()?.to_owned();
        let is_device =
            ["class/block", "block"].iter().any(|place| self.sys.sys.join(place).join(&name).exists());
        is_device.then_some(name)
    }

    /// What udev's database has of a device; empty where it has nothing.
    fn udev(&self, dev: DevNum) -> Udev {
        tables::udev(&sys::text(&self.sys.run.join(format!("udev/data/b{dev}"))).unwrap_or_default())
    }

    /// What is on the device, as udev saw it, or else read from it. On a partition a table of its own without a UUID looks
    /// like its disk's in the database: the partition itself says more, to those who may read it.
    fn content(&self, name: &str, udev: &Udev, disk: Option<&BlockDevice>) -> Content {
        let disk = disk.map(|disk| self.udev(disk.dev));
        match (signature::from_udev(udev, disk.as_ref()), disk) {
            (None, _) => self.read_content(name),
            (Some(Content::Nothing), Some(_)) => match self.read_content(name) {
                Content::Unknown(_) => Content::Nothing,
                read => read,
            },
            (Some(known), _) => known,
        }
    }

    fn read_content(&self, name: &str) -> Content {
        if self.sys.is_host() {
            signature::read(self.runner, &self.sys.dev.join(name))
        } else {
            // A copy of a host has no devices to read; nothing of this host may be asked in their place.
            Content::Unknown("not in the udev database".to_owned())
        }
    }

    fn identity(&self, place: &Path, name: &str, udev: &Udev) -> (Kind, Ids) {
        let model = model(place, udev);
        let of_kernel = |file: &str| sys::word(&place.join(file)).filter(|text| device::identifies(text));
        let of_udev = |key: &str| udev.get(key).filter(|text| device::identifies(text)).map(str::to_owned);
        let serial = of_kernel("device/serial")
            .or_else(|| of_kernel("serial"))
            .or_else(|| of_udev("ID_SERIAL_SHORT"))
            .or_else(|| of_udev("ID_SERIAL"));
        let wwid = of_kernel("wwid").or_else(|| of_kernel("device/wwid")).or_else(|| of_udev("ID_WWN"));
        let kind = kind_at(place, name, model.as_deref());
        let volume_id = match kind {
            Kind::Rbd => rbd::id(self.sys, name),
            _ => serial.as_deref().and_then(|s| kind::ebs_volume_id(kind, s)),
        };
        (kind, Ids { model, serial, wwid, volume_id, by_id: self.by_id(name, udev) })
    }

    /// Names below /dev/disk/by-id that lead to `name`: as links, and as udev recorded them.
    fn by_id(&self, name: &str, udev: &Udev) -> Vec<String> {
        let links = self.by_id.iter().filter(|(_, device)| device == name);
        let mut found: Vec<String> = links
            .map(|(link, _)| link.clone())
            .chain(udev.links.iter().filter_map(|l| l.strip_prefix("disk/by-id/").map(str::to_owned)))
            .filter(|name| name.split_once('-').is_none_or(|(_, id)| device::identifies(id)))
            .collect();
        found.sort();
        found.dedup();
        found
    }

    fn uses(&self, dev: DevNum, name: &str, alias: Option<&str>) -> (Vec<Mount>, Option<Bytes>) {
        let is_this = |path: &str| {
            let last = path.rsplit('/').next().unwrap_or(path);
            path == format!("/dev/{name}")
                || (path.starts_with("/dev/mapper/") && Some(last) == alias)
                || (path.starts_with("/dev/disk/")
                    && std::fs::read_link(self.sys.dev.join(path.trim_start_matches("/dev/")))
                        .is_ok_and(|to| to.file_name().is_some_and(|f| f == name)))
        };
        // btrfs and other multi-device file systems have a number of their own: their source names one of their devices.
        let siblings = self.file_systems.iter().find(|all| all.devices.iter().any(|one| one == name));
        let is_sibling = |source: &str| {
            siblings
                .is_some_and(|all| all.devices.iter().any(|one| source.strip_prefix("/dev/") == Some(one)))
        };
        let is_mounted =
            |m: &&Mount| m.dev == dev || (m.dev.major == 0 && (is_this(&m.source) || is_sibling(&m.source)));
        let mounts = self.mounts.iter().filter(is_mounted);
        let swap = self.swaps.iter().find(|s| is_this(&s.path)).map(|s| Bytes(s.used_bytes));
        (mounts.cloned().collect(), swap)
    }
}

fn queue(place: &Path) -> Queue {
    let place_of = |name: &str| place.join("queue").join(name);
    let bytes = |name: &str| sys::number(&place_of(name)).filter(|b| *b != 0).map(Bytes);
    let kib = |name: &str| sys::number::<u64>(&place_of(name)).and_then(|k| k.checked_mul(1024)).map(Bytes);
    let schedulers = sys::text(&place_of("scheduler")).unwrap_or_default();
    let all = schedulers.split_ascii_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned());
    Queue {
        scheduler: sys::chosen(&schedulers).map(str::to_owned),
        schedulers: all.collect(),
        readahead: kib("read_ahead_kb"),
        requests: sys::number(&place_of("nr_requests")),
        device_depth: sys::number(&place.join("device/queue_depth")),
        rotational: sys::number::<u8>(&place_of("rotational")).map(|r| r == 1),
        logical_block: bytes("logical_block_size"),
        physical_block: bytes("physical_block_size"),
        minimum_io: bytes("minimum_io_size"),
        optimal_io: bytes("optimal_io_size"),
        maximum_io: kib("max_sectors_kb"),
    }
}

/// Devices of the array at `md` whose state (`dev-NAME/state`, a list) says that they failed.
fn faulty(md: &Path) -> Vec<String> {
    let devices =
        sys::names(md).into_iter().filter_map(|name| Some((name.strip_prefix("dev-")?.to_owned(), name)));
    let failed = devices.filter(|(_, entry)| {
        let state = sys::word(&md.join(entry).join("state"));
        state.is_some_and(|state| state.split(',').any(|word| word == "faulty"))
    });
    failed.map(|(device, _)| device).collect()
}

fn md_array(sys: &Sys, place: &Path) -> Option<MdArray> {
    let md = place.join("md");
    let level = sys::word(&md.join("level"))?;
    let name = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
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
        faulty: faulty(&md),
    })
}

//! Every block device of a host, with what it is, what it is part of and what is on it.

mod cloud;
mod data;
mod device;
mod health;
mod kind;
pub mod signature;
pub mod tables;
#[cfg(test)]
mod tests;

pub use cloud::{Cloud, cloud};
pub use data::{foreign_data, foreign_data_over, look_for_data};
pub use device::{BlockDevice, Ids, Made, Queue, best_name, is_steady_link, steadiest_name};
pub use health::ask_health;
pub use kind::{Kind, classify};
pub use signature::{Content, Signature};

use crate::command::{Never, Real, Runner};
use crate::graph::dm::Tables;
use crate::graph::{self, Behind, Graph, Node};
use crate::rbd;
use crate::sys::{self, DevNum, Sys};
use ebbtide_model::graph::{Below, Layers};
use ebbtide_model::units::Bytes;
use kind::DeviceTraits;
use serde::Serialize;
use std::path::Path;
use tables::Udev;

/// The block devices of a host.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Devices {
    /// Devices by kernel name in the order in which people count; partitions follow their disk.
    pub devices: Vec<BlockDevice>,
    /// What stands on what.
    #[serde(skip)]
    pub graph: Graph,
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

    /// Whole disks below `name`: itself, or what it is made of. Sorted, no repeats.
    pub fn disks_below(&self, name: &str) -> Vec<&str> {
        let tops: Vec<usize> = self.graph.get(name).into_iter().collect();
        let disks = self.graph.disks_below(&tops).into_iter();
        let mut disks: Vec<&str> = disks.map(|disk| self.graph.nodes[disk].name.as_str()).collect();
        disks.sort_by(|a, b| sys::natural_order(a, b));
        disks
    }
}

/// Reads every block device. Needs no privilege; what a privilege would add is said by [`unread`].
pub fn devices(sys: &Sys) -> Devices {
    if sys.is_host() { devices_with(sys, &Real) } else { devices_with(sys, &Never) }
}

/// The same, with signatures that udev does not know asked from `runner`.
pub fn devices_with(sys: &Sys, runner: &dyn Runner) -> Devices {
    let graph = graph::read_with(sys, &Tables::new(runner));
    let reader = Reader::new(sys, runner, &graph);
    let mut devices: Vec<BlockDevice> = Vec::new();
    for node in &graph.nodes {
        let disk =
            node.disk().and_then(|disk| devices.iter().rfind(|one| one.name == graph.nodes[disk].name));
        devices.extend(reader.device(node, disk));
    }
    Devices { devices, graph }
}

/// Of the same, only the device at this place of the graph; nothing where it vanished meanwhile, or has no medium or backing.
pub fn one(sys: &Sys, graph: &Graph, at: usize, runner: &dyn Runner) -> Option<BlockDevice> {
    let reader = Reader::new(sys, runner, graph);
    let node = graph.nodes.get(at)?;
    let disk = node.disk().and_then(|disk| reader.device(&graph.nodes[disk], None));
    reader.device(node, disk.as_ref())
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
    graph: &'a Graph,
    /// Names below /dev/disk/by-id, each with the kernel name of the device that it leads to.
    by_id: Vec<(String, String)>,
}

impl<'a> Reader<'a> {
    fn new(sys: &'a Sys, runner: &'a dyn Runner, graph: &'a Graph) -> Reader<'a> {
        let directory = sys.dev.join("disk/by-id");
        let leads_to = |link: &str| {
            let to = std::fs::read_link(directory.join(link)).ok()?;
            to.file_name()?.to_str().map(str::to_owned)
        };
        let links = sys::names(&directory).into_iter();
        Reader {
            sys,
            runner,
            graph,
            by_id: links.filter_map(|link| leads_to(&link).map(|name| (link, name))).collect(),
        }
    }

    /// Reads a device; nothing when it vanishes meanwhile or has no medium or backing. A partition comes with its disk.
    fn device(&self, node: &Node, disk: Option<&BlockDevice>) -> Option<BlockDevice> {
        let (name, dev) = (&node.name, node.dev);
        let (graph, at) = (self.graph, self.graph.by_dev(dev)?);
        let place = self.sys.sys.join("dev/block").join(dev.to_string());
        if node.size.0 == 0 || !place.exists() {
            return None;
        }
        let udev = self.udev(dev);
        let (kind, ids) = match disk {
            Some(disk) => (disk.kind, Ids { by_id: self.by_id(name, &udev), ..Ids::default() }),
            None => self.identity(&place, name, &udev),
        };
        let names = |places: &mut dyn Iterator<Item = usize>| -> Vec<String> {
            places.map(|at| graph.nodes[at].name.clone()).collect()
        };
        let made = |below: &Below| {
            let of = names(&mut below.devices.iter().copied());
            Made { join: below.join, of, missing: below.missing }
        };
        let shares = graph
            .file_systems
            .iter()
            .find(|all| all.below.devices.len() > 1 && all.below.devices.contains(&at));
        let on = graph.mounts.iter().filter(|seen| seen.on.contains(&at));
        let mounts: Vec<_> =
            on.filter(|seen| seen.process.is_none()).map(|seen| seen.mount.clone()).collect();
        let elsewhere = if mounts.is_empty() { graph.mounts_of(at) } else { Vec::new() };
        let swap = graph.swaps.iter().find(|swap| swap.on == Behind::Device(at));
        let exports = graph.exports.iter().filter(|seen| seen.exposed == Behind::Device(at));
        Some(BlockDevice {
            name: name.clone(),
            dev,
            size: node.size,
            kind,
            partition_of: disk.map(|disk| disk.name.clone()),
            start: node.extent().and_then(|(start, _)| start.checked_mul(512)).map(Bytes),
            read_only: sys::number::<u8>(&place.join("ro")) == Some(1),
            removable: sys::number::<u8>(&place.join("removable")) == Some(1),
            ids,
            queue: disk.map_or_else(|| queue(&place), |disk| disk.queue.clone()),
            slaves: if disk.is_some() { Vec::new() } else { names(&mut node.below().iter().copied()) },
            holders: names(&mut graph.holders(at).chain(graph.loops(at))),
            partitions: names(&mut graph.partitions(at)),
            content: self.content(name, &udev, disk),
            mounts,
            mounted_elsewhere: elsewhere.into_iter().map(str::to_owned).collect(),
            swap_used: swap.map(|swap| swap.used),
            md: node.md.clone(),
            made: node.holds().then(|| made(&node.made)),
            shares: shares.map(|all| made(&all.below)),
            backing_file: node.over().map(|over| over.path.to_string_lossy().into_owned()),
            exports: exports.cloned().collect(),
            alias: node.alias.clone(),
            health: None,
        })
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

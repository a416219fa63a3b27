//! Reads the graph from /sys and /proc: a few system calls for each device, and device-mapper's tables where what a mapping does is
//! not plain.

use super::dm::Tables;
use super::made::{self, MdArray};
use super::{Behind, FileSystem, Graph, Loop, Mounted, Node, Stands, Swapped, closest, exports};
use crate::probe::tables::{self, Mount, Swap};
use crate::rbd;
use crate::sys::{self, DevNum, Sys};
use ebbtide_door::read;
use ebbtide_model::graph::Below;
use ebbtide_model::units::Bytes;
use ebbtide_sys::loops;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The graph of the host of `sys`; a copy of a host has no programs to ask, and those of this host know nothing of it.
pub fn read(sys: &Sys) -> Graph {
    read_with(sys, &Tables::of_host(sys))
}

/// The same, with what mappings do asked of `tables`.
pub fn read_with(sys: &Sys, tables: &Tables<'_>) -> Graph {
    let mounts = namespaces(sys);
    let own = mounts.iter().filter(|(process, _)| process.is_none()).map(|(_, mount)| mount);
    let mut graph = Graph::of(nodes(sys));
    graph.exports = exports::seen(sys, &graph.nodes);
    // Of a file system with a number of its own the source says what it is on.
    let sources =
        mounts.iter().filter(|(_, mount)| mount.dev.major == 0).map(|(_, mount)| mount.source.as_str());
    for path in sources.filter(|path| path.starts_with('/')) {
        if graph.named(path).is_none()
            && let Behind::Device(device) = leads_to(sys, &graph.nodes, Path::new(path))
        {
            graph.links.insert(path.to_owned(), device);
        }
    }
    let swapped = |swap: Swap| {
        let named = graph.named(&swap.path).map(Behind::Device);
        Swapped {
            on: named.unwrap_or_else(|| leads_to(sys, &graph.nodes, Path::new(&swap.path))),
            path: swap.path,
            used: Bytes(swap.used_bytes),
        }
    };
    graph.swaps = tables::swaps_of(sys).into_iter().map(swapped).collect();
    graph.file_systems = file_systems(sys, &graph, own.clone());
    for at in 0..graph.nodes.len() {
        graph.nodes[at].made = made_of(sys, &graph, at, own.clone(), tables);
    }
    let on = |(process, mount): (Option<u32>, Mount)| {
        let on = graph.of_mount(&mount).devices;
        Mounted { process, mount, on }
    };
    graph.mounts = mounts.iter().cloned().map(on).collect();
    graph
}

/// The mounts of this process's namespace, and of every other one that a process is in and that may be read; each with such a
/// process, none for this one's own.
pub fn namespaces(sys: &Sys) -> Vec<(Option<u32>, Mount)> {
    let namespace = |pid: &str| std::fs::read_link(sys.proc.join(pid).join("ns/mnt")).ok();
    let mut found: Vec<(Option<u32>, Mount)> =
        tables::mounts_of(sys).into_iter().map(|mount| (None, mount)).collect();
    let mut seen: BTreeSet<PathBuf> = namespace("self").into_iter().collect();
    let mut processes = sys::numbers(&sys.proc);
    processes.sort_unstable();
    for process in processes {
        let pid = process.to_string();
        if namespace(&pid).is_some_and(|namespace| seen.insert(namespace)) {
            let text = sys::text(&sys.proc.join(&pid).join("mountinfo")).unwrap_or_default();
            found.extend(tables::mountinfo(&text).into_iter().map(|mount| (Some(process), mount)));
        }
    }
    found
}

/// Where sysfs has a device.
fn place(sys: &Sys, dev: DevNum) -> PathBuf {
    sys.sys.join("dev/block").join(dev.to_string())
}

/// Every device with what it stands on, in the order in which people count; partitions follow their disk.
fn nodes(sys: &Sys) -> Vec<Node> {
    /// A device, and what it says of others by their names.
    struct Named {
        node: Node,
        disk: Option<String>,
        slaves: Vec<String>,
        holders: Vec<String>,
    }
    let of = |number: String| {
        let dev: DevNum = number.parse().ok()?;
        let (place, link) = (place(sys, dev), std::fs::read_link(place(sys, dev)).ok()?);
        let name_of = |place: &Path| place.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let name = name_of(&link)?;
        // sysfs counts in sectors of 512 bytes whatever the device's block size.
        let size = sys::number::<u64>(&place.join("size")).and_then(|sectors| sectors.checked_mul(512));
        let dm =
            |what: &str| if name.starts_with("dm-") { sys::word(&place.join("dm").join(what)) } else { None };
        // Only devices that the kernel makes up can be made of others.
        let made_up = link.components().any(|part| part.as_os_str() == "virtual");
        Some(Named {
            slaves: if made_up { sys::names(&place.join("slaves")) } else { Vec::new() },
            holders: sys::names(&place.join("holders")),
            disk: link.parent().and_then(name_of).filter(|_| place.join("partition").exists()),
            node: Node {
                alias: dm("name").filter(|alias| *alias != name),
                dm_uuid: dm("uuid").unwrap_or_default(),
                md: if name.starts_with("md") { MdArray::read(sys, &name, &place.join("md")) } else { None },
                size: Bytes(size.unwrap_or_default()),
                name,
                dev,
                ..Node::default()
            },
        })
    };
    let mut all: Vec<Named> = sys::names(&sys.sys.join("dev/block")).into_iter().filter_map(of).collect();
    let names: BTreeSet<String> = all.iter().map(|one| one.node.name.clone()).collect();
    all.sort_by(|a, b| {
        let disk = |one: &'_ Named| one.disk.clone().unwrap_or_else(|| one.node.name.clone());
        sys::natural_order(&disk(a), &disk(b)).then_with(|| sys::natural_order(&a.node.name, &b.node.name))
    });
    // Who is named as a holder and is no device that can be seen holds it all the same.
    let unseen: BTreeSet<&String> =
        all.iter().flat_map(|one| &one.holders).filter(|name| !names.contains(*name)).collect();
    let mut nodes: Vec<Node> = all.iter().map(|one| one.node.clone()).collect();
    nodes.extend(unseen.into_iter().map(|name| Node { name: name.clone(), ..Node::default() }));
    let places: BTreeMap<String, usize> =
        nodes.iter().enumerate().map(|(at, node)| (node.name.clone(), at)).collect();
    let place_of = |name: &String| places.get(name).copied();
    let each = || all.iter().enumerate();
    let slaves =
        each().flat_map(|(at, one)| one.slaves.iter().filter_map(place_of).map(move |below| (at, below)));
    let holders =
        each().flat_map(|(at, one)| one.holders.iter().filter_map(place_of).map(move |above| (above, at)));
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (above, below) in slaves.chain(holders) {
        if !members[above].contains(&below) {
            members[above].push(below);
        }
    }
    let images = rbd::mapped(sys);
    for (at, members) in members.into_iter().enumerate() {
        let place = place(sys, nodes[at].dev);
        let disk = all.get(at).and_then(|one| places.get(one.disk.as_ref()?).copied());
        let over = sys::word(&place.join("loop/backing_file"))
            .filter(|_| nodes[at].name.starts_with("loop") && disk.is_none());
        let stands = match (disk, over) {
            (Some(of), _) => {
                let extent = sys::number(&place.join("start")).map(|start| (start, nodes[at].size.0 / 512));
                Stands::Partition { of, extent }
            }
            (None, Some(path)) => Stands::Loop(over_file(sys, &nodes, at, &place, PathBuf::from(path))),
            (None, None) if members.is_empty() => Stands::Alone,
            (None, None) => Stands::Members(members),
        };
        let same = rbd::same_image(&images, &nodes[at].name);
        nodes[at].same = same.iter().filter_map(|device| places.get(*device).copied()).collect();
        nodes[at].stands = stands;
    }
    nodes
}

/// What the loop device at this place is over: as the kernel says, or where it does not say so to this user, by the name.
fn over_file(sys: &Sys, nodes: &[Node], at: usize, place: &Path, path: PathBuf) -> Loop {
    let attribute = |name: &str| sys::number::<u64>(&place.join("loop").join(name)).unwrap_or(0);
    let behind = match asked(sys, &nodes[at]) {
        Some(found) => found
            .rdev
            .map_or(Behind::File(found.dev, found.ino), |raw| numbered(nodes, DevNum::from_raw(raw))),
        None => leads_to(sys, nodes, &path),
    };
    Loop { part: attribute("offset") != 0 || attribute("sizelimit") != 0, path, behind }
}

/// What is behind a loop device, as the kernel says to those who may open it.
fn asked(sys: &Sys, node: &Node) -> Option<loops::Behind> {
    let file = read::open(&sys.dev.join(&node.name)).ok().filter(|_| sys.is_host())?;
    let found = file.metadata().ok()?;
    let is_it = found.file_type().is_block_device() && DevNum::from_raw(found.rdev()) == node.dev;
    is_it.then(|| loops::behind(&file).ok().flatten()).flatten()
}

/// The device with this number.
pub(super) fn numbered(nodes: &[Node], dev: DevNum) -> Behind {
    nodes.iter().position(|node| node.dev == dev).map_or(Behind::Unknown, Behind::Device)
}

/// What a path leads to.
pub(super) fn leads_to(sys: &Sys, nodes: &[Node], path: &Path) -> Behind {
    let there = sys.at(path);
    // A recorded host has names and links, but no devices.
    let recorded = path.starts_with("/dev") && !sys.is_host();
    match std::fs::metadata(&there) {
        Ok(found) if found.file_type().is_block_device() => numbered(nodes, DevNum::from_raw(found.rdev())),
        Ok(found) if found.is_file() && !recorded => Behind::File(found.dev(), found.ino()),
        _ if recorded => {
            let leads_to = std::fs::read_link(&there).unwrap_or(there);
            let is_it = |node: &Node| leads_to.file_name().is_some_and(|name| *name == *node.name);
            nodes.iter().position(is_it).map_or(Behind::Unknown, Behind::Device)
        }
        _ => Behind::Unknown,
    }
}

/// Which devices hold the data of the one at this place, and how.
fn made_of<'a>(
    sys: &Sys,
    graph: &Graph,
    at: usize,
    own: impl Iterator<Item = &'a Mount> + Clone,
    tables: &Tables<'_>,
) -> Below {
    let node = &graph.nodes[at];
    let place = place(sys, node.dev);
    match &node.stands {
        Stands::Alone => Below::default(),
        Stands::Partition { of, .. } => Below::through(Some(*of)),
        Stands::Members(members) => match &node.md {
            Some(md) => md.made(&place, members, &graph.nodes),
            None => made::made(at, members, &graph.nodes, &place, tables),
        },
        Stands::Loop(over) => match over.behind {
            Behind::Device(device) => Below::through(Some(device)),
            Behind::File(dev, _) => graph.of_file(DevNum::from_raw(dev), own, &over.path).below,
            // A recorded host has no files to look at: a mount tells by its place.
            Behind::Unknown if !sys.is_host() => {
                closest(own, &over.path).map_or_else(Below::default, |mount| graph.of_mount(mount))
            }
            Behind::Unknown => Below::default(),
        },
    }
}

/// Every btrfs that the kernel knows.
fn file_systems<'a>(
    sys: &Sys,
    graph: &Graph,
    own: impl Iterator<Item = &'a Mount> + Clone,
) -> Vec<FileSystem> {
    let all = sys.sys.join("fs/btrfs");
    let found = sys::names(&all).into_iter().map(|uuid| {
        let names = sys::names(&all.join(&uuid).join("devices"));
        let devices: Vec<usize> = names.iter().filter_map(|name| graph.get(name)).collect();
        let is_on =
            |mount: &&Mount| graph.named(&mount.source).is_some_and(|device| devices.contains(&device));
        let mount = own.clone().filter(|mount| mount.fstype == "btrfs").find(is_on);
        let (join, missing) = made::btrfs(&all.join(&uuid), devices.len());
        FileSystem {
            name: mount.map_or(uuid, |mount| mount.mountpoint.clone()),
            below: Below { devices, join, missing },
        }
    });
    let mut found: Vec<FileSystem> = found.filter(|found| !found.below.devices.is_empty()).collect();
    found.sort_by(|a, b| sys::natural_order(&a.name, &b.name));
    found
}

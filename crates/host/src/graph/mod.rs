//! The host's block devices as one graph: partitions, md, device-mapper, loop devices and the files behind them, with who uses
//! them: mounts, swap, exports. It is read once ([`read`]), and is data from then on: every question is answered from it alone.
//!
//! ```text
//! mounts, swap, exports, the same image     uses: whose is it
//!        md0                                above: the inverse of below
//!       ╱   ╲
//!   vdb1     loop0 ─ ─ file on vdc          below: whose blocks it is on; made: which of them hold its data, and how
//!     │
//!    vdb                                    a disk is on nothing
//! ```
//!
//! What is below a loop device over a file holds its data, but not its blocks: who writes to the loop device writes to that file alone.

pub mod dm;
mod exports;
mod made;
mod read;
#[cfg(test)]
mod tests;
mod uses;
mod words;

pub use exports::KernelExport;
pub use made::MdArray;
pub use read::{namespaces, read, read_with};
pub use uses::{Sharer, Use};

use crate::probe::tables::Mount;
use crate::sys::{DevNum, Sys};
use ebbtide_model::graph::{Below, Layers, reached};
use ebbtide_model::units::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What a device is: whose blocks it is on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Stands {
    /// Its own: a disk, or a loop device without a file.
    #[default]
    Alone,
    /// A part of a disk's.
    Partition {
        /// The disk's place.
        of: usize,
        /// Where it begins and how long it is, in sectors of 512 bytes; nothing where that is not told.
        extent: Option<(u64, u64)>,
    },
    /// Those of the members of an array, or below a mapping, whether they hold its data or describe it.
    Members(Vec<usize>),
    /// Those of what is behind a loop device.
    Loop(Loop),
}

/// A loop device that is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// Its file's path as the kernel has it.
    pub path: PathBuf,
    /// Whether it is only a part of what it stands on.
    pub part: bool,
    /// What it stands on.
    pub behind: Behind,
}

/// What a name leads to: behind a loop device, swapped on, exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// A block device.
    Device(usize),
    /// A regular file by device and inode number.
    File(u64, u64),
    /// Something under its name that cannot be looked at.
    Unknown,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// Kernel name.
    pub name: String,
    /// Name that people use, where it differs (`vg0-data` for `dm-0`).
    pub alias: Option<String>,
    /// Device number.
    pub dev: DevNum,
    /// Its size: none of an array that is not started, of a drive without a medium, of a loop device without a file.
    pub size: Bytes,
    /// The uuid that device-mapper has for it; empty of others.
    pub dm_uuid: String,
    /// What it stands on.
    pub stands: Stands,
    /// Which devices hold its data, in the array's order where it is known, and how they are put together.
    pub made: Below,
    /// The array, when it is one of md's.
    pub md: Option<MdArray>,
    /// Devices that are the same image of Ceph.
    pub same: Vec<usize>,
}

impl Node {
    /// The name to print: the alias where there is one.
    pub fn shown_name(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }

    /// What it is a loop device over.
    pub fn over(&self) -> Option<&Loop> {
        match &self.stands {
            Stands::Loop(over) => Some(over),
            _ => None,
        }
    }

    /// The place of the disk that it is a partition of.
    pub fn disk(&self) -> Option<usize> {
        match self.stands {
            Stands::Partition { of, .. } => Some(of),
            _ => None,
        }
    }

    /// Where it begins on the disk that it is a partition of and how long it is, in sectors of 512 bytes.
    pub fn extent(&self) -> Option<(u64, u64)> {
        match self.stands {
            Stands::Partition { extent, .. } => extent,
            _ => None,
        }
    }

    /// Whether it is made of devices that it holds: md, device-mapper.
    pub fn holds(&self) -> bool {
        matches!(self.stands, Stands::Members(_))
    }

    /// Devices whose blocks it is on.
    pub fn below(&self) -> &[usize] {
        match &self.stands {
            Stands::Partition { of, .. } => std::slice::from_ref(of),
            Stands::Members(members) => members,
            Stands::Loop(Loop { behind: Behind::Device(device), .. }) => std::slice::from_ref(device),
            Stands::Alone | Stands::Loop(_) => &[],
        }
    }
}

/// A mount in one mount namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// A process that is in the namespace; none for that of this program.
    pub process: Option<u32>,
    /// The mount.
    pub mount: Mount,
    /// The devices that it is on: of a file system over several all of them.
    pub on: Vec<usize>,
}

/// A swap area in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swapped {
    /// The device or file, as /proc/swaps has it.
    pub path: String,
    /// What that is.
    pub on: Behind,
    /// Bytes of swap in use.
    pub used: Bytes,
}

/// A file system that may be over several devices: btrfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Where it is mounted, or its UUID.
    pub name: String,
    /// What it is on, and what it does with its data there.
    pub below: Below,
}

/// What a path rests on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// File system type that the path is on; nothing for a device node.
    pub fstype: Option<String>,
    /// What is mounted there: a device, or a server's export.
    pub source: Option<String>,
    /// Where that is mounted.
    pub mountpoint: Option<String>,
    /// What the path is directly on: the device, or those of its file system; nothing for network and memory file systems.
    pub below: Below,
}

/// The devices of a host and who uses them, at one instant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    /// In the order in which people count; partitions follow their disk.
    pub nodes: Vec<Node>,
    /// Of each of them those that stand on it.
    above: Vec<Vec<usize>>,
    /// Those that are mounted and may be over several devices.
    pub file_systems: Vec<FileSystem>,
    /// In every mount namespace that can be seen, this program's own first.
    pub mounts: Vec<Mounted>,
    /// What is swapped on.
    pub swaps: Vec<Swapped>,
    /// What is given to other hosts: nvmet claims nothing of it, and LIO no files.
    pub exports: Vec<KernelExport>,
    /// Other paths of devices than those by their names, as mounts have them.
    pub links: BTreeMap<String, usize>,
}

impl Layers for Graph {
    fn count(&self) -> usize {
        self.nodes.len()
    }

    fn made(&self, device: usize) -> Option<&Below> {
        self.nodes.get(device).map(|node| &node.made)
    }
}

impl Graph {
    /// Of these devices, with what each stands on; places that there are not are left out.
    pub fn of(nodes: Vec<Node>) -> Graph {
        let mut above = vec![Vec::new(); nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            for below in node.below() {
                above
                    .get_mut(*below)
                    .filter(|above| !above.contains(&at))
                    .into_iter()
                    .for_each(|above| above.push(at));
            }
        }
        Graph { nodes, above, ..Graph::default() }
    }

    /// The place of the device with this number.
    pub fn by_dev(&self, dev: DevNum) -> Option<usize> {
        self.nodes.iter().position(|node| node.dev == dev && dev != DevNum::default())
    }

    /// The place of the device with this kernel name or alias.
    pub fn get(&self, name: &str) -> Option<usize> {
        let of = |is: &dyn Fn(&Node) -> bool| self.nodes.iter().position(is);
        of(&|node| node.name == name).or_else(|| of(&|node| node.alias.as_deref() == Some(name)))
    }

    /// The place of the device that this path names.
    pub fn named(&self, path: &str) -> Option<usize> {
        let of = |is: &dyn Fn(&Node) -> bool| self.nodes.iter().position(is);
        let mapped = path.strip_prefix("/dev/mapper/");
        let node = path.strip_prefix("/dev/").filter(|_| mapped.is_none());
        // Names in sysfs have `!` where those of nodes have a slash.
        let by_name = node.and_then(|name| of(&|node| node.name == name.replace('/', "!")));
        let by_alias = || mapped.and_then(|name| of(&|node| node.alias.as_deref() == Some(name)));
        by_name.or_else(by_alias).or_else(|| self.links.get(path).copied())
    }

    /// Devices that stand on this one: the inverse of [`Node::below`].
    pub fn above(&self, device: usize) -> &[usize] {
        self.above.get(device).map_or(&[], Vec::as_slice)
    }

    /// Those of them that are its partitions.
    pub fn partitions(&self, disk: usize) -> impl Iterator<Item = usize> {
        self.above(disk).iter().copied().filter(|above| self.nodes[*above].disk().is_some())
    }

    /// Those of them that are made of it: md, device-mapper.
    pub fn holders(&self, device: usize) -> impl Iterator<Item = usize> {
        self.above(device).iter().copied().filter(|above| self.nodes[*above].holds())
    }

    /// Those of them that are loop devices over it.
    pub fn loops(&self, device: usize) -> impl Iterator<Item = usize> {
        self.above(device).iter().copied().filter(|above| self.nodes[*above].over().is_some())
    }

    /// This device and all whose blocks it is on, upper ones first, each once.
    pub fn blocks_below(&self, device: usize) -> Vec<usize> {
        reached(self.nodes.len(), &[device], |at| self.nodes[at].below())
    }

    /// This device and all that have its blocks, lower ones first, each once.
    pub fn blocks_above(&self, device: usize) -> Vec<usize> {
        reached(self.nodes.len(), &[device], |at| self.above(at))
    }

    /// What a mounted file system is on.
    pub fn of_mount(&self, mount: &Mount) -> Below {
        // Major 0 is a number without a device. btrfs names one of its devices as the source.
        if mount.dev.major != 0 {
            return Below::through(self.by_dev(mount.dev));
        }
        let device = self.named(&mount.source);
        let is_on = |all: &&FileSystem| device.is_some_and(|device| all.below.devices.contains(&device));
        self.file_systems.iter().find(is_on).map_or_else(|| Below::through(device), |all| all.below.clone())
    }

    /// What a file with this path, on a file system with the number `dev`, rests on, where these are the mounts.
    pub fn of_file<'a>(
        &self,
        dev: DevNum,
        mounts: impl Iterator<Item = &'a Mount> + Clone,
        path: &Path,
    ) -> Place {
        let mount = mount_of(mounts, dev, path);
        let by_mount = || mount.map_or_else(Below::default, |mount| self.of_mount(mount));
        Place {
            below: if dev.major != 0 { Below::through(self.by_dev(dev)) } else { by_mount() },
            fstype: mount.map(|mount| mount.fstype.clone()),
            source: mount.map(|mount| mount.source.clone()),
            mountpoint: mount.map(|mount| mount.mountpoint.clone()),
        }
    }

    /// What a device rests on: itself, first of all.
    pub fn of_device(&self, dev: DevNum) -> Place {
        Place { below: Below::through(self.by_dev(dev)), ..Place::default() }
    }

    /// What `path` (a file, a directory or a block device) on this host rests on.
    ///
    /// # Errors
    /// When the path cannot be looked at.
    pub fn of_path(&self, path: &Path) -> io::Result<Place> {
        let found = std::fs::metadata(path)?;
        if found.file_type().is_block_device() {
            return Ok(self.of_device(DevNum::from_raw(found.rdev())));
        }
        let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Ok(self.of_file(DevNum::from_raw(found.dev()), self.own_mounts(), &whole))
    }

    /// The mounts of this program's own namespace.
    pub fn own_mounts(&self) -> impl Iterator<Item = &Mount> + Clone {
        self.mounts.iter().filter(|seen| seen.process.is_none()).map(|seen| &seen.mount)
    }
}

/// What `path` on the host of `sys` rests on, and the graph that it is in.
///
/// # Errors
/// When the path cannot be looked at.
pub fn below_path(sys: &Sys, path: &Path) -> io::Result<(Graph, Place)> {
    let graph = read(sys);
    graph.of_path(path).map(|place| (graph, place))
}

/// The mount with the longest mount point that `path` is below; of equal ones the last, which covers the others.
fn closest<'a>(mounts: impl Iterator<Item = &'a Mount>, path: &Path) -> Option<&'a Mount> {
    mounts.filter(|mount| path.starts_with(&mount.mountpoint)).max_by_key(|mount| mount.mountpoint.len())
}

/// The mount through which the file at `path` on the file system `dev` is seen.
fn mount_of<'a>(
    mounts: impl Iterator<Item = &'a Mount> + Clone,
    dev: DevNum,
    path: &Path,
) -> Option<&'a Mount> {
    // Files of a btrfs subvolume have another number than the mount that they are seen through. Anything else that no mount
    // has the number of is seen through none, whatever its name: a memory file, one of another namespace.
    let subvolume =
        || closest(mounts.clone().filter(|mount| dev.major == 0 && mount.fstype == "btrfs"), path);
    closest(mounts.clone().filter(|mount| mount.dev == dev), path).or_else(subvolume)
}

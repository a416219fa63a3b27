//! From a path down to the whole disks that hold it: file, file system, partition, md or dm, loop file, disk.

use crate::probe::tables::{self, Mount};
use crate::sys::{self, DevNum, Sys};
use serde::Serialize;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// More layers than anybody stacks; ends a walk through a damaged or circular tree.
pub const DEEPEST: usize = 16;

/// One device on the way down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Kernel name.
    pub name: String,
    /// Device number.
    pub dev: DevNum,
    /// How many layers below the path, from 0.
    pub depth: usize,
    /// Whether it is a whole disk with nothing below it.
    pub is_disk: bool,
}

/// What a path rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// File system type that the path is on; nothing for a device node.
    pub fstype: Option<String>,
    /// What is mounted there: a device, or a server's export.
    pub source: Option<String>,
    /// Every device from the path down to the disks, upper layers first, each once.
    pub links: Vec<Link>,
}

impl Chain {
    /// Whole disks at the bottom; empty for network and memory file systems.
    pub fn disks(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(|l| l.is_disk)
    }

    /// The only disk at the bottom; nothing when there are several or none.
    pub fn single_disk(&self) -> Option<&Link> {
        let mut disks = self.disks();
        disks.next().filter(|_| disks.next().is_none())
    }
}

/// What `path` (a file, a directory or a block device) rests on.
///
/// # Errors
/// When the path cannot be looked at.
pub fn of_path(sys: &Sys, path: &Path) -> io::Result<Chain> {
    let meta = std::fs::metadata(path)?;
    let mut links = Vec::new();
    if meta.file_type().is_block_device() {
        walk(sys, DevNum::from_raw(meta.rdev()), 0, &mut links);
        return Ok(Chain { fstype: None, source: None, links });
    }
    let mounts = tables::mounts_of(sys);
    let dev = DevNum::from_raw(meta.dev());
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mount =
        closest(mounts.iter().filter(|m| m.dev == dev), &whole).or_else(|| closest(mounts.iter(), &whole));
    walk_file(sys, dev, mount, 0, &mut links);
    Ok(Chain { fstype: mount.map(|m| m.fstype.clone()), source: mount.map(|m| m.source.clone()), links })
}

/// What the device `dev` rests on, itself first.
pub fn of_device(sys: &Sys, dev: DevNum) -> Chain {
    let mut links = Vec::new();
    walk(sys, dev, 0, &mut links);
    Chain { fstype: None, source: None, links }
}

/// The mount with the longest mount point that `path` is below; of equal ones the last, which covers the others.
fn closest<'a>(mounts: impl Iterator<Item = &'a Mount>, path: &Path) -> Option<&'a Mount> {
    mounts.filter(|m| path.starts_with(&m.mountpoint)).max_by_key(|m| m.mountpoint.len())
}

/// Devices under a file system with the number `dev`.
fn walk_file(sys: &Sys, dev: DevNum, mount: Option<&Mount>, depth: usize, links: &mut Vec<Link>) {
    if dev.major != 0 {
        return walk(sys, dev, depth, links);
    }
    // Major 0: a number without a device. btrfs names one of its devices as the source; the others are in sysfs.
    let Some(device) = mount.and_then(|m| m.source.strip_prefix("/dev/")) else { return };
    let resolved = std::fs::canonicalize(sys.dev.join(device)).ok();
    let name = resolved.as_deref().and_then(Path::file_name).and_then(|n| n.to_str()).unwrap_or(device);
    for member in btrfs_members(sys, name) {
        if let Some(dev) = sys::text(&sys.sys.join("class/block").join(&member).join("dev"))
            .or_else(|| sys::text(&sys.sys.join("block").join(&member).join("dev")))
            .and_then(|t| t.parse().ok())
        {
            walk(sys, dev, depth, links);
        }
    }
}

fn btrfs_members(sys: &Sys, device: &str) -> Vec<String> {
    let all = sys.sys.join("fs/btrfs");
    sys::names(&all)
        .iter()
        .map(|uuid| sys::names(&all.join(uuid).join("devices")))
        .find(|members| members.iter().any(|m| m == device))
        .unwrap_or_else(|| vec![device.to_owned()])
}

fn walk(sys: &Sys, dev: DevNum, depth: usize, links: &mut Vec<Link>) {
    if depth >= DEEPEST || links.iter().any(|l| l.dev == dev) {
        return;
    }
    let Ok(place) = std::fs::canonicalize(sys.sys.join("dev/block").join(dev.to_string())) else { return };
    let Some(name) = place.file_name().and_then(|n| n.to_str()).map(str::to_owned) else { return };
    let below = below(sys, &place);
    links.push(Link { name, dev, depth, is_disk: below.is_empty() });
    for layer in below {
        match layer {
            Layer::Device(dev) => walk(sys, dev, depth + 1, links),
            Layer::File(path) => walk_backing_file(sys, &path, depth + 1, links),
        }
    }
}

/// What a device is made of.
enum Layer {
    Device(DevNum),
    File(PathBuf),
}

fn below(sys: &Sys, place: &Path) -> Vec<Layer> {
    let number = |at: &Path| sys::text(&at.join("dev")).and_then(|t| t.parse().ok()).map(Layer::Device);
    if place.join("partition").exists() {
        return place.parent().and_then(number).into_iter().collect();
    }
    if let Some(file) = sys::word(&place.join("loop/backing_file")) {
        return vec![Layer::File(sys.root().join(file.trim_start_matches('/')))];
    }
    let slaves = place.join("slaves");
    sys::names(&slaves).iter().filter_map(|slave| number(&slaves.join(slave))).collect()
}

fn walk_backing_file(sys: &Sys, path: &Path, depth: usize, links: &mut Vec<Link>) {
    let mounts = tables::mounts_of(sys);
    // Mount points are given as the host sees them, whether or not its root is elsewhere here.
    let seen = path.strip_prefix(sys.root()).map_or_else(|_| path.to_owned(), |p| Path::new("/").join(p));
    let mount = closest(mounts.iter(), &seen);
    let dev = match std::fs::metadata(path) {
        Ok(meta) if sys.is_host() => Some(DevNum::from_raw(meta.dev())),
        _ => mount.map(|m| m.dev),
    };
    if let Some(dev) = dev {
        walk_file(sys, dev, mount, depth, links);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::tree::unpack;

    const ARRAYS: &str = include_str!("../tests/trees/arrays.tree");

    fn names(chain: &Chain) -> Vec<(&str, usize, bool)> {
        chain.links.iter().map(|l| (l.name.as_str(), l.depth, l.is_disk)).collect()
    }

    fn chain(tree: &str, dev: &str) -> Chain {
        let root = unpack(tree);
        of_device(&Sys::below(root.path()), dev.parse().expect("a device number"))
    }

    #[test]
    fn an_array_over_partitions() {
        assert_eq!(
            names(&chain(ARRAYS, "9:1")),
            [("md1", 0, false), ("vdb2", 1, false), ("vdb", 2, true), ("vdc2", 1, false), ("vdc", 2, true)]
        );
    }

    #[test]
    fn a_logical_volume_over_two_disks() {
        let chain = chain(ARRAYS, "252:0");
        assert_eq!(chain.disks().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["nvme2n1", "vdd"]);
        assert_eq!(chain.single_disk(), None);
    }

    /// Made up: a loop device over a file on the recorded array.
    #[test]
    fn a_loop_device_goes_through_its_file() {
        let tree = format!(
            "{ARRAYS}\nl /sys/dev/block/7:0 -> ../../devices/virtual/block/loop0\n\
             f /sys/devices/virtual/block/loop0/dev\n|7:0\nf /sys/devices/virtual/block/loop0/loop/backing_file\n|/mnt/a/volume one\n"
        );
        assert_eq!(
            names(&chain(&tree, "7:0")),
            [("loop0", 0, false), ("md0", 1, false), ("nvme0n1", 2, true), ("nvme1n1", 2, true)]
        );
    }

    /// Made up: a device that is its own slave must not hang the walk.
    #[test]
    fn a_circle_ends() {
        let tree = "l /sys/dev/block/253:0 -> ../../devices/dm-0\nf /sys/devices/dm-0/dev\n|253:0\n\
                    l /sys/devices/dm-0/slaves/dm-0 -> ../../dm-0\n";
        assert_eq!(names(&chain(tree, "253:0")), [("dm-0", 0, false)]);
    }

    #[test]
    fn this_host_s_temporary_directory_has_a_file_system() {
        let here = tempfile::tempdir().expect("a directory");
        let chain = of_path(&Sys::host(), here.path()).expect("it can be looked at");
        assert!(chain.fstype.is_some(), "{chain:?}");
    }

    #[test]
    fn a_path_that_is_not_there_is_an_error() {
        assert!(of_path(&Sys::host(), Path::new("/no/such/path")).is_err());
    }
}

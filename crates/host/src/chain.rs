//! From a path down to the whole disks that hold it: file, file system, partition, md or dm, loop file, disk. A tree: what
//! is made of several devices has all of them below it.

use crate::probe::dm::Tables;
use crate::probe::tables::{self, Mount};
use crate::probe::{DEEPEST, Made, btrfs, made};
use crate::sys::{self, DevNum, Sys};
use ebbtide_door::read;
use ebbtide_model::samples::Join;
use ebbtide_model::shown::Shown;
use ebbtide_sys::loops::{self, Behind};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// One device on the way down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Kernel name.
    pub name: String,
    /// Device number.
    pub dev: DevNum,
    /// How many layers below the path, from 0.
    pub depth: usize,
    /// Whether it is a whole disk with nothing below it.
    pub is_disk: bool,
    /// What it is made of.
    pub below: Below,
    /// Whether it is a partition of what is below.
    pub is_partition: bool,
    /// The file behind it, where it is a loop device.
    pub file: Option<PathBuf>,
    /// Name that people use, where it differs (`vg0-data` for `dm-0`).
    pub alias: Option<String>,
}

/// What lies directly below something, and how it is put together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Below {
    /// Indices into [`Chain::links`].
    pub links: Vec<usize>,
    /// How they are put together.
    pub join: Join,
    /// How many more there should be.
    pub missing: u32,
}

/// What a path rests on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// File system type that the path is on; nothing for a device node.
    pub fstype: Option<String>,
    /// What is mounted there: a device, or a server's export.
    pub source: Option<String>,
    /// Where that is mounted.
    pub mountpoint: Option<String>,
    /// Every device from the path down to the disks, upper layers first, each once.
    pub links: Vec<Link>,
    /// What the path is directly on: the device, or those of its file system.
    pub below: Below,
}

impl Chain {
    /// Whole disks at the bottom; empty for network and memory file systems.
    pub fn disks(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(|l| l.is_disk)
    }

    /// The devices that the path is directly on.
    pub fn tops(&self) -> impl Iterator<Item = &Link> {
        self.below.links.iter().filter_map(|at| self.links.get(*at))
    }

    /// What is between the path and its disks: `md0 (stripe of 2, chunk 64KiB, over vdb, vdc)`; of a device, what it is itself.
    /// Nothing where a disk or its partition is all.
    pub fn in_words(&self) -> Option<String> {
        let words = match (&self.fstype, self.below.links.as_slice()) {
            (None, [device]) => self.links.get(*device).map(|link| self.stands_on(link))?,
            (Some(_), [one]) => self.links.get(*one).map(|link| self.named(link))?,
            (_, []) => return None,
            _ => self.joined(&self.below),
        };
        let one_disk = |words: &str| self.disks().count() == 1 && self.disks().any(|disk| disk.name == words);
        (!words.is_empty() && !one_disk(&words)).then_some(words)
    }

    /// A device by its name, and what it stands on; a partition is where its disk is.
    fn named(&self, link: &Link) -> String {
        let name = link.alias.as_deref().unwrap_or(&link.name);
        let below = self.stands_on(link);
        match link.below.links.as_slice() {
            [] => name.to_owned(),
            [_] if link.is_partition => below,
            _ => format!("{name} ({below})"),
        }
    }

    fn stands_on(&self, link: &Link) -> String {
        let below = &link.below;
        let one = || below.links.first().and_then(|at| self.links.get(*at)).map(|link| self.named(link));
        match (&link.file, below.links.as_slice()) {
            (Some(file), []) => format!("a loop device over {}", file.shown()),
            (Some(file), _) => {
                let disks: Vec<String> =
                    below.links.iter().filter_map(|at| self.links.get(*at)).map(|l| self.named(l)).collect();
                format!("a loop device over {} on {}", file.shown(), disks.join(", "))
            }
            (None, []) => String::new(),
            (None, [_]) if link.is_partition => one().unwrap_or_default(),
            (None, [_]) => format!("over {}", one().unwrap_or_default()),
            (None, _) => self.joined(below),
        }
    }

    fn joined(&self, below: &Below) -> String {
        let names: Vec<String> =
            below.links.iter().filter_map(|at| self.links.get(*at)).map(|link| self.named(link)).collect();
        format!("{}, over {}", below.join.in_words(names.len(), below.missing), names.join(", "))
    }
}

/// What `path` (a file, a directory or a block device) rests on.
///
/// # Errors
/// When the path cannot be looked at.
pub fn of_path(sys: &Sys, path: &Path) -> io::Result<Chain> {
    let meta = std::fs::metadata(path)?;
    if meta.file_type().is_block_device() {
        return Ok(of_device(sys, DevNum::from_raw(meta.rdev())));
    }
    let mounts = tables::mounts_of(sys);
    let dev = DevNum::from_raw(meta.dev());
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    Ok(of_file(sys, dev, &mounts, &whole))
}

/// What a file with this path, on a file system with the number `dev`, rests on.
pub(crate) fn of_file(sys: &Sys, dev: DevNum, mounts: &[Mount], path: &Path) -> Chain {
    let mount = mount_of(mounts, dev, path);
    walk_down(sys, |walk| Chain {
        below: walk.file(dev, mount, 0),
        fstype: mount.map(|m| m.fstype.clone()),
        source: mount.map(|m| m.source.clone()),
        mountpoint: mount.map(|m| m.mountpoint.clone()),
        links: Vec::new(),
    })
}

/// What the device `dev` rests on, itself first.
pub fn of_device(sys: &Sys, dev: DevNum) -> Chain {
    walk_down(sys, |walk| Chain { below: walk.one(dev, 0), ..Chain::default() })
}

fn walk_down(sys: &Sys, down: impl FnOnce(&mut Walk<'_>) -> Chain) -> Chain {
    walk_with(sys, &Tables::of_host(sys), down)
}

fn walk_with(sys: &Sys, tables: &Tables<'_>, down: impl FnOnce(&mut Walk<'_>) -> Chain) -> Chain {
    let mut walk = Walk { sys, tables, links: Vec::new(), open: Vec::new() };
    let chain = down(&mut walk);
    Chain { links: walk.links, ..chain }
}

/// The mount with the longest mount point that `path` is below; of equal ones the last, which covers the others.
fn closest<'a>(mounts: impl Iterator<Item = &'a Mount>, path: &Path) -> Option<&'a Mount> {
    mounts.filter(|m| path.starts_with(&m.mountpoint)).max_by_key(|m| m.mountpoint.len())
}

/// The mount through which the file at `path` on the file system `dev` is seen.
fn mount_of<'a>(mounts: &'a [Mount], dev: DevNum, path: &Path) -> Option<&'a Mount> {
    // Files of a btrfs subvolume have another number than the mount that they are seen through. Anything else that no mount
    // has the number of is seen through none, whatever its name: a memory file, one of another namespace.
    let subvolume = || closest(mounts.iter().filter(|m| dev.major == 0 && m.fstype == "btrfs"), path);
    closest(mounts.iter().filter(|m| m.dev == dev), path).or_else(subvolume)
}

/// What is behind the loop device `name` with the number `dev`, as the kernel says to those who may open it.
pub(crate) fn behind(sys: &Sys, name: &str, dev: DevNum) -> Option<Behind> {
    let file = read::open(&sys.dev.join(name)).ok()?;
    let found = file.metadata().ok()?;
    let is_it = found.file_type().is_block_device() && DevNum::from_raw(found.rdev()) == dev;
    is_it.then(|| loops::behind(&file).ok().flatten()).flatten()
}

/// A walk on its way down.
struct Walk<'a> {
    sys: &'a Sys,
    tables: &'a Tables<'a>,
    links: Vec<Link>,
    /// Places of the links that are above the one that is being looked at: what leads back to them is a circle.
    open: Vec<usize>,
}

/// What a device is made of.
enum Layer {
    Devices(Made),
    Disk(DevNum),
    File(PathBuf),
    Nothing,
}

impl Walk<'_> {
    /// Devices under a file system with the number `dev`.
    fn file(&mut self, dev: DevNum, mount: Option<&Mount>, depth: usize) -> Below {
        if dev.major != 0 {
            return self.one(dev, depth);
        }
        // Major 0: a number without a device. btrfs names one of its devices as the source; the others are in sysfs.
        let Some(device) = mount.and_then(|m| m.source.strip_prefix("/dev/")) else {
            return Below::default();
        };
        let resolved = std::fs::canonicalize(self.sys.dev.join(device)).ok();
        let name = resolved.as_deref().and_then(Path::file_name).and_then(|n| n.to_str()).unwrap_or(device);
        let (members, join, missing) = btrfs_members(self.sys, name);
        let links = members.iter().filter_map(|member| {
            let place = ["class/block", "block"].map(|all| self.sys.sys.join(all).join(member).join("dev"));
            let number = place.iter().find_map(|place| sys::text(place));
            let dev = number.and_then(|number| number.parse().ok())?;
            self.device(dev, depth)
        });
        Below { links: links.collect(), join, missing }
    }

    fn one(&mut self, dev: DevNum, depth: usize) -> Below {
        Below { links: self.device(dev, depth).into_iter().collect(), join: Join::Through, missing: 0 }
    }

    /// The place of the device `dev` among the links, where it and all below it are once this returns.
    fn device(&mut self, dev: DevNum, depth: usize) -> Option<usize> {
        if let Some(known) = self.links.iter().position(|l| l.dev == dev) {
            return Some(known).filter(|known| !self.open.contains(known));
        }
        if depth >= DEEPEST {
            return None;
        }
        let place = std::fs::canonicalize(self.sys.sys.join("dev/block").join(dev.to_string())).ok()?;
        let name = place.file_name()?.to_str()?.to_owned();
        let layer = self.layer(&place);
        let at = self.links.len();
        let is_disk = matches!(layer, Layer::Nothing);
        let file = match &layer {
            Layer::File(path) => Some(path.clone()),
            _ => None,
        };
        let alias = sys::word(&place.join("dm/name")).filter(|alias| *alias != name);
        let is_partition = matches!(layer, Layer::Disk(_));
        self.links.push(Link {
            name,
            dev,
            depth,
            is_disk,
            below: Below::default(),
            is_partition,
            file,
            alias,
        });
        self.open.push(at);
        let below = match layer {
            Layer::Nothing => Below::default(),
            Layer::Disk(disk) => self.one(disk, depth + 1),
            Layer::File(path) => self.backing_file(at, &path, depth + 1),
            Layer::Devices(Made { join, of, missing }) => {
                let numbers = of
                    .iter()
                    .filter_map(|name| sys::text(&place.join("slaves").join(name).join("dev"))?.parse().ok());
                let numbers: Vec<DevNum> = numbers.collect();
                let links = numbers.into_iter().filter_map(|dev| self.device(dev, depth + 1));
                Below { links: links.collect(), join, missing }
            }
        };
        self.open.pop();
        if let Some(link) = self.links.get_mut(at) {
            link.below = below;
        }
        Some(at)
    }

    fn layer(&self, place: &Path) -> Layer {
        if place.join("partition").exists() {
            let disk = place.parent().and_then(|disk| sys::text(&disk.join("dev"))?.parse().ok());
            return disk.map_or(Layer::Nothing, Layer::Disk);
        }
        if let Some(file) = sys::word(&place.join("loop/backing_file")) {
            return Layer::File(self.sys.root().join(file.trim_start_matches('/')));
        }
        let made = made(self.sys, place, self.tables);
        if made.of.is_empty() { Layer::Nothing } else { Layer::Devices(made) }
    }

    /// What is below the file, or the device, that the loop device at this place among the links stands on.
    fn backing_file(&mut self, at: usize, path: &Path, depth: usize) -> Below {
        let mounts = tables::mounts_of(self.sys);
        // Mount points are given as the host sees them, whether or not its root is elsewhere here.
        let seen = path.strip_prefix(self.sys.root());
        let seen = seen.map_or_else(|_| path.to_owned(), |p| Path::new("/").join(p));
        if !self.sys.is_host() {
            let mount = closest(mounts.iter(), &seen);
            return mount.map_or_else(Below::default, |found| self.file(found.dev, mount, depth));
        }
        // The name may be gone, or another file's by now: the kernel knows what it opened.
        let asked = self.links.get(at).and_then(|link| behind(self.sys, &link.name, link.dev));
        let (dev, device) = match (asked, std::fs::metadata(path)) {
            (Some(behind), _) => (behind.dev, behind.rdev),
            (None, Ok(found)) => (found.dev(), found.file_type().is_block_device().then(|| found.rdev())),
            (None, Err(_)) => return Below::default(),
        };
        if let Some(device) = device {
            return self.one(DevNum::from_raw(device), depth);
        }
        let dev = DevNum::from_raw(dev);
        self.file(dev, mount_of(&mounts, dev, &seen), depth)
    }
}

/// Names of the devices of the btrfs that `device` is one of, and what it does with its data; `device` alone where there is
/// none.
fn btrfs_members(sys: &Sys, device: &str) -> (Vec<String>, Join, u32) {
    let all = sys.sys.join("fs/btrfs");
    for uuid in sys::names(&all) {
        let place = all.join(uuid);
        let members = sys::names(&place.join("devices"));
        if members.iter().any(|member| member == device) {
            let (join, missing) = btrfs(&place, members.len());
            return (members, join, missing);
        }
    }
    (vec![device.to_owned()], Join::Through, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Never, Runner};
    use crate::testing::unpack;

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

    const STACKS: &str = include_str!("../tests/trees/stacks.tree");

    /// What `dmsetup table` said on the recorded guest.
    struct Recorded;

    impl Runner for Recorded {
        fn run_with(
            &self,
            program: &str,
            _: &[&str],
            _: &[u8],
        ) -> Result<crate::command::Output, crate::command::CommandError> {
            assert_eq!(program, "dmsetup");
            let stdout = include_bytes!("../tests/trees/stacks.dmsetup").to_vec();
            Ok(crate::command::Output { status: Some(0), stdout, stderr: String::new() })
        }
    }

    /// `md0 stripe(vde vdf)`: what is made of what; names alone are disks.
    fn told(chain: &Chain) -> String {
        fn of(chain: &Chain, below: &Below, named: &mut Vec<usize>) -> String {
            let each = below.links.iter().map(|at| {
                let link = &chain.links[*at];
                if link.below.links.is_empty() || named.contains(at) {
                    return link.name.clone();
                }
                named.push(*at);
                format!("{} {}({})", link.name, link.below.join.name(), of(chain, &link.below, named))
            });
            each.collect::<Vec<_>>().join(" ")
        }
        of(chain, &chain.below, &mut Vec::new())
    }

    #[test]
    fn every_stack_is_a_tree_with_the_way_it_is_put_together() {
        let root = unpack(STACKS);
        let sys = Sys::below(root.path());
        let chain = |dev: &str, runner: &dyn Runner| {
            let dev = dev.parse().expect("a device number");
            walk_with(&sys, &Tables::new(runner), |walk| Chain {
                below: walk.one(dev, 0),
                ..Chain::default()
            })
        };
        let whole = [
            ("9:2", "md2 stripe(md0 stripe(vde vdf) md1 mirror(vdg vdh))"),
            ("7:0", "loop0 one device(md5 raid5(vdi vdj vdk))"),
            ("253:40", "dm-40 one device(md10 raid10(vdl vdm vdn vdo))"),
            ("253:0", "dm-0 one device(vda)"),
        ];
        for (dev, expected) in whole {
            assert_eq!(told(&chain(dev, &Never)), expected);
            assert_eq!(told(&chain(dev, &Recorded)), expected);
        }
        // Those that may not see device-mapper's tables know less.
        for (dev, by_root, by_others) in [
            ("253:1", "dm-1 linear(vda vdb)", "dm-1 linear(vda vdb)"),
            ("253:2", "dm-2 stripe(vda vdb vdc vdd)", "dm-2 stripe(vda vdb vdc vdd)"),
            (
                "253:7",
                "dm-7 mirror(dm-4 one device(vda) dm-6 one device(vdb))",
                "dm-7 several devices(dm-4 one device(vda) dm-6 one device(vdb))",
            ),
            (
                "253:29",
                "dm-29 mirror(dm-27 one device(vda) dm-28 one device(vdb))",
                "dm-29 mirror(dm-27 one device(vda) dm-28 one device(vdb))",
            ),
            (
                "253:34",
                "dm-34 thin or a snapshot(dm-32 thin or a snapshot(dm-31 one device(vdb)))",
                "dm-34 thin or a snapshot(dm-32 thin or a snapshot(dm-30 one device(vda) dm-31 one device(vdb)))",
            ),
        ] {
            assert_eq!(told(&chain(dev, &Recorded)), by_root);
            assert_eq!(told(&chain(dev, &Never)), by_others);
        }
    }

    #[test]
    fn what_is_between_a_path_and_its_disks_in_words() {
        let root = unpack(STACKS);
        let sys = Sys::below(root.path());
        let device = |dev: &str| of_device(&sys, dev.parse().expect("a device number")).in_words();
        let md2 = "stripe of 2, chunk 128KiB, over md0 (stripe of 2, chunk 64KiB, over vde, vdf), md1 (mirror of 2, over vdg, vdh)";
        assert_eq!(device("9:2").as_deref(), Some(md2));
        let secret = "over md10 (raid10 of 4, chunk 64KiB, over vdl, vdm, vdn, vdo)";
        assert_eq!(device("253:40").as_deref(), Some(secret));
        assert_eq!(device("253:1").as_deref(), Some("linear of 2, over vda, vdb"));
        assert_eq!((device("253:0").as_deref(), device("254:0")), (Some("over vda"), None));
        let five = "on md5 (raid5 of 3, chunk 64KiB, over vdi, vdj, vdk)";
        let words = device("7:0").expect("words");
        assert!(
            words.starts_with("a loop device over /")
                && words.ends_with(&format!("/mnt/five/vol.img {five}")),
            "{words}"
        );
        let mounts = tables::mounts_of(&sys);
        let file = |dev: &str, path: &str| {
            of_file(&sys, dev.parse().expect("a device number"), &mounts, Path::new(path)).in_words()
        };
        assert_eq!(file("9:5", "/mnt/five/x").as_deref(), five.strip_prefix("on "));
        assert_eq!(file("0:30", "/mnt/b/x").as_deref(), Some("mirror of 2, over vdp, vdq"));
        let arrays = unpack(ARRAYS);
        let part = of_device(&Sys::below(arrays.path()), "254:17".parse().expect("a device number"));
        assert_eq!((part.links[0].name.as_str(), part.in_words()), ("vdb1", None));
    }

    #[test]
    fn a_btrfs_over_two_devices_has_both_below_its_files() {
        let root = unpack(STACKS);
        let sys = Sys::below(root.path());
        let mounts = tables::mounts_of(&sys);
        let of = |dev: &str, path: &str| {
            of_file(&sys, dev.parse().expect("a device number"), &mounts, Path::new(path))
        };
        let mirror = of("0:30", "/mnt/b/file");
        assert_eq!((mirror.below.join, told(&mirror).as_str()), (Join::Mirror { copies: 2 }, "vdp vdq"));
        let stripe = of("0:32", "/mnt/b0/file");
        assert_eq!((stripe.below.join.name(), told(&stripe).as_str()), ("stripe", "vdr vds"));
        // A subvolume's files have a number that no mount has; the memory file of a program has none either.
        assert_eq!(told(&of("0:77", "/mnt/b/volume/file")), "vdp vdq");
        let memory = of("0:1", "/memfd:scratch (deleted)");
        assert_eq!((memory.fstype.as_deref(), memory.links.len()), (None, 0));
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

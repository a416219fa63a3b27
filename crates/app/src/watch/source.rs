//! Fills a [`Watch`] from the host: counters every interval, the tree of devices when devices come or go.

use super::{Shown, Topology, Watch};
use ebbtide_door::read as door;
use ebbtide_host::graph::{self, Graph};
use ebbtide_host::rbd::{self, NotHere};
use ebbtide_host::sys::{self, Sys};
use ebbtide_model::observe::host::HostCounters;
use ebbtide_model::shown::{Shown as _, excerpt};
use ebbtide_model::units::Nanos;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the user wants to see.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Devices, mount points or directories; empty for every whole device.
    pub targets: Vec<String>,
    /// The targets are compared with each other as if they were members of one array.
    pub siblings: bool,
}

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel's counters cannot be read.
    #[error("{}: {_1}", _0.shown())]
    Counters(PathBuf, io::Error),
    /// A target is no device, and nothing is known of it as a path.
    #[error("`{}` is no block device, and as a path: {error}", excerpt(target))]
    NoDevice {
        /// As it was given.
        target: String,
        error: io::Error,
    },
    /// A target is on a file system without devices.
    #[error("`{}` is on {}, which rests on no block device", excerpt(target), kind.as_deref().unwrap_or("no file system"))]
    NothingBelow {
        /// As it was given.
        target: String,
        /// Type of its file system.
        kind: Option<String>,
    },
    /// A target is an image of Ceph that is no device of this host.
    #[error(transparent)]
    NotMapped(#[from] NotHere),
    /// A single device has no siblings.
    #[error("--siblings: only {} was named, which has no sibling; name another device", excerpt(_0))]
    Alone(String),
}

/// The host as a source of readings.
pub struct Source {
    sys: Sys,
    wanted: Wanted,
    diskstats: File,
    stat: Option<File>,
    vmstat: Option<File>,
    text: String,
    started: Instant,
    last: Duration,
    known: Vec<(u32, u32)>,
    host: HostCounters,
}

impl Source {
    /// Opens the counters and resolves what is wanted into `watch`.
    ///
    /// # Errors
    /// When there is no `/proc/diskstats`, or a target is nothing that rests on a block device.
    pub fn open(sys: Sys, wanted: Wanted, watch: &mut Watch) -> Result<Source, WatchError> {
        let path = sys.proc.join("diskstats");
        let diskstats = door::open(&path).map_err(|error| WatchError::Counters(path.clone(), error))?;
        let beside = |name: &str| door::open(&sys.proc.join(name)).ok();
        let mut source = Source {
            diskstats,
            stat: beside("stat"),
            vmstat: beside("vmstat"),
            sys,
            wanted,
            text: String::with_capacity(64 << 10),
            started: Instant::now(),
            last: Duration::ZERO,
            known: Vec::new(),
            host: HostCounters::default(),
        };
        source.count(watch).map_err(|error| WatchError::Counters(path, error))?;
        watch.topology = topology(&source.sys, &source.wanted)?;
        watch.readings = 0;
        Ok(source)
    }

    /// Reads the counters once.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&mut self, watch: &mut Watch) -> io::Result<()> {
        // A target that is gone for now keeps its place; it may come back.
        if self.count(watch)?
            && let Ok(topology) = topology(&self.sys, &self.wanted)
        {
            watch.topology = topology;
        }
        watch.judge();
        Ok(())
    }

    /// What was counted since boot, as iostat's first report has it; nothing where nobody says when that was.
    pub fn since_boot(&self, watch: &Watch) -> Option<Watch> {
        let text = sys::text(&self.sys.proc.join("uptime"))?;
        let up: f64 = text.split(' ').next()?.parse().ok().filter(|seconds| *seconds > 0.0)?;
        let up = Nanos::from_secs_f64(up);
        Some(Watch {
            table: watch.table.since_boot(up),
            span: Duration::from_nanos(up.0),
            since_boot: true,
            host: self.host.rates(up, rustix::param::page_size() as u64),
            ..watch.clone()
        })
    }

    /// Reads the counters; whether devices came or went since the last time.
    fn count(&mut self, watch: &mut Watch) -> io::Result<bool> {
        read(&mut self.diskstats, &mut self.text)?;
        let now = self.started.elapsed();
        watch.table.update(&self.text, Nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)));
        watch.span = now.saturating_sub(self.last);
        let mut beside = |file: &mut Option<File>| {
            // What cannot be read is not shown.
            let done = file.as_mut().is_some_and(|file| read(file, &mut self.text).is_ok());
            if done { self.text.clone() } else { String::new() }
        };
        let host = HostCounters::parse(&beside(&mut self.stat), &beside(&mut self.vmstat));
        let span = Nanos(u64::try_from(watch.span.as_nanos()).unwrap_or(u64::MAX));
        watch.host = host.since(&self.host).rates(span, rustix::param::page_size() as u64);
        self.host = host;
        self.last = now;
        watch.readings += 1;
        let entries = watch.table.entries();
        let changed = !entries.iter().map(|e| e.number).eq(self.known.iter().copied());
        if changed {
            self.known = entries.iter().map(|e| e.number).collect();
        }
        Ok(changed)
    }
}

/// The whole of a file of the kernel's, from its start.
fn read(file: &mut File, text: &mut String) -> io::Result<()> {
    text.clear();
    file.rewind()?;
    file.read_to_string(text)?;
    Ok(())
}

/// What to show and who are siblings.
fn topology(sys: &Sys, wanted: &Wanted) -> Result<Topology, WatchError> {
    let graph = graph::read(sys);
    let tops = if wanted.targets.is_empty() { whole(&graph) } else { targets(sys, &graph, wanted)? };
    // Among all devices each disk stands for itself; below a target stands all that it rests on.
    let mut below = Descent {
        graph: &graph,
        files: !wanted.targets.is_empty(),
        topology: Topology::default(),
        seen: BTreeSet::new(),
    };
    tops.iter().for_each(|top| below.go(*top, 0));
    let (mut topology, seen) = (below.topology, below.seen);
    let names = |places: &[usize]| places.iter().map(|at| graph.nodes[*at].name.clone()).collect::<Vec<_>>();
    // The devices of a file system have no device above them that would stand for it.
    let several = graph.file_systems.iter().filter(|all| all.below.devices.len() > 1);
    let shown = several.filter(|all| all.below.devices.iter().all(|device| seen.contains(device)));
    topology.groups.extend(shown.map(|all| (all.name.clone(), names(&all.below.devices))));
    if wanted.siblings {
        let tops = names(&tops);
        if tops.len() < 2 {
            return Err(WatchError::Alone(tops.join(", ")));
        }
        topology.groups.push(("the group".to_owned(), tops));
    }
    Ok(topology)
}

/// Whole devices that nothing is made of, and arrays: members appear below their array.
fn whole(graph: &Graph) -> Vec<usize> {
    let held = |at: usize| graph.holders(at).any(|holder| graph.nodes[holder].size.0 > 0);
    let is_top = |at: &usize| {
        let node = &graph.nodes[*at];
        node.size.0 > 0 && node.disk().is_none() && !held(*at) && !graph.partitions(*at).any(held)
    };
    (0..graph.nodes.len()).filter(is_top).collect()
}

fn targets(sys: &Sys, graph: &Graph, wanted: &Wanted) -> Result<Vec<usize>, WatchError> {
    let mut tops: Vec<usize> = Vec::new();
    for target in &wanted.targets {
        let image = rbd::named_by(sys, Path::new(target))?.map(|mapped| mapped.device);
        let name = image.as_deref().unwrap_or(target);
        let devices = match graph.get(name).or_else(|| graph.named(name)) {
            Some(device) => vec![device],
            None => {
                let target = target.clone();
                let place = match graph.of_path(Path::new(&target)) {
                    Ok(place) => place,
                    Err(error) => return Err(WatchError::NoDevice { target, error }),
                };
                if place.below.devices.is_empty() {
                    return Err(WatchError::NothingBelow { target, kind: place.fstype });
                }
                place.below.devices
            }
        };
        for device in devices {
            if !tops.contains(&device) {
                tops.push(device);
            }
        }
    }
    Ok(tops)
}

/// A walk from devices down to what they are made of.
struct Descent<'a> {
    graph: &'a Graph,
    /// Whether it goes through loop devices.
    files: bool,
    topology: Topology,
    seen: BTreeSet<usize>,
}

impl Descent<'_> {
    /// A device, then what is below it. Whole disks under a member that is a partition are left out: they count the same.
    fn go(&mut self, at: usize, depth: usize) {
        let graph = self.graph;
        let node = &graph.nodes[at];
        if !self.seen.insert(at) {
            return;
        }
        let label = node.shown_name().to_owned();
        self.topology.shown.push(Shown { name: node.name.clone(), label: label.clone(), depth });
        let siblings: Vec<String> =
            node.made.siblings().iter().map(|at| graph.nodes[*at].name.clone()).collect();
        if node.holds() {
            if siblings.len() > 1 {
                self.topology.groups.push((label, siblings));
            }
            node.below().iter().for_each(|member| self.go(*member, depth + 1));
        } else if let Some(disk) = node.disk().filter(|_| depth == 0) {
            self.go(disk, depth + 1);
        } else if node.over().is_some() && self.files {
            for below in &node.made.devices {
                self.go(*below, depth + 1);
                // The file takes only part of a partition: the rest of its disk tells what else is at work there.
                graph.nodes[*below].disk().into_iter().for_each(|disk| self.go(disk, depth + 2));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_host::testing::{self, unpack};

    fn of(targets: &[&str]) -> Topology {
        let root = unpack(testing::ARRAYS);
        let targets = targets.iter().map(|t| (*t).to_owned()).collect();
        topology(&Sys::below(root.path()), &Wanted { targets, siblings: false }).expect("a topology")
    }

    fn shown(topology: &Topology) -> Vec<(&str, usize)> {
        topology.shown.iter().map(|s| (s.label.as_str(), s.depth)).collect()
    }

    #[test]
    fn arrays_stand_above_their_members_and_each_device_once() {
        let all = of(&[]);
        assert_eq!(
            shown(&all),
            [
                ("vg0-data", 0),
                ("nvme2n1", 1),
                ("vdd", 1),
                ("crypt0", 0),
                ("vde", 1),
                ("md0", 0),
                ("nvme0n1", 1),
                ("nvme1n1", 1),
                ("md1", 0),
                ("vdb2", 1),
                ("vdc2", 1),
                ("md2", 0),
                ("vdb1", 1),
                ("nvme3n1", 0),
                ("vda", 0)
            ]
        );
        let groups: Vec<&str> = all.groups.iter().map(|g| g.0.as_str()).collect();
        assert_eq!(groups, ["vg0-data", "md0", "md1"]);
    }

    #[test]
    fn a_target_is_a_device_by_any_name() {
        assert_eq!(shown(&of(&["/dev/mapper/crypt0"])), [("crypt0", 0), ("vde", 1)]);
        assert_eq!(
            shown(&of(&["md0", "/dev/vdb1"])),
            [("md0", 0), ("nvme0n1", 1), ("nvme1n1", 1), ("vdb1", 0), ("vdb", 1)]
        );
    }

    /// Made up: a loop device over a file on the recorded array.
    #[test]
    fn a_target_goes_through_the_file_of_a_loop_device() {
        let tree = format!(
            "{}\nl /sys/dev/block/7:0 -> ../../devices/virtual/block/loop0\n\
                 f /sys/devices/virtual/block/loop0/dev\n|7:0\nf /sys/devices/virtual/block/loop0/size\n|2048\n\
                 f /sys/devices/virtual/block/loop0/loop/backing_file\n|/mnt/a/volume one\n",
            testing::ARRAYS
        );
        let root = unpack(&tree);
        let of = |targets: &[&str]| {
            let targets = targets.iter().map(|t| (*t).to_owned()).collect();
            topology(&Sys::below(root.path()), &Wanted { targets, siblings: false }).expect("a topology")
        };
        assert_eq!(shown(&of(&["loop0"])), [("loop0", 0), ("md0", 1), ("nvme0n1", 2), ("nvme1n1", 2)]);
        let all = of(&[]);
        assert!(shown(&all).contains(&("loop0", 0)) && shown(&all).contains(&("md0", 0)), "{all:?}");
    }

    /// The recorded guest of many stacks: devices of equal work are siblings, and those that describe or cache others are not.
    #[test]
    fn siblings_are_devices_of_equal_work() {
        let root = unpack(testing::STACKS);
        let topology = topology(&Sys::below(root.path()), &Wanted::default()).expect("a topology");
        let groups: Vec<String> =
            topology.groups.iter().map(|(name, of)| format!("{name}: {}", of.join(" "))).collect();
        assert_eq!(
            groups,
            [
                "vg-linear: vda vdb",
                "vg-striped: vda vdb vdc vdd",
                "vg-r1: dm-4 dm-6",
                "vg-r5: dm-9 dm-11 dm-13 dm-15",
                "vg-r10: dm-18 dm-20 dm-22 dm-24",
                "vg-mir: dm-27 dm-28",
                "md10: vdl vdm vdn vdo",
                "md2: md0 md1",
                "md0: vde vdf",
                "md1: vdg vdh",
                "md5: vdi vdj vdk",
                "/mnt/b: vdp vdq",
                "/mnt/b0: vdr vds",
            ]
        );
    }

    #[test]
    fn siblings_are_two_devices() {
        let root = unpack(testing::ARRAYS);
        let siblings = |targets: &[&str]| {
            let targets = targets.iter().map(|t| (*t).to_owned()).collect();
            topology(&Sys::below(root.path()), &Wanted { targets, siblings: true })
        };
        assert_eq!(siblings(&["vdb", "vdc"]).expect("two").groups[0].1, ["vdb", "vdc"]);
        let error = siblings(&["vdb", "/dev/vdb"]).expect_err("one");
        assert!(error.to_string().contains("only vdb was named, which has no sibling"), "{error}");
    }

    #[test]
    fn a_target_that_is_nothing_says_so() {
        let root = unpack(testing::ARRAYS);
        let wanted = Wanted { targets: vec!["/no/such".into()], siblings: false };
        let error = topology(&Sys::below(root.path()), &wanted).expect_err("nothing");
        assert!(error.to_string().contains("`/no/such` is no block device"), "{error}");
    }
}

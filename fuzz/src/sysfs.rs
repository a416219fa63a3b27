//! What sysfs and /proc say of devices: a disk with a partition, an array on it and a mapped device on that, every
//! attribute of which takes a line of the input. All of it is looked at and judged.
use ebbtide_host::command::Never;
use ebbtide_host::findings::{self, FindingFacts};
use ebbtide_host::probe;
use ebbtide_host::sys::Sys;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const PLACES: [&str; 4] = ["sda", "sda/sda1", "md0", "dm-0"];
const ATTRIBUTES: [&str; 29] = [
    "dev",
    "size",
    "ro",
    "removable",
    "start",
    "partition",
    "queue/scheduler",
    "queue/read_ahead_kb",
    "queue/nr_requests",
    "queue/rotational",
    "queue/logical_block_size",
    "queue/physical_block_size",
    "queue/minimum_io_size",
    "queue/optimal_io_size",
    "queue/max_sectors_kb",
    "device/model",
    "device/serial",
    "device/queue_depth",
    "device/transport",
    "wwid",
    "dm/name",
    "dm/uuid",
    "md/level",
    "md/chunk_size",
    "md/raid_disks",
    "md/degraded",
    "md/sync_action",
    "md/sync_completed",
    "md/array_state",
];
const OTHERS: [&str; 3] = ["sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name", "proc/swaps"];

/// A tree with the directories and links, made once.
fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let root = std::env::temp_dir().join(format!("ebb-fuzz-sysfs-{}", std::process::id()));
        for place in PLACES {
            for directory in ["queue", "device", "dm", "md", "slaves", "holders"] {
                fs::create_dir_all(root.join("sys/block").join(place).join(directory)).expect("a directory");
            }
        }
        for directory in ["sys/class/dmi/id", "sys/dev/block", "proc/self"] {
            fs::create_dir_all(root.join(directory)).expect("a directory");
        }
        for (above, below) in [("md0", "sda/sda1"), ("dm-0", "md0")] {
            let name = Path::new(below).file_name().expect("a name");
            let block = root.join("sys/block");
            symlink(".", block.join(above).join("slaves").join(name)).expect("a link");
            symlink(".", block.join(below).join("holders").join(above)).expect("a link");
        }
        for (number, place) in ["8:0", "8:1", "9:0", "253:0"].iter().zip(PLACES) {
            symlink(format!("../../block/{place}"), root.join("sys/dev/block").join(number)).expect("a link");
        }
        root
    })
}

pub(crate) fn target(text: &str) {
    let root = root();
    let mut lines = text.lines();
    for place in PLACES {
        for attribute in ATTRIBUTES {
            let path = root.join("sys/block").join(place).join(attribute);
            // An empty or missing line is a missing attribute, as is a partition's where it is none.
            match lines.next().filter(|line| !line.is_empty()) {
                Some(line) => fs::write(path, line).expect("written"),
                None => drop(fs::remove_file(path)),
            }
        }
    }
    for other in OTHERS {
        fs::write(root.join(other), lines.next().unwrap_or_default()).expect("written");
    }
    let rest: String = lines.flat_map(|line| [line, "\n"]).collect();
    fs::write(root.join("proc/self/mountinfo"), &rest).expect("written");
    fs::write(root.join("proc/diskstats"), &rest).expect("written");
    let sys = Sys::below(root);
    let devices = probe::devices_with(&sys, &Never);
    let graph = &devices.graph;
    for (at, node) in graph.nodes.iter().enumerate() {
        let _ = (graph.uses(at, None), graph.sharers(at), graph.in_words(&graph.of_device(node.dev)));
    }
    let _ = probe::cloud(&sys);
    let _ = findings::find(&FindingFacts::read(&sys, devices));
}

//! Rules about arrays: md, and striped logical volumes as far as their queue limits show them.

use super::{Fault, FindingFacts};
use crate::probe::{BlockDevice, Content, Kind};
use crate::sys;
use ebbtide_model::graph::Layers;
use ebbtide_model::units::Bytes;
use std::collections::BTreeMap;

/// md itself sets readahead to two stripes when it starts a striped array (drivers/md/raid0.c, raid10.c, raid5.c):
/// less leaves members idle in a sequential read.
const STRIPES_READ_AHEAD: u64 = 2;

/// Chunk and data members of a striped device.
fn stripe(facts: &FindingFacts, device: &BlockDevice) -> Option<(Bytes, u64)> {
    let graph = &facts.devices.graph;
    let of_array = matches!(device.kind, Kind::Md | Kind::Lvm) && device.made.is_some();
    graph.nodes[graph.get(&device.name).filter(|_| of_array)?].made.stripe()
}

/// An array's UUID as mdadm writes it, from blkid's way.
fn uuid_of_md(uuid: &str) -> Option<String> {
    let digits: String = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    (digits.len() == 32).then(|| {
        let parts: Vec<&str> = (0..4).map(|part| &digits[part * 8..part * 8 + 8]).collect();
        parts.join(":")
    })
}

/// Members of an md array that is not assembled, as after `mdadm --stop`.
pub(super) fn not_assembled(facts: &FindingFacts) -> Vec<(String, Fault)> {
    let mut arrays: BTreeMap<&str, Vec<&BlockDevice>> = BTreeMap::new();
    let mut inactive: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for device in facts.all() {
        let Content::Signature(signature) = &device.content else { continue };
        // The signature of a partition over all of a disk can be read on the disk as well.
        if signature.kind != "linux_raid_member" || !device.partitions.is_empty() {
            continue;
        }
        // An array that was not started has no size, and is not among the devices.
        let unknown = |holder: &&String| holder.starts_with("md") && facts.devices.get(holder).is_none();
        match device.holders.iter().find(unknown) {
            Some(holder) => inactive.entry(holder).or_default().push(&device.name),
            None if device.holders.is_empty() => {
                arrays.entry(signature.uuid.as_deref().unwrap_or("")).or_default().push(device);
            }
            None => {}
        }
    }
    // One whose other members are at work is a member that fell out, and no array.
    let running = |uuid: &str| {
        facts.all().any(|device| {
            let Content::Signature(signature) = &device.content else { return false };
            !device.holders.is_empty() && signature.uuid.as_deref() == Some(uuid)
        })
    };
    let stopped = arrays.into_iter().filter(|(uuid, _)| !running(uuid)).map(|(uuid, members)| {
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        let label = members.iter().find_map(|member| match &member.content {
            Content::Signature(signature) => signature.label.as_deref(),
            _ => None,
        });
        // mdadm puts the name of the host that made the array in front of its own.
        let name = label.map(|label| label.rsplit(':').next().unwrap_or(label));
        let called = label.map(|label| format!(" \"{label}\"")).unwrap_or_default();
        let (s, members) = if names.len() == 1 { ("s", "member") } else { ("", "members") };
        let remedy = match (name, uuid_of_md(uuid)) {
            (Some(name), Some(uuid)) => {
                format!("`mdadm --assemble /dev/md/{name} --uuid={uuid}`, or all that there are: `mdadm --assemble --scan`")
            }
            _ => "`mdadm --assemble --scan`".to_owned(),
        };
        let what =
            format!("an md array{called} is there and not assembled: {} hold{s} its {members}", names.join(", "));
        (names.first().map_or_else(String::new, |name| (*name).to_owned()), Fault { what, remedy })
    });
    let waiting = inactive.into_iter().map(|(array, members)| {
        let what =
            format!("{array} is assembled and not started: it has {} and lacks others", members.join(", "));
        let remedy = format!(
            "`mdadm --run /dev/{array}` starts it as it is; `mdadm --stop /dev/{array}` gives its members free"
        );
        (members.first().map_or_else(String::new, |name| (*name).to_owned()), Fault { what, remedy })
    });
    stopped.chain(waiting).collect()
}

pub(super) fn small_readahead(facts: &FindingFacts, device: &BlockDevice) -> Option<Fault> {
    let (chunk, members) = stripe(facts, device)?;
    let least = chunk.0.checked_mul(members)?.checked_mul(STRIPES_READ_AHEAD)?;
    let readahead = device.queue.readahead.filter(|r| members > 1 && r.0 < least)?;
    Some(Fault {
        what: format!(
            "{} reads {readahead} ahead; {members} members with a chunk of {chunk} need {} to be busy together",
            device.shown_name(),
            Bytes(least)
        ),
        remedy: format!(
            "for sequential reads: `blockdev --setra {} /dev/{}` (sectors of 512 bytes)",
            least / 512,
            device.name
        ),
    })
}

pub(super) fn degraded(_facts: &FindingFacts, device: &BlockDevice) -> Option<Fault> {
    let md = device.md.as_ref().filter(|md| md.degraded > 0)?;
    Some(Fault {
        what: format!("{} ({}) lacks {} of {} members", device.name, md.level, md.degraded, md.members),
        remedy: {
            let failed = md
                .faulty
                .iter()
                .map(|name| format!("{name} failed: `mdadm /dev/{} --remove /dev/{name}`; ", device.name));
            let failed: String = failed.collect();
            match md.action.as_deref() {
                Some("recover") => format!("{failed}it is being rebuilt: measure it when that is done"),
                _ => format!(
                    "{failed}add one: `mdadm /dev/{} --add DEVICE`; do not measure it like this",
                    device.name
                ),
            }
        },
    })
}

pub(super) fn resync(_facts: &FindingFacts, device: &BlockDevice) -> Option<Fault> {
    let md = device.md.as_ref()?;
    let action = md.action.as_deref().filter(|action| sys::md::is_action(action))?;
    let done = md.done.map(|d| format!(", {:.0}% done", d * 100.0)).unwrap_or_default();
    Some(Fault {
        what: format!("{} is busy with its own {action}{done}", device.name),
        remedy: "measurements meanwhile show less than the array can do; /proc/mdstat says how long it takes"
            .to_owned(),
    })
}

pub(super) fn shared_disk(facts: &FindingFacts) -> Vec<(String, Fault)> {
    let graph = &facts.devices.graph;
    let name = |at: usize| graph.nodes[at].shown_name();
    let mut users: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, array) in graph.nodes.iter().enumerate().filter(|(_, node)| node.holds() && node.size.0 > 0) {
        // What describes a member is on its disk by design, and so is a snapshot beside what it is of.
        let members = array.made.siblings().iter();
        let of = |member: &usize| {
            graph.disks_below(&[*member]).into_iter().map(|disk| (disk, *member)).collect::<Vec<_>>()
        };
        let mut direct: Vec<(usize, usize)> = members.flat_map(of).collect();
        direct.sort_by_key(|(disk, _)| *disk);
        for pair in direct.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let [disk, one, other] = [pair[0].0, pair[0].1, pair[1].1].map(name);
            let what = format!("{} has two members on {disk}: {one} and {other}", array.shown_name());
            let remedy =
                "the disk does the work of two and its failure takes both: give each member its own disk";
            found.push((array.name.clone(), Fault { what, remedy: remedy.to_owned() }));
        }
        // An array over arrays shares its disks with them by design: only the lowest layer counts.
        if array.below().iter().all(|member| !graph.nodes[*member].holds()) {
            direct.dedup_by_key(|(disk, _)| *disk);
            direct.iter().for_each(|(disk, _)| users.entry(*disk).or_default().push(at));
        }
    }
    // Logical volumes of one group share its disks by design; that is not news.
    let is_lvm = |at: &usize| graph.nodes[*at].dm_uuid.starts_with("LVM-");
    for (disk, arrays) in users.into_iter().filter(|(_, all)| all.len() > 1 && !all.iter().all(is_lvm)) {
        let arrays: Vec<&str> = arrays.into_iter().map(name).collect();
        let what = format!("{} are on the same disk {}", arrays.join(" and "), name(disk));
        let remedy = "they slow each other down; measure one at a time, or give each its own disk".to_owned();
        found.push((graph.nodes[disk].name.clone(), Fault { what, remedy }));
    }
    found
}

pub(super) fn geometry(facts: &FindingFacts, device: &BlockDevice) -> Option<Fault> {
    let (chunk, members) = stripe(facts, device)?;
    let mount = device.mounts.first()?;
    let option = |key: &str| {
        mount.options.split(',').find_map(|o| o.strip_prefix(key)?.strip_prefix('='))?.parse::<u64>().ok()
    };
    let name = device.shown_name();
    let (what, remedy) = match mount.fstype.as_str() {
        "xfs" => {
            // xfs prints sunit and swidth in sectors of 512 bytes; a file system without them prints neither.
            let unit = Bytes(option("sunit").unwrap_or(0).checked_mul(512)?);
            if unit == chunk {
                return None;
            }
            let made_for = if unit.0 == 0 { "no chunk".to_owned() } else { format!("a chunk of {unit}") };
            (
                format!("xfs on {name} was made for {made_for}; the array's is {chunk}"),
                format!(
                    "mount with `-o sunit={},swidth={}`, or make it anew with `-d su={},sw={members}`",
                    chunk.0 / 512,
                    chunk.0 / 512 * members,
                    chunk.0,
                ),
            )
        }
        "ext4" => {
            // `stripe` counts file system blocks; where their size is not known, any that ext4 has may fit.
            let known = facts.fs_block.get(&device.name).copied();
            let sizes = known.map_or(vec![4096, 1024, 2048], |block| vec![block]);
            let (whole, stripe) = (chunk.0.checked_mul(members)?, option("stripe"));
            if stripe.is_some_and(|n| sizes.iter().any(|size| n.checked_mul(*size) == Some(whole))) {
                return None;
            }
            let block = *sizes.first()?;
            let made_for = match stripe {
                Some(blocks) => format!("a stripe of {}", Bytes(blocks.saturating_mul(block))),
                None => "no stripe".to_owned(),
            };
            (
                format!("ext4 on {name} was made for {made_for}; the array's is {}", Bytes(whole)),
                format!(
                    "`tune2fs -E stride={},stripe_width={} /dev/{}` (blocks of {block} bytes) and mount again",
                    chunk.0 / block,
                    whole / block,
                    device.name
                ),
            )
        }
        _ => return None,
    };
    Some(Fault { what, remedy })
}

//! Rules about arrays: md, and striped logical volumes as far as their queue limits show them.

use super::{Facts, Found};
use crate::probe::{BlockDevice, Kind};
use crate::sys;
use ebbtide_core::units::Bytes;
use std::collections::BTreeMap;

/// md itself sets readahead to two stripes when it starts a striped array (drivers/md/raid0.c, raid10.c, raid5.c):
/// less leaves members idle in a sequential read.
const STRIPES_READ_AHEAD: u64 = 2;

/// Chunk and data members of a striped device.
fn stripe(device: &BlockDevice) -> Option<(Bytes, u64)> {
    if let Some(md) = device.md.as_ref().filter(|md| md.is_striped()) {
        return Some((md.chunk?, u64::from(md.data_members())));
    }
    // A striped logical volume publishes its chunk as minimum_io_size and its stripe as optimal_io_size.
    let (chunk, whole) = (device.queue.minimum_io?, device.queue.optimal_io?);
    let striped = device.kind == Kind::Lvm
        && device.slaves.len() > 1
        && whole.0 > chunk.0
        && whole.0.is_multiple_of(chunk.0);
    striped.then(|| (chunk, whole.0 / chunk.0))
}

pub(super) fn small_readahead(facts: &Facts) -> Vec<Found> {
    facts
        .all()
        .filter_map(|device| {
            let (chunk, members) = stripe(device)?;
            let least = chunk.0.checked_mul(members)?.checked_mul(STRIPES_READ_AHEAD)?;
            let readahead = device.queue.readahead.filter(|r| members > 1 && r.0 < least)?;
            Some(Found {
                device: device.name.clone(),
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
        })
        .collect()
}

pub(super) fn degraded(facts: &Facts) -> Vec<Found> {
    facts
        .all()
        .filter_map(|device| {
            let md = device.md.as_ref().filter(|md| md.degraded > 0)?;
            Some(Found {
                device: device.name.clone(),
                what: format!(
                    "{} ({}) lacks {} of {} members",
                    device.name, md.level, md.degraded, md.members
                ),
                remedy: format!(
                    "add one: `mdadm /dev/{} --add DEVICE`; do not measure it like this",
                    device.name
                ),
            })
        })
        .collect()
}

pub(super) fn resync(facts: &Facts) -> Vec<Found> {
    facts
        .all()
        .filter_map(|device| {
            let md = device.md.as_ref()?;
            let action = md.action.as_deref().filter(|a| !matches!(*a, "idle" | "frozen"))?;
            let done = md.done.map(|d| format!(", {:.0}% done", d * 100.0)).unwrap_or_default();
            Some(Found {
                device: device.name.clone(),
                what: format!("{} is busy with its own {action}{done}", device.name),
                remedy: "measurements meanwhile show less than the array can do; /proc/mdstat says how long it takes"
                    .to_owned(),
            })
        })
        .collect()
}

pub(super) fn shared_disk(facts: &Facts) -> Vec<Found> {
    let mut users: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for array in facts.all().filter(|d| d.slaves.len() > 1 || d.md.is_some()) {
        let mut direct: Vec<(&str, &str)> = Vec::new();
        for slave in &array.slaves {
            direct.extend(facts.devices.disks_below(slave).into_iter().map(|disk| (disk, slave.as_str())));
        }
        direct.sort_by(|a, b| sys::natural_order(a.0, b.0));
        for pair in direct.windows(2).filter(|p| p[0].0 == p[1].0) {
            found.push(Found {
                device: array.name.clone(),
                what: format!(
                    "{} has two members on {}: {} and {}",
                    array.shown_name(),
                    pair[0].0,
                    pair[0].1,
                    pair[1].1
                ),
                remedy:
                    "the disk does the work of two and its failure takes both: give each member its own disk"
                        .to_owned(),
            });
        }
        // An array over arrays shares its disks with them by design: only the lowest layer counts.
        if array.slaves.iter().all(|s| facts.devices.get(s).is_some_and(|d| d.slaves.is_empty())) {
            direct.dedup_by_key(|(disk, _)| *disk);
            direct
                .iter()
                .for_each(|(disk, _)| users.entry(disk).or_default().push(array.shown_name().to_owned()));
        }
    }
    // Logical volumes of one group share its disks by design; that is not news.
    let is_lvm = |name: &String| facts.devices.get(name).is_some_and(|d| d.kind == Kind::Lvm);
    found.extend(users.into_iter().filter(|(_, arrays)| arrays.len() > 1 && !arrays.iter().all(is_lvm)).map(
        |(disk, arrays)| Found {
            device: disk.to_owned(),
            what: format!("{} are on the same disk {disk}", arrays.join(" and ")),
            remedy: "they slow each other down; measure one at a time, or give each its own disk".to_owned(),
        },
    ));
    found
}

pub(super) fn geometry(facts: &Facts) -> Vec<Found> {
    facts
        .all()
        .filter_map(|device| {
            let (chunk, members) = stripe(device)?;
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
            Some(Found { device: device.name.clone(), what, remedy })
        })
        .collect()
}

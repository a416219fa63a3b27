//! Rules about single devices and their mounts.

use super::{Fault, FindingFacts};
use crate::probe::{BlockDevice, Kind};
use ebbtide_model::units::Bytes;

/// Requests per second since boot from which access times are worth a thought: a tenth of what a gp3 volume or one
/// spinning disk can do.
const BUSY_REQUESTS_PER_SECOND: f64 = 20.0;
/// Every device of today works in pages of at least this, whatever it says.
const PAGE: u64 = 4096;

pub(super) fn access_times(facts: &FindingFacts, device: &BlockDevice) -> Option<Fault> {
    const LOCAL: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs", "jfs", "f2fs"];
    let mount = device.mounts.iter().find(|m| LOCAL.contains(&m.fstype.as_str()))?;
    let quiet = ["noatime", "ro"].iter().any(|o| mount.has_option(o));
    let relative = mount.has_option("relatime");
    // A loop device's counters go on over all the files that it has stood for since boot.
    let counted = facts.requests_per_second.get(&device.name).filter(|_| device.kind != Kind::Loop);
    let rate = counted.copied().unwrap_or(0.0);
    if quiet || (relative && rate < BUSY_REQUESTS_PER_SECOND) {
        return None;
    }
    let how = if relative {
        format!(
            "once a day for each file that is read (relatime), and is busy: {rate:.0} requests/s since boot"
        )
    } else {
        "at every read (strictatime)".to_owned()
    };
    Some(Fault {
        what: format!("{} on {} writes access times {how}", device.shown_name(), mount.mountpoint),
        remedy: format!(
            "if nothing reads them: `mount -o remount,noatime {}`, and in /etc/fstab",
            mount.mountpoint
        ),
    })
}

pub(super) fn unused_instance_store(_facts: &FindingFacts, device: &BlockDevice) -> Option<Fault> {
    let unused = device.kind == Kind::InstanceStore && device.partition_of.is_none() && device.is_free();
    unused.then(|| Fault {
        what: format!("{} is {} of local NVMe with nothing on it", device.name, device.size),
        remedy: "use it for swap, scratch or caches; what is on it is lost when the instance stops"
            .to_owned(),
    })
}

pub(super) fn lazy_init(facts: &FindingFacts) -> Vec<(String, Fault)> {
    let device = facts.all().find(|d| d.mounts.iter().any(|m| m.fstype == "ext4"));
    let found = |device: &BlockDevice| {
        let what = "ext4 is zeroing inode tables in the background (ext4lazyinit)".to_owned();
        let remedy = "the first write test on a fresh file system reads low: wait, or `mkfs.ext4 -E lazy_itable_init=0`";
        (device.name.clone(), Fault { what, remedy: remedy.to_owned() })
    };
    device.filter(|_| facts.lazy_init).map(found).into_iter().collect()
}

pub(super) fn misaligned(_facts: &FindingFacts, part: &BlockDevice) -> Option<Fault> {
    let start = part.start?;
    let physical = part.queue.physical_block.map_or(PAGE, |b| b.0.max(PAGE));
    let unit = match part.queue.minimum_io {
        Some(chunk) if chunk.0 > physical && chunk.0.is_power_of_two() => chunk.0,
        _ => physical,
    };
    if start.0.is_multiple_of(unit) {
        return None;
    }
    Some(Fault {
        what: format!(
            "{} begins at byte {} ({} past a multiple of {})",
            part.name,
            start.0,
            Bytes(start.0 % unit),
            Bytes(unit)
        ),
        remedy: "requests straddle two blocks; make the partition anew at a multiple of 1MiB".to_owned(),
    })
}

/// Why a scheduler does not suit a kind of device.
struct Odd {
    kinds: &'static [Kind],
    rotational: Option<bool>,
    scheduler: &'static str,
    why: &'static str,
    better: &'static str,
}

/// Linux Documentation/block: `none` for fast devices with deep queues of their own, a scheduler for spindles.
const ODD: &[Odd] = &[
    Odd {
        kinds: &[Kind::Ebs, Kind::AzureDisk, Kind::InstanceStore, Kind::Nvme, Kind::NvmeFabric],
        rotational: Some(false),
        scheduler: "bfq",
        why: "costs CPU and throughput on NVMe, which orders its own queues",
        better: "none",
    },
    Odd {
        kinds: &[Kind::Ebs, Kind::AzureDisk, Kind::InstanceStore, Kind::Nvme, Kind::NvmeFabric],
        rotational: Some(false),
        scheduler: "mq-deadline",
        why: "takes a lock that NVMe's many queues avoid",
        better: "none",
    },
    Odd {
        kinds: &[Kind::Sata, Kind::Scsi],
        rotational: Some(true),
        scheduler: "none",
        why: "leaves a spinning disk to seek in the order of arrival",
        better: "mq-deadline",
    },
];

pub(super) fn odd_scheduler(_facts: &FindingFacts, device: &BlockDevice) -> Option<Fault> {
    let odd = ODD.iter().find(|o| {
        device.partition_of.is_none()
            && o.kinds.contains(&device.kind)
            && o.rotational == device.queue.rotational
            && device.queue.scheduler.as_deref() == Some(o.scheduler)
            && device.queue.schedulers.iter().any(|s| s == o.better)
    })?;
    Some(Fault {
        what: format!("{} uses {}, which {}", device.name, odd.scheduler, odd.why),
        remedy: format!("measure with `echo {} > /sys/block/{}/queue/scheduler`", odd.better, device.name),
    })
}

pub(super) fn drive_health(_facts: &FindingFacts, device: &BlockDevice) -> Option<Fault> {
    let troubles = device.health.as_ref()?.troubles();
    (!troubles.is_empty()).then(|| Fault {
        what: format!("{} reports: {}", device.name, troubles.join(", ")),
        remedy: "move what is on it and replace it; what is measured on it is not its usual speed".to_owned(),
    })
}

pub(super) fn network_swap(facts: &FindingFacts, device: &BlockDevice) -> Option<Fault> {
    device.swap_used?;
    let disk = facts
        .devices
        .disks_below(&device.name)
        .into_iter()
        .filter_map(|name| facts.devices.get(name))
        .find(|disk| disk.kind.is_network() == Some(true))?;
    Some(Fault {
        what: format!("swap on {} is on {} storage", device.shown_name(), disk.kind.label()),
        remedy:
            "under memory pressure swapping competes with data for the network and its limits: use local \
                 disks or zram"
                .to_owned(),
    })
}

//! Findings: what on this host's devices costs speed or safety, and what to do about it. Rules are data; each looks
//! at what the probe found and changes nothing.

mod arrays;
mod devices;
#[cfg(test)]
mod tests;

use crate::probe::{BlockDevice, Devices};
use crate::sys::{self, Sys};
use ebbtide_model::observe::diskstats;
use serde::Serialize;
use std::collections::BTreeMap;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Data or most of the speed is at stake.
    Problem,
    /// Speed can probably be gained.
    Advice,
    /// Worth knowing when measuring.
    Note,
}

/// Something found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule's id.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The device, or the first of several.
    pub device: String,
    /// What was found, with figures.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// What the rules look at.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Every block device, with what stands on what.
    pub devices: Devices,
    /// Whether ext4 is initialising inode tables in the background.
    pub lazy_init: bool,
    /// Requests per second since boot, by kernel name, where they could be read.
    pub requests_per_second: BTreeMap<String, f64>,
    /// Block size in bytes of mounted file systems, by kernel name of the device, where it could be asked.
    pub fs_block: BTreeMap<String, u64>,
}

impl Facts {
    /// Adds to `devices` what the rules need beside them.
    pub fn read(sys: &Sys, devices: Devices) -> Facts {
        let uptime = sys::text(&sys.proc.join("uptime"));
        let uptime: Option<f64> = uptime.and_then(|t| t.split(' ').next()?.parse().ok()).filter(|s| *s > 0.0);
        let stats = sys::text(&sys.proc.join("diskstats")).unwrap_or_default();
        let rate = |c: &diskstats::DiskCounters| Some((c.read.ops + c.write.ops) as f64 / uptime?);
        let requests_per_second = diskstats::lines(&stats)
            .filter_map(|line| Some((line.name.to_owned(), rate(&line.counters)?)))
            .collect();
        let lazy_init = sys::names(&sys.proc)
            .iter()
            .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
            .any(|pid| sys::word(&sys.proc.join(pid).join("comm")).as_deref() == Some("ext4lazyinit"));
        let mounted = devices.devices.iter().filter(|_| sys.is_host());
        let fs_block = mounted
            .filter_map(|d| {
                Some((d.name.clone(), rustix::fs::statvfs(&d.mounts.first()?.mountpoint).ok()?.f_frsize))
            })
            .collect();
        Facts { devices, lazy_init, requests_per_second, fs_block }
    }

    fn all(&self) -> impl Iterator<Item = &BlockDevice> {
        self.devices.devices.iter()
    }
}

/// A check of the facts, and what it is called.
pub struct Rule {
    /// Its id, as findings carry it.
    pub id: &'static str,
    /// What it looks for.
    pub about: &'static str,
    /// How much what it finds matters.
    pub severity: Severity,
    check: fn(&Facts) -> Vec<Found>,
}

/// What a rule's check returns.
struct Found {
    device: String,
    what: String,
    remedy: String,
}

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule {
        id: "degraded-array",
        about: "an md array lacks members",
        severity: Severity::Problem,
        check: arrays::degraded,
    },
    Rule {
        id: "shared-disk",
        about: "two arrays, or two members of one array, use the same disk",
        severity: Severity::Problem,
        check: arrays::shared_disk,
    },
    Rule {
        id: "drive-health",
        about: "an NVMe drive says that it is worn out or failing",
        severity: Severity::Problem,
        check: devices::drive_health,
    },
    Rule {
        id: "network-swap",
        about: "swap is on storage behind a network",
        severity: Severity::Problem,
        check: devices::network_swap,
    },
    Rule {
        id: "misaligned-partition",
        about: "a partition does not begin at a multiple of the block or chunk",
        severity: Severity::Problem,
        check: devices::misaligned,
    },
    Rule {
        id: "chunk-geometry",
        about: "a file system was made for another chunk than its array has",
        severity: Severity::Advice,
        check: arrays::geometry,
    },
    Rule {
        id: "stopped-array",
        about: "an md array is there and not assembled, or not started",
        severity: Severity::Advice,
        check: arrays::not_assembled,
    },
    Rule {
        id: "small-readahead",
        about: "readahead is too small to keep every member of a striped array busy",
        severity: Severity::Advice,
        check: arrays::small_readahead,
    },
    Rule {
        id: "access-times",
        about: "a busy file system writes access times",
        severity: Severity::Advice,
        check: devices::access_times,
    },
    Rule {
        id: "odd-scheduler",
        about: "the I/O scheduler does not suit the device",
        severity: Severity::Advice,
        check: devices::odd_scheduler,
    },
    Rule {
        id: "unused-instance-store",
        about: "instance store is there and not used",
        severity: Severity::Advice,
        check: devices::unused_instance_store,
    },
    Rule {
        id: "resync",
        about: "an md array is resynchronising, recovering or checking",
        severity: Severity::Note,
        check: arrays::resync,
    },
    Rule {
        id: "lazy-init",
        about: "ext4 is initialising inode tables in the background",
        severity: Severity::Note,
        check: devices::lazy_init,
    },
];

/// Everything that the rules find, what matters most first.
pub fn find(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES
        .iter()
        .flat_map(|rule| {
            (rule.check)(facts).into_iter().map(|found| Finding {
                rule: rule.id,
                severity: rule.severity,
                device: found.device,
                what: found.what,
                remedy: found.remedy,
            })
        })
        .collect();
    findings.sort_by_key(|f| f.severity);
    findings
}

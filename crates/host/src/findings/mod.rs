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

/// A finding of a rule about the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Id of the rule, as `--json` has it.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The device, or the first of several.
    pub device: String,
    /// What was found, with figures.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// What the rules look at.
#[derive(Debug, Clone, Default)]
pub struct FindingFacts {
    /// Every block device, with what stands on what.
    pub devices: Devices,
    /// Whether ext4 is initialising inode tables in the background.
    pub lazy_init: bool,
    /// Requests per second since boot, by kernel name, where they could be read.
    pub requests_per_second: BTreeMap<String, f64>,
    /// Block size in bytes of mounted file systems, by kernel name of the device, where it could be asked.
    pub fs_block: BTreeMap<String, u64>,
}

impl FindingFacts {
    /// Adds to `devices` what the rules need beside them.
    pub fn read(sys: &Sys, devices: Devices) -> FindingFacts {
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
        FindingFacts { devices, lazy_init, requests_per_second, fs_block }
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
    check: Check,
}

enum Check {
    /// Of one device after the other.
    Each(fn(&FindingFacts, &BlockDevice) -> Option<Fault>),
    /// Of all of them together; each with the name of its device.
    All(fn(&FindingFacts) -> Vec<(String, Fault)>),
}

/// What a rule's check returns.
struct Fault {
    what: String,
    remedy: String,
}

const fn rule(severity: Severity, id: &'static str, about: &'static str, check: Check) -> Rule {
    Rule { id, about, severity, check }
}

use Check::{All, Each};
use Severity::{Advice, Note, Problem};

/// All rules, in the order in which their findings are shown.
pub const RULES: &[Rule] = &[
    rule(Problem, "degraded-array", "an md array lacks members", Each(arrays::degraded)),
    rule(
        Problem,
        "shared-disk",
        "two arrays, or two members of one array, use the same disk",
        All(arrays::shared_disk),
    ),
    rule(
        Problem,
        "drive-health",
        "an NVMe drive says that it is worn out or failing",
        Each(devices::drive_health),
    ),
    rule(Problem, "network-swap", "swap is on storage behind a network", Each(devices::network_swap)),
    rule(
        Problem,
        "misaligned-partition",
        "a partition does not begin at a multiple of the block or chunk",
        Each(devices::misaligned),
    ),
    rule(
        Advice,
        "chunk-geometry",
        "a file system was made for another chunk than its array has",
        Each(arrays::geometry),
    ),
    rule(
        Advice,
        "stopped-array",
        "an md array is there and not assembled, or not started",
        All(arrays::not_assembled),
    ),
    rule(
        Advice,
        "small-readahead",
        "readahead is too small to keep every member of a striped array busy",
        Each(arrays::small_readahead),
    ),
    rule(Advice, "access-times", "a busy file system writes access times", Each(devices::access_times)),
    rule(Advice, "odd-scheduler", "the I/O scheduler does not suit the device", Each(devices::odd_scheduler)),
    rule(
        Advice,
        "unused-instance-store",
        "instance store is there and not used",
        Each(devices::unused_instance_store),
    ),
    rule(Note, "resync", "an md array is resynchronising, recovering or checking", Each(arrays::resync)),
    rule(Note, "lazy-init", "ext4 is initialising inode tables in the background", All(devices::lazy_init)),
];

/// Everything that the rules find, what matters most first.
pub fn find(facts: &FindingFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in RULES {
        let found = match rule.check {
            Check::All(check) => check(facts),
            Check::Each(check) => {
                facts.all().filter_map(|device| Some((device.name.clone(), check(facts, device)?))).collect()
            }
        };
        findings.extend(found.into_iter().map(|(device, Fault { what, remedy })| Finding {
            rule: rule.id,
            severity: rule.severity,
            device,
            what,
            remedy,
        }));
    }
    findings.sort_by_key(|f| f.severity);
    findings
}

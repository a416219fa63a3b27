//! The tree of block devices as text: free volumes first, then those that nobody could look into, then each disk with
//! what is on it.

use crate::known_limits::KnownLimits;
use ebbtide_host::findings::{Finding, Severity};
use ebbtide_host::probe::{BlockDevice, Content, Devices, Kind, Made};
use ebbtide_host::sys::DevNum;
use ebbtide_model::observe::nvme::Health;
use ebbtide_model::samples::Join;
use ebbtide_model::shown::{aligned, excerpt, one_line};
use ebbtide_model::units::{Bytes, format_bytes};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A device was asked for that is not there.
#[derive(Debug, thiserror::Error)]
#[error("there is no block device `{}`; there are {}", excerpt(name), there.join(", "))]
pub struct NoSuchDevice {
    name: String,
    there: Vec<String>,
}

/// Names of the devices to show: all, or those asked for with everything below and above them.
///
/// # Errors
/// The first name that no device has.
pub fn select(devices: &Devices, asked: &[String]) -> Result<BTreeSet<String>, NoSuchDevice> {
    if asked.is_empty() {
        return Ok(devices.devices.iter().map(|d| d.name.clone()).collect());
    }
    let mut wanted = BTreeSet::new();
    for name in asked {
        let leads_to = std::fs::canonicalize(name).ok().filter(|_| name.starts_with("/dev/"));
        let leads_to = leads_to.as_deref().and_then(|path| path.file_name()?.to_str());
        let short = name.strip_prefix("/dev/mapper/").or(name.strip_prefix("/dev/")).unwrap_or(name);
        let device = devices
            .get(short)
            .or_else(|| devices.get(leads_to?))
            .or_else(|| short.parse::<DevNum>().ok().and_then(|dev| devices.by_dev(dev)))
            .or_else(|| devices.devices.iter().find(|d| d.ids.matches(name)))
            .ok_or_else(|| NoSuchDevice {
                name: name.clone(),
                there: devices.devices.iter().map(|d| d.shown_name().to_owned()).collect(),
            })?;
        // The walk upwards starts from the device alone, or it would reach every array on its disks.
        let graph = &devices.graph;
        let device = graph.by_dev(device.dev);
        let around = device
            .into_iter()
            .flat_map(|at| graph.blocks_below(at).into_iter().chain(graph.blocks_above(at)));
        wanted.extend(around.map(|at| graph.nodes[at].name.clone()));
    }
    Ok(wanted)
}

fn above(device: &BlockDevice) -> impl Iterator<Item = &String> {
    device.partitions.iter().chain(&device.holders)
}

/// The whole answer as text; `wide` with device numbers and exact sizes.
pub fn text(
    devices: &Devices,
    wanted: &BTreeSet<String>,
    limits: &KnownLimits,
    findings: &[Finding],
    wide: bool,
) -> String {
    let view = View { devices, wanted, wide };
    let shown = |d: &&BlockDevice| wanted.contains(&d.name);
    let all = || devices.devices.iter().filter(shown);
    let free: Vec<&BlockDevice> = all().filter(|d| d.is_free()).collect();
    let unknown: Vec<&BlockDevice> = all().filter(|d| d.is_unknown()).collect();
    let alone = |d: &&BlockDevice| d.is_free() || d.is_unknown();
    let roots = all().filter(|d| d.partition_of.is_none() && d.slaves.is_empty() && !alone(d));
    let mut lines = Vec::new();
    // What is told under a heading of its own is only named in the tree of the disks below it.
    let mut seen: BTreeSet<String> = all().filter(alone).map(|d| d.name.clone()).collect();
    for device in roots {
        view.branch(device, "", "", &mut lines, &mut seen);
    }
    let mut text = String::new();
    for (heading, alone) in [("Free", &free), ("Not known", &unknown)] {
        let lines: Vec<Line> = alone.iter().map(|d| view.line(d, "", "")).collect();
        text.push_str(&view.section(heading, &lines));
    }
    text.push_str(&view.section("In use or with data", &lines));
    if text.is_empty() {
        text.push_str("No block devices.\n");
    }
    text + &super::limits::section(limits) + &found(findings)
}

fn found(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "Findings: none\n".to_owned();
    }
    let mut text = "Findings\n".to_owned();
    for finding in findings {
        let mark = match finding.severity {
            Severity::Problem => "problem",
            Severity::Advice => "advice ",
            Severity::Note => "note   ",
        };
        let _ = writeln!(
            text,
            "  {mark}  {} [{}]\n           {}",
            one_line(&finding.what),
            finding.rule,
            one_line(&finding.remedy)
        );
    }
    text
}

/// A device in the tree.
struct Line {
    cells: Vec<String>,
    /// What is said of it below its row.
    under: Vec<String>,
}

struct View<'a> {
    devices: &'a Devices,
    wanted: &'a BTreeSet<String>,
    wide: bool,
}

impl View<'_> {
    /// A device and everything above it. A device over several others is told in full where it comes first.
    fn branch(
        &self,
        device: &BlockDevice,
        stem: &str,
        indent: &str,
        lines: &mut Vec<Line>,
        seen: &mut BTreeSet<String>,
    ) {
        if !seen.insert(device.name.clone()) {
            let name = format!("{stem}{}", device.shown_name());
            let what = match (device.is_free(), device.is_unknown()) {
                (true, _) => "free (above)",
                (_, true) => "not known (above)",
                _ => "(above)",
            };
            lines.push(Line { cells: self.cells(device, name, None, what.to_owned()), under: Vec::new() });
            return;
        }
        let upper = above(device).filter(|name| self.wanted.contains(*name));
        let upper: Vec<&BlockDevice> = upper.filter_map(|name| self.devices.get(name)).collect();
        let bar = if upper.is_empty() { "  " } else { "│ " };
        lines.push(self.line(device, stem, &format!("{indent}{bar}")));
        for (index, next) in upper.iter().enumerate() {
            let (branch, below) =
                if index + 1 == upper.len() { ("└─", "  ") } else { ("├─", "│ ") };
            self.branch(next, &format!("{indent}{branch}"), &format!("{indent}{below}"), lines, seen);
        }
    }

    /// A device in full; what only whole devices have stands below its row.
    fn line(&self, device: &BlockDevice, stem: &str, indent: &str) -> Line {
        let over = device.made.as_ref().filter(|made| made.of.len() > 1);
        let mut under: Vec<String> =
            over.map(|made| format!("over {}", self.names(&made.of))).into_iter().collect();
        if device.partition_of.is_none() {
            under.extend(details(device));
        }
        let name = format!("{stem}{}", device.shown_name());
        Line {
            cells: self.cells(device, name, Some(device.size), self.on(device)),
            under: under.into_iter().map(|text| format!("{indent}  {text}")).collect(),
        }
    }

    /// The cells of a row; a device that is told elsewhere has no size in it.
    fn cells(&self, device: &BlockDevice, name: String, size: Option<Bytes>, on: String) -> Vec<String> {
        let short = size.map_or_else(String::new, Bytes::short);
        if !self.wide {
            return vec![name, short, kind(device), on];
        }
        let decimal = size.map_or_else(String::new, |bytes| format_bytes(bytes.0 as f64));
        let exact = size.map_or_else(String::new, |bytes| bytes.0.to_string());
        vec![name, device.dev.to_string(), short, decimal, exact, kind(device), on]
    }

    /// `lines` below a heading; nothing where there are none.
    fn section(&self, heading: &str, lines: &[Line]) -> String {
        if lines.is_empty() {
            return String::new();
        }
        let rows: Vec<&[String]> = lines.iter().map(|line| line.cells.as_slice()).collect();
        let numbers: &[usize] = if self.wide { &[1, 2, 3, 4] } else { &[1] };
        let mut text = format!("{heading}\n");
        for (row, Line { under, .. }) in aligned(&rows, 2, numbers).lines().zip(lines) {
            text += &format!("{row}\n");
            text.extend(under.iter().map(|line| format!("  {}\n", one_line(line))));
        }
        text + "\n"
    }

    /// Devices by the names that people use.
    fn names(&self, of: &[String]) -> String {
        let names =
            of.iter().map(|name| self.devices.get(name).map_or(name.as_str(), BlockDevice::shown_name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// What is on a device and what uses it.
    fn on(&self, device: &BlockDevice) -> String {
        let mut parts = Vec::new();
        match &device.content {
            // An active swap area says so itself.
            Content::Signature(s) if s.kind == "swap" && device.swap_used.is_some() => {}
            Content::Signature(s) => {
                let label = s.label.as_deref().map(|l| format!(" \"{l}\"")).unwrap_or_default();
                parts.push(format!("{}{label}", s.kind));
            }
            Content::PartitionTable(table) => parts.push(format!("{table} partitions")),
            Content::Unknown(_) if device.is_unknown() => parts.push("unknown content".to_owned()),
            Content::Unknown(_) if !device.partitions.is_empty() => parts.push("partitions".to_owned()),
            Content::Unknown(_) => parts.extend(device.mounts.first().map(|m| m.fstype.clone())),
            Content::Nothing => {}
        }
        if !device.holders.is_empty() {
            parts.push(format!("in {}", self.names(&device.holders)));
        }
        if let Some(all) = &device.shares {
            let others: Vec<String> = all.of.iter().filter(|name| **name != device.name).cloned().collect();
            let how = all.join.in_words(all.of.len(), all.missing);
            parts.push(format!("with {} ({how})", self.names(&others)));
        }
        parts.extend(device.mounts.iter().map(|m| format!("on {}", m.mountpoint)));
        parts.extend(
            device.mounted_elsewhere.iter().map(|place| format!("on {place} in another mount namespace")),
        );
        if let Some(used) = device.swap_used {
            let held = if used.0 == 0 { "nothing".to_owned() } else { used.short() };
            parts.push(format!("active swap, {held} in it"));
        }
        parts.extend(device.exports.iter().map(|seen| match &seen.name {
            Some(name) => format!("exported as {name}"),
            None => format!("exported as {}", seen.target),
        }));
        parts.extend(device.backing_file.iter().map(|f| format!("file {f}")));
        if device.read_only {
            parts.push("read-only".to_owned());
        }
        parts.join(", ")
    }
}

fn kind(device: &BlockDevice) -> String {
    match &device.md {
        Some(md) => {
            let state = if md.degraded > 0 { ", degraded" } else { "" };
            let chunk = md.chunk.map(|c| format!(", chunk {c}")).unwrap_or_default();
            format!("md {} of {}{chunk}{state}", md.level, md.members)
        }
        None if device.partition_of.is_some() => "partition".to_owned(),
        None => match device.made.as_ref().filter(|_| device.kind == Kind::Lvm) {
            Some(made) => format!("LVM {}", logical(made)),
            None => device.kind.label().to_owned(),
        },
    }
}

/// What a logical volume is, in LVM's words.
fn logical(made: &Made) -> String {
    let (of, chunk) = (made.of.len(), made.join.chunk().map(|c| format!(", chunk {c}")).unwrap_or_default());
    let missing = if made.missing > 0 { ", degraded" } else { "" };
    let of = of as u32 + made.missing;
    match made.join {
        Join::Through => "linear".to_owned(),
        Join::Linear => format!("linear of {of}"),
        Join::Stripe { .. } => format!("striped of {of}{chunk}"),
        Join::Mirror { .. } => format!("raid1 of {of}{missing}"),
        Join::StripedMirror { .. } | Join::Parity { .. } => {
            format!("{} of {of}{chunk}{missing}", made.join.name())
        }
        Join::Cache => "with a cache".to_owned(),
        Join::Indirect => "thin or a snapshot".to_owned(),
        // Without root its level is not known.
        Join::Paths | Join::Other => format!("raid of {of}"),
    }
}

/// Queue and identity, as lines.
fn details(device: &BlockDevice) -> Vec<String> {
    let queue = &device.queue;
    let mut parts: Vec<String> = queue.scheduler.iter().map(|s| format!("scheduler {s}")).collect();
    if let (Some(readahead), Some(sectors)) = (queue.readahead, queue.readahead_sectors()) {
        parts.push(format!("readahead {readahead} ({sectors} sectors)"));
    }
    let depth = queue.device_depth.map(|d| format!(", device {d}")).unwrap_or_default();
    parts.extend(queue.requests.map(|r| format!("queue {r}{depth}")));
    parts.extend(queue.rotational.map(|r| if r { "rotational" } else { "not rotational" }.to_owned()));
    if let (Some(logical), Some(physical)) = (queue.logical_block, queue.physical_block) {
        parts.push(format!("blocks {}/{}", logical.0, physical.0));
    }
    let mut lines = vec![parts.join(", ")];
    let ids = &device.ids;
    let mut names: Vec<String> = ids.model.clone().into_iter().collect();
    names.extend(ids.best().map(|id| format!("id {id}")));
    if ids.best() != ids.serial.as_deref() {
        names.extend(ids.serial.as_ref().map(|s| format!("serial {s}")));
    }
    lines.push(names.join(", "));
    lines.extend(device.health.as_ref().map(health));
    lines.retain(|l| !l.is_empty());
    lines
}

/// What a drive says of itself; what is wrong with it is a finding.
fn health(health: &Health) -> String {
    let mut parts: Vec<String> = health.temperature_c.map(|c| format!("{c} \u{b0}C")).into_iter().collect();
    parts.push(format!("{}% of its endurance used", health.used_percent));
    parts.extend(health.spare().map(|spare| format!("{spare}% spare blocks left")));
    parts.join(", ")
}

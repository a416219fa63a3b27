//! `ebb watch`: live rates of devices and of the members below them.
//!
//! [`Watch`] is what is known and how it is shown; [`source`] fills it from the host once per interval; [`plain`]
//! prints it as lines, [`screen`] draws it, [`keys`] changes how it is shown.

pub mod keys;
pub mod plain;
pub mod screen;
pub mod source;
pub mod tui;

use ebbtide_analysis::observe::outlier::{MemberFigures, Outlier};
use ebbtide_analysis::observe::standing::RecentReadings;
use ebbtide_analysis::observe::table::{DiskTable, Entry};
use ebbtide_model::observe::host::HostRates;
use std::collections::BTreeMap;
use std::time::Duration;
use strum::{IntoStaticStr, VariantArray};

/// What is shown, and in which order of arrays and members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Devices to show, each once; members follow their array, one deeper.
    pub shown: Vec<Shown>,
    /// Groups of siblings: the name of their array, and their kernel names.
    pub groups: Vec<(String, Vec<String>)>,
}

/// A device to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Kernel name.
    pub name: String,
    /// Name to print (`vg0-data` for `dm-0`).
    pub label: String,
    /// Layers below the device that stands for itself, from 0.
    pub depth: usize,
}

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
pub enum Sort {
    /// Arrays with their members, in the kernel's order.
    #[default]
    #[strum(serialize = "tree")]
    Tree,
    /// Bytes per second, the most first.
    #[strum(serialize = "MB/s")]
    Throughput,
    /// Requests per second, the most first.
    #[strum(serialize = "requests")]
    Requests,
    /// Await, the longest first.
    #[strum(serialize = "await")]
    Await,
    /// Requests in flight, the most first.
    #[strum(serialize = "queue")]
    Queue,
    /// Utilisation, the highest first.
    #[strum(serialize = "util")]
    Util,
}

/// The variant after `this`, round and round.
pub fn next<T: VariantArray + PartialEq + Copy>(this: T) -> T {
    let all = T::VARIANTS;
    let at = all.iter().position(|variant| *variant == this).unwrap_or(0);
    all[(at + 1) % all.len()]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub enum Unit {
    /// 10^6 bytes per second.
    #[default]
    Mega,
    /// 2^20 bytes per second.
    Mebi,
    /// 2^10 bytes per second, iostat's `kB`.
    Kibi,
}

impl Unit {
    /// Its name and its bytes.
    pub fn of(self) -> (&'static str, f64) {
        match self {
            Unit::Mega => ("MB/s", 1e6),
            Unit::Mebi => ("MiB/s", 1_048_576.0),
            Unit::Kibi => ("KiB/s", 1024.0),
        }
    }
}

/// What is known and how it is shown.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// Counters and rates of all devices.
    pub table: DiskTable,
    /// Which devices are shown, and what lies below what.
    pub topology: Topology,
    /// Nominal time between readings.
    pub interval: Duration,
    /// Time between the last two readings; of a report since boot, the time since then.
    pub span: Duration,
    /// Whether the figures are means since boot.
    pub since_boot: bool,
    /// What the host did meanwhile.
    pub host: HostRates,
    /// Readings with rates so far.
    pub readings: u64,
    /// Order of the rows.
    pub sort: Sort,
    /// Unit in which throughput is shown.
    pub unit: Unit,
    /// Only names that contain this.
    pub filter: String,
    /// Devices that never did anything are shown as well.
    pub idle: bool,
    /// The last readings of each group of siblings, by the name of its array.
    pub standing: BTreeMap<String, RecentReadings>,
}

/// A member that differs from its siblings.
#[derive(Debug, Clone, PartialEq)]
pub struct Remark<'a> {
    /// Name of its array.
    pub array: &'a str,
    /// Span of the figures, in seconds.
    pub seconds: f64,
    /// The member as its row calls it.
    pub member: String,
    /// By how much it differs from its siblings, and in what.
    pub outlier: Outlier,
}

#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Name with its indent below what it is part of.
    pub label: &'a str,
    /// Layers below the device that stands for itself.
    pub depth: usize,
    /// Counters, rates and history.
    pub entry: &'a Entry,
}

impl Watch {
    /// Rows to show, sorted and filtered.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let entries: BTreeMap<&str, &Entry> =
            self.table.entries().iter().map(|e| (e.name.as_str(), e)).collect();
        let mut rows: Vec<Row<'_>> = self
            .topology
            .shown
            .iter()
            .filter_map(|s| {
                Some(Row { label: &s.label, depth: s.depth, entry: entries.get(s.name.as_str())? })
            })
            .filter(|r| (self.idle || r.entry.was_used()) && r.label.contains(self.filter.as_str()))
            .collect();
        if self.sort != Sort::Tree {
            rows.iter_mut().for_each(|r| r.depth = 0);
            // The sort is stable: rows of equal value stay in the order of the tree.
            rows.sort_by(|a, b| self.key(b.entry).total_cmp(&self.key(a.entry)));
        }
        rows
    }

    fn key(&self, entry: &Entry) -> f64 {
        let Some(rates) = &entry.rates else { return -1.0 };
        match self.sort {
            Sort::Tree => 0.0,
            Sort::Throughput => rates.bytes_per_second(),
            Sort::Requests => rates.requests_per_second(),
            Sort::Await => rates.await_ms().unwrap_or(-1.0),
            Sort::Queue => rates.queue,
            Sort::Util => rates.util,
        }
    }

    /// Why there is no row to show; nothing while there is one, or no reading yet.
    pub fn nothing_to_show(&self) -> Option<String> {
        if self.topology.shown.is_empty() || !self.rows().is_empty() {
            return None;
        }
        Some(if self.filter.is_empty() {
            "none of these devices has done anything yet; --idle (key i) shows them anyway".to_owned()
        } else {
            format!("no device name contains `{}`", self.filter)
        })
    }

    /// Takes the last reading into the comparison of siblings.
    pub fn judge(&mut self) {
        let groups = &self.topology.groups;
        self.standing.retain(|array, _| groups.iter().any(|(name, _)| name == array));
        for (array, members) in groups {
            let figures: Vec<MemberFigures> = members
                .iter()
                .filter_map(|name| self.table.get(name))
                .filter_map(|e| Some(MemberFigures::new(&e.name, &e.rates?)))
                .collect();
            // A member without figures yet would make the others look alone.
            if figures.len() == members.len() {
                self.standing.entry(array.clone()).or_default().push(self.span.as_secs_f64(), figures);
            } else {
                self.standing.remove(array);
            }
        }
    }

    /// Members that differ from their siblings lastingly.
    pub fn outliers(&self) -> Vec<Remark<'_>> {
        let mut found = Vec::new();
        for (array, _) in &self.topology.groups {
            let Some(standing) = self.standing.get(array) else { continue };
            let seconds = standing.seconds();
            found.extend(standing.outliers().into_iter().map(|outlier| {
                let row = self.topology.shown.iter().find(|shown| shown.name == outlier.name);
                let member = row.map_or(&outlier.name, |shown| &shown.label).clone();
                Remark { array, seconds, member, outlier }
            }));
        }
        found
    }
}

#[cfg(test)]
mod tests;

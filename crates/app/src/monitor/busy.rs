//! Whether the host and its disks have something to do: a canary beside a load says little of the volume, and is in the way.

use ebbtide_host::observe::LimitsReader;
use ebbtide_host::sys::{self, Sys};
use ebbtide_model::monitor::Counted;
use ebbtide_model::observe::diskstats::{self, DiskCounters};
use ebbtide_model::units::UnixTime;
use ebbtide_runner::clock;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long disks are looked at before it is said whether they are busy.
pub const LOOK: Duration = Duration::from_millis(500);
/// Share of that time with a request in flight from which a disk is busy.
pub const BUSY: f64 = 0.5;
/// Processes that run or wait for a disk for each processor, over a minute, from which the host is busy.
pub const LOAD: f64 = 1.5;

/// What the kernel had counted at an instant.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    at: UnixTime,
    disks: BTreeMap<String, DiskCounters>,
}

impl Reading {
    /// The counters as they are now.
    pub fn now(sys: &Sys) -> Reading {
        let text = sys::text(&sys.proc.join("diskstats")).unwrap_or_default();
        let disks = diskstats::lines(&text).map(|line| (line.name.to_owned(), line.counters)).collect();
        Reading { at: clock::now(), disks }
    }

    /// The sums for `device`, with what an EBS volume says of its limits, for which nothing of it is read.
    pub fn counted(&self, device: &str, limits: &dyn LimitsReader) -> Option<Counted> {
        let counters = self.disks.get(device)?;
        let exceeded = limits.open(device).and_then(|mut page| page.read()?.exceeded);
        Some(Counted { exceeded, ..Counted::of(counters, self.at) })
    }

    /// Share of the time since `before` in which `device` had a request in flight.
    pub fn utilisation(&self, device: &str, before: &Reading) -> Option<f64> {
        let grown = self.disks.get(device)?.since(before.disks.get(device)?)?;
        let span = self.at.0.checked_sub(before.at.0).filter(|span| *span > 0)?;
        Some(grown.busy_ms as f64 * 1e6 / span as f64)
    }
}

/// Why the host is too busy, in words; nothing where it is not.
pub fn host(sys: &Sys) -> Option<String> {
    let load: f64 = sys::text(&sys.proc.join("loadavg"))?.split_whitespace().next()?.parse().ok()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (load > LOAD * processors as f64)
        .then(|| format!("the host is busy: a load of {load:.1} on {processors} processors"))
}

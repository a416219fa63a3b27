//! What the simulator has to know besides volumes and links: the host, how many of them, and what else goes on.
//! Backends on real machines have the real thing and ignore it.

use crate::sweep::Planted;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The surroundings of a simulated array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// The host, or each of them.
    pub host: Host,
    /// Hosts that run the workload at the same time, each with links of its own; job n runs on host n modulo this.
    pub clients: u32,
    /// A resync of the array during every trial.
    pub resync: Option<Resync>,
    /// By name of a design: what its file system, its scheduler and whatever else has no model are said to do to it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub planted: BTreeMap<String, Planted>,
    /// The fields of designs that effects are planted for.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub planted_fields: BTreeSet<String>,
}

impl Default for Environment {
    fn default() -> Self {
        Environment {
            host: Host::default(),
            clients: 1,
            resync: None,
            planted: BTreeMap::new(),
            planted_fields: BTreeSet::new(),
        }
    }
}

/// The host of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Cores; jobs beyond this number share them.
    pub cores: u32,
    /// CPU time that a job spends on each of its I/Os; 0: the CPU never limits.
    pub cpu_per_io: Nanos,
    /// The same for each write, where writes cost differently.
    pub cpu_per_write: Option<Nanos>,
    /// Rate at which the page cache copies to and from the application, bytes per second.
    pub copy_rate: f64,
    /// Largest request that a device takes (`max_sectors_kb`); larger ones are split. Absent: any.
    pub max_request: Option<Bytes>,
    /// Memory for the page cache; buffered workloads need it.
    pub memory: Option<Bytes>,
    /// Readahead window of buffered sequential reads (`read_ahead_kb`); absent: what Linux gives the array by itself,
    /// see [`Host::readahead_of`].
    pub readahead: Option<Bytes>,
}

impl Default for Host {
    /// Eight cores that cost nothing, Linux's own readahead, 4 GB/s of copying.
    fn default() -> Self {
        Host {
            cores: 8,
            cpu_per_io: Nanos(0),
            cpu_per_write: None,
            copy_rate: 4e9,
            max_request: None,
            memory: None,
            readahead: None,
        }
    }
}

impl Host {
    /// Readahead of an array whose whole stripe (chunk times data members) is `stripe`: 128 KiB, or two whole stripes
    /// where that is more (block/blk-settings.c: `ra_pages` from twice `io_opt`, which md sets to a whole stripe).
    pub fn readahead_of(&self, stripe: Option<Bytes>) -> Bytes {
        self.readahead
            .unwrap_or(Bytes((128 << 10).max(stripe.map_or(0, |stripe| stripe.0.saturating_mul(2)))))
    }
}

/// A resync: reads every member but the last in order and writes the last, as md's does after a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resync {
    /// Most bytes per second on each member (`sync_speed_max`).
    pub rate: f64,
}

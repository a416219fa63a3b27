//! What the simulator has to know besides volumes and links: the host, how many of them, and what else goes on.
//! Backends on real machines have the real thing and ignore it.

use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

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
}

impl Default for Environment {
    fn default() -> Self {
        Environment { host: Host::default(), clients: 1, resync: None }
    }
}

/// A simulated host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Cores; jobs beyond this number share them.
    pub cores: u32,
    /// CPU time that a job spends on each of its I/Os; 0: the CPU never limits.
    pub cpu_per_io: Nanos,
    /// Rate at which the page cache copies to and from the application, bytes per second.
    pub copy_rate: f64,
    /// Largest request that a device takes (`max_sectors_kb`); larger ones are split. Absent: any.
    pub max_request: Option<Bytes>,
    /// Memory for the page cache; buffered workloads need it.
    pub memory: Option<Bytes>,
    /// Readahead window of buffered sequential reads (`read_ahead_kb`).
    pub readahead: Bytes,
}

impl Default for Host {
    /// Eight cores that cost nothing, Linux's 128 KiB of readahead, 4 GB/s of copying.
    fn default() -> Self {
        Host {
            cores: 8,
            cpu_per_io: Nanos(0),
            copy_rate: 4e9,
            max_request: None,
            memory: None,
            readahead: Bytes(128 << 10),
        }
    }
}

/// A resync: reads every member but the last in order and writes the last, as md's does after a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resync {
    /// Most bytes per second on each member (`sync_speed_max`).
    pub rate: f64,
}

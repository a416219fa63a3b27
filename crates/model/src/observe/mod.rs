//! What the kernel and drives count, as it was read: `/proc/diskstats`, the host's counters, NVMe's log pages. What the figures
//! mean beside one another is analysis.

pub mod diskstats;
pub mod host;
pub mod nvme;

pub use diskstats::{DiskCounters, OpCounters};

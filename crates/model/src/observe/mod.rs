//! What the kernel's counters say about devices: pure arithmetic over `/proc/diskstats`, comparisons of an array's
//! members with each other, and the readers of others' evidence.

pub mod diskstats;
pub mod host;
pub mod nvme_health;
pub mod nvme_log;
pub mod outlier;
pub mod rates;
pub mod standing;
pub mod table;

pub use diskstats::{DiskCounters, OpCounters};
pub use rates::{DiskRates, OpRates};

//! What two readings of the kernel's counters say about devices, and comparisons of an array's members with each other.

pub mod outlier;
pub mod rates;
pub mod standing;
pub mod table;

pub use rates::{DiskRates, OpRates};

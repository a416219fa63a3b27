//! What two readings of the kernel's counters say about devices, and comparisons of an array's members with each other.

pub mod outlier;
pub mod rates;
pub mod standing;
pub mod table;

pub use rates::{DiskRates, OpRates};

use ebbtide_model::samples::CoreUse;

/// Share of all cores' time that is what `part` takes of each, 0 to 1; nothing where no time was counted.
pub fn share_of_cores(cores: &[CoreUse], part: fn(&CoreUse) -> u64) -> Option<f64> {
    let whole = |core: &CoreUse| core.user.0 + core.system.0 + core.iowait.0 + core.steal.0 + core.idle.0;
    let all: u64 = cores.iter().map(whole).sum();
    (all > 0).then(|| cores.iter().map(part).sum::<u64>() as f64 / all as f64)
}

//! Memory around a trial.

use crate::sys::{self, Sys};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{MemoryUse, OtherActivity, OtherKind};
use ebbtide_model::units::Bytes;
use std::time::Duration;

/// Writeback below this is the log of some daemon.
pub const LEAST_WRITEBACK: u64 = 4 << 20;

/// What was read before the trial.
pub(super) struct MemoryBefore {
    now: Option<MemoryUse>,
    written_pages: Option<u64>,
}

impl MemoryBefore {
    pub fn read(sys: &Sys) -> MemoryBefore {
        MemoryBefore { now: read_memory(sys), written_pages: written_pages(sys) }
    }

    /// Memory around the trial, which ended now.
    pub fn after(&self, sys: &Sys) -> Option<MemoryUse> {
        Some(MemoryUse { dirty_after: read_memory(sys)?.dirty_after, ..self.now? })
    }

    /// Pages that the kernel wrote back meanwhile, when there were more than a few.
    pub fn writeback(&self, sys: &Sys, observed: Duration, measured: Duration) -> Option<OtherActivity> {
        let pages = written_pages(sys)?.checked_sub(self.written_pages?)?;
        let bytes = pages.checked_mul(rustix::param::page_size() as u64)?;
        let bytes = (bytes as f64 * share(observed, measured)) as u64;
        (bytes >= LEAST_WRITEBACK).then(|| OtherActivity {
            kind: OtherKind::Writeback,
            who: "the kernel, writing dirty pages back".to_owned(),
            device: None,
            bytes: Some(PerOp { read: 0, write: bytes }),
        })
    }
}

fn share(observed: Duration, measured: Duration) -> f64 {
    if observed.is_zero() { 0.0 } else { (measured.as_secs_f64() / observed.as_secs_f64()).min(1.0) }
}

/// `dirty_after` is what is dirty now; the caller decides when that is.
fn read_memory(sys: &Sys) -> Option<MemoryUse> {
    let text = sys::text(&sys.proc.join("meminfo"))?;
    let bytes = |key: &str| sys::field_in_kib(&text, key);
    Some(MemoryUse {
        total: Bytes(bytes("MemTotal:")?),
        available: Bytes(bytes("MemAvailable:").or_else(|| bytes("MemFree:"))?),
        page_cache: Bytes(bytes("Cached:")?.saturating_add(bytes("Buffers:").unwrap_or(0))),
        dirty_after: Bytes(bytes("Dirty:")?.saturating_add(bytes("Writeback:").unwrap_or(0))),
        ..MemoryUse::default()
    })
}

/// Pages that writeback wrote since boot.
fn written_pages(sys: &Sys) -> Option<u64> {
    let text = sys::text(&sys.proc.join("vmstat"))?;
    sys::field(&text, "nr_written ")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    #[test]
    fn memory_and_writeback_over_a_trial() {
        let meminfo =
            "f /proc/meminfo\n|MemTotal: 1000 kB\n|MemAvailable: 600 kB\n|Buffers: 10 kB\n|Cached: 300 kB\n";
        let before =
            unpack(&format!("{meminfo}|Dirty: 1 kB\n|Writeback: 0 kB\nf /proc/vmstat\n|nr_written 100\n"));
        let after =
            unpack(&format!("{meminfo}|Dirty: 7 kB\n|Writeback: 3 kB\nf /proc/vmstat\n|nr_written 10100\n"));
        let read = MemoryBefore::read(&Sys::below(before.path()));
        let (observed, measured) = (Duration::from_secs(2), Duration::from_secs(1));
        let memory = read.after(&Sys::below(after.path())).expect("memory");
        assert_eq!(
            (memory.total, memory.page_cache, memory.dirty_after),
            (Bytes(1_024_000), Bytes(317_440), Bytes(10_240))
        );
        let page = rustix::param::page_size() as u64;
        let written = read.writeback(&Sys::below(after.path()), observed, measured).and_then(|o| o.bytes);
        assert_eq!(written, Some(PerOp { read: 0, write: 5000 * page }));
    }
}

//! Memory around a trial.

use crate::sys::{self, Sys};
use ebbtide_core::samples::{MemoryUse, OtherActivity, OtherKind, PerOp};
use ebbtide_core::units::{Bytes, Nanos};
use std::time::Duration;

/// Writeback below this is the log of some daemon.
const LEAST_WRITEBACK: u64 = 4 << 20;

/// What was read before the trial.
pub(super) struct MemoryBefore {
    now: Option<MemoryUse>,
    pressure_us: Option<u64>,
    written_pages: Option<u64>,
}

impl MemoryBefore {
    pub fn read(sys: &Sys) -> MemoryBefore {
        MemoryBefore {
            now: read_memory(sys),
            pressure_us: pressure_us(sys),
            written_pages: written_pages(sys),
        }
    }

    /// Memory over the trial. Pressure is known for all of `observed` and is scaled to the `measured` part of it.
    pub fn after(&self, sys: &Sys, observed: Duration, measured: Duration) -> Option<MemoryUse> {
        let pressure =
            self.pressure_us.zip(pressure_us(sys)).and_then(|(before, now)| now.checked_sub(before));
        Some(MemoryUse {
            dirty_after: read_memory(sys)?.dirty_after,
            pressure_some: pressure.map(|us| Nanos((us as f64 * 1e3 * share(observed, measured)) as u64)),
            ..self.now?
        })
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
    let bytes = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(MemoryUse {
        total: Bytes(bytes("MemTotal")?),
        available: Bytes(bytes("MemAvailable").or_else(|| bytes("MemFree"))?),
        page_cache: Bytes(bytes("Cached")?.saturating_add(bytes("Buffers").unwrap_or(0))),
        dirty_after: Bytes(bytes("Dirty")?.saturating_add(bytes("Writeback").unwrap_or(0))),
        pressure_some: None,
    })
}

/// Microseconds in which some task waited for memory, since boot.
fn pressure_us(sys: &Sys) -> Option<u64> {
    super::processors::some_total(&sys::text(&sys.proc.join("pressure/memory"))?)
}

/// Pages that writeback wrote since boot.
fn written_pages(sys: &Sys) -> Option<u64> {
    let text = sys::text(&sys.proc.join("vmstat"))?;
    text.lines().find_map(|l| l.strip_prefix("nr_written "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::tree::unpack;

    #[test]
    fn memory_and_pressure_over_a_trial() {
        let meminfo =
            "f /proc/meminfo\n|MemTotal: 1000 kB\n|MemAvailable: 600 kB\n|Buffers: 10 kB\n|Cached: 300 kB\n";
        let before = unpack(&format!(
            "{meminfo}|Dirty: 1 kB\n|Writeback: 0 kB\nf /proc/pressure/memory\n|some avg10=0.00 total=1000\n|full avg10=0.00 total=0\nf /proc/vmstat\n|nr_written 100\n"
        ));
        let after = unpack(&format!(
            "{meminfo}|Dirty: 7 kB\n|Writeback: 3 kB\nf /proc/pressure/memory\n|some avg10=0.00 total=3000\nf /proc/vmstat\n|nr_written 10100\n"
        ));
        let read = MemoryBefore::read(&Sys::below(before.path()));
        let (observed, measured) = (Duration::from_secs(2), Duration::from_secs(1));
        let memory = read.after(&Sys::below(after.path()), observed, measured).expect("memory");
        assert_eq!(
            (memory.total, memory.page_cache, memory.dirty_after),
            (Bytes(1_024_000), Bytes(317_440), Bytes(10_240))
        );
        assert_eq!(memory.pressure_some, Some(Nanos::from_millis(1)));
        let page = rustix::param::page_size() as u64;
        let written = read.writeback(&Sys::below(after.path()), observed, measured).and_then(|o| o.bytes);
        assert_eq!(written, Some(PerOp { read: 0, write: 5000 * page }));
    }
}

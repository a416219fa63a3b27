//! Rates of a device over a span, with the meanings of `iostat -x` (sysstat).
//!
//! | here | iostat | formula over the growth of the counters |
//! | --- | --- | --- |
//! | `per_second` | r/s | ops / span |
//! | `bytes_per_second` | rkB/s (there KiB) | sectors * 512 / span |
//! | `merged_share` | %rrqm | merged / (merged + ops) |
//! | `await_ms` | r_await | ms / ops |
//! | `request_bytes` | rareq-sz (there KiB) | sectors * 512 / ops |
//! | `queue` | aqu-sz | weighted ms / span |
//! | `util` | %util | busy ms / span |

use ebbtide_model::observe::diskstats::{DiskCounters, OpCounters};
use ebbtide_model::units::Nanos;
use serde::{Deserialize, Serialize};

/// Rates of one operation kind.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OpRates {
    /// Requests completed per second.
    pub per_second: f64,
    /// Bytes moved per second.
    pub bytes_per_second: f64,
    /// Requests merged per second.
    pub merged_per_second: f64,
    /// Share of requests that were merged, 0 to 1; nothing when there was none.
    pub merged_share: Option<f64>,
    /// Mean time of a request from its arrival in the queue, in milliseconds; nothing when none completed.
    pub await_ms: Option<f64>,
    /// Mean length of a request in bytes; nothing when none completed.
    pub request_bytes: Option<f64>,
}

/// Rates of a device.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DiskRates {
    /// Reads over the interval.
    pub read: OpRates,
    /// Writes over the interval.
    pub write: OpRates,
    /// Discards over the interval, where the kernel counts them.
    pub discard: Option<OpRates>,
    /// Flushes per second, where counted.
    pub flush_per_second: Option<f64>,
    /// Mean time of a flush in milliseconds; nothing when none completed.
    pub flush_await_ms: Option<f64>,
    /// Mean number of requests in flight.
    pub queue: f64,
    /// Share of the time with a request in flight, 0 to 1; a little above 1 when clocks disagree.
    pub util: f64,
    /// Requests in flight at the end of the span.
    pub in_flight: u64,
}

impl OpRates {
    fn over(growth: &OpCounters, seconds: f64) -> OpRates {
        let ratio = |of: u64, by: u64| (by > 0).then(|| of as f64 / by as f64);
        OpRates {
            per_second: growth.ops as f64 / seconds,
            bytes_per_second: growth.bytes() as f64 / seconds,
            merged_per_second: growth.merged as f64 / seconds,
            merged_share: ratio(growth.merged, growth.merged.saturating_add(growth.ops)),
            await_ms: ratio(growth.ms, growth.ops),
            request_bytes: ratio(growth.bytes(), growth.ops),
        }
    }
}

impl DiskRates {
    /// Rates from the growth of a device's counters over `span`; nothing for an empty span.
    pub fn over(growth: &DiskCounters, span: Nanos) -> Option<DiskRates> {
        let seconds = span.as_secs_f64();
        if span.0 == 0 {
            return None;
        }
        Some(DiskRates {
            read: OpRates::over(&growth.read, seconds),
            write: OpRates::over(&growth.write, seconds),
            discard: growth.discard.map(|d| OpRates::over(&d, seconds)),
            flush_per_second: growth.flush.map(|(ops, _)| ops as f64 / seconds),
            flush_await_ms: growth.flush.and_then(|(ops, ms)| (ops > 0).then(|| ms as f64 / ops as f64)),
            queue: growth.weighted_ms as f64 / 1000.0 / seconds,
            util: growth.busy_ms as f64 / 1000.0 / seconds,
            in_flight: growth.in_flight,
        })
    }

    /// Requests per second, reads and writes.
    pub fn requests_per_second(&self) -> f64 {
        self.read.per_second + self.write.per_second
    }

    /// Bytes per second, reads and writes.
    pub fn bytes_per_second(&self) -> f64 {
        self.read.bytes_per_second + self.write.bytes_per_second
    }

    /// Mean time of reads and writes together in milliseconds; nothing when none completed.
    pub fn await_ms(&self) -> Option<f64> {
        let ops = self.requests_per_second();
        let part = |o: &OpRates| o.await_ms.map_or(0.0, |a| a * o.per_second);
        (ops > 0.0).then(|| (part(&self.read) + part(&self.write)) / ops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::observe::diskstats::lines;

    /// Two readings of `/proc/diskstats` and the figures computed by hand from sysstat's formulas.
    #[test]
    fn figures_by_hand() {
        let read = |text| lines(text).next().expect("a line").counters;
        let before = read("8 0 sda 1000 50 80000 4000 2000 100 160000 9000 3 5000 13000 10 0 800 5 7 21");
        let now = read("8 0 sda 1100 75 88000 4500 2000 100 160000 9000 2 5900 13600 10 0 800 5 9 25");
        let rates =
            DiskRates::over(&now.since(&before).expect("grown"), Nanos::from_secs(2)).expect("a span");
        assert_eq!(rates.read.per_second, 50.0);
        assert_eq!(rates.read.bytes_per_second, 8000.0 * 512.0 / 2.0);
        assert_eq!(rates.read.merged_per_second, 12.5);
        assert_eq!(rates.read.merged_share, Some(0.2));
        assert_eq!(rates.read.await_ms, Some(5.0));
        assert_eq!(rates.read.request_bytes, Some(40960.0));
        assert_eq!((rates.write.per_second, rates.write.await_ms), (0.0, None));
        assert_eq!((rates.flush_per_second, rates.flush_await_ms), (Some(1.0), Some(2.0)));
        assert!((rates.queue - 0.3).abs() < 1e-12 && (rates.util - 0.45).abs() < 1e-12);
        assert_eq!((rates.in_flight, rates.await_ms()), (2, Some(5.0)));
        assert_eq!(DiskRates::over(&now, Nanos(0)), None);
    }
}

//! `/proc/diskstats`: one line per device of counters that only grow, except for the requests in flight.
//!
//! Format: Linux Documentation/admin-guide/iostats.rst. Fields after the name: 11 since 2.6, 15 with discards
//! since 4.18, 17 with flushes since 5.5. Times are milliseconds, lengths 512-byte sectors.

use crate::per_op::PerOp;
use crate::samples::DiskUse;
use crate::units::Nanos;

/// Bytes of a sector in the kernel's counters, whatever the device's own block size.
pub const SECTOR: u64 = 512;

/// Counters of one operation kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpCounters {
    /// Requests completed.
    pub ops: u64,
    /// Requests merged into a neighbour before they were issued.
    pub merged: u64,
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Milliseconds that requests took, summed over requests.
    pub ms: u64,
}

/// Counters of one device, or their growth over a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskCounters {
    /// Counters of reads.
    pub read: OpCounters,
    /// Counters of writes.
    pub write: OpCounters,
    /// Requests in flight now; never a difference.
    pub in_flight: u64,
    /// Milliseconds with at least one request in flight.
    pub busy_ms: u64,
    /// Requests in flight integrated over time, in milliseconds.
    pub weighted_ms: u64,
    /// Discards, where the kernel counts them.
    pub discard: Option<OpCounters>,
    /// Flushes: how many, and milliseconds that they took, where the kernel counts them.
    pub flush: Option<(u64, u64)>,
}

/// One line of `/proc/diskstats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Major device number.
    pub major: u32,
    /// Minor device number.
    pub minor: u32,
    /// Kernel name.
    pub name: &'a str,
    /// The rest of the line.
    pub counters: DiskCounters,
}

/// Lines of `/proc/diskstats`; nothing is allocated, lines that are none are left out.
pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().filter_map(line)
}

fn line(text: &str) -> Option<Line<'_>> {
    let mut words = text.split_ascii_whitespace();
    let major = words.next()?.parse().ok()?;
    let minor = words.next()?.parse().ok()?;
    let name = words.next()?;
    let mut next = || words.next()?.parse::<u64>().ok();
    let read = OpCounters { ops: next()?, merged: next()?, sectors: next()?, ms: next()? };
    let write = OpCounters { ops: next()?, merged: next()?, sectors: next()?, ms: next()? };
    // Some kernels let the requests in flight slip below zero; then nothing is in flight.
    let in_flight = words.next()?.parse::<i64>().ok()?.max(0).unsigned_abs();
    let mut next = || words.next()?.parse::<u64>().ok();
    let (busy_ms, weighted_ms) = (next()?, next()?);
    let discard = (|| Some(OpCounters { ops: next()?, merged: next()?, sectors: next()?, ms: next()? }))();
    let flush = discard.and_then(|_| Some((next()?, next()?)));
    let counters = DiskCounters { read, write, in_flight, busy_ms, weighted_ms, discard, flush };
    Some(Line { major, minor, name, counters })
}

/// Growth of one counter. Counters wrap at 2^32 (milliseconds are printed as 32-bit numbers, and on 32-bit kernels
/// everything is); a counter that fell otherwise belongs to another device that came under the same name.
pub fn growth(before: u64, now: u64) -> Option<u64> {
    if now >= before {
        return Some(now - before);
    }
    const WRAP: u64 = 1 << 32;
    // A wrap is believed only when it takes less than half the range; a new device starts near zero from anywhere.
    let grown = (before < WRAP).then(|| now + WRAP - before)?;
    (grown < WRAP / 2 && before >= WRAP / 2).then_some(grown)
}

impl OpCounters {
    fn since(&self, before: &OpCounters) -> Option<OpCounters> {
        Some(OpCounters {
            ops: growth(before.ops, self.ops)?,
            merged: growth(before.merged, self.merged)?,
            sectors: growth(before.sectors, self.sectors)?,
            ms: growth(before.ms, self.ms)?,
        })
    }

    /// Bytes moved: sectors of 512 bytes.
    pub fn bytes(&self) -> u64 {
        self.sectors.saturating_mul(SECTOR)
    }
}

impl DiskCounters {
    /// Growth since `before`; nothing when the device was replaced meanwhile.
    pub fn since(&self, before: &DiskCounters) -> Option<DiskCounters> {
        Some(DiskCounters {
            read: self.read.since(&before.read)?,
            write: self.write.since(&before.write)?,
            in_flight: self.in_flight,
            busy_ms: growth(before.busy_ms, self.busy_ms)?,
            weighted_ms: growth(before.weighted_ms, self.weighted_ms)?,
            discard: match (&self.discard, &before.discard) {
                (Some(now), Some(before)) => Some(now.since(before)?),
                _ => None,
            },
            flush: match (self.flush, before.flush) {
                (Some(now), Some(before)) => Some((growth(before.0, now.0)?, growth(before.1, now.1)?)),
                _ => None,
            },
        })
    }

    /// As samples keep it: bytes and nanoseconds.
    pub fn to_use(&self) -> DiskUse {
        let per = |f: fn(&OpCounters) -> u64| PerOp { read: f(&self.read), write: f(&self.write) };
        DiskUse {
            ops: per(|o| o.ops),
            merged: per(|o| o.merged),
            bytes: per(OpCounters::bytes),
            time: PerOp { read: Nanos::from_millis(self.read.ms), write: Nanos::from_millis(self.write.ms) },
            in_flight: self.in_flight,
            busy: Nanos::from_millis(self.busy_ms),
            weighted: Nanos::from_millis(self.weighted_ms),
            discards: self.discard.map(|d| d.ops),
            flushes: self.flush.map(|f| f.0),
            flush_time: self.flush.map(|f| Nanos::from_millis(f.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_every_age() {
        let text = "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n\
                    254       0 vda 39615 8900 7090794 32897 23797 57465 24489040 135552 0 13160 168992 6251 61 715072 483 2596 58\n\
                    253 1 dm-1 1 2 3 4 5 6 7 8 -1 10 11 12 13 14 15\n   8 1 sda1 1 2 3 4\nnonsense\n";
        let found: Vec<Line<'_>> = lines(text).collect();
        assert_eq!(found.iter().map(|l| l.name).collect::<Vec<_>>(), ["sda", "vda", "dm-1"]);
        assert_eq!(found[0].counters.discard, None);
        assert_eq!((found[0].counters.in_flight, found[0].counters.weighted_ms), (9, 11));
        assert_eq!(found[1].counters.flush, Some((2596, 58)));
        let used = found[1].counters.to_use();
        assert_eq!((used.flushes, used.flush_time), (Some(2596), Some(Nanos::from_millis(58))));
        assert_eq!(
            found[1].counters.write,
            OpCounters { ops: 23797, merged: 57465, sectors: 24489040, ms: 135552 }
        );
        assert_eq!((found[2].counters.in_flight, found[2].counters.flush), (0, None));
        assert_eq!(found[2].counters.discard.map(|d| d.ms), Some(15));
    }

    #[test]
    fn a_wrapped_counter_grows_and_a_replaced_device_does_not() {
        assert_eq!(growth(5, 12), Some(7));
        assert_eq!(growth(u64::from(u32::MAX) - 1, 3), Some(5));
        assert_eq!(growth(4_000_000, 12), None, "a new device under an old name");
        assert_eq!(growth(1 << 40, 12), None);
    }

    proptest! {
        #[test]
        fn growth_undoes_32_bit_addition(before: u32, by in 0u32..1 << 31) {
            let now = before.wrapping_add(by);
            match growth(u64::from(before), u64::from(now)) {
                Some(grown) => prop_assert_eq!(grown, u64::from(by)),
                None => prop_assert!(now < before && before < 1 << 31),
            }
        }

        #[test]
        fn no_text_panics(text in "[ 0-9a-z\n-]{0,300}") {
            let _ = lines(&text).count();
        }
    }
}

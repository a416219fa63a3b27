//! `/proc/diskstats`: one line per device of counters that only grow, except for the requests in flight.
//!
//! Format: Linux Documentation/admin-guide/iostats.rst. Fields after the name: 11 since 2.6, 15 with discards
//! since 4.18, 17 with flushes since 5.5. Times are milliseconds, lengths 512-byte sectors.
//!
//! An NVMe device that can be reached over several paths, and every one of fabrics, is `nvme0n1` to whoever uses it, and has a line `nvme0c1n1` for
//! each path. Before Linux 6.4 (drivers/nvme/host/multipath.c) only the lines of the paths count.

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

/// Lines of `/proc/diskstats`; nothing is allocated, lines that are none are left out. A device of NVMe's that counts nothing itself has what its
/// paths count, which have no lines of their own.
pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let all = || text.lines().filter_map(line);
    let path = |line: &Line<'_>| NvmeName::parse(line.name).is_some_and(|name| name.controller.is_some());
    all().filter(move |line| !path(line)).map(move |line| {
        let idle = NvmeName::parse(line.name).filter(|_| line.counters.requests() == 0);
        let Some(device) = idle else { return line };
        let of_it = |line: &Line<'_>| NvmeName::parse(line.name).is_some_and(|name| name.is_of(&device));
        let paths = all().filter(|line| path(line) && of_it(line)).map(|line| line.counters);
        // At work at the same time or not, they are busy as long as the busiest of them at least.
        let beside = |sum: DiskCounters, path: DiskCounters| DiskCounters {
            busy_ms: sum.busy_ms.max(path.busy_ms),
            ..sum.plus(&path)
        };
        Line { counters: paths.reduce(beside).unwrap_or(line.counters), ..line }
    })
}

/// The name of a whole NVMe block device, in its numbers: `nvme0n1`, or `nvme0c2n1` of a path to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvmeName<'a> {
    subsystem: &'a str,
    /// Of a path the controller through which it leads.
    controller: Option<&'a str>,
    namespace: &'a str,
}

impl<'a> NvmeName<'a> {
    /// Of the kernel's `name`; nothing of a partition, a controller or what is none of NVMe's.
    pub fn parse(name: &'a str) -> Option<NvmeName<'a>> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (front, namespace) = name.strip_prefix("nvme")?.split_once('n')?;
        let (subsystem, controller) = match front.split_once('c') {
            Some((subsystem, controller)) => (subsystem, Some(controller)),
            None => (front, None),
        };
        let mut numbers = [subsystem, namespace].into_iter().chain(controller);
        numbers.all(is_number).then_some(NvmeName { subsystem, controller, namespace })
    }

    /// The device's own name, `nvme0n1`, whichever path it is.
    pub fn device(&self) -> String {
        format!("nvme{}n{}", self.subsystem, self.namespace)
    }

    fn is_of(&self, device: &NvmeName<'_>) -> bool {
        (self.subsystem, self.namespace) == (device.subsystem, device.namespace)
    }
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

    fn plus(self, other: OpCounters) -> OpCounters {
        OpCounters {
            ops: self.ops.saturating_add(other.ops),
            merged: self.merged.saturating_add(other.merged),
            sectors: self.sectors.saturating_add(other.sectors),
            ms: self.ms.saturating_add(other.ms),
        }
    }

    /// Bytes moved: sectors of 512 bytes.
    pub fn bytes(&self) -> u64 {
        self.sectors.saturating_mul(SECTOR)
    }
}

impl DiskCounters {
    /// Reads, writes and flushes.
    fn requests(&self) -> u64 {
        let flushes = self.flush.map_or(0, |(flushes, _)| flushes);
        self.read.ops.saturating_add(self.write.ops).saturating_add(flushes)
    }

    /// Both together, one after the other.
    pub fn plus(&self, other: &DiskCounters) -> DiskCounters {
        fn either<T: Copy>(one: Option<T>, other: Option<T>, sum: fn(T, T) -> T) -> Option<T> {
            one.zip(other).map(|(one, other)| sum(one, other)).or(one).or(other)
        }
        DiskCounters {
            read: self.read.plus(other.read),
            write: self.write.plus(other.write),
            in_flight: self.in_flight.saturating_add(other.in_flight),
            busy_ms: self.busy_ms.saturating_add(other.busy_ms),
            weighted_ms: self.weighted_ms.saturating_add(other.weighted_ms),
            discard: either(self.discard, other.discard, OpCounters::plus),
            flush: either(self.flush, other.flush, |one, other| {
                (one.0.saturating_add(other.0), one.1.saturating_add(other.1))
            }),
        }
    }

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

    /// The first three as Linux 6.1 had them with one path over TCP.
    #[test]
    fn an_nvme_device_has_what_its_paths_count() {
        let text = " 259       0 nvme0c0n1 434 0 50571 5759 72 12 74620 1015 0 2752 6801 0 0 0 0 11 26\n\
                     259       1 nvme0n1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
                     253       0 dm-0 113 0 2200 412 32 0 8488 624 0 532 1036 0 0 0 0 0 0\n\
                     259 2 nvme0c1n1 6 0 48 41 0 0 0 0 1 3000 10 0 0 0 0 1 4\n\
                     259 3 nvme0c0n11 9 0 9 9 0 0 0 0 0 9 9 0 0 0 0 0 0\n\
                     259 4 nvme1n1 7 0 56 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n\
                     259 5 nvme1c2n1 5 0 40 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n\
                     259 6 nvme2n1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let found: Vec<Line<'_>> = lines(text).collect();
        assert_eq!(
            found.iter().map(|l| (l.name, l.minor, l.counters.read.ops)).collect::<Vec<_>>(),
            [("nvme0n1", 1, 440), ("dm-0", 0, 113), ("nvme1n1", 4, 7), ("nvme2n1", 6, 0)]
        );
        let both = found[0].counters;
        assert_eq!(
            (both.write.sectors, both.in_flight, both.busy_ms, both.weighted_ms),
            (74620, 1, 3000, 6811)
        );
        assert_eq!(both.flush, Some((12, 30)));
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

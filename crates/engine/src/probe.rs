//! Notices targets whose I/O io_uring hands to worker threads.
//!
//! Where a file cannot be asked without blocking (tmpfs with O_DIRECT, zram at iodepth 1), the kernel passes every ring
//! operation to another thread. At iodepth 1 that hand-over costs 40 times the operation itself, and a benchmark
//! would measure it instead of the device.

use crate::clock::Clock;
use crate::ring::Ring;
use crate::target::{ReadCost, Target, TargetMember};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_sys::ring::Transfer;
use rustix::io::pread;

/// Reads of each kind.
const READS: usize = 16;
/// No more reads once this much time has passed: a slow device hides the hand-over.
const PATIENCE: Nanos = Nanos::from_millis(30);
/// A ring read this many times slower, and slower by this much, is handed over. Seen: 1.2 times and 0.2 us
/// on a cached file, where it is not; 2.7 times and 1.7 us (the worker still spinning) up to 40 times where it is.
const FACTOR: u64 = 2;
const LEAST: Nanos = Nanos(1_000);

impl ReadCost {
    /// Whether a ring read took so much longer that another thread must have done it.
    fn shows_a_worker(self) -> bool {
        self.ring > self.pread.times(FACTOR) && self.ring > self.pread.plus(LEAST)
    }
}

/// Probes that all have to show a worker before it is believed: on a shared host a single one may see a device's reads of one
/// kind slow by chance (seen once on ext4: 174 us through a ring, 29.5 us with pread).
const PROBES: usize = 3;

/// What the last of several probes shows; nothing as soon as one shows no worker.
fn believed(mut probe: impl FnMut() -> Option<ReadCost>) -> Option<ReadCost> {
    let mut seen = None;
    for _ in 0..PROBES {
        seen = Some(probe().filter(|times| times.shows_a_worker())?);
    }
    seen
}

/// Whether io_uring hands the I/O of `target`'s first unshaped member to worker threads; found once per target.
pub(crate) fn hand_over(target: &Target, clock: Clock) -> Option<ReadCost> {
    *target.hand_over.get_or_init(|| {
        let member =
            target.members.iter().find(|member| member.shaper.is_none() && member.size > Bytes(0))?;
        believed(|| measure(member, clock))
    })
}

/// Medians of alternating reads of the first bytes; `None` when they cannot be read.
fn measure(member: &TargetMember, clock: Clock) -> Option<ReadCost> {
    let length = member.size.min(Bytes(4096)).0 as u32;
    let Ring { mut ring, slots, .. } = Ring::for_probe(Some(&member.file), Bytes(4096), 2).ok()?;
    let buffer = slots.first()?.read;
    let (mut by_ring, mut by_pread) = (Vec::with_capacity(READS), Vec::with_capacity(READS));
    let start = clock.now();
    // The first read of each kind warms up.
    for round in 0..=READS {
        let before = clock.now();
        let read = pread(&member.file, ring.buffers()?.slice(buffer, 0, length), 0);
        let between = clock.now();
        if !matches!(read, Ok(n) if n == length as usize) {
            return None;
        }
        let transfer = Transfer { is_write: false, file: 0, offset: 0, buffer, at: 0, length };
        if !ring.transfer(&transfer, 0) {
            return None;
        }
        while !ring.has_completions() {
            match ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        let after = clock.now();
        let mut seen = [(0, 0)];
        if ring.reap(&mut seen) != 1 || seen[0].1 != length as i32 {
            return None;
        }
        if round > 0 {
            by_pread.push(between - before);
            by_ring.push(after - between);
        }
        if after - start > PATIENCE && by_ring.len() >= 3 {
            break;
        }
    }
    by_ring.sort_unstable();
    by_pread.sort_unstable();
    Some(ReadCost { ring: by_ring[by_ring.len() / 2], pread: by_pread[by_pread.len() / 2] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ring: u64, pread: u64) -> ReadCost {
        ReadCost { ring: Nanos(ring), pread: Nanos(pread) }
    }

    #[test]
    fn a_worker_is_believed_when_every_probe_shows_it() {
        let (slow, fast) = (times(174_000, 29_500), times(30_000, 29_500));
        let probes = |seen: &[Option<ReadCost>]| {
            let mut left = seen.iter().copied();
            let found = believed(|| left.next().flatten());
            (found, left.count())
        };
        assert_eq!(probes(&[Some(slow); 4]), (Some(slow), 1));
        assert_eq!(probes(&[Some(slow), Some(fast), Some(slow)]), (None, 1), "not asked again");
        assert_eq!(probes(&[Some(fast), Some(slow), Some(slow)]), (None, 2));
        assert_eq!(probes(&[Some(slow), Some(slow), None]), (None, 0));
    }

    #[test]
    fn only_much_slower_ring_reads_show_a_worker() {
        let of = |ring, pread| times(ring, pread).shows_a_worker();
        assert!(of(2_700, 1_000), "a worker that still spins");
        assert!(of(40_000, 1_000), "one that has to be woken");
        assert!(!of(1_200, 1_000), "a cached file, read within the call");
        assert!(!of(900, 300), "three times, but no thread is woken in 0.6 us");
        assert!(!of(101_500, 100_000), "a device's own latency hides nothing");
        assert!(!of(2_000, 1_000) && !of(0, 0), "on the bound");
        assert!(!of(u64::MAX, u64::MAX));
    }
}

//! I/O buffers: page-aligned, filled with data that does not compress.

use crate::error::EngineError;
use ebbtide_model::blank;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::{Mix, OpKind, Workload};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::system::sysinfo;
use std::ptr::NonNull;

/// Alignment of every buffer: the page, which no logical block exceeds on the architectures with O_DIRECT files.
const ALIGN: u64 = 4096;
/// Size of a huge page; the mapping is rounded up to it when huge pages are asked for.
const HUGE: usize = 2 << 20;
/// Random bytes that are drawn; longer buffers repeat them and differ by their stamps.
const PATTERN: usize = 4 << 20;

/// The buffers of one job: one for each slot of its queue, or one to read into and one to write from.
#[derive(Debug)]
pub(crate) struct Buffers {
    start: NonNull<u8>,
    /// The first that is read into: `start`, unless what is read would be written elsewhere.
    reads: NonNull<u8>,
    mapped: usize,
    stride: usize,
    count: usize,
}

// SAFETY: it owns its mapping, and nothing refers to the thread that made it.
unsafe impl Send for Buffers {}

/// Buffers for each slot of the queue: two where a slot's write would write what its read before found elsewhere. A rewrite is
/// there to do so.
pub(crate) fn for_each_slot(workload: &Workload) -> u32 {
    let is_mixed = matches!(workload.mix, Mix::Mixed { .. }) && workload.reads() && workload.writes();
    if is_mixed { 2 } else { 1 }
}

/// Bytes that the buffers of a workload take in all.
pub(crate) fn bytes_needed(jobs: u32, iodepth: u32, bs: u64) -> u64 {
    let stride = bs.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX);
    stride.saturating_mul(u64::from(jobs)).saturating_mul(u64::from(iodepth))
}

/// Refuses buffers that would take more than half of the host's memory.
pub(crate) fn check_memory(jobs: u32, iodepth: u32, bs: u64) -> Result<(), EngineError> {
    let needed = bytes_needed(jobs, iodepth, bs);
    let info = sysinfo();
    let memory = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    if needed > memory / 2 {
        return Err(EngineError::Memory { needed: Bytes(needed), memory: Bytes(memory) });
    }
    Ok(())
}

impl Buffers {
    /// `count` buffers of `bs` bytes. The note says when huge pages were asked for and there were none.
    pub(crate) fn new(count: u32, bs: u64, huge: bool) -> Result<(Self, Option<&'static str>), EngineError> {
        let failed = |source: rustix::io::Errno| EngineError::System {
            what: "map the I/O buffers",
            source: source.into(),
        };
        let stride = bs.next_multiple_of(ALIGN) as usize;
        let count = count as usize;
        let length = stride.saturating_mul(count).max(ALIGN as usize);
        let mapped = if huge { length.next_multiple_of(HUGE) } else { length };
        let map = |flags| {
            // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no other memory.
            unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, ProtFlags::READ | ProtFlags::WRITE, flags) }
        };
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        let mut note = None;
        let address = match map(if huge { flags | MapFlags::HUGETLB } else { flags }) {
            Err(_) if huge => {
                note =
                    Some("huge pages: none reserved (vm.nr_hugepages), transparent ones asked for instead");
                let address = map(MapFlags::PRIVATE).map_err(failed)?;
                // SAFETY: the range is the mapping just made. A refusal costs speed only.
                let _ = unsafe { madvise(address, mapped, Advice::LinuxHugepage) };
                address
            }
            other => other.map_err(failed)?,
        };
        let start = NonNull::new(address.cast::<u8>()).ok_or_else(|| failed(rustix::io::Errno::NOMEM))?;
        Ok((Buffers { start, reads: start, mapped, stride, count }, note))
    }

    /// Splits them: the first half is written from, the second read into.
    pub(crate) fn with_reads_apart(mut self) -> Self {
        self.reads = self.address(self.count / 2);
        self
    }

    /// Fills everything with random bytes.
    pub(crate) fn fill(&mut self, seed: u64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        // SAFETY: the mapping is ours alone, readable, writable and initialised (the kernel zeroes it).
        let all = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.mapped) };
        let (pattern, rest) = all.split_at_mut(PATTERN.min(self.mapped));
        rng.fill_bytes(pattern);
        // So that what a benchmark leaves on a device is known again as its own.
        blank::mark(pattern);
        for chunk in rest.chunks_mut(PATTERN) {
            chunk.copy_from_slice(&pattern[..chunk.len()]);
        }
    }

    /// Makes the first `length` bytes of buffer `slot` unlike any other write: a number into each 4 KiB block.
    #[inline]
    pub(crate) fn stamp(&mut self, slot: u32, length: u64, number: u64) {
        let start = self.of(OpKind::Write, slot);
        // Spread over all bits, so that stamps do not make the data compressible.
        let mut value = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut at = 0;
        while at + 8 <= length as usize {
            // SAFETY: `at + 8` is within the buffer (`length` is at most `bs`), which the kernel does not use while its
            // slot is free; 4096 keeps the alignment of 8.
            unsafe { start.add(at).cast::<u64>().write(value) };
            value = value.wrapping_add(0xd1b5_4a32_d192_ed03);
            at += ALIGN as usize;
        }
    }

    /// Address of the buffer of `slot` for operations of this `kind`.
    #[inline]
    pub(crate) fn of(&self, kind: OpKind, slot: u32) -> *mut u8 {
        let first = match kind {
            OpKind::Read => self.reads,
            OpKind::Write => self.start,
        };
        debug_assert!((self.index(kind, slot) as usize) < self.count);
        // SAFETY: `slot` is below the number of buffers from `first` on, so the offset is within the mapping.
        unsafe { first.as_ptr().add(slot as usize * self.stride) }
    }

    /// Which of all buffers that is.
    #[inline]
    pub(crate) fn index(&self, kind: OpKind, slot: u32) -> u32 {
        let is_apart = kind == OpKind::Read && self.reads != self.start;
        slot + if is_apart { self.count as u32 / 2 } else { 0 }
    }

    /// Address of the buffer `index` of all.
    pub(crate) fn address(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.count.max(1), "no such buffer");
        // SAFETY: within the mapping, as just checked.
        unsafe { self.start.add(index * self.stride) }
    }

    /// The buffer of `slot` for pread or pwrite.
    pub(crate) fn slice(&mut self, kind: OpKind, slot: u32, from: usize, length: usize) -> &mut [u8] {
        let index = self.index(kind, slot) as usize;
        assert!(index < self.count && from + length <= self.stride, "outside of the buffer");
        // SAFETY: within one buffer of our own mapping, as just checked; initialised by the kernel with zeroes.
        unsafe { std::slice::from_raw_parts_mut(self.of(kind, slot).add(from), length) }
    }

    /// Address, length of one and number of buffers, to register them with a ring.
    pub(crate) fn region(&self) -> (*mut u8, usize, usize) {
        (self.start.as_ptr(), self.stride, self.count)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more: a ring that uses it is dropped first, and a job
        // does not end before the kernel has finished all its I/O.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamped_buffers_differ_in_every_block_and_stay_inside() {
        let (mut buffers, _) = Buffers::new(2, 12_288, false).expect("mapped");
        buffers.fill(1);
        buffers.stamp(0, 12_288, 1);
        let first = buffers.slice(OpKind::Write, 0, 0, 12_288).to_vec();
        let second = buffers.slice(OpKind::Write, 1, 0, 12_288).to_vec();
        buffers.stamp(0, 12_288, 2);
        let again = buffers.slice(OpKind::Write, 0, 0, 12_288).to_vec();
        for block in 0..3 {
            let range = block * 4096..(block + 1) * 4096;
            assert_ne!(first[range.clone()], again[range.clone()]);
            assert_ne!(first[range.clone()], second[range]);
        }
        assert_eq!(second, buffers.slice(OpKind::Write, 1, 0, 12_288));
    }

    #[test]
    fn what_is_read_stays_out_of_what_is_written() {
        let (buffers, _) = Buffers::new(4, 8192, false).expect("mapped");
        let mut buffers = buffers.with_reads_apart();
        buffers.fill(1);
        let before = buffers.slice(OpKind::Write, 1, 0, 8192).to_vec();
        for slot in [0, 1] {
            buffers.slice(OpKind::Read, slot, 0, 8192).fill(0);
        }
        assert_eq!(buffers.slice(OpKind::Write, 1, 0, 8192), before);
        assert_eq!((buffers.index(OpKind::Write, 1), buffers.index(OpKind::Read, 1)), (1, 3));
        assert_eq!(buffers.address(3).as_ptr(), buffers.of(OpKind::Read, 1));
        // One for both, where nothing is said.
        let (mut buffers, _) = Buffers::new(4, 8192, false).expect("mapped");
        buffers.slice(OpKind::Read, 3, 0, 8192).fill(7);
        assert_eq!(buffers.slice(OpKind::Write, 3, 0, 8192), [7; 8192]);
    }

    #[test]
    fn half_of_the_memory_is_the_limit() {
        assert!(check_memory(1, 32, 4096).is_ok());
        let error = check_memory(1000, 1 << 20, 1 << 30).expect_err("far too much");
        assert!(matches!(error, EngineError::Memory { .. }));
        assert_eq!(bytes_needed(2, 3, 5000), 2 * 3 * 8192);
    }
}

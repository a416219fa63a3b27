//! I/O buffers: which slot of a job's queue has which, filled with data that does not compress.

use crate::error::EngineError;
use ebbtide_model::blank;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::{Mix, OpKind, Workload};
use ebbtide_sys::memory;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::system::sysinfo;
use std::sync::atomic::{AtomicU64, Ordering};

/// Random bytes that are drawn; longer buffers repeat them and differ by their stamps.
const PATTERN: usize = 4 << 20;

/// The buffers of one job, and which of them is whose.
#[derive(Debug)]
pub(crate) struct Buffers {
    pub(crate) memory: memory::Buffers,
    pub(crate) slots: Slots,
}

/// Which buffer is whose: each slot of the job's queue has one, or one to write from and one to read into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    /// How many slots there are: the depth of the queue.
    pub(crate) depth: u32,
    /// The first buffer that is read into: 0, unless what is read would be written elsewhere.
    reads: u32,
}

impl Slots {
    /// Number of the buffer of `slot` for operations of this `kind`.
    #[inline]
    pub(crate) fn buffer(self, kind: OpKind, slot: u32) -> u32 {
        match kind {
            OpKind::Read => self.reads + slot,
            OpKind::Write => slot,
        }
    }
}

/// Buffers for each slot of the queue: two where a slot's write would write what its read before found elsewhere. A rewrite is
/// there to do so.
fn for_each_slot(workload: &Workload) -> u32 {
    let is_mixed = matches!(workload.mix, Mix::Mixed { .. }) && workload.reads() && workload.writes();
    if is_mixed { 2 } else { 1 }
}

/// Bytes that `count` buffers of `bs` take.
fn bytes_needed(count: u64, bs: u64) -> u64 {
    bs.checked_next_multiple_of(memory::ALIGN as u64).unwrap_or(u64::MAX).saturating_mul(count)
}

/// Refuses buffers for `threads` of `depth` slots each that would take more than half of the host's memory.
pub(crate) fn check_memory(workload: &Workload, threads: u32, depth: u32) -> Result<(), EngineError> {
    let each = u64::from(depth) * u64::from(for_each_slot(workload));
    check_count(u64::from(threads).saturating_mul(each), workload.bs.0)
}

fn check_count(count: u64, bs: u64) -> Result<(), EngineError> {
    let needed = bytes_needed(count, bs);
    let info = sysinfo();
    let memory = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    if needed > memory / 2 {
        return Err(EngineError::Memory { needed: Bytes(needed), memory: Bytes(memory) });
    }
    Ok(())
}

impl Buffers {
    /// A buffer of `bs` bytes for each of `depth` slots.
    pub(crate) fn new(depth: u32, bs: u64) -> Result<Self, EngineError> {
        Ok(Buffers::map(depth, 1, bs, false)?.0)
    }

    /// Those of a job of `workload` with `depth` slots. The note says when huge pages were asked for and there were none.
    pub(crate) fn of_job(
        workload: &Workload,
        depth: u32,
    ) -> Result<(Self, Option<&'static str>), EngineError> {
        let (buffers, as_asked) =
            Buffers::map(depth, for_each_slot(workload), workload.bs.0, workload.engine.huge_pages)?;
        let note = "huge pages: none reserved (vm.nr_hugepages), transparent ones asked for instead";
        Ok((buffers, (!as_asked).then_some(note)))
    }

    fn map(depth: u32, each: u32, bs: u64, huge: bool) -> Result<(Self, bool), EngineError> {
        let depth = depth.max(1);
        let (memory, as_asked) = memory::Buffers::new(depth as usize * each as usize, bs as usize, huge)
            .map_err(|source| EngineError::System { what: "map the I/O buffers", source })?;
        let slots = Slots { depth, reads: if each > 1 { depth } else { 0 } };
        Ok((Buffers { memory, slots }, as_asked))
    }

    /// Fills everything with random bytes.
    pub(crate) fn fill(&mut self, seed: u64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let all = self.memory.bytes();
        let (pattern, rest) = all.split_at_mut(PATTERN.min(all.len()));
        rng.fill_bytes(pattern);
        // So that what a benchmark leaves on a device is known again as its own.
        blank::mark(pattern);
        for chunk in rest.chunks_mut(PATTERN) {
            chunk.copy_from_slice(&pattern[..chunk.len()]);
        }
    }

    /// The buffer of `slot` for pread or pwrite.
    #[inline]
    pub(crate) fn slice(&mut self, kind: OpKind, slot: u32, from: usize, length: usize) -> &mut [u8] {
        self.memory.slice(self.slots.buffer(kind, slot) as usize, from, length)
    }

    /// Makes the first `length` bytes of what `slot` writes unlike any other write.
    #[inline]
    pub(crate) fn stamp(&self, slot: u32, length: u64, number: u64) {
        stamp(self.memory.words(self.slots.buffer(OpKind::Write, slot) as usize, length as usize), number);
    }
}

/// Makes `words` unlike those of any other write: a number into each 4 KiB block.
#[inline]
pub(crate) fn stamp(words: &[AtomicU64], number: u64) {
    // Spread over all bits, so that stamps do not make the data compressible.
    let mut value = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut end = 1;
    while end <= words.len() {
        words[end - 1].store(value, Ordering::Relaxed);
        value = value.wrapping_add(0xd1b5_4a32_d192_ed03);
        end += memory::ALIGN / size_of::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::workload::{Access, Stop};

    #[test]
    fn stamped_buffers_differ_in_every_block_and_stay_inside() {
        let mut buffers = Buffers::new(2, 12_288).expect("mapped");
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
        let mix = Mix::Mixed { read_percent: 50 };
        let mut apart = Workload::new("mixed", Access::Random, mix, Stop::Size(Bytes(8192)));
        apart.bs = Bytes(8192);
        let (mut buffers, _) = Buffers::of_job(&apart, 2).expect("mapped");
        buffers.fill(1);
        let before = buffers.slice(OpKind::Write, 1, 0, 8192).to_vec();
        for slot in [0, 1] {
            buffers.slice(OpKind::Read, slot, 0, 8192).fill(0);
        }
        assert_eq!(buffers.slice(OpKind::Write, 1, 0, 8192), before);
        assert_eq!((buffers.slots.buffer(OpKind::Write, 1), buffers.slots.buffer(OpKind::Read, 1)), (1, 3));
        // One for both, where nothing is said.
        let mut buffers = Buffers::new(4, 8192).expect("mapped");
        buffers.slice(OpKind::Read, 3, 0, 8192).fill(7);
        assert_eq!(buffers.slice(OpKind::Write, 3, 0, 8192), [7; 8192]);
    }

    #[test]
    fn half_of_the_memory_is_the_limit() {
        assert!(check_count(32, 4096).is_ok());
        let error = check_count(1000 << 20, 1 << 30).expect_err("far too much");
        assert!(matches!(error, EngineError::Memory { .. }));
        assert_eq!(bytes_needed(6, 5000), 6 * 8192);
    }
}

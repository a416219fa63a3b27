//! I/O buffers: which slot of a job's queue has which, filled with data that does not compress.

use crate::error::EngineError;
use ebbtide_model::blank;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::units::{ArrayOffset, Bytes};
use ebbtide_model::workload::{Mix, Workload};
use ebbtide_sys::memory::{self, Buffer};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::system::sysinfo;
use std::sync::atomic::{AtomicU64, Ordering};

/// Random bytes that are drawn; longer buffers repeat them and differ by their stamps.
const PATTERN: usize = 4 << 20;

/// What is written is known again in units of this.
pub(crate) const PAGE: usize = 4096;

/// Bytes of which a share compresses, as in fio (`buffer_compress_chunk`).
const CHUNK: usize = 512;

/// The buffers of one job, and which of them is whose.
#[derive(Debug)]
pub(crate) struct Buffers {
    pub(crate) memory: memory::Buffers,
    /// What each slot of the job's queue reads into and writes from: one buffer, or one for each.
    pub(crate) slots: Vec<PerOp<Buffer>>,
}

/// Buffers for each slot of the queue: two where a slot's write would write what its read before found elsewhere. A rewrite is
/// there to do so.
fn for_each_slot(workload: &Workload) -> usize {
    let is_mixed = matches!(workload.mix, Mix::Mixed { .. }) && workload.reads() && workload.writes();
    if is_mixed { 2 } else { 1 }
}

/// Bytes that `count` buffers of `bs` take.
fn bytes_needed(count: u64, bs: Bytes) -> Bytes {
    let stride = bs.0.checked_next_multiple_of(memory::ALIGN as u64).unwrap_or(u64::MAX);
    Bytes(stride.saturating_mul(count))
}

/// Refuses buffers for `threads` of `depth` slots each that would take more than half of the host's memory.
pub(crate) fn check_memory(workload: &Workload, threads: u32, depth: u32) -> Result<(), EngineError> {
    let each = u64::from(depth) * for_each_slot(workload) as u64;
    check_count(u64::from(threads).saturating_mul(each), workload.bs)
}

fn check_count(count: u64, bs: Bytes) -> Result<(), EngineError> {
    let needed = bytes_needed(count, bs);
    let info = sysinfo();
    let memory = Bytes((info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1))));
    if needed.0 > memory.0 / 2 {
        return Err(EngineError::Memory { needed, memory });
    }
    Ok(())
}

impl Buffers {
    /// A single one of `bs` bytes.
    pub(crate) fn one(bs: Bytes) -> Result<Self, EngineError> {
        Ok(Buffers::map(1, 1, bs, false)?.0)
    }

    /// Those of a job of `workload` with `depth` slots. The note says when huge pages were asked for and there were none.
    pub(crate) fn of_job(
        workload: &Workload,
        depth: u32,
    ) -> Result<(Self, Option<&'static str>), EngineError> {
        let (buffers, as_asked) =
            Buffers::map(depth, for_each_slot(workload), workload.bs, workload.engine.huge_pages)?;
        let note = "huge pages: none reserved (vm.nr_hugepages), transparent ones requested instead";
        Ok((buffers, (!as_asked).then_some(note)))
    }

    fn map(depth: u32, each: usize, bs: Bytes, huge: bool) -> Result<(Self, bool), EngineError> {
        let (memory, as_asked) = memory::Buffers::new(depth.max(1) as usize * each, bs.0 as usize, huge)
            .map_err(|source| EngineError::System { what: "map the I/O buffers", source })?;
        let all: Vec<Buffer> = memory.all().collect();
        let slots = all.chunks_exact(each).map(|own| PerOp { read: own[each - 1], write: own[0] }).collect();
        Ok((Buffers { memory, slots }, as_asked))
    }

    /// Fills everything with random bytes, of which `compress_percent` compress to nothing.
    pub(crate) fn fill(&mut self, seed: u64, compress_percent: u8) {
        let all = self.memory.bytes();
        let (pattern, rest) = all.split_at_mut(PATTERN.min(all.len()));
        draw(pattern, seed, compress_percent);
        for chunk in rest.chunks_mut(PATTERN) {
            chunk.copy_from_slice(&pattern[..chunk.len()]);
        }
    }

    /// The first `length` bytes of what the first slot writes from.
    pub(crate) fn first(&mut self, length: Bytes) -> &mut [u8] {
        self.memory.slice(self.slots[0].write, 0, length.0 as u32)
    }
}

/// Fills `pattern` with random bytes, of which `compress_percent` compress to nothing.
fn draw(pattern: &mut [u8], seed: u64, compress_percent: u8) {
    Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(pattern);
    let zeros = CHUNK * usize::from(compress_percent.min(100)) / 100;
    for chunk in pattern.chunks_exact_mut(CHUNK).filter(|_| zeros > 0) {
        chunk[CHUNK - zeros..].fill(0);
    }
    // So that what a benchmark leaves on a device is known again as its own.
    blank::mark(pattern);
}

/// Content for writes that are each to have their own (fio's `refill_buffers`): what a slot writes again and again compresses, however
/// random it is.
#[derive(Debug)]
pub(crate) struct Refill(Vec<u64>);

impl Refill {
    /// For a job of `workload`, where it asks for that.
    pub(crate) fn of(workload: &Workload, seed: u64) -> Option<Refill> {
        let compress = workload.details.compress_percent;
        let wanted = workload.details.refill || (1..100).contains(&compress);
        if !wanted || !workload.writes() || workload.mix == Mix::Rewrite {
            return None;
        }
        let mut pattern = vec![0; PATTERN];
        draw(&mut pattern, seed, compress);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        Some(Refill(pattern.chunks_exact(size_of::<u64>()).map(word).collect()))
    }

    /// Makes `words` what the write `number` writes: pages of the content in an order of its own.
    #[cold]
    pub(crate) fn refill(&self, words: &[AtomicU64], number: u64) {
        const WORDS: usize = PAGE / size_of::<u64>();
        let pages = (self.0.len() / WORDS) as u64;
        for (index, page) in (0..).zip(words.chunks(WORDS)) {
            let drawn = (mixed(number.wrapping_add(index)) % pages) as usize * WORDS;
            for (word, own) in page.iter().zip(&self.0[drawn..]) {
                word.store(*own, Ordering::Relaxed);
            }
        }
    }
}

/// SplitMix64's finalizer (Steele, Lea and Flood 2014): neighbours become unlike each other.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut value = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
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

/// The first word of the page at `offset` that a trial with `seed` writes, where what it writes is to be known again.
pub(crate) fn place_stamp(seed: u64, offset: ArrayOffset) -> u64 {
    // Mixed, so that places do not make the data compressible.
    mixed(seed.wrapping_add((offset.0 / PAGE as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Makes `words`, which are written to `offset`, say where each of their pages belongs.
#[cold]
pub(crate) fn stamp_places(words: &[AtomicU64], seed: u64, offset: ArrayOffset) {
    for (index, page) in (0..).zip(words.chunks(PAGE / size_of::<u64>())) {
        page[0].store(place_stamp(seed, offset + Bytes(index * PAGE as u64)), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::workload::{Access, Stop};

    #[test]
    fn stamped_buffers_differ_in_every_block_and_stay_inside() {
        let (mut buffers, _) = Buffers::map(2, 1, Bytes(12_288), false).expect("mapped");
        buffers.fill(1, 0);
        let [first, second] = [0, 1].map(|slot| buffers.slots[slot].write);
        stamp(buffers.memory.words(first, 12_288), 1);
        let before = buffers.memory.slice(first, 0, 12_288).to_vec();
        let other = buffers.memory.slice(second, 0, 12_288).to_vec();
        stamp(buffers.memory.words(first, 12_288), 2);
        let again = buffers.first(Bytes(12_288)).to_vec();
        for block in 0..3 {
            let range = block * 4096..(block + 1) * 4096;
            assert_ne!(before[range.clone()], again[range.clone()]);
            assert_ne!(before[range.clone()], other[range]);
        }
        assert_eq!(other, buffers.memory.slice(second, 0, 12_288));
    }

    /// What one buffer writes again and again would be found by any compressor that looks back far enough.
    #[test]
    fn refilled_buffers_hardly_repeat_a_page_and_compress_as_asked() {
        let mut workload = Workload::new("w", Access::Random, Mix::Write, Stop::Size(Bytes(8192)));
        assert!(Refill::of(&workload, 1).is_none());
        workload.details.compress_percent = 50;
        let refill = Refill::of(&workload, 1).expect("asks for it");
        let words: Vec<AtomicU64> = (0..1024).map(|_| AtomicU64::new(0)).collect();
        let (mut seen, mut zeros) = (std::collections::HashSet::new(), 0);
        for number in 1..=32 {
            refill.refill(&words, number * 0x1_0000);
            stamp(&words, number * 0x1_0000);
            for page in words.chunks(512) {
                let page: Vec<u64> = page.iter().map(|word| word.load(Ordering::Relaxed)).collect();
                zeros += page.iter().filter(|word| **word == 0).count();
                seen.insert(page[1..8].to_vec());
            }
        }
        assert!(seen.len() > 55, "{} of 64 pages are unlike the others", seen.len());
        assert_eq!(zeros, 64 * 256);
        workload.mix = Mix::Read;
        assert!(Refill::of(&workload, 1).is_none());
    }

    #[test]
    fn what_is_read_stays_out_of_what_is_written() {
        let mix = Mix::Mixed { read_percent: 50 };
        let mut apart = Workload::new("mixed", Access::Random, mix, Stop::Size(Bytes(8192)));
        apart.bs = Bytes(8192);
        let (mut buffers, _) = Buffers::of_job(&apart, 2).expect("mapped");
        buffers.fill(1, 0);
        let slots = buffers.slots.clone();
        let before = buffers.memory.slice(slots[1].write, 0, 8192).to_vec();
        for slot in &slots {
            buffers.memory.slice(slot.read, 0, 8192).fill(0);
        }
        assert_eq!(buffers.memory.slice(slots[1].write, 0, 8192), before);
        // One for both, where nothing is said.
        let buffers = Buffers::one(Bytes(8192)).expect("mapped");
        assert_eq!(buffers.slots[0].read, buffers.slots[0].write);
    }

    #[test]
    fn a_share_of_the_bytes_is_zero_where_it_is_asked_for() {
        let (mut buffers, _) = Buffers::map(1, 1, Bytes(1 << 20), false).expect("mapped");
        for (percent, zeros) in [(0, 0.0), (30, 153.0 / 512.0), (100, 504.0 / 512.0)] {
            buffers.fill(7, percent);
            let seen = buffers.first(Bytes(1 << 20)).iter().filter(|byte| **byte == 0).count() as f64;
            let expected = zeros + (1.0 - zeros) / 256.0;
            assert!((seen / f64::from(1 << 20) - expected).abs() < 0.003, "{percent}: {seen}");
        }
    }

    #[test]
    fn half_of_the_memory_is_the_limit() {
        assert!(check_count(32, Bytes(4096)).is_ok());
        let error = check_count(1000 << 20, Bytes(1 << 30)).expect_err("far too much");
        assert!(matches!(error, EngineError::Memory { .. }));
        assert_eq!(bytes_needed(6, Bytes(5000)), Bytes(6 * 8192));
    }
}

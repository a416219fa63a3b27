//! What is behind the limits: a spindle, a cache in front of it, blocks that were never touched.

use super::character::{FarCache, FirstTouch, Seek};
use super::latency::Sampler;
use super::limiter::Slot;
use crate::units::{Bytes, Instant, MemberOffset, Nanos};
use crate::workload::OpKind;
use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Most blocks that first-touch bookkeeping tells apart (2 MiB of bits); blocks grow beyond that.
const BLOCKS_MAX: u64 = 1 << 24;

/// How the device serves one operation.
pub(super) struct Service {
    /// Latency instead of the volume's own.
    pub(super) latency: Option<f64>,
    /// Nanoseconds that are added to each operation.
    pub(super) extra: f64,
    /// Answered by the far-end cache.
    pub(super) cached: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Device {
    seek: Option<Seek>,
    /// Where the last operation on the medium ended.
    head: MemberOffset,
    /// Until when the arm is busy.
    busy_until: Instant,
    cache: Option<(FarCache, Sampler)>,
    /// Begin and end of what was touched so far.
    touched: Option<(MemberOffset, MemberOffset)>,
    first_touch: Option<(Blocks, Sampler)>,
    pub(super) cache_hits: u64,
    pub(super) first_touches: u64,
}

/// Which blocks were touched.
#[derive(Debug, Clone)]
struct Blocks {
    size: u64,
    bits: Vec<u64>,
}

impl Blocks {
    /// Marks the blocks of the extent; says whether one of them was new.
    fn touch(&mut self, offset: MemberOffset, len: Bytes) -> bool {
        let (offset, len) = (offset.0, len.0);
        while offset.saturating_add(len) / self.size >= BLOCKS_MAX {
            self.coarsen();
        }
        let (first, last) = (offset / self.size, offset.saturating_add(len.max(1) - 1) / self.size);
        let mut new = false;
        for block in first..=last {
            let (word, bit) = ((block / 64) as usize, 1u64 << (block % 64));
            if word >= self.bits.len() {
                self.bits.resize(word + 1, 0);
            }
            new |= self.bits[word] & bit == 0;
            self.bits[word] |= bit;
        }
        new
    }

    /// Doubles the block size; a pair counts as touched when both halves were.
    fn coarsen(&mut self) {
        self.size = self.size.saturating_mul(2);
        let touched = |bits: &[u64], block: usize| {
            bits.get(block / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
        };
        let mut halved = vec![0u64; self.bits.len().div_ceil(2)];
        for block in 0..halved.len() * 64 {
            if touched(&self.bits, 2 * block) && touched(&self.bits, 2 * block + 1) {
                halved[block / 64] |= 1 << (block % 64);
            }
        }
        self.bits = halved;
    }
}

/// Where an extent ends; the model is asked about any.
pub(super) fn end_of(offset: MemberOffset, len: Bytes) -> MemberOffset {
    MemberOffset(offset.0.saturating_add(len.0))
}

/// A uniform number in [0, 1).
pub(super) fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

impl Device {
    /// Absent where the volume is limits and latency only.
    pub(super) fn new(
        seek: Option<Seek>,
        cache: Option<FarCache>,
        first_touch: Option<FirstTouch>,
    ) -> Option<Self> {
        if seek.is_none() && cache.is_none() && first_touch.is_none() {
            return None;
        }
        Some(Device {
            seek,
            head: MemberOffset::START,
            busy_until: Instant::START,
            cache: cache.map(|cache| (cache, Sampler::new(&cache.latency))),
            touched: None,
            first_touch: first_touch
                .map(|t| (Blocks { size: t.block.0.max(512), bits: Vec::new() }, Sampler::new(&t.latency))),
            cache_hits: 0,
            first_touches: 0,
        })
    }

    /// Looks into the cache and at the blocks, before any limit is charged.
    pub(super) fn look_up(
        &mut self,
        op: OpKind,
        offset: MemberOffset,
        len: Bytes,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Service {
        let mut service = Service { latency: None, extra: 0.0, cached: false };
        if let Some((cache, sampler)) = &self.cache {
            let end = end_of(offset, len);
            let touched = self.touched.map_or((offset, end), |(low, high)| (low.min(offset), high.max(end)));
            self.touched = Some(touched);
            let range = (touched.1 - touched.0).max(Bytes(1));
            let share = cache.size.0 as f64 / range.0 as f64;
            if op == OpKind::Read && unit(rng) < share {
                self.cache_hits += 1;
                service.latency = Some(sampler.draw(rng));
                service.cached = true;
            }
        }
        if let Some((blocks, sampler)) = &mut self.first_touch
            && blocks.touch(offset, len)
        {
            self.first_touches += 1;
            service.extra = sampler.draw(rng);
        }
        service
    }

    /// When the arm begins and ends an operation admitted at `now`; absent without an arm. `factor` is the mood's
    /// factor on rates.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        offset: MemberOffset,
        len: Bytes,
        factor: f64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Slot> {
        let seek = self.seek.as_ref()?;
        let mut nanos = len.0 as f64 / seek.transfer.max(1.0) * 1e9;
        if offset != self.head {
            let distance = offset.0.abs_diff(self.head.0) as f64 / seek.capacity.0.max(1) as f64;
            let (short, long) = (seek.track_to_track.0 as f64, seek.full_stroke.0 as f64);
            nanos += short + (long - short).max(0.0) * libm::sqrt(distance.min(1.0));
            nanos += unit(rng) * seek.rotation.0 as f64;
        }
        self.head = end_of(offset, len);
        let begin = self.busy_until.max(now);
        self.busy_until = begin + Nanos((nanos / factor) as u64);
        Some(Slot { begin, end: self.busy_until })
    }
}

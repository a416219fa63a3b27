//! What few workloads ask for: operations of several sizes, offsets that are not uniform, sequences with holes or runs.

use super::random::stream;
use super::skew::Skew;
use crate::per_op::PerOp;
use crate::units::{ArrayOffset, Bytes};
use crate::workload::{Access, OpKind, Sequence, Size, Workload};
use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

/// What all jobs draw which blocks are hot from.
const HOT: u64 = 0x686f_745f_626c_6b73;

/// The next offset and length of one job.
#[derive(Debug, Clone)]
pub(super) struct Varied {
    start: ArrayOffset,
    length: u64,
    sizes: PerOp<Vec<Size>>,
    order: Offsets,
    rng: Xoshiro256PlusPlus,
}

#[derive(Debug, Clone)]
enum Offsets {
    Ascending {
        /// Bytes from the end of one operation to the start of the next.
        add: i64,
        /// End of the operation before, from the region's start.
        at: u64,
    },
    Random {
        blocks: Box<PerOp<Skew>>,
        /// Operations from one draw to the next, whether they stay at its offset, and how many are left.
        run: u32,
        identical: bool,
        left: u32,
        at: u64,
    },
}

/// Whether `workload` asks for any of it.
pub(super) fn is_varied(workload: &Workload) -> bool {
    workload.split.is_some()
        || workload.details.sequence != Sequence::Plain
        || (workload.access == Access::Random && !workload.distribution.is_uniform())
}

impl Varied {
    /// The stream of job `job` in the region of `length` bytes at `start`, in which the largest operation fits.
    pub(super) fn new(
        workload: &Workload,
        (start, length): (ArrayOffset, Bytes),
        seed: u64,
        job: u32,
    ) -> Varied {
        let one = || vec![Size { bytes: workload.bs, percent: 100.0 }];
        let sizes = match &workload.split {
            Some(split) => split.sizes.clone(),
            None => PerOp::each(one),
        };
        let order = match (workload.access, workload.details.sequence) {
            (Access::Sequential, Sequence::Holes(add)) => Offsets::Ascending { add, at: 0 },
            (Access::Sequential, _) => Offsets::Ascending { add: 0, at: 0 },
            (Access::Random, sequence) => {
                let (run, identical) = match sequence {
                    Sequence::Runs { length, identical } => (length.max(1), identical),
                    _ => (1, false),
                };
                let skew = |sizes: &Vec<Size>| {
                    let unit = sizes.iter().map(|size| size.bytes.0).min().unwrap_or(1).max(1);
                    Skew::new(&workload.distribution, (length.0 / unit).max(1), seed ^ HOT)
                };
                let blocks = PerOp { read: skew(&sizes.read), write: skew(&sizes.write) };
                Offsets::Random { blocks: Box::new(blocks), run, identical, left: 0, at: 0 }
            }
        };
        Varied { start, length: length.0, sizes, order, rng: stream(seed, job, 2) }
    }

    /// The next operation of `kind`, as far as its place and size go.
    pub(super) fn next(&mut self, kind: OpKind) -> (ArrayOffset, Bytes) {
        let (sizes, rng) = (self.sizes.get(kind), &mut self.rng);
        let least = sizes.iter().map(|size| size.bytes.0).min().unwrap_or(1);
        let fits = |at: u64| at.checked_add(least).is_some_and(|end| end <= self.length);
        let from = match &mut self.order {
            Offsets::Ascending { add, at } => {
                let next = if *at == 0 { Some(0) } else { at.checked_add_signed(*add) };
                // As fio 3.33 does: beyond the end it goes on at the start, before the start as far from the end as it goes
                // back each time.
                let again = if *add < 0 { self.length.saturating_sub(add.unsigned_abs()) } else { 0 };
                next.filter(|next| fits(*next)).unwrap_or(if fits(again) { again } else { 0 })
            }
            Offsets::Random { blocks, run, identical, left, at } => {
                let follows = *left > 0 && fits(*at);
                *left = if *left > 0 { *left - 1 } else { *run - 1 };
                if follows {
                    *at
                } else {
                    let drawn = blocks.get(kind).draw(rng) * least;
                    if *identical {
                        *at = drawn;
                    }
                    drawn
                }
            }
        };
        let size = drawn(sizes, self.length - from, rng).min(self.length - from);
        match &mut self.order {
            Offsets::Ascending { at, .. } => *at = from + size,
            Offsets::Random { identical, at, .. } if !*identical => *at = from + size,
            Offsets::Random { .. } => {}
        }
        (self.start + Bytes(from), Bytes(size))
    }
}

/// One of the `sizes` that fit into `room`, each as often as it is asked for among these; the smallest where none does.
fn drawn(sizes: &[Size], room: u64, rng: &mut Xoshiro256PlusPlus) -> u64 {
    let fitting = sizes.partition_point(|size| size.bytes.0 <= room);
    let fitting = &sizes[..fitting.max(1).min(sizes.len())];
    let (Some(last), all) = (fitting.last(), fitting.iter().map(|size| size.percent).sum::<f64>()) else {
        return 0;
    };
    if fitting.len() == 1 {
        return last.bytes.0;
    }
    let mut left = (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64) * all;
    for size in fitting {
        left -= size.percent;
        if left < 0.0 {
            return size.bytes.0;
        }
    }
    last.bytes.0
}

#[cfg(test)]
#[path = "varied_tests.rs"]
mod tests;

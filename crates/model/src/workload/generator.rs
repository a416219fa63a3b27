//! The seeded stream of operations of one job: the same on every machine, for the engine and the simulator.

use super::{Access, Arrival, Mix, OpKind, Regions, Stop, Workload};
use crate::units::{ArrayOffset, Bytes, Nanos};
use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

mod random;
mod skew;
mod varied;

use random::{below, stream};
use varied::Varied;

/// One operation to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// Whether it reads or writes.
    pub kind: OpKind,
    /// Its first byte in the target.
    pub offset: ArrayOffset,
    /// At least 1; `bs` except for the last one of a trial that ends by size.
    pub length: Bytes,
    /// Intended start, counted from the start of the job (warm-up included); 0 in a closed loop: at once.
    pub due: Nanos,
    /// A read whose block is written back in place once it is there (rewrite).
    pub then_write: bool,
}

impl Op {
    /// The write that follows a read of a rewrite, in the same slot of the queue and as soon as the read completes.
    pub fn follow_up(self) -> Option<Op> {
        self.then_write.then_some(Op { kind: OpKind::Write, then_write: false, ..self })
    }
}

/// Why a workload cannot run on a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// A value that has to be at least 1 is 0.
    #[error("`{0}` is 0; write at least 1")]
    Zero(&'static str),
    /// The operation rate is no positive number.
    #[error("the arrival rate has to be a positive number of operations per second")]
    Rate,
    /// Fewer blocks than jobs or none at all.
    #[error(
        "{jobs} job(s) of {bs} blocks do not fit into {span}: use a smaller `bs`, fewer jobs or a larger span"
    )]
    TooSmall {
        /// Bytes of one operation.
        bs: Bytes,
        /// Regions that are needed: jobs when sequential, 1 when random.
        jobs: u32,
        /// Bytes of the region that operations fall in.
        span: Bytes,
    },
}

/// Distances between intended starts.
#[derive(Debug, Clone)]
enum Clock {
    Closed,
    /// `next` counts this job's operations; every job has its phase, so that the whole is evenly spaced.
    Fixed {
        gap_ns: f64,
        phase_ns: f64,
        next: u64,
    },
    Poisson {
        mean_gap_ns: f64,
        now_ns: f64,
        rng: Xoshiro256PlusPlus,
    },
}

/// The endless stream of operations of one job.
#[derive(Debug, Clone)]
pub struct Generator {
    bs: Bytes,
    /// Where block 0 is.
    start: ArrayOffset,
    /// First block and number of blocks of this job's region.
    first: u64,
    blocks: u64,
    /// Next block of the region, when sequential.
    position: u64,
    sequential: bool,
    /// What few workloads ask for; absent for all others.
    varied: Option<Box<Varied>>,
    mix: Mix,
    /// Reads are drawn when a 64-bit number is below this.
    read_below: u64,
    rng: Xoshiro256PlusPlus,
    clock: Clock,
    budget: Option<Bytes>,
}

/// The part of `total` that belongs to `job` of `jobs` when it is cut as evenly as whole numbers allow: (start, length).
fn share(total: u64, job: u32, jobs: u32) -> (u64, u64) {
    let cut = |n: u32| (u128::from(total) * u128::from(n) / u128::from(jobs)) as u64;
    (cut(job), cut(job + 1) - cut(job))
}

impl Generator {
    /// The stream of job number `job` (from 0) of `workload` on a target of this `capacity`.
    ///
    /// Random offsets are those of the workload's distribution over all whole blocks of the span. Sequential jobs have a region each (the span's
    /// blocks cut evenly) and begin again at its start when they reach its end.
    ///
    /// # Errors
    /// When the workload asks for nothing or does not fit.
    pub fn new(
        workload: &Workload,
        capacity: Bytes,
        seed: u64,
        job: u32,
    ) -> Result<Generator, WorkloadError> {
        for (name, value) in [
            ("bs", workload.bs.0),
            ("iodepth", workload.iodepth.into()),
            ("numjobs", workload.numjobs.into()),
        ] {
            if value == 0 {
                return Err(WorkloadError::Zero(name));
            }
        }
        let jobs = workload.numjobs;
        let job = job.min(jobs - 1);
        let bs = workload.bs.0;
        let offset = workload.details.last_offset(job + 1).0;
        let rest = capacity.0.saturating_sub(offset);
        let span = workload.span.map_or(rest, |span| span.0.min(rest));
        let sequential = workload.access == Access::Sequential;
        let own = match workload.details.regions {
            Regions::Usual => sequential,
            Regions::Shared => false,
            Regions::Own => true,
        };
        let (first, blocks) = if own { share(span / bs, job, jobs) } else { (0, span / bs) };
        if blocks == 0 {
            let jobs = if own { jobs } else { 1 };
            return Err(WorkloadError::TooSmall { bs: workload.bs, jobs, span: Bytes(span) });
        }
        let (mix, read_below) = match workload.mix {
            Mix::Mixed { read_percent: 0 } => (Mix::Write, 0),
            Mix::Mixed { read_percent: 100.. } => (Mix::Read, 0),
            Mix::Mixed { read_percent } => (workload.mix, u64::from(read_percent) * (u64::MAX / 100)),
            mix => (mix, 0),
        };
        let budget = match workload.stop {
            Stop::Runtime(_) => None,
            Stop::Size(Bytes(0)) => return Err(WorkloadError::Zero("size")),
            Stop::Size(Bytes(size)) => {
                let (start, count) = share(size.div_ceil(bs), job, jobs);
                Some(Bytes(((start + count) * bs).min(size) - (start * bs).min(size)))
            }
        };
        let start = ArrayOffset(offset);
        let varied = varied::is_varied(workload).then(|| {
            let region = (start + workload.bs * first, workload.bs * blocks);
            Box::new(Varied::new(workload, region, seed, job))
        });
        Ok(Generator {
            bs: workload.bs,
            start,
            first,
            blocks,
            position: 0,
            sequential,
            varied,
            mix,
            read_below,
            rng: stream(seed, job, 0),
            clock: Clock::new(workload, seed, job)?,
            budget,
        })
    }

    /// Bytes that this job does in all when the trial ends by size (blocks of a rewrite count once); absent otherwise.
    pub fn budget(&self) -> Option<Bytes> {
        self.budget
    }

    /// Whether [`next_plain`](Self::next_plain) gives its operations.
    pub fn is_plain(&self) -> bool {
        self.varied.is_none()
    }

    /// The next operation.
    #[inline]
    pub fn next_op(&mut self) -> Op {
        let Some(varied) = &mut self.varied else { return self.next_plain() };
        let (kind, then_write) = kind(self.mix, self.read_below, &mut self.rng);
        let (offset, length) = varied.next(kind);
        Op { kind, offset, length, due: self.clock.next(), then_write }
    }

    /// The same of a stream that [is plain](Self::is_plain), which nothing looks at here: even a test that is never true
    /// costs what is measured in instructions.
    // Always: it is called once per I/O from one place, and its result would go through memory otherwise.
    #[inline(always)]
    pub fn next_plain(&mut self) -> Op {
        let block = if self.sequential {
            let block = self.position;
            self.position = if block + 1 == self.blocks { 0 } else { block + 1 };
            block
        } else {
            below(&mut self.rng, self.blocks)
        };
        let (kind, then_write) = kind(self.mix, self.read_below, &mut self.rng);
        let offset = self.start + self.bs * (self.first + block);
        Op { kind, offset, length: self.bs, due: self.clock.next(), then_write }
    }
}

/// Whether the next operation reads or writes, and whether what it reads is then written.
#[inline(always)]
fn kind(mix: Mix, read_below: u64, rng: &mut Xoshiro256PlusPlus) -> (OpKind, bool) {
    match mix {
        Mix::Read => (OpKind::Read, false),
        Mix::Write => (OpKind::Write, false),
        Mix::Rewrite => (OpKind::Read, true),
        Mix::Mixed { .. } if rng.next_u64() < read_below => (OpKind::Read, false),
        Mix::Mixed { .. } => (OpKind::Write, false),
    }
}

impl Clock {
    fn new(workload: &Workload, seed: u64, job: u32) -> Result<Clock, WorkloadError> {
        let (Arrival::Fixed { iops } | Arrival::Poisson { iops }) = workload.arrival else {
            return Ok(Clock::Closed);
        };
        if !(iops.is_finite() && iops > 0.0) {
            return Err(WorkloadError::Rate);
        }
        let gap_ns = 1e9 / iops * f64::from(workload.numjobs);
        Ok(match workload.arrival {
            Arrival::Poisson { .. } => {
                Clock::Poisson { mean_gap_ns: gap_ns, now_ns: 0.0, rng: stream(seed, job, 1) }
            }
            _ => Clock::Fixed { gap_ns, phase_ns: 1e9 / iops * f64::from(job), next: 0 },
        })
    }

    #[inline]
    fn next(&mut self) -> Nanos {
        match self {
            Clock::Closed => Nanos(0),
            Clock::Fixed { gap_ns, phase_ns, next } => {
                // Multiplied, not added up: no drift.
                let due = *phase_ns + *next as f64 * *gap_ns;
                *next += 1;
                Nanos(due as u64)
            }
            Clock::Poisson { mean_gap_ns, now_ns, rng } => {
                // Uniform in (0, 1], so that the logarithm is finite; libm's is the same on every machine.
                let uniform = ((rng.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64);
                *now_ns += -libm::log(uniform) * *mean_gap_ns;
                Nanos(*now_ns as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests;

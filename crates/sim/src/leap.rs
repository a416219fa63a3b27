//! The fast path through long steady stretches: simulate ten seconds in full, then let them stand for the next ones.
//!
//! A stretch is steady while no mood changes and no credits run out. In it, time is cut into cells of one interval of the
//! series; after [`SETTLE`] cells to settle, a block of [`BLOCK`] cells is simulated in full from a copy of the state,
//! and what happened in it (counts cell by cell, latencies, credits spent) is counted again for as many blocks as the
//! stretch goes on, [`BLOCKS_MAX`] at most. Everything that is under way moves along in time, so the simulation goes on as
//! if it had been there. Fluctuations slower than a block (the random walk of queues among the members of a stripe) are
//! sampled less often, not differently.
//!
//! Trials shorter than [`CELLS_LEAST`] cells never leap: there, every I/O is simulated. What has a memory other than
//! limits (sequential positions, caches, page cache, open-loop clocks, failures, a resync) never leaps either, nor do workloads that run
//! at the same time.

use super::array::Array;
use super::record::{Block, Recorder, Window};
use ebbtide_model::experiment::Environment;
use ebbtide_model::units::{Instant, Nanos};
use ebbtide_model::workload::{Access, Arrival, Mix, Sequence, Stop, Workload};

/// Cells after a change or a leap before one is taken for typical.
const SETTLE: u64 = 3;
/// Cells of a typical block.
const BLOCK: u64 = 10;
/// Most blocks that one stands for.
const BLOCKS_MAX: u64 = 25;
/// Trials of fewer cells are simulated in full.
const CELLS_LEAST: u64 = 120;

/// Where the simulation stands on its way to a leap.
#[derive(Debug)]
pub(super) struct Leap {
    cell: Nanos,
    /// When to look next; never where leaps are out of the question.
    pub(super) look: Instant,
    /// Instant of the next change, as seen at the last look.
    change: Instant,
    settle: u64,
    before: Option<Box<Before>>,
}

/// State at the begin of the typical block, and what has happened in its cells so far.
#[derive(Debug)]
struct Before {
    at: Instant,
    array: Array,
    block: Block,
    cpu_used: Vec<f64>,
}

/// What the loop has to do to leap.
#[derive(Debug)]
pub(super) struct Jump {
    /// Blocks to count again, and how long one is.
    pub(super) blocks: u64,
    pub(super) block: Nanos,
    /// Time that each job's thread worked in the typical block.
    pub(super) cpu_used: Vec<f64>,
}

impl Leap {
    pub(super) fn new(
        workload: &Workload,
        environment: &Environment,
        array: &Array,
        window: &Window,
        alone: bool,
    ) -> Self {
        let cell = workload.series_interval().max(Nanos(1));
        let long = matches!(workload.stop, Stop::Runtime(runtime) if runtime.0 / cell.0 >= CELLS_LEAST);
        let memoryless = workload.access == Access::Random
            && workload.details.sequence == Sequence::Plain
            && workload.arrival == Arrival::Closed
            && workload.rate.is_none()
            && workload.direct
            && workload.mix != Mix::Rewrite
            && environment.resync.is_none()
            && array.is_memoryless();
        let look = if alone && long && memoryless { window.begin } else { Instant::NEVER };
        Leap { cell, look, change: Instant::START, settle: SETTLE, before: None }
    }

    /// Looks at the state at `now`, the first event at or after `look`; leaps the array and the recorder if it can
    /// and says how far.
    #[cold]
    pub(super) fn consider(
        &mut self,
        now: Instant,
        array: &mut Array,
        recorder: &mut Recorder,
        cpu_used: &[f64],
        end: Instant,
    ) -> Option<Jump> {
        let at = self.look;
        self.look = at + self.cell;
        if now >= self.look {
            // No event for a whole cell or more: nothing there is typical.
            let cells = (now - at).0 / self.cell.0;
            self.look = at + self.cell.times(cells + 1);
            (self.settle, self.before) = (self.settle.saturating_sub(cells), None);
            return None;
        }
        let change = array.next_change(now);
        if change != self.change {
            (self.change, self.settle, self.before) = (change, SETTLE, None);
        }
        if self.settle > 0 {
            self.settle -= 1;
            return None;
        }
        let Some(mut before) = self.before.take() else {
            self.before = Some(Box::new(Before {
                at,
                array: array.clone(),
                block: recorder.block(),
                cpu_used: cpu_used.to_vec(),
            }));
            return None;
        };
        recorder.cell(&mut before.block);
        if before.block.len() < BLOCK {
            self.before = Some(before);
            return None;
        }
        let block = self.cell.times(BLOCK);
        debug_assert_eq!(before.at + block, at);
        let fit = (change.min(end) - now).0 / block.0;
        let blocks = fit.min(BLOCKS_MAX).min(array.cells_left(&before.array, now, block));
        self.settle = SETTLE;
        if blocks == 0 {
            return None;
        }
        array.leap(&before.array, now, blocks, block);
        recorder.leap(&before.block, at, blocks, self.cell);
        self.look += block.times(blocks);
        let cpu_used = cpu_used.iter().zip(&before.cpu_used).map(|(now, before)| now - before).collect();
        Some(Jump { blocks, block, cpu_used })
    }
}

//! Working sets of several sizes, read in passes, each in a random order of its own.

use super::Step;
use crate::schedule::random_order;
use crate::units::Bytes;
use crate::workload::Workload;

/// First working set: smaller than any cache worth knowing.
const FIRST_SET: u64 = Bytes::MIB;
/// A working set is this many times the one before.
const GROWTH: u64 = 4;
/// As many as an interval of 95% needs.
pub const PASSES: usize = 6;

/// Working sets up to the whole.
#[derive(Debug, Clone)]
pub struct Seek {
    base: Workload,
    sets: Vec<Bytes>,
    seed: u64,
}

impl Seek {
    /// Working sets up to `size`, each read with `base`.
    pub fn new(base: Workload, size: Bytes, seed: u64) -> Seek {
        let mut sets = vec![Bytes(FIRST_SET.min(size.0))];
        while let Some(last) = sets.last().filter(|last| last.0 < size.0) {
            sets.push(Bytes(last.0.saturating_mul(GROWTH).min(size.0)));
        }
        Seek { base, sets, seed }
    }

    fn set(&self, name: String, size: Bytes) -> Step {
        Step::named(name, Workload { span: Some(size), ..self.base.clone() })
    }

    /// Every working set once, from the smallest.
    pub fn sets(&self) -> Vec<Step> {
        self.sets.iter().map(|size| self.set(format!("set-{size}"), *size)).collect()
    }

    /// Step number `index` of all passes.
    pub fn step(&self, index: usize) -> Option<Step> {
        let (pass, at) = (index / self.sets.len(), index % self.sets.len());
        if pass >= PASSES {
            return None;
        }
        let (order, _) = random_order(self.sets.len(), self.seed, pass as u32);
        let size = self.sets[order[at]];
        Some(self.set(format!("pass-{}-set-{size}", pass + 1), size))
    }

    /// Sizes of the working sets, from the smallest.
    pub fn sizes(&self) -> &[Bytes] {
        &self.sets
    }
}

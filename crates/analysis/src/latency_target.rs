//! The most load that keeps a latency: which depth is tried next, and which was found.
//!
//! As in fio (HOWTO, `latency_target`) the depth is doubled from 1 until one does not keep it, then what is between is halved.
//! What is found has to keep it for one window more: a depth that did by chance is given up, and the search goes on below.

use ebbtide_model::samples::{DepthFound, TrialSamples};
use ebbtide_model::workload::{LatencyTarget, Workload};
use ebbtide_model::{schedule::Trial, units::Nanos};
use serde::Serialize;
use std::collections::BTreeSet;

/// One depth, tried for one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DepthStep {
    /// Operations in flight per job.
    pub iodepth: u32,
    /// Whether the latency was kept.
    pub kept: bool,
    /// Percentage of the operations within the target; absent where none completed.
    pub within_percent: Option<f64>,
    /// The latency at the percentage that has to keep the target, in nanoseconds.
    pub lat_ns: Option<u64>,
    /// Operations that completed.
    pub operations: u64,
    /// Operations per second.
    pub iops: f64,
    /// How long it took.
    pub elapsed_seconds: f64,
}

impl DepthStep {
    /// What `samples`, taken at `iodepth`, say of `goal`.
    pub fn of(goal: &LatencyTarget, iodepth: u32, samples: &TrialSamples) -> DepthStep {
        let (latency, seconds) = (samples.latency(), samples.elapsed.as_secs_f64());
        let limit = goal.target.0;
        // Shares are of whole buckets, the largest is exact: all of them is no matter of buckets.
        let within = match latency.max() {
            Some(most) if most <= limit => Some(1.0),
            Some(_) => {
                latency.share_at_most(limit).map(|share| share.min(1.0 - 1.0 / latency.count() as f64))
            }
            None => None,
        };
        let within = within.map(|share| share * seen(goal, samples));
        DepthStep {
            iodepth,
            kept: within.is_some_and(|within| within * 100.0 >= goal.percentile),
            within_percent: within.map(|within| within * 100.0),
            lat_ns: latency.percentile(goal.percentile),
            operations: latency.count(),
            iops: if seconds > 0.0 { latency.count() as f64 / seconds } else { 0.0 },
            elapsed_seconds: seconds,
        }
    }
}

/// Share of the operations that are known to have kept or missed the latency, of those that can be held to it. At the end of a window
/// some are in flight: as many as complete within the latency may still keep it, and no more do (Little's law); the others have missed it
/// already, and in a window that is not much longer than the latency they are many.
fn seen(goal: &LatencyTarget, samples: &TrialSamples) -> f64 {
    let (completed, seconds) = (samples.latency().count() as f64, samples.elapsed.as_secs_f64());
    if completed == 0.0 || seconds == 0.0 {
        return 1.0;
    }
    let young = completed / seconds * goal.target.as_secs_f64();
    let late = (samples.execution.unfinished as f64 - young).max(0.0);
    completed / (completed + late)
}

/// A search for the most load that keeps a latency.
#[derive(Debug, Clone, PartialEq)]
pub struct DepthSearch {
    goal: LatencyTarget,
    /// The largest depth that is tried.
    most: u32,
    /// Depths that have kept it and were not given up.
    kept: BTreeSet<u32>,
    /// The smallest that has not.
    failed: Option<u32>,
    found: bool,
    steps: Vec<DepthStep>,
    /// What the rest of the runtime showed at the depth that was found.
    rest: Option<DepthStep>,
}

impl DepthSearch {
    /// For `workload`, where it asks for one.
    pub fn of(workload: &Workload) -> Option<DepthSearch> {
        Some(DepthSearch {
            goal: workload.conditions.latency?,
            most: workload.depth().max(1),
            kept: BTreeSet::new(),
            failed: None,
            found: false,
            steps: Vec::new(),
            rest: None,
        })
    }

    /// What is looked for.
    pub fn goal(&self) -> &LatencyTarget {
        &self.goal
    }

    /// The largest depth that is tried.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// The largest depth that has kept it so far; 0 for none.
    pub fn deepest(&self) -> u32 {
        self.kept.last().copied().unwrap_or(0)
    }

    /// Every step, in their order.
    pub fn steps(&self) -> &[DepthStep] {
        &self.steps
    }

    /// What the rest of the runtime showed at the depth that was found, where it was run.
    pub fn rest(&self) -> Option<&DepthStep> {
        self.rest.as_ref()
    }

    /// The depth to try next; none when it is over.
    pub fn next_depth(&self) -> Option<u32> {
        let low = self.deepest();
        match self.failed {
            _ if self.found => None,
            Some(0 | 1) => None,
            Some(high) if high - low == 1 => Some(low),
            Some(high) => Some(low + (high - low) / 2),
            None if low == self.most => Some(low),
            None => Some((2 * low).clamp(1, self.most)),
        }
    }

    /// What the depth that was tried showed.
    pub fn saw(&mut self, step: DepthStep) {
        let DepthStep { iodepth, kept, .. } = step;
        let again = self.kept.contains(&iodepth);
        self.steps.push(step);
        if kept {
            self.found = again;
            self.kept.insert(iodepth);
        } else {
            self.kept.split_off(&iodepth);
            self.failed = Some(iodepth);
        }
    }

    /// What the rest of the runtime showed at the depth that was found.
    pub fn held(&mut self, step: DepthStep) {
        self.rest = Some(step);
    }

    /// What it has come to.
    pub fn conclusion(&self) -> DepthFound {
        match self.next_depth() {
            Some(_) => DepthFound::Open(self.deepest()),
            None if self.found => DepthFound::Found(self.deepest()),
            None => DepthFound::None,
        }
    }

    /// The trial as which its next step runs: each has operations of its own.
    pub fn trial(&self, of: &Trial) -> Trial {
        match self.steps.len() {
            0 => *of,
            steps => crate::ladder::trial_of(of, steps - 1),
        }
    }

    /// What runs for `time` at `iodepth` in place of `workload`. What comes before a run comes before its first step only.
    pub fn step(&self, workload: &Workload, iodepth: u32, time: Nanos) -> Workload {
        let mut step = workload.clone();
        let first = self.steps.is_empty();
        let before = if first { workload.before() } else { Nanos(0) };
        step.last(before.plus(time), before);
        step.iodepth = iodepth;
        step.conditions = workload.conditions.clone();
        step.details.start_delay = if first { workload.details.start_delay } else { Nanos(0) };
        // What is cached is dropped once, as before any run.
        step.details.keep_cache = workload.details.keep_cache || (!first && !workload.direct);
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::workload::{Access, Mix, Stop};
    use proptest::prelude::*;

    fn search(most: u32) -> DepthSearch {
        let time = Nanos::from_secs(9);
        let mut workload = Workload::new("w", Access::Random, Mix::Read, Stop::Runtime(time));
        workload.iodepth = most;
        workload.conditions.latency =
            Some(LatencyTarget { target: Nanos(1_000), window: time, percentile: 99.0, run: false });
        DepthSearch::of(&workload).expect("asks for one")
    }

    fn step(iodepth: u32, kept: bool) -> DepthStep {
        DepthStep {
            iodepth,
            kept,
            within_percent: None,
            lat_ns: None,
            operations: 1,
            iops: 1.0,
            elapsed_seconds: 1.0,
        }
    }

    /// The depths that are tried where those up to `limit` keep it.
    fn tried(most: u32, limit: u32) -> (Vec<u32>, DepthFound) {
        let (mut search, mut depths) = (search(most), Vec::new());
        while let Some(depth) = search.next_depth() {
            depths.push(depth);
            search.saw(step(depth, depth <= limit));
        }
        (depths, search.conclusion())
    }

    #[test]
    fn it_doubles_halves_and_confirms() {
        assert_eq!(tried(128, 5), (vec![1, 2, 4, 8, 6, 5, 5], DepthFound::Found(5)));
        assert_eq!(tried(3, 9), (vec![1, 2, 3, 3], DepthFound::Found(3)));
        assert_eq!(tried(1, 9), (vec![1, 1], DepthFound::Found(1)));
        assert_eq!(tried(64, 0), (vec![1], DepthFound::None));
        assert_eq!(search(8).conclusion(), DepthFound::Open(0));
    }

    /// 8 keeps it by chance, and no more when it is to confirm it; then 7 does, and is confirmed.
    #[test]
    fn what_is_not_confirmed_is_given_up() {
        let mut search = search(64);
        for (depth, kept) in
            [(1, true), (2, true), (4, true), (8, true), (16, false), (12, false), (10, false)]
        {
            assert_eq!(search.next_depth(), Some(depth));
            search.saw(step(depth, kept));
        }
        for (depth, kept) in [(9, false), (8, false), (6, true), (7, true), (7, true)] {
            assert_eq!(search.next_depth(), Some(depth));
            assert_eq!(search.conclusion(), DepthFound::Open(search.deepest()));
            search.saw(step(depth, kept));
        }
        assert_eq!(search.conclusion(), DepthFound::Found(7));
    }

    proptest! {
        /// Whoever keeps it up to some depth is found at that depth, within the time that a search without a runtime has.
        #[test]
        fn what_is_found_is_the_limit(most in 1u32..=4096, limit in 0u32..=5000) {
            let (depths, found) = tried(most, limit);
            let expected = if limit == 0 { DepthFound::None } else { DepthFound::Found(limit.min(most)) };
            prop_assert_eq!(found, expected);
            let goal = LatencyTarget { window: Nanos(1), ..LatencyTarget::default() };
            prop_assert!(depths.len() as u64 <= goal.longest(most).0 / 2);
        }

        /// It ends whatever is seen, and says nothing that was not confirmed.
        #[test]
        fn it_ends_whatever_is_seen(most in 1u32..=300, kept in proptest::collection::vec(any::<bool>(), 2000)) {
            let mut search = search(most);
            for kept in kept {
                let Some(depth) = search.next_depth() else { break };
                prop_assert!(depth >= 1 && depth <= most);
                search.saw(step(depth, kept));
            }
            prop_assert!(search.next_depth().is_none());
            if let DepthFound::Found(depth) = search.conclusion() {
                prop_assert_eq!(search.steps().iter().filter(|s| s.iodepth == depth && s.kept).count() >= 2, true);
            }
        }
    }
}

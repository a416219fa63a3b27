//! The order of trials: randomised multiple interleaved trials (Abedi & Brecht, ICPE 2017).
//!
//! Every round runs every (design, workload) once, and the control once more per workload for the
//! A/A comparison, in a fresh random order. Workloads that run at the same time are one in that order. Round `n` depends on the seed and on `n` alone, so any
//! round can be computed without the ones before it. Where designs have left a race, the others keep the order and the seeds
//! that they would have with them.
//!
//! Where designs share builds ([`Builds::Shared`](crate::sweep::Builds)) the order is restricted, a split plot: the builds in a fresh
//! random order, and on each its designs in one. The control's second trial has a build of its own, so that it tells what building does.

use crate::experiment::Experiment;
use crate::session::{Ending, TrialRecord};
pub use crate::trial::{Role, Trial};
use crate::units::Nanos;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// The order of trials of a session, a pure function of experiment and seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    seed: u64,
    /// What each round runs, before shuffling: (design, first workload of those that run at the same time, role).
    slots: Vec<(usize, usize, Role)>,
    /// Of each workload that is the first of several which run at the same time: how many they are; empty where there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    together: BTreeMap<usize, usize>,
    /// The number of each slot's build, where the slots of a build follow one another; empty where the order is free.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    builds: Vec<usize>,
}

impl Schedule {
    /// The schedule of `experiment` under `seed`.
    pub fn new(experiment: &Experiment, seed: u64) -> Self {
        let groups = experiment.groups();
        let firsts = groups.iter().map(|group| group.start);
        let mut slots: Vec<_> = (0..experiment.designs.len())
            .flat_map(|design| firsts.clone().map(move |workload| (design, workload, Role::Candidate)))
            .collect();
        if experiment.control < experiment.designs.len() {
            slots.extend(firsts.map(|workload| (experiment.control, workload, Role::ControlAgain)));
        }
        let together =
            groups.iter().filter(|group| group.len() > 1).map(|group| (group.start, group.len())).collect();
        let of_designs = experiment.shared_builds();
        let again = |of: &[usize]| of.iter().max().map_or(0, |last| last + 1);
        let builds = of_designs.map_or_else(Vec::new, |of| {
            let build = |(design, _, role): &(usize, usize, Role)| match role {
                Role::Candidate => of[*design],
                Role::ControlAgain => again(&of),
            };
            slots.iter().map(build).collect()
        });
        Self { seed, slots, together, builds }
    }

    /// How often something is built in a round of all designs, where trials share builds.
    pub fn builds_a_round(&self) -> Option<usize> {
        self.builds.iter().max().map(|last| last + 1)
    }

    /// The seed it was made from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Trials in one round.
    pub fn round_len(&self) -> usize {
        self.slots.iter().map(|(_, first, _)| self.workloads(*first).len()).sum()
    }

    /// The workloads that run at the same time as `first`, which is one of them.
    fn workloads(&self, first: usize) -> Range<usize> {
        first..first + self.together.get(&first).copied().unwrap_or(1)
    }

    /// The trials of round `round` (from 0) in the order in which they run, where every round runs everything.
    pub fn round(&self, round: u32) -> Vec<Trial> {
        let first = u64::from(round).saturating_mul(self.round_len() as u64);
        self.round_of(round, u32::try_from(first).unwrap_or(u32::MAX), |_| true)
    }

    /// The trials of round `round` of those designs that `runs` says, after `first` trials before it. Each has the seed, and the
    /// place before or after each other, that it has in [`round`](Self::round): part of a random order is a random order of the part.
    pub fn round_of(&self, round: u32, first: u32, runs: impl Fn(usize) -> bool) -> Vec<Trial> {
        let (mut order, mut rng) = random_order(self.slots.len(), self.seed, round);
        if let Some(builds) = self.builds_a_round() {
            let mut turns: Vec<usize> = (0..builds).collect();
            shuffle(&mut turns, &mut rng);
            // Stable: on each build the order stays as it was drawn.
            order.sort_by_key(|slot| turns[self.builds[*slot]]);
        }
        let each = order.into_iter().flat_map(|slot| {
            let (design, first, role) = self.slots[slot];
            self.workloads(first).map(move |workload| (design, workload, role))
        });
        each.map(|run| (run, rng.next_u64()))
            .filter(|((design, ..), _)| runs(*design))
            .zip(u64::from(first)..)
            .map(|(((design, workload, role), seed), index)| Trial {
                index: u32::try_from(index).unwrap_or(u32::MAX),
                round,
                design,
                workload,
                role,
                seed,
            })
            .collect()
    }
}

/// What decides, round by round, which designs a session goes on with and when it ends.
pub trait Referee {
    /// Whether design number `design` runs in the next round.
    fn runs(&self, design: usize) -> bool;

    /// How the session ends after a round, with all trials so far, in `rounds` rounds, which took `elapsed`; `None` where another
    /// round follows. Called once after each round.
    fn after(
        &mut self,
        experiment: &Experiment,
        trials: &[TrialRecord],
        rounds: u32,
        elapsed: Nanos,
    ) -> Option<Ending>;
}

/// The numbers below `count` in the random order of round `round`, and the generator for what else that round draws.
pub(crate) fn random_order(count: usize, seed: u64, round: u32) -> (Vec<usize>, Xoshiro256PlusPlus) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(seed, u64::from(round)));
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, &mut rng);
    (order, rng)
}

/// Two numbers to one seed, by SplitMix64's finaliser (Steele, Lea & Flood, OOPSLA 2014), so that
/// neighbouring seeds and rounds share nothing.
fn mix(seed: u64, stream: u64) -> u64 {
    let mut z = seed.wrapping_add(stream.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fisher-Yates, from the end.
fn shuffle<T>(items: &mut [T], rng: &mut impl RngCore) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last as u64 + 1, rng) as usize);
    }
}

/// A uniform number in `0..bound` without bias: the high half of a product, rejecting the
/// `2^64 mod bound` low halves that would favour some results (Lemire, 2019).
fn below(bound: u64, rng: &mut impl RngCore) -> u64 {
    let threshold = bound.wrapping_neg() % bound;
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(bound);
        if product as u64 >= threshold {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LayoutNode;
    use crate::sweep::{Builds, Sweep};
    use crate::testing::{experiment, sweep};
    use crate::units::Bytes;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_order_of_a_seed_never_changes() {
        // Stored sessions are replayed from their seed: a change here breaks them. The expected order was
        // computed by a separate implementation of xoshiro256++ and SplitMix64.
        let order: Vec<_> = Schedule::new(&experiment(3, 2), 42)
            .round(0)
            .iter()
            .map(|t| (t.design, t.workload, t.role == Role::ControlAgain))
            .collect();
        assert_eq!(
            order,
            [
                (2, 0, false),
                (0, 1, false),
                (1, 1, false),
                (0, 0, true),
                (1, 0, false),
                (0, 1, true),
                (0, 0, false),
                (2, 1, false)
            ]
        );
    }

    /// On builds of as many designs, each design is at each place as often as at any other: on that the places of a race rest.
    #[test]
    fn every_position_is_equally_likely_on_shared_builds_too() {
        let mut experiment = sweep(&[("members", &["1", "2"]), ("readahead", &["4KiB", "8KiB"])]);
        for (number, design) in experiment.designs.iter_mut().enumerate() {
            design.layout = LayoutNode::Volume(number / 2);
        }
        experiment.control = usize::MAX;
        experiment.sweep.as_mut().expect("a sweep").builds = Builds::Shared;
        let schedule = Schedule::new(&experiment, 5);
        let (mut counts, rounds) = ([[0u32; 4]; 4], 4000);
        for round in 0..rounds {
            for (position, trial) in schedule.round(round).iter().enumerate() {
                counts[trial.design][position] += 1;
            }
        }
        let expected = f64::from(rounds) / 4.0;
        for row in counts {
            let chi: f64 = row.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
            // 3 degrees of freedom, p = 0.001.
            assert!(chi < 16.3, "{counts:?}");
        }
    }

    #[test]
    fn every_position_is_equally_likely() {
        // 4 slots (2 designs, 1 workload, control again = 3) over many rounds: chi-square with 2 degrees
        // of freedom stays below 13.8 (p = 0.001) for each slot.
        let schedule = Schedule::new(&experiment(2, 1), 7);
        let mut counts = [[0u32; 3]; 3];
        let rounds = 3000;
        for round in 0..rounds {
            for (position, trial) in schedule.round(round).iter().enumerate() {
                let slot = if trial.role == Role::ControlAgain { 2 } else { trial.design };
                counts[slot][position] += 1;
            }
        }
        let expected = f64::from(rounds) / 3.0;
        for row in counts {
            let chi: f64 = row.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
            assert!(chi < 13.8, "{counts:?}");
        }
    }

    proptest! {
        #[test]
        fn each_round_runs_everything_once_and_the_control_twice(
            designs in 1usize..9, workloads in 1usize..6, seed: u64, round in 0u32..1000
        ) {
            let experiment = experiment(designs, workloads);
            let schedule = Schedule::new(&experiment, seed);
            let trials = schedule.round(round);
            prop_assert_eq!(&trials, &Schedule::new(&experiment, seed).round(round));
            prop_assert_eq!(trials.len(), designs * workloads + workloads);
            let seen: BTreeSet<_> = trials.iter().map(|t| (t.design, t.workload, t.role == Role::Candidate)).collect();
            prop_assert_eq!(seen.len(), trials.len());
            prop_assert!(trials.iter().all(|t| t.role == Role::Candidate || t.design == experiment.control));
            let seeds: BTreeSet<_> = trials.iter().map(|t| t.seed).collect();
            prop_assert_eq!(seeds.len(), trials.len());
            for (position, trial) in trials.iter().enumerate() {
                prop_assert_eq!(trial.index as usize, round as usize * trials.len() + position);
            }
        }

        /// What runs at the same time stands next to each other, and is shuffled as one workload is.
        #[test]
        fn jobs_of_a_group_follow_one_another_in_a_round_as_one(
            designs in 1usize..7, lengths in prop::collection::vec(1usize..4, 1..5), seed: u64, round in 0u32..1000
        ) {
            let mut grouped = experiment(designs, lengths.iter().sum());
            let groups = lengths.iter().enumerate().flat_map(|(group, length)| vec![group; *length]);
            for (workload, group) in grouped.workloads.iter_mut().zip(groups.clone()) {
                workload.group = Some(format!("g{group}"));
            }
            let schedule = Schedule::new(&grouped, seed);
            let trials = schedule.round(round);
            prop_assert_eq!(trials.len(), schedule.round_len());
            prop_assert_eq!(trials.len(), grouped.workloads.len() * (designs + 1));
            let group_of: Vec<usize> = groups.collect();
            let place = |trial: &Trial| (trial.design, group_of[trial.workload], trial.role == Role::Candidate);
            let batches: Vec<&[Trial]> = trials.chunk_by(|a, b| place(a) == place(b)).collect();
            // Each place comes once, with all its workloads in their order, and in the order of as many single workloads.
            let single = Schedule::new(&experiment(designs, lengths.len()), seed).round(round);
            prop_assert_eq!(batches.len(), single.len());
            for (batch, one) in batches.iter().zip(&single) {
                prop_assert_eq!(place(&batch[0]), (one.design, one.workload, one.role == Role::Candidate));
                prop_assert_eq!(batch.len(), lengths[one.workload]);
                prop_assert!(batch.is_sorted_by(|a, b| a.workload + 1 == b.workload && a.index + 1 == b.index));
            }
            let seeds: BTreeSet<_> = trials.iter().map(|trial| trial.seed).collect();
            prop_assert_eq!(seeds.len(), trials.len());
            prop_assert_eq!(trials[0].index as usize, round as usize * trials.len());
        }

        /// Designs 0 and 1, 2 and 3, .. share a build.
        #[test]
        fn on_shared_builds_trials_of_one_follow_one_another(
            pairs in 1usize..5, workloads in 1usize..4, seed: u64, round in 0u32..1000, left: u16
        ) {
            let mut experiment = experiment(2 * pairs, workloads);
            for (number, design) in experiment.designs.iter_mut().enumerate() {
                design.layout = LayoutNode::Volume(number / 2);
                design.stack.readahead = Some(Bytes(4096 * (number as u64 + 1)));
            }
            experiment.sweep = Some(Sweep { builds: Builds::Shared, ..sweep(&[]).sweep.expect("a sweep") });
            let schedule = Schedule::new(&experiment, seed);
            prop_assert_eq!(schedule.builds_a_round(), Some(pairs + 1));
            let runs = |design: usize| left >> design & 1 == 1;
            for trials in [schedule.round(round), schedule.round_of(round, 7, runs)] {
                let build = |trial: &Trial| match trial.role {
                    Role::Candidate => trial.design / 2,
                    Role::ControlAgain => pairs,
                };
                let turns = trials.chunk_by(|a, b| build(a) == build(b)).map(|turn| build(&turn[0]));
                let turns: Vec<usize> = turns.collect();
                prop_assert_eq!(turns.len(), turns.iter().collect::<BTreeSet<_>>().len(), "{:?}", turns);
            }
            // What runs is what the free order runs; what is left keeps its order and its seeds.
            let free = { experiment.builds_nothing_in_turn(); Schedule::new(&experiment, seed).round(round) };
            let what = |trials: &[Trial]| {
                trials.iter().map(|t| (t.design, t.workload, t.role == Role::Candidate)).collect::<BTreeSet<_>>()
            };
            let whole = schedule.round(round);
            prop_assert_eq!(what(&whole), what(&free));
            let part: Vec<u64> = schedule.round_of(round, 0, runs).iter().map(|trial| trial.seed).collect();
            let of_whole = whole.iter().filter(|trial| runs(trial.design)).map(|trial| trial.seed);
            prop_assert_eq!(part, of_whole.collect::<Vec<u64>>());
        }

        #[test]
        fn those_that_are_left_keep_their_order_and_their_seeds(
            designs in 1usize..9, workloads in 1usize..4, seed: u64, round in 0u32..1000, first in 0u32..9999, left: u16
        ) {
            let schedule = Schedule::new(&experiment(designs, workloads), seed);
            let runs = |design: usize| left >> design & 1 == 1;
            let of_part = schedule.round_of(round, first, runs);
            let whole: Vec<Trial> = schedule.round(round).into_iter().filter(|trial| runs(trial.design)).collect();
            prop_assert_eq!(of_part.len(), whole.len());
            for (position, (one, other)) in of_part.iter().zip(&whole).enumerate() {
                prop_assert_eq!(*one, Trial { index: first + position as u32, ..*other });
            }
        }
    }
}

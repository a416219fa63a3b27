//! The order of trials: randomised multiple interleaved trials (Abedi & Brecht, ICPE 2017).
//!
//! Every round runs every (design, workload) once, and the control once more per workload for the
//! A/A comparison, in a fresh random order. Round `n` depends on the seed and on `n` alone, so any
//! round can be computed without the ones before it.

use super::{Role, Trial};
use crate::experiment::Experiment;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// The order of trials of a session, a pure function of experiment and seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    seed: u64,
    /// What each round runs, before shuffling: (design, workload, role).
    slots: Vec<(usize, usize, Role)>,
}

impl Schedule {
    /// The schedule of `experiment` under `seed`.
    pub fn new(experiment: &Experiment, seed: u64) -> Self {
        let workloads = 0..experiment.workloads.len();
        let mut slots: Vec<_> = (0..experiment.designs.len())
            .flat_map(|design| workloads.clone().map(move |workload| (design, workload, Role::Candidate)))
            .collect();
        if experiment.control < experiment.designs.len() {
            slots.extend(workloads.map(|workload| (experiment.control, workload, Role::ControlAgain)));
        }
        Self { seed, slots }
    }

    /// The seed it was made from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Trials in one round.
    pub fn round_len(&self) -> usize {
        self.slots.len()
    }

    /// The trials of round `round` (from 0) in the order in which they run.
    pub fn round(&self, round: u32) -> Vec<Trial> {
        let (order, mut rng) = random_order(self.slots.len(), self.seed, round);
        let first = u64::from(round).saturating_mul(self.slots.len() as u64);
        order
            .into_iter()
            .zip(first..)
            .map(|(slot, index)| {
                let (design, workload, role) = self.slots[slot];
                Trial {
                    index: u32::try_from(index).unwrap_or(u32::MAX),
                    round,
                    design,
                    workload,
                    role,
                    seed: rng.next_u64(),
                }
            })
            .collect()
    }
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
    use crate::testing::experiment;
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
    }
}

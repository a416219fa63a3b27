//! What trials cost in seconds of I/O, and what the full grid would have.

use crate::TrialSummary;
use ebbtide_model::schedule::Role;
use std::collections::BTreeMap;

/// What the trials of a session cost, warm-up included.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cost {
    /// Of each design and workload, and of the control's second runs: seconds and trials.
    by_kind: BTreeMap<(usize, usize, bool), (f64, u32)>,
}

impl Cost {
    /// That of all of `trials`.
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a TrialSummary>) -> Cost {
        let mut cost = Cost::default();
        trials.into_iter().for_each(|ran| cost.add(ran));
        cost
    }

    /// Takes a trial in.
    pub fn add(&mut self, ran: &TrialSummary) {
        let trial = &ran.trial;
        let kind = (trial.design, trial.workload, trial.role == Role::ControlAgain);
        let (seconds, number) = self.by_kind.entry(kind).or_default();
        *seconds += ran.io_seconds;
        *number += 1;
    }

    /// Seconds so far.
    pub fn spent(&self) -> f64 {
        self.by_kind.values().map(|(seconds, _)| seconds).sum()
    }

    /// Rounds of what ran most.
    pub fn rounds(&self) -> u32 {
        self.by_kind.values().map(|(_, number)| *number).max().unwrap_or(0)
    }

    /// Seconds that a round of the designs that `runs` says takes, as each of them took so far.
    pub fn of_round(&self, runs: impl Fn(usize) -> bool) -> f64 {
        self.a_round(|(design, ..)| runs(*design))
    }

    /// Seconds that so many rounds would have taken in which everything runs, the control twice.
    pub fn of_rounds(&self, rounds: u32) -> f64 {
        self.a_round(|_| true) * f64::from(rounds)
    }

    /// Seconds that a plain grid of so many rounds would have taken: every design once in each.
    pub fn of_grid(&self, rounds: u32) -> f64 {
        self.a_round(|(.., again)| !again) * f64::from(rounds)
    }

    fn a_round(&self, runs: impl Fn(&(usize, usize, bool)) -> bool) -> f64 {
        let in_it = self.by_kind.iter().filter(|(kind, _)| runs(kind));
        in_it.map(|(_, (seconds, number))| seconds / f64::from(*number)).sum()
    }
}

//! What a trial is worth to an objective: one positive figure, greater is better.

use crate::TrialSummary;
use ebbtide_model::sweep::{Goal, Objective, SweptDesign};

/// What is known of one design: a trial of it, and what needs none.
#[derive(Debug, Clone)]
pub struct Figures {
    ran: TrialSummary,
    price: Option<f64>,
}

impl Figures {
    /// Of `arm` in a trial.
    pub fn new(arm: &SweptDesign, ran: &TrialSummary) -> Figures {
        Figures { ran: ran.clone(), price: arm.price }
    }

    /// Whether there is a trial that did not fail.
    pub fn ran(&self) -> bool {
        self.ran.has_figures()
    }

    /// The value of `goal` in its own unit; nothing where it is not known.
    pub fn value(&self, goal: Goal) -> Option<f64> {
        match goal {
            Goal::Measured(metric) => self.ran.value(metric),
            Goal::Price => self.price,
        }
    }

    /// The value of `goal`, or its inverse where less is better.
    pub fn merit(&self, goal: Goal) -> Option<f64> {
        let value = self.value(goal).filter(|value| *value > 0.0 && value.is_finite())?;
        Some(if goal.lower_is_better() { 1.0 / value } else { value })
    }

    /// What it is worth to `objective`, of which more is better. Of a front, where no one figure decides, that of its first goal.
    pub fn worth(&self, objective: &Objective) -> Option<f64> {
        let Objective::Weighted(goals) = objective else { return self.merit(objective.goal()?) };
        goals.iter().try_fold(1.0, |product, (goal, weight)| {
            let factor = libm::pow(self.merit(*goal)?, *weight);
            Some(product * factor)
        })
    }

    /// The figure by which `objective` decides, in its own unit; of weights, what it is worth.
    pub fn figure(&self, objective: &Objective) -> Option<f64> {
        match objective.goal() {
            Some(goal) => self.merit(goal).and_then(|_| self.value(goal)),
            None => self.worth(objective),
        }
    }
}

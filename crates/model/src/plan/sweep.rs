//! What a sweep would do and cost, before it runs.

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::schedule::Schedule;
use crate::sweep::{Factor, Goal, Limit, Objective};
use crate::units::{Bytes, Nanos, format_count, format_number, format_throughput, format_waiting};
use serde::{Deserialize, Serialize};

/// The share of the full grid that is offered where none is asked for. What a race finds with it: docs/explanation/statistics.md, "Finding the best of
/// many".
const OFFERED: f64 = 0.2;

/// A sweep in figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// Name of the design that is varied.
    pub template: String,
    /// Factors that vary, with their levels.
    pub factors: Vec<Factor>,
    /// Names of the designs that it made.
    pub designs: Vec<String>,
    /// Designs that there would be with every level of every factor.
    pub all: u64,
    /// What counts, in words.
    pub objective: String,
    /// The workload that decides.
    pub workload: String,
    /// How often something is built in a round of all designs, where trials share builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builds_a_round: Option<u64>,
    /// Trials if no design drops out before the last round.
    pub most_trials: u64,
    /// Time of these; absent when a workload ends by size.
    pub most_time: Option<Nanos>,
    /// The most that these can move, by the limits of volumes and links; absent where something has no limit.
    pub most_bytes: Option<Bytes>,
    /// The share of the full grid that it may cost, in (0, 1], where it is asked to keep one.
    pub budget: Option<f64>,
    /// Fields whose effects the experiment plants.
    pub planted: Vec<String>,
}

impl SweepPlan {
    /// The sweep of `experiment`, where it has one.
    pub fn of(experiment: &Experiment) -> Option<SweepPlan> {
        let sweep = experiment.sweep.as_ref()?;
        let name = |design: usize| experiment.designs.get(design).map(|design| design.name.clone());
        let rounds = u64::from(experiment.answer.trials_max);
        let trials = (experiment.designs.len() as u64 + 1) * experiment.workloads.len() as u64;
        let round_bytes =
            (0..experiment.designs.len()).chain([experiment.control]).try_fold(0u64, |sum, design| {
                let loads = 0..experiment.workloads.len();
                loads.into_iter().try_fold(sum, |sum, load| {
                    Some(sum.saturating_add(experiment.most_bytes(design, load)?.0))
                })
            });
        Some(SweepPlan {
            template: sweep.template.clone(),
            factors: sweep.factors.clone(),
            designs: sweep.arms.iter().filter_map(|arm| name(arm.design)).collect(),
            all: sweep.factors.iter().fold(1, |all, factor| all.saturating_mul(factor.levels.len() as u64)),
            objective: objective(&sweep.objective),
            workload: experiment
                .workloads
                .get(sweep.workload)
                .map(|load| load.name.clone())
                .unwrap_or_default(),
            builds_a_round: Schedule::new(experiment, 0).builds_a_round().map(|builds| builds as u64),
            most_trials: trials.saturating_mul(rounds),
            most_time: experiment.round_time().map(|round| Nanos(round.0.saturating_mul(rounds))),
            most_bytes: round_bytes.map(|bytes| Bytes(bytes.saturating_mul(rounds))),
            budget: sweep.budget,
            planted: experiment.environment.planted_fields.iter().cloned().collect(),
        })
    }

    /// The lines of a table: a heading, and what belongs to it. `all` lists every design.
    pub fn rows(&self, all: bool) -> Vec<(String, String)> {
        let left_out = match self.all - self.designs.len() as u64 {
            0 => "all that the levels make".to_owned(),
            left_out => {
                format!("of the {} that all levels would make {left_out} are left out or the same", self.all)
            }
        };
        let designs = format_count(self.designs.len() as u64, "design");
        let mut rows = vec![("sweep".to_owned(), format!("{designs} of {}: {left_out}", self.template))];
        rows.extend(
            self.factors.iter().map(|factor| (format!("  {}", factor.name), factor.levels.join(", "))),
        );
        rows.push(("best".to_owned(), format!("{} under {}", self.objective, self.workload)));
        if let Some(builds) = self.builds_a_round {
            let what = "one after another what differs only in what can be set on it";
            rows.push((
                "builds".to_owned(),
                format!("{builds} a round, on each {what} (`builds` of [sweep])"),
            ));
        }
        let costs = |share: f64| {
            let part = |whole: u64| (whole as f64 * share).round() as u64;
            let time = self.most_time.map(|time| format!(", {}", format_waiting(Nanos(part(time.0)))));
            let bytes = self.most_bytes.map(|bytes| format!(", up to {}", Bytes(part(bytes.0)).short()));
            let trials = format_count(part(self.most_trials), "trial");
            format!("{trials}{}{}", time.unwrap_or_default(), bytes.unwrap_or_default())
        };
        let percent = |share: f64| format_number((share * 1000.0).round() / 10.0);
        rows.push(match self.budget {
            None => ("at most".to_owned(), format!("{}, if no design drops out", costs(1.0))),
            Some(share) => (
                "at most".to_owned(),
                format!(
                    "{}: the budget, {}% of the full grid ({})",
                    costs(share),
                    percent(share),
                    costs(1.0)
                ),
            ),
        });
        if self.budget.is_none() {
            let (part, share) = (costs(OFFERED), percent(OFFERED));
            let what = format!(
                "{part}, with `budget = \"{share}%\"` in [sweep] (what that finds: docs/explanation/statistics.md)"
            );
            rows.push(("or at most".to_owned(), what));
        }
        if !self.planted.is_empty() {
            let fields = self.planted.join(", ");
            rows.push((
                "planted".to_owned(),
                format!("the effects of {fields}: by the experiment, for a simulation only"),
            ));
        }
        if all {
            rows.extend(self.designs.iter().map(|design| ("design".to_owned(), design.clone())));
        }
        rows
    }
}

/// What counts, in words.
fn objective(objective: &Objective) -> String {
    let best =
        |goal: &Goal| format!("{} {}", if goal.lower_is_better() { "least" } else { "most" }, goal.name());
    let names = |goals: &[String]| goals.join(", ");
    match objective {
        Objective::Best(goal) => best(goal),
        Objective::Within { best: goal, limits } => {
            let limits: Vec<String> = limits.iter().map(limit).collect();
            format!("{} while {}", best(goal), limits.join(" and "))
        }
        Objective::Weighted(weights) => {
            let goals: Vec<String> = weights
                .iter()
                .map(|(goal, weight)| format!("{} to the power of {weight}", best(goal)))
                .collect();
            names(&goals)
        }
        Objective::Pareto(goals) => {
            let goals: Vec<String> = goals.iter().map(best).collect();
            format!("front of {}", names(&goals))
        }
    }
}

fn limit(limit: &Limit) -> String {
    let bound = match limit.of {
        Goal::Measured(Metric::LatP50 | Metric::LatP99 | Metric::Time) => {
            Nanos(limit.bound as u64).to_string()
        }
        Goal::Measured(Metric::Throughput) => format_throughput(limit.bound),
        Goal::Measured(Metric::Iops | Metric::Own(_)) | Goal::Price => limit.bound.to_string(),
    };
    format!("{} {} {bound}", limit.of.name(), if limit.of.lower_is_better() { "<=" } else { ">=" })
}

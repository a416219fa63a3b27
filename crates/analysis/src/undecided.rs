//! What a session was asked and has not answered: the one definition behind the headline, the JSON and the exit status.

use super::metrics::primary;
use super::{Analysis, Comparison, Conclusion, WarningKind};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::metric::Metric;
use ebbtide_model::session::{Ending, Session};
use ebbtide_model::sweep::Objective;
use serde::Serialize;

/// A design whose difference from the control is not decided under a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Undecided {
    /// Name of the design.
    pub design: String,
    /// Name of the workload.
    pub workload: String,
    /// The metric by which the workload is judged.
    pub metric: Metric,
    /// The interval of the ratio, where there is one.
    pub interval: Option<(f64, f64)>,
    /// Rounds in which both ran; 0 where no comparison was possible.
    pub rounds: u32,
}

/// Every design against the control under every workload that is not decided by the workload's own metric. A sweep asks which design is the
/// best, not how each compares with the control: none.
pub fn undecided(experiment: &Experiment, comparisons: &[Comparison]) -> Vec<Undecided> {
    let mut open = Vec::new();
    if experiment.sweep.is_some() {
        return open;
    }
    for asked in &experiment.workloads {
        let metric = primary(&experiment.answer, asked);
        for (index, design) in experiment.designs.iter().enumerate() {
            if index == experiment.control {
                continue;
            }
            let comparison = comparisons
                .iter()
                .find(|c| (c.metric, &c.workload, &c.design) == (metric, &asked.name, &design.name));
            if comparison.is_some_and(|c| c.conclusion != Conclusion::Inconclusive) {
                continue;
            }
            open.push(Undecided {
                design: design.name.clone(),
                workload: asked.name.clone(),
                metric,
                interval: comparison.and_then(|c| c.interval),
                rounds: comparison.map_or(0, |c| c.rounds),
            });
        }
    }
    open
}

/// What keeps a session that ran to its end from being an answer; none where it is one. Intervals wider than asked for do
/// not, where every comparison is decided all the same.
pub fn unanswered(session: &Session, analysis: &Analysis) -> Vec<String> {
    let experiment = &session.experiment;
    if let Some(race) = &analysis.race {
        let percent = race.indifference * 100.0;
        return match race.left.len() {
            _ if race.decided => Vec::new(),
            1 => vec!["the one design that is left is not shown to keep the limits".to_owned()],
            left => vec![match race.objective {
                Objective::Pareto(_) => format!(
                    "{left} designs are left, and it is not shown that each is better than the others in something by more than {percent}%"
                ),
                _ => format!(
                    "{left} designs are left, and it is not shown that they are within {percent}% of each other"
                ),
            }],
        };
    }
    let differs = analysis.warnings.iter().filter(|warning| warning.kind == WarningKind::AaDiffers);
    let mut reasons: Vec<String> = differs
        .map(|warning| match &warning.subject {
            Some(subject) => format!("{subject}: {}", warning.message),
            None => warning.message.clone(),
        })
        .collect();
    let control = experiment.designs.get(experiment.control).map_or("", |design| &design.name);
    let open = undecided(experiment, &analysis.comparisons);
    reasons
        .extend(open.iter().map(|open| format!("{} against {control} under {}", open.design, open.workload)));
    reasons.extend(analysis.results.iter().filter(|result| result.conditioned.open > 0).map(|result| {
        format!("the search of {} under {} was not over within its runtime", result.design, result.workload)
    }));
    if experiment.designs.len() < 2 && session.meta.ending != Ending::Reached {
        reasons.push("intervals are wider than requested".to_owned());
    }
    reasons
}

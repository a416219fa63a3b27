//! What a session was asked and has not answered: the one definition behind the headline, the JSON and the exit status.

use super::metrics::primary;
use super::{Analysis, Comparison, Conclusion, Standing, WarningKind};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::metric::Metric;
use ebbtide_model::session::{Ending, Session};
use ebbtide_model::sweep::Objective;
use serde::Serialize;

/// Two designs whose difference is not decided under a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Undecided {
    /// Name of the design.
    pub design: String,
    /// Name of the other: the control, or the design that is ahead.
    pub against: String,
    /// Name of the workload.
    pub workload: String,
    /// The metric by which the workload is judged.
    pub metric: Metric,
    /// The interval of the ratio, where there is one.
    pub interval: Option<(f64, f64)>,
    /// Rounds in which both ran; 0 where no comparison was possible.
    pub rounds: u32,
}

/// Which comparisons are not decided by the workload's own metric, under every workload: of each design with the control, and of the
/// design that is ahead with the others. A sweep asks nothing but which design is the best, and has its race: none.
pub fn undecided(experiment: &Experiment, analysis: &Analysis) -> Vec<Undecided> {
    let mut open = Vec::new();
    if experiment.sweep.is_some() {
        return open;
    }
    let control = experiment.designs.get(experiment.control).map_or("", |design| &design.name);
    for asked in &experiment.workloads {
        let metric = primary(&experiment.answer, asked);
        let of = |design: &str, against: &str, comparison: Option<&Comparison>| Undecided {
            design: design.to_owned(),
            against: against.to_owned(),
            workload: asked.name.clone(),
            metric,
            interval: comparison.and_then(|c| c.interval),
            rounds: comparison.map_or(0, |c| c.rounds),
        };
        for design in experiment.designs.iter().filter(|design| design.name != control) {
            let comparison = analysis
                .comparisons
                .iter()
                .find(|c| (c.metric, &c.workload, &c.design) == (metric, &asked.name, &design.name));
            if comparison.is_none_or(|c| c.conclusion == Conclusion::Inconclusive) {
                open.push(of(&design.name, control, comparison));
            }
        }
        // Of the control it is said above.
        let ahead = analysis.standings.iter().filter(|s| s.workload == asked.name && s.best != control);
        let others = ahead.flat_map(Standing::open).filter(|c| c.control != control);
        open.extend(others.map(|c| of(&c.design, &c.control, Some(c))));
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
    let open = undecided(experiment, analysis);
    let told = |open: &Undecided| format!("{} against {} under {}", open.design, open.against, open.workload);
    reasons.extend(open.iter().map(told));
    reasons.extend(analysis.results.iter().filter(|result| result.conditioned.open > 0).map(|result| {
        format!("the search of {} under {} was not over within its runtime", result.design, result.workload)
    }));
    if experiment.designs.len() < 2 && session.meta.ending != Ending::Reached {
        reasons.push("intervals are wider than requested".to_owned());
    }
    reasons
}

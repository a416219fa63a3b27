//! Which design is the best under a workload: the designs held against each other, not against the control only.
//!
//! The design that is ahead is held against each of the others at the level of the comparisons with the control. Having chosen it by the
//! data needs no further correction. What is said of a best design is wrong only where the design that is best in truth has a false
//! interval against one of the others. Those are as many as there are others (Gupta 1965; Hsu 1981).

use super::compare::{compared, ratio};
use super::metrics::primary;
use super::{Comparison, Conclusion};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::metric::Metric;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Figures of a design under a workload, by round.
pub(crate) type ByRound = BTreeMap<u32, f64>;

/// The design that is ahead under a workload, against each of the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Name of the workload.
    pub workload: String,
    /// The metric by which it is judged.
    pub metric: Metric,
    /// Name of the design that is ahead.
    pub best: String,
    /// It against each other design that ran, the nearest first.
    pub against: Vec<Comparison>,
}

impl Standing {
    /// The designs that are as good as the one that is ahead.
    pub fn tied(&self) -> impl Iterator<Item = &Comparison> {
        self.against.iter().filter(|other| other.conclusion == Conclusion::NoDifference)
    }

    /// The designs of which it is not known whether they are.
    pub fn open(&self) -> impl Iterator<Item = &Comparison> {
        let known = [Conclusion::NoDifference, Conclusion::Faster];
        self.against.iter().filter(move |other| !known.contains(&other.conclusion))
    }

    /// The nearest design that it is better than.
    pub fn second(&self) -> Option<&Comparison> {
        self.against.iter().find(|other| other.conclusion == Conclusion::Faster)
    }
}

/// Both figures of each round that has them.
pub(crate) fn pairs(one: &ByRound, other: &ByRound) -> Vec<(f64, f64)> {
    one.iter().filter_map(|(round, value)| Some((*value, *other.get(round)?))).collect()
}

/// Which of the designs is ahead by the centre of its rounds' ratios; none where none has figures.
pub(crate) fn ahead(designs: &[&ByRound], metric: Metric) -> Option<usize> {
    let mut ran = (0..designs.len()).filter(|design| !designs[*design].is_empty());
    let first = ran.next()?;
    Some(ran.fold(first, |best, design| {
        let centre = ratio(&pairs(designs[design], designs[best]), 0.5).map_or(1.0, |seen| seen.ratio);
        let better = if metric.lower_is_better() { centre < 1.0 } else { centre > 1.0 };
        if better { design } else { best }
    }))
}

/// How the designs stand under a workload, by the figures of each; nothing where fewer than two ran.
pub(crate) fn standing(experiment: &Experiment, workload: usize, designs: &[&ByRound]) -> Option<Standing> {
    let asked = experiment.workloads.get(workload)?;
    let metric = primary(&experiment.answer, asked);
    let best = ahead(designs, metric)?;
    let against = |other: usize| {
        compared(experiment, [best, other], asked, metric, &pairs(designs[best], designs[other]))
    };
    let mut against: Vec<Comparison> =
        (0..designs.len()).filter(|other| *other != best).filter_map(against).collect();
    against.sort_by(|a, b| a.speedup().total_cmp(&b.speedup()));
    let best = against.first()?.design.clone();
    Some(Standing { workload: asked.name.clone(), metric, best, against })
}

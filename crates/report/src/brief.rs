//! Of a report with many designs what is read: the best, and the control.

use super::model::{Report, ResultView, TrialView};
use std::collections::{BTreeMap, BTreeSet};

/// Up to this many designs are all told of.
const MANY: usize = 12;
/// Of more, so many on a terminal, beside the control.
pub(super) const BEST: usize = 10;
/// Trials of a result that are drawn; of more, those at equal distances.
pub(super) const MOST_TRIALS: usize = 12;

/// Whether so many designs are too many to read about each.
pub(super) fn is_large(designs: usize) -> bool {
    designs > MANY
}

impl Report {
    /// Whether there are too many designs to read about each.
    pub fn is_large(&self) -> bool {
        is_large(self.designs.len())
    }

    /// The designs, the best first: by the mean over the workloads of the logarithm of what each is judged by. Those that lack a
    /// figure come last, in the experiment's order.
    pub(super) fn ranked(&self) -> Vec<usize> {
        let mut sums: Vec<(usize, f64)> = vec![(0, 0.0); self.designs.len()];
        for view in &self.results {
            let metric = self.headline(view.workload);
            let median = view.result.metric(metric).map(|estimate| estimate.median);
            if let (Some(median), Some((known, sum))) =
                (median.filter(|median| *median > 0.0), sums.get_mut(view.design))
            {
                *known += 1;
                *sum += if metric.lower_is_better() { -libm::log(median) } else { libm::log(median) };
            }
        }
        let mut order: Vec<usize> = (0..self.designs.len()).collect();
        // A race has its own order, of those that took part in it.
        let in_race = |design: &usize| {
            let lanes = self.race.as_ref().map(|race| &race.raced.lanes);
            let place = lanes.and_then(|lanes| lanes.iter().position(|lane| lane.design == *design));
            place.unwrap_or(usize::MAX)
        };
        order.sort_by(|a, b| {
            let by_sum = sums[*b].0.cmp(&sums[*a].0).then(sums[*b].1.total_cmp(&sums[*a].1));
            in_race(a).cmp(&in_race(b)).then(by_sum)
        });
        order
    }

    /// The same with nothing but the `best` designs and the control, and of each result no more trials than are drawn.
    pub(super) fn in_brief(&self, best: usize) -> Report {
        let mut designs: BTreeSet<usize> = self.ranked().into_iter().take(best).collect();
        designs.insert(self.control);
        let names: BTreeSet<&str> = designs.iter().map(|design| self.design_name(*design)).collect();
        let kept: Vec<&ResultView> =
            self.results.iter().filter(|view| designs.contains(&view.design)).collect();
        let subjects: BTreeSet<String> = kept
            .iter()
            .map(|view| format!("{} under {}", view.result.design, view.result.workload))
            .collect();
        let (trials, places) = self.drawn(&kept);
        let results = kept.into_iter().map(|view| ResultView {
            median_trial: view.median_trial.and_then(|place| places.get(&place).copied()),
            ..view.clone()
        });
        Report {
            session: self.session.clone(),
            race: self.race.clone(),
            stored: self.stored,
            each_trial: self.each_trial,
            all: self.all,
            experiment: self.experiment.clone(),
            description: self.description.clone(),
            experiment_text: self.experiment_text.clone(),
            ci_level: self.ci_level,
            precision: self.precision,
            indifference: self.indifference,
            rounds: self.rounds,
            answer: self.answer.clone(),
            designs: self.designs.clone(),
            control: self.control,
            workloads: self.workloads.clone(),
            volumes: self.volumes.clone(),
            results: results.collect(),
            comparisons: self
                .comparisons
                .iter()
                .filter(|comparison| names.contains(comparison.design.as_str()))
                .cloned()
                .collect(),
            standings: self.standings.clone(),
            undecided: self.undecided.clone(),
            aa: self.aa.clone(),
            trials,
            warnings: self
                .warnings
                .iter()
                .filter(|warning| warning.subject.as_ref().is_none_or(|subject| subjects.contains(subject)))
                .cloned()
                .collect(),
        }
    }

    /// The trials of these results that are drawn, and where those are in them that were at a place of all.
    fn drawn(&self, views: &[&ResultView]) -> (Vec<TrialView>, BTreeMap<usize, usize>) {
        let mut by_result: BTreeMap<(usize, usize, bool), Vec<usize>> =
            views.iter().map(|view| ((view.design, view.workload, false), Vec::new())).collect();
        by_result.extend(
            views.iter().map(|view| ((view.design, view.workload, true), Vec::new())).collect::<Vec<_>>(),
        );
        for (place, trial) in self.trials.iter().enumerate() {
            let key = (trial.design, trial.workload, trial.control_again);
            if let Some(of_result) = by_result.get_mut(&key) {
                of_result.push(place);
            }
        }
        let mut places: BTreeSet<usize> = views.iter().filter_map(|view| view.median_trial).collect();
        for of_result in by_result.values() {
            let step = of_result.len().div_ceil(MOST_TRIALS).max(1);
            places.extend(of_result.iter().step_by(step));
            places.extend(of_result.iter().filter(|place| self.trials[**place].outcome.is_err()).take(1));
        }
        let trials = places.iter().map(|place| self.trials[*place].clone()).collect();
        (trials, places.into_iter().enumerate().map(|(new, old)| (old, new)).collect())
    }
}

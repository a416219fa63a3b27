//! What the designs of a sweep are called beside one another: what tells them apart, without what they share.

use super::model::Report;
use super::race::RaceView;
use ebbtide_analysis::conditions::DepthRange;
use std::collections::BTreeSet;

/// Designs of a sweep, and the factors in which all of them have the same level.
#[derive(Debug, Clone)]
pub(crate) struct Among<'a> {
    race: &'a RaceView,
    first: Option<usize>,
    /// None for a single design, which shares nothing.
    shared: BTreeSet<usize>,
}

impl RaceView {
    /// What these designs share and what tells them apart.
    pub(crate) fn among(&self, designs: &[usize]) -> Among<'_> {
        let level =
            |design: usize, factor: usize| self.levels.get(&design).and_then(|levels| *levels.get(factor)?);
        let is_shared = |factor: &usize| match designs {
            [] | [_] => false,
            [first, others @ ..] => {
                let first = level(*first, *factor);
                first.is_some() && others.iter().all(|other| level(*other, *factor) == first)
            }
        };
        let shared = (0..self.factors.len()).filter(is_shared).collect();
        Among { race: self, first: designs.first().copied(), shared }
    }
}

impl Among<'_> {
    /// In what all are alike, `chunk=64KiB,filesystem=xfs`; nothing where they share nothing.
    pub(crate) fn shared(&self) -> Option<String> {
        let told = self.levels_of(self.first?, |factor| self.shared.contains(&factor));
        Some(told).filter(|told| !told.is_empty())
    }

    /// In what `design` differs from others, or its short name.
    pub(crate) fn name(&self, design: usize) -> String {
        let own = self.levels_of(design, |factor| !self.shared.contains(&factor));
        if own.is_empty() { self.race.short_name(design).to_owned() } else { own }
    }

    /// The levels of `design` in the factors that are `wanted`.
    fn levels_of(&self, design: usize, wanted: impl Fn(usize) -> bool) -> String {
        let levels = self.race.levels.get(&design).into_iter().flatten().enumerate();
        let told = levels.filter(|(factor, _)| wanted(*factor)).filter_map(|(factor, level)| {
            Some(format!("{}={}", self.race.factors.get(factor)?.name, self.race.level(factor, (*level)?)))
        });
        told.collect::<Vec<_>>().join(",")
    }
}

impl Report {
    /// The load that each design was found to bear under a workload that looks for the most that keeps a latency.
    pub(crate) fn depths_found(&self, labels: &Labels<'_>, workload: usize) -> Option<String> {
        let depths: Vec<(usize, DepthRange)> = self
            .results_of(workload)
            .filter_map(|view| Some((view.design, view.result.conditioned.iodepth?)))
            .collect();
        let goal = depths.first()?.1.goal;
        // Where the latency varies, each has its own.
        let alike = depths.iter().all(|(_, depth)| depth.goal == goal);
        let one = |(design, depth): &(usize, DepthRange)| {
            let DepthRange { goal, median, least, most } = depth;
            let range = if least == most { String::new() } else { format!(" ({least} to {most})") };
            let own = if alike { String::new() } else { format!(", {}", goal.in_words()) };
            format!("{} {median}{range}{own}", labels.name(*design))
        };
        let found: Vec<String> = depths.iter().map(one).collect();
        let (kept, between) = if alike { (goal.in_words(), ", ") } else { ("its latency".to_owned(), "; ") };
        Some(format!("The largest iodepth that keeps {kept}: {}", found.join(between)))
    }
}

/// What the designs that have results in a report are called beside one another.
#[derive(Debug, Clone)]
pub(crate) struct Labels<'a> {
    report: &'a Report,
    among: Option<Among<'a>>,
}

impl Report {
    /// What the designs that have results here are called.
    pub(crate) fn labels(&self) -> Labels<'_> {
        let designs: BTreeSet<usize> = self.results.iter().map(|view| view.design).collect();
        let designs: Vec<usize> = designs.into_iter().collect();
        Labels { report: self, among: self.race.as_ref().map(|race| race.among(&designs)) }
    }
}

impl Labels<'_> {
    /// A design's name; of a sweep what tells it from the others.
    pub(crate) fn name(&self, design: usize) -> String {
        match &self.among {
            Some(among) => among.name(design),
            None => self.report.design_name(design).to_owned(),
        }
    }

    /// In what the designs of a sweep are alike.
    pub(crate) fn alike(&self) -> Option<String> {
        self.among.as_ref()?.shared()
    }
}

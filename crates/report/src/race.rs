//! What a race showed: who won, how sure that is, what it cost, and what mattered. Every view takes its words from here.

use super::words;
use ebbtide_analysis::factors::{Effect, Factors, Term};
use ebbtide_analysis::race::{Gone, Lane, Raced};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::metric::Metric;
use ebbtide_model::sweep::{Factor, Goal, Limit, Objective};
use std::collections::BTreeMap;

/// A race with the names that its designs and factors have.
#[derive(Debug, Clone, PartialEq)]
pub struct RaceView {
    /// What came of it.
    pub raced: Raced,
    /// Factors that change the figure, and by how much.
    pub found: Factors,
    /// Names of the experiment's designs.
    pub designs: Vec<String>,
    /// What the names of the sweep's designs begin with.
    pub template: String,
    /// Factors of the sweep, with their levels.
    pub factors: Vec<Factor>,
    /// By design: its level of each factor, where the factor applies to it.
    pub levels: BTreeMap<usize, Vec<Option<usize>>>,
}

impl RaceView {
    pub(crate) fn new(experiment: &Experiment, raced: &Raced, found: &Factors) -> Option<RaceView> {
        let sweep = experiment.sweep.as_ref()?;
        Some(RaceView {
            raced: raced.clone(),
            found: found.clone(),
            designs: experiment.designs.iter().map(|design| design.name.clone()).collect(),
            template: sweep.template.clone(),
            factors: sweep.factors.clone(),
            levels: sweep.arms.iter().map(|arm| (arm.design, arm.levels.clone())).collect(),
        })
    }

    /// Name of a design.
    pub fn name(&self, design: usize) -> &str {
        self.designs.get(design).map_or("–", String::as_str)
    }

    /// What of a design's name tells it from the others of the sweep.
    pub fn short_name(&self, design: usize) -> &str {
        let name = self.name(design);
        name.strip_prefix(&self.template).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name)
    }

    /// The answer, its certainty and its cost, in sentences.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let raced = &self.raced;
        let (of, by) = (words::count(raced.lanes.len() as u64, "design"), objective_words(&raced.objective));
        let percent = |share: f64| words::level(share);
        let sure = format!("chance that the best was dropped: at most {}", percent(raced.error));
        // Of many their number says enough: the table has their names.
        let names = match raced.left.as_slice() {
            few if few.len() <= words::MOST_NAMES => {
                let names: Vec<String> = few.iter().map(|design| self.name(*design).to_owned()).collect();
                format!(": {}", words::list(&names))
            }
            _ => String::new(),
        };
        let alike =
            self.among(&raced.left).shared().map_or(String::new(), |shared| format!(", all with {shared},"));
        let margin = percent(raced.indifference);
        let front = matches!(raced.objective, Objective::Pareto(_));
        let answer = match (raced.winner(), raced.left.as_slice()) {
            (Some(winner), _) => {
                let own = raced.lanes.iter().find(|lane| lane.design == winner);
                let figures = own.map(|lane| figures(lane).join(", ")).filter(|figures| !figures.is_empty());
                let figures = figures.map_or(String::new(), |figures| format!(", with {figures}"));
                format!("{} is the best of {of} {by}{figures} ({sure}).", self.name(winner))
            }
            (None, []) => format!("None of {of} is left: each breaks a limit or failed ({by}).",),
            (None, left) if front && raced.decided => {
                format!(
                    "{} of {of} are the front {by}, and each is better than the others in something ({sure}){names}.",
                    left.len()
                )
            }
            (None, left) if raced.decided => format!(
                "{} of {of}{alike} are the best {by} and within {margin} of the first of them ({sure}){names}.",
                left.len()
            ),
            (None, left) if front => format!(
                "No winner yet: {} of {of}{alike} are left {by}, and it is not shown that each beats every other in some figure ({sure}){names}.",
                left.len()
            ),
            (None, left) => format!(
                "No winner yet: {} of {of}{alike} are left {by}, the best among them ({sure}); it is not shown that they are \
                 within {margin} of each other{names}.",
                left.len()
            ),
        };
        let whole = words::count(raced.rounds.into(), "round");
        let (nobody, seconds) = (raced.left.is_empty(), words::duration(raced.io_seconds));
        if raced.io_seconds <= 0.0 {
            return vec![if nobody { answer } else { "No round of the race has ended.".to_owned() }];
        }
        if raced.rounds == 0 && !nobody {
            return vec![format!("The first round of the race has not ended: {seconds} of I/O.")];
        }
        let spent = format!("It took {seconds} of I/O in {whole}");
        // Where nobody left before the end, nothing was saved; a round that was broken off is no saving either.
        let saved = raced.lanes.iter().any(|lane| lane.rounds < raced.rounds);
        let cost = match saved {
            false => format!("{spent}."),
            true => format!(
                "{spent}; every design in as many rounds would have taken {} ({} times as much).",
                words::duration(raced.grid_io_seconds),
                words::ratio(raced.grid_io_seconds / raced.io_seconds)
            ),
        };
        vec![answer, cost].into_iter().chain(self.budget_sentence()).collect()
    }

    /// What the share of the full grid that it was allowed came to.
    fn budget_sentence(&self) -> Option<String> {
        let raced = &self.raced;
        let budget = words::level(raced.budget?);
        let full = raced.full_grid_io_seconds;
        let spent = words::level(raced.io_seconds / full.max(f64::MIN_POSITIVE));
        let full = words::duration(full);
        Some(format!(
            "Its budget was {budget} of the full grid, all designs in {}, which would have taken {full}: it used {spent}.",
            words::count(raced.rounds_max.into(), "round"),
        ))
    }

    /// Designs that left, by the round after which they did, the last first: round, how many, and why.
    pub(crate) fn departures(&self) -> Vec<(u32, Vec<(&Lane, Gone)>)> {
        let mut rounds: Vec<(u32, Vec<(&Lane, Gone)>)> = Vec::new();
        for lane in &self.raced.lanes {
            let Some((round, why)) = lane.gone else { continue };
            match rounds.iter_mut().find(|(known, _)| *known == round) {
                Some((_, lanes)) => lanes.push((lane, why)),
                None => rounds.push((round, vec![(lane, why)])),
            }
        }
        rounds.sort_by_key(|(round, _)| std::cmp::Reverse(*round));
        rounds
    }

    pub(crate) fn factor(&self, term: &Term) -> &str {
        self.factors.get(term.factor).map_or("–", |factor| &factor.name)
    }

    pub(crate) fn level(&self, factor: usize, level: usize) -> &str {
        self.factors.get(factor).and_then(|factor| factor.levels.get(level)).map_or("–", String::as_str)
    }

    /// `filesystem: xfs against ext3: +47% [+45%, +49%]`
    pub(crate) fn effect_words(&self, effect: &Effect) -> String {
        let told: Vec<String> = effect
            .terms
            .iter()
            .map(|term| {
                let (level, against) =
                    (self.level(term.factor, term.level), self.level(term.factor, term.against));
                format!("{}: {level} against {against}", self.factor(term))
            })
            .collect();
        let beyond = if effect.terms.len() > 1 { " together, beyond what each does" } else { "" };
        format!("{}{beyond}: {}", told.join(" with "), size_words(effect))
    }
}

/// `+47% [+45%, +49%]`, or that it cannot be told from none.
pub(crate) fn size_words(effect: &Effect) -> String {
    match effect.interval {
        None => format!("{}, too few rounds for an interval", change(effect.ratio)),
        Some((low, high)) => {
            let range = format!("[{}, {}]", change(low), change(high));
            if effect.distinguishable() {
                format!("{} {range}", change(effect.ratio))
            } else {
                format!("not distinguishable from 0 {range}")
            }
        }
    }
}

/// A ratio as a change: `+47%`, `-2.1%`.
pub(crate) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 9.95 { format!("{percent:+.1}%") } else { format!("{percent:+.0}%") }
}

/// Why a design left, in words.
pub(crate) fn why(gone: Gone) -> String {
    match gone {
        Gone::Lost => "beaten".to_owned(),
        Gone::Limit(goal) => format!("breaks the limit of {}", goal_words(goal)),
        Gone::Failed => "failed".to_owned(),
    }
}

/// The figures of a lane with their units.
pub(crate) fn figures(lane: &Lane) -> Vec<String> {
    lane.figures.iter().filter_map(|(goal, value)| Some(goal_value(*goal, (*value)?))).collect()
}

pub(crate) fn goal_value(goal: Goal, value: f64) -> String {
    match goal {
        Goal::Measured(metric @ (Metric::LatP50 | Metric::LatP99)) => {
            format!("{} {}", metric.in_words(), words::value(metric, value))
        }
        Goal::Measured(metric) => words::value(metric, value),
        Goal::Price => format!("${value:.2} a month"),
    }
}

fn goal_words(goal: Goal) -> &'static str {
    match goal {
        Goal::Measured(metric) => metric.in_words(),
        Goal::Price => "price",
    }
}

/// The figure whose factors are told.
pub(crate) fn figure_words(objective: &Objective) -> &'static str {
    objective.goal().map_or("the weighted figures", goal_words)
}

fn limit_words(limit: &Limit) -> String {
    let bound = match limit.of {
        Goal::Measured(metric) => words::value(metric, limit.bound),
        Goal::Price => format!("${}", limit.bound),
    };
    format!(
        "{} {} {bound}",
        goal_words(limit.of),
        if limit.of.lower_is_better() { "at most" } else { "at least" }
    )
}

/// `by operations per second with p99 latency at most 5.00 ms`
pub(crate) fn objective_words(objective: &Objective) -> String {
    match objective {
        Objective::Best(goal) => format!("by {}", goal_words(*goal)),
        Objective::Within { best, limits } => {
            let limits: Vec<String> = limits.iter().map(limit_words).collect();
            format!("by {} with {}", goal_words(*best), words::list(&limits))
        }
        Objective::Weighted(goals) => {
            let goals: Vec<String> = goals
                .iter()
                .map(|(goal, weight)| format!("{} (weight {weight})", goal_words(*goal)))
                .collect();
            format!("by {}", words::list(&goals))
        }
        Objective::Pareto(goals) => {
            let goals: Vec<String> = goals.iter().map(|goal| goal_words(*goal).to_owned()).collect();
            format!("of {}", words::list(&goals))
        }
    }
}

/// What counts, for JSON: the names of files, `iops while lat_p99 <= 5.00 ms`.
pub(crate) fn objective_key(objective: &Objective) -> String {
    let names = |goals: &[Goal]| goals.iter().map(|goal| goal.name()).collect::<Vec<_>>().join(", ");
    match objective {
        Objective::Best(goal) => goal.name().to_owned(),
        Objective::Within { best, limits } => {
            let limit = |limit: &Limit| {
                let sign = if limit.of.lower_is_better() { "<=" } else { ">=" };
                let bound = match limit.of {
                    Goal::Measured(metric) => words::value(metric, limit.bound),
                    Goal::Price => limit.bound.to_string(),
                };
                format!("{} {sign} {bound}", limit.of.name())
            };
            let limits: Vec<String> = limits.iter().map(limit).collect();
            format!("{} while {}", best.name(), limits.join(", "))
        }
        Objective::Weighted(goals) => {
            let goals: Vec<String> =
                goals.iter().map(|(goal, weight)| format!("{}^{weight}", goal.name())).collect();
            goals.join(" * ")
        }
        Objective::Pareto(goals) => format!("pareto {}", names(goals)),
    }
}

//! `[answer]`: how sure the answer must be, and what it may cost.

use super::error::Mistake;
use super::names;
use super::read::{Duration, Fraction, Given, section, valid};
use crate::problems::{Problems, Span};
use ebbtide_model::experiment::{Answer, Design, INDIFFERENCE, least_rounds, least_trials};
use ebbtide_model::metric::Metric;
use ebbtide_model::units::{Nanos, format_number};
use ebbtide_model::workload::Workload;
use std::collections::BTreeSet;

const LEVEL_DEFAULT: f64 = 0.95;
const PRECISION_DEFAULT: f64 = 0.05;
/// An indifference beyond which nobody asks.
const INDIFFERENCE_MOST: f64 = 0.5;
const TRIALS_MAX_DEFAULT: u32 = 30;
/// Rounds beyond which a file is a mistake.
const TRIALS_CAP: u32 = 10_000;
const BUDGET_DEFAULT: Nanos = Nanos::from_secs(600);

section! {
    /// How sure the answer must be, and what it may cost.
    #[schemars(rename = "Answer")]
    "[answer]"
    struct RawAnswer {
        /// The design that the others are compared with [default: the first].
        control: String,
        /// Confidence level of the intervals, from 0.5 to 0.999 [default: 0.95].
        level: Fraction,
        /// Half-width of the median's interval relative to the median that is narrow enough [default: 5%].
        precision: Fraction,
        /// Difference up to which two designs are as good as each other: only beyond it one is called faster [default: 2%].
        indifference: Fraction,
        /// Least rounds [default: the least in which all comparisons can be told together at this level: at 0.95 6 for one, 8
        /// for four].
        trials_min: u32,
        /// Most rounds [default: 30, or trials_min if that is more].
        trials_max: u32,
        /// Time after which no new round starts [default: 10m; on the simulator, whose time is virtual, none].
        budget: Duration,
        /// Pause between trials [default: 0s].
        rest: Duration,
        /// What decides under every workload: "throughput", "iops", "p50" or "p99" of latency [default: bytes per second
        /// for sequential, operations per second for random access, p99 where arrivals or a rate are given].
        metric: String,
    }
}

/// Checks the answer wanted of so many comparisons.
pub(super) fn resolve(
    raw: &Given<RawAnswer>,
    comparisons: usize,
    workloads: &[Workload],
    problems: &mut Problems,
) -> Answer {
    let default = RawAnswer::default();
    let raw = valid(raw).map_or(&default, |(raw, _)| raw);
    let level = within("level", &raw.level, LEVEL_DEFAULT, 0.5..=0.999, problems);
    let precision = within("precision", &raw.precision, PRECISION_DEFAULT, 0.001..=0.5, problems);
    let indifference =
        within("indifference", &raw.indifference, INDIFFERENCE, 0.0..=INDIFFERENCE_MOST, problems);
    let least = least_trials(level);
    let enough = least_rounds(level, comparisons);
    let most = valid(&raw.trials_max).map_or(u32::MAX, |(trials, _)| *trials);
    let trials_min = valid(&raw.trials_min).map_or(enough.min(most).max(least), |(trials, _)| *trials);
    if let Some((trials, span)) = valid(&raw.trials_min)
        && *trials < least
    {
        let range = format!("at least {least}: fewer trials have no interval at a level of {level}");
        let remedy = format!("write `trials_min = {least}`, or a lower `level`");
        problems.out_of_range(span, "trials_min", trials, range, remedy);
    }
    let trials_max = valid(&raw.trials_max).map_or(TRIALS_MAX_DEFAULT.max(trials_min), |(trials, _)| *trials);
    for (key, given) in [("trials_min", &raw.trials_min), ("trials_max", &raw.trials_max)] {
        if let Some((trials, span)) = valid(given)
            && *trials > TRIALS_CAP
        {
            let remedy = format!("write `{key} = 100` or fewer: time is bounded by `budget`");
            problems.out_of_range(span, key, trials, format!("at most {TRIALS_CAP}"), remedy);
        }
    }
    if let Some((_, span)) = valid(&raw.trials_max)
        && trials_max < trials_min
    {
        let range = format!("at least trials_min, {trials_min}");
        let remedy = format!("write `trials_max = {}`", trials_min.max(least));
        problems.out_of_range(span, "trials_max", trials_max, range, remedy);
    }
    let budget = valid(&raw.budget).map_or(BUDGET_DEFAULT, |(budget, _)| *budget);
    if let Some((Nanos(0), span)) = valid(&raw.budget) {
        problems.out_of_range(span, "budget", "0", "more than 0", "write for example `budget = \"10m\"`");
    }
    let rest = valid(&raw.rest).map_or(Nanos(0), |(rest, _)| *rest);
    let metric = valid(&raw.metric).and_then(|(name, span)| metric(name, span, workloads, problems));
    let budget_asked = valid(&raw.budget).is_some();
    Answer { level, precision, indifference, trials_min, trials_max, budget, budget_asked, rest, metric }
}

/// The metric of that name; latencies also without what JSON has before their percentile.
pub(super) fn metric_called(name: &str) -> Option<Metric> {
    Metric::ALL.into_iter().find(|metric| metric.is_called(name))
}

/// The same; reports a name that no metric has.
fn metric(name: &str, span: &Span, workloads: &[Workload], problems: &mut Problems) -> Option<Metric> {
    let found = workloads.iter().find_map(|workload| Metric::called(name, workload));
    let found = found.or_else(|| metric_called(name));
    if found.is_none() {
        let known: BTreeSet<&str> = workloads.iter().flat_map(Metric::of).map(Metric::short).collect();
        let remedy = names::choose(name, &known.into_iter().collect::<Vec<_>>());
        problems.report(span, Mistake::UnknownChoice { what: "metric", found: name.to_owned() }, remedy);
    }
    found
}

/// Index of the control among the designs; `all` are their names, those of wrong designs included.
pub(super) fn control(
    raw: &Given<RawAnswer>,
    designs: &[Design],
    (all, by_default): (&[&str], usize),
    problems: &mut Problems,
) -> usize {
    let Some((name, span)) = named_control(raw) else { return by_default };
    if !all.contains(&name.as_str()) {
        let remedy = names::choose(name, all);
        problems.report(span, Mistake::UnknownName { what: "design", name: name.clone() }, remedy);
    }
    designs.iter().position(|design| design.name == *name).unwrap_or(0)
}

/// The design that is named as the control, and where.
pub(super) fn named_control(raw: &Given<RawAnswer>) -> Option<(&String, &Span)> {
    valid(raw).and_then(|(raw, _)| valid(&raw.control))
}

/// The fraction that is given, where it is in `range`.
pub(super) fn within(
    key: &'static str,
    given: &Given<Fraction>,
    default: f64,
    range: std::ops::RangeInclusive<f64>,
    problems: &mut Problems,
) -> f64 {
    let Some((Fraction(value), span)) = valid(given) else { return default };
    if range.contains(value) {
        return *value;
    }
    let range = format!("from {} to {}", range.start(), range.end());
    let remedy = format!("write for example `{key} = {default}`");
    problems.out_of_range(span, key, format_number(*value), range, remedy);
    default
}

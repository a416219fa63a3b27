//! The answer in one or two sentences: how much faster, how sure.

use super::model::Report;
use super::words;
use crate::analysis::{Comparison, Conclusion, Metric};

/// How much a ratio of `metric` speeds things up: latencies count the other way round.
fn speedup(comparison: &Comparison) -> f64 {
    if comparison.metric.lower_is_better() { 1.0 / comparison.ratio } else { comparison.ratio }
}

/// The answer to `report`, most important sentence first; never empty.
pub(crate) fn sentences(report: &Report) -> Vec<String> {
    let headline: Vec<&Comparison> =
        report.comparisons.iter().filter(|c| c.metric == headline_of(report, &c.workload)).collect();
    let mut sentences = match best(&headline) {
        Some(first) => compared(report, &headline, first),
        None => alone(report),
    };
    if report.aa.iter().any(|aa| aa.same == Some(false) && aa.metric == headline_of(report, &aa.workload)) {
        sentences.push(
            "This machine could not tell the control from itself, so do not rely on small differences."
                .to_owned(),
        );
    }
    sentences
}

fn headline_of(report: &Report, workload: &str) -> Metric {
    report.workloads.iter().find(|w| w.name == workload).map_or(Metric::Throughput, |w| w.headline)
}

/// The comparison that the answer begins with: of the design with the largest mean gain, its largest ratio.
fn best<'a>(comparisons: &[&'a Comparison]) -> Option<&'a Comparison> {
    let mean_gain = |design: &str| -> f64 {
        let gains: Vec<f64> =
            comparisons.iter().filter(|c| c.design == design).map(|c| libm::log(speedup(c))).collect();
        gains.iter().sum::<f64>() / gains.len().max(1) as f64
    };
    let design =
        comparisons.iter().map(|c| c.design.as_str()).max_by(|a, b| mean_gain(a).total_cmp(&mean_gain(b)))?;
    let decided = |c: &Comparison| matches!(c.conclusion, Conclusion::Faster | Conclusion::Slower);
    comparisons
        .iter()
        .copied()
        .filter(|c| c.design == design)
        .max_by(|a, b| decided(a).cmp(&decided(b)).then(speedup(a).total_cmp(&speedup(b))))
}

fn compared(report: &Report, all: &[&Comparison], first: &Comparison) -> Vec<String> {
    let verb = report
        .workloads
        .iter()
        .find(|w| w.name == first.workload)
        .map_or_else(|| format!("runs {}", first.workload), |w| w.verb.clone());
    let sure = sureness(first);
    let mut sentences = vec![match first.conclusion {
        Conclusion::Faster | Conclusion::Slower => format!(
            "{} {verb} {} times as fast as {} ({sure}).",
            first.design,
            words::ratio(speedup(first)),
            first.control
        ),
        Conclusion::NoDifference => format!(
            "{} {verb} as fast as {}: ratio {} ({sure}).",
            first.design,
            first.control,
            words::ratio(speedup(first))
        ),
        Conclusion::Inconclusive => format!(
            "No difference between {} and {} is shown yet: {} {verb} {} times as fast ({sure}).",
            first.design,
            first.control,
            first.design,
            words::ratio(speedup(first))
        ),
    }];
    let others: Vec<&&Comparison> =
        all.iter().filter(|c| c.design == first.design && c.workload != first.workload).collect();
    if !others.is_empty() {
        sentences.push(others_sentence(report, &others));
    }
    sentences
}

/// One sentence about the other workloads of the same design.
fn others_sentence(report: &Report, others: &[&&Comparison]) -> String {
    let told: Vec<String> = others
        .iter()
        .map(|c| {
            let verb = report.workloads.iter().find(|w| w.name == c.workload).map(|w| w.verb.as_str());
            let ratio = words::ratio(speedup(c));
            let doubt = match c.conclusion {
                Conclusion::Faster | Conclusion::Slower => "",
                Conclusion::NoDifference => " (no difference)",
                Conclusion::Inconclusive => " (no difference shown yet)",
            };
            format!("{} {ratio} times as fast{doubt}", verb.unwrap_or(&c.workload))
        })
        .collect();
    match told.as_slice() {
        [] => String::new(),
        [one] => format!("It {one}."),
        [first @ .., last] if first.len() <= 3 => format!("It {} and {last}.", first.join(", ")),
        _ => {
            let gains: Vec<f64> = others.iter().map(|c| speedup(c)).collect();
            let low = gains.iter().copied().fold(f64::INFINITY, f64::min);
            let high = gains.iter().copied().fold(0.0, f64::max);
            format!(
                "Under the other {} workloads it is {} to {} times as fast.",
                others.len(),
                words::ratio(low),
                words::ratio(high)
            )
        }
    }
}

/// `95% interval 7.82 to 8.01, 7 rounds`.
fn sureness(comparison: &Comparison) -> String {
    let rounds = words::count(comparison.rounds.into(), "round");
    match comparison.interval {
        Some((low, high)) => {
            let (low, high) =
                if comparison.metric.lower_is_better() { (1.0 / high, 1.0 / low) } else { (low, high) };
            format!(
                "{} interval {} to {}, {rounds}",
                words::level(comparison.ci_level),
                words::ratio(low),
                words::ratio(high)
            )
        }
        None => format!("{rounds}, too few for an interval"),
    }
}

/// Nothing to compare: what the first design does, or that there is nothing.
fn alone(report: &Report) -> Vec<String> {
    let told: Vec<String> = report
        .results
        .iter()
        .filter_map(|view| {
            let metric = view.result.primary;
            let estimate = view.result.metric(metric)?;
            let verb = report.workloads.get(view.workload)?.verb.as_str();
            let trials = words::count(estimate.trials.into(), "trial");
            let interval = match estimate.interval {
                Some((low, high)) => format!(
                    "{} interval {}, {trials}",
                    words::level(estimate.ci_level),
                    words::join_range(&words::value(metric, low), &words::value(metric, high), " to ")
                ),
                None => format!("{trials}, too few for an interval"),
            };
            Some(format!(
                "{} {verb} at {} ({interval}).",
                view.result.design,
                words::value(metric, estimate.median)
            ))
        })
        .take(2)
        .collect();
    if told.is_empty() { vec!["No trial has finished, so there is no answer.".to_owned()] } else { told }
}

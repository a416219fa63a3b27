//! The answer in one or two sentences: how much faster, how sure.

use super::model::Report;
use super::words;
use crate::analysis::{Comparison, Conclusion, Metric};

/// A gain that is larger by less than this factor is not worth telling before one of an earlier workload.
const CLEARLY: f64 = 1.02;
/// Up to this many workloads are told one by one.
const MOST_CLAUSES: usize = 3;

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
    let mut best: Option<&Comparison> = None;
    for &comparison in comparisons.iter().filter(|c| c.design == design) {
        let beats = best.is_none_or(|b| {
            decided(comparison) && !decided(b)
                || decided(comparison) == decided(b) && speedup(comparison) > speedup(b) * CLEARLY
        });
        if beats {
            best = Some(comparison);
        }
    }
    best
}

fn compared(report: &Report, all: &[&Comparison], first: &Comparison) -> Vec<String> {
    let verb = verb(report, &first.workload);
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
    let others: Vec<&Comparison> =
        all.iter().copied().filter(|c| c.design == first.design && c.workload != first.workload).collect();
    sentences.extend(others_sentences(report, first, &others));
    sentences
}

/// What a design does under the workload; with the workload's name where others do the same.
fn verb(report: &Report, workload: &str) -> String {
    let Some(this) = report.workloads.iter().find(|w| w.name == workload) else {
        return format!("runs {workload}");
    };
    let alike = report.workloads.iter().filter(|w| w.verb == this.verb).count();
    if alike > 1 { format!("{} ({workload})", this.verb) } else { this.verb.clone() }
}

/// The other workloads of the same design: what was decided, where there is no difference, what stays open.
fn others_sentences(report: &Report, first: &Comparison, others: &[&Comparison]) -> Vec<String> {
    let verb = |c: &Comparison| verb(report, &c.workload);
    let with = |wanted: &[Conclusion]| -> Vec<&Comparison> {
        others.iter().copied().filter(|c| wanted.contains(&c.conclusion)).collect()
    };
    let ranges = |comparisons: &[&Comparison]| {
        let told: Vec<String> = comparisons.iter().map(|c| range(c)).collect();
        match told.as_slice() {
            [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|range| range == first) => {
                format!("{first} each")
            }
            _ => told.join(" and "),
        }
    };
    let decided = with(&[Conclusion::Faster, Conclusion::Slower]);
    let same = with(&[Conclusion::NoDifference]);
    let open = with(&[Conclusion::Inconclusive]);
    let mut sentences = Vec::new();
    match decided.as_slice() {
        [] => {}
        few if few.len() <= MOST_CLAUSES => {
            let told: Vec<String> = few
                .iter()
                .map(|c| format!("{} {} times as fast", verb(c), words::ratio(speedup(c))))
                .collect();
            sentences.push(format!("It {}.", words::list(&told)));
        }
        many => {
            let gains = || many.iter().map(|c| speedup(c));
            sentences.push(format!(
                "Under {} other workloads it is {} to {} times as fast.",
                many.len(),
                words::ratio(gains().fold(f64::INFINITY, f64::min)),
                words::ratio(gains().fold(0.0, f64::max))
            ));
        }
    }
    if !same.is_empty() {
        let told: Vec<String> = same.iter().map(|c| verb(c)).collect();
        let also = if same.len() <= MOST_CLAUSES { format!(" ({})", ranges(&same)) } else { String::new() };
        sentences.push(format!("It {} as fast as {}{also}.", words::list(&told), first.control));
    }
    if !open.is_empty() {
        let told: Vec<String> = open.iter().map(|c| c.workload.clone()).collect();
        let also = if open.len() <= MOST_CLAUSES { format!(" ({})", ranges(&open)) } else { String::new() };
        sentences.push(format!("No difference is shown yet for {}{also}.", words::list(&told)));
    }
    sentences
}

/// The interval of the speedup, `0.98 to 1.00`.
fn range(comparison: &Comparison) -> String {
    match comparison.interval {
        Some((low, high)) => {
            let (low, high) =
                if comparison.metric.lower_is_better() { (1.0 / high, 1.0 / low) } else { (low, high) };
            format!("{} to {}", words::ratio(low), words::ratio(high))
        }
        None => "too few rounds".to_owned(),
    }
}

/// `95% interval 7.82 to 8.01, 7 rounds`.
fn sureness(comparison: &Comparison) -> String {
    let rounds = words::count(comparison.rounds.into(), "round");
    if comparison.interval.is_none() {
        return format!("{rounds}, too few for an interval");
    }
    format!("{} interval {}, {rounds}", words::level(comparison.ci_level), range(comparison))
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

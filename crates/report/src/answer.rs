//! The answer in one or two sentences: how much faster, how sure.

use super::model::Report;
use super::why::figure;
use super::words;
use ebbtide_analysis::compare::least_rounds;
use ebbtide_analysis::{Comparison, Conclusion, VerdictKind};
use ebbtide_model::metric::Metric;

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
    if let Some(race) = &report.race {
        return race.sentences();
    }
    let headline: Vec<&Comparison> =
        report.comparisons.iter().filter(|c| c.metric == headline_of(report, &c.workload)).collect();
    let mut sentences = match best(&headline) {
        Some(first) => compared(report, &headline, first),
        None => alone(report),
    };
    let several = report.workloads.len() > 1;
    let differing = report.headline_aa().filter(|aa| aa.same == Some(false));
    let told: Vec<String> = differing
        .map(|aa| {
            let under = if several { format!("under {}: ", aa.workload) } else { String::new() };
            format!("{under}{}", range(aa.interval))
        })
        .collect();
    if !told.is_empty() {
        sentences.push(format!(
            "This machine could not tell the control from itself ({}), so do not rely on small differences.",
            told.join(", ")
        ));
    }
    sentences
}

/// What takes from a comparison that it tells of the volumes, or that it can be relied on; it belongs beside the figure.
fn caveats(report: &Report, first: &Comparison) -> String {
    let mut caveats = String::new();
    let cached = |design: &str| {
        report.results.iter().any(|view| {
            view.result.design == design
                && report.workloads.get(view.workload).is_some_and(|w| w.name == first.workload)
                && view.result.verdicts.first().is_some_and(|verdict| verdict.kind == VerdictKind::Cache)
        })
    };
    let cached: Vec<&str> =
        [first.design.as_str(), first.control.as_str()].into_iter().filter(|design| cached(design)).collect();
    if !cached.is_empty() {
        let of = cached.join(" and ");
        caveats.push_str(&format!(
            "; a cache answered for {of} there, so that this is not the speed of the volumes"
        ));
    }
    let differs = report.headline_aa().any(|aa| aa.same == Some(false) && aa.workload == first.workload);
    if differs {
        caveats.push_str(&format!("; there this machine cannot tell {} from itself", first.control));
    }
    caveats
}

/// Other designs that are decidedly better than that of the first sentence under a workload: the best of each.
fn better_elsewhere(report: &Report, all: &[&Comparison], first: &Comparison) -> Option<String> {
    let decided = |c: &&&Comparison| matches!(c.conclusion, Conclusion::Faster | Conclusion::Slower);
    let best = report.workloads.iter().filter_map(|workload| {
        let here = || all.iter().filter(|c| c.workload == workload.name);
        let own = here().find(|c| c.design == first.design)?;
        let others = here().filter(|c| c.design != first.design).filter(decided);
        let best = others.max_by(|a, b| speedup(a).total_cmp(&speedup(b)))?;
        (speedup(best) > 1.0 && speedup(best) > speedup(own) * CLEARLY).then_some(*best)
    });
    let told: Vec<String> = best
        .map(|c| {
            let (verb, caveat) = (verb(report, &c.workload), caveats(report, c));
            format!("{} {verb} {} ({}{caveat})", c.design, times(c, false), range(c.interval))
        })
        .collect();
    match told.as_slice() {
        [] => None,
        few if few.len() <= MOST_CLAUSES => Some(format!("More than that: {}.", few.join("; "))),
        many => Some(format!(
            "Under {} workloads another design has a larger ratio than {} (see the table).",
            many.len(),
            first.design
        )),
    }
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
    let open = caveats(report, first) + &open_elsewhere(report, first);
    let (design, control) = (&first.design, &first.control);
    let mut sentences = vec![match first.conclusion {
        Conclusion::Faster | Conclusion::Slower => {
            format!("{design} {verb} {} {control} ({sure}){open}.", times(first, true))
        }
        Conclusion::NoDifference => {
            let (ratio, bound) = (words::ratio(first.ratio), words::bound([first]));
            format!(
                "{design} {verb} {} {control} to within {bound}: ratio {ratio} ({sure}){open}.",
                as_well(first.metric)
            )
        }
        Conclusion::Inconclusive | Conclusion::NotJudged => format!(
            "No difference between {design} and {control} is shown yet: {design} {verb} {} ({sure}){open}.",
            times(first, false)
        ),
    }];
    if first.conclusion == Conclusion::Inconclusive {
        sentences.extend(decided_elsewhere(report, all, first));
    }
    let others: Vec<&Comparison> =
        all.iter().copied().filter(|c| c.design == first.design && c.workload != first.workload).collect();
    // A rate and a latency are not told in one breath: a ratio above 1 is good of the one and bad of the other.
    for latencies in [false, true] {
        let of_kind = |c: &&Comparison| c.metric.lower_is_better() == latencies;
        let others: Vec<&Comparison> = others.iter().copied().filter(of_kind).collect();
        sentences.extend(others_sentences(report, first, &others));
    }
    if first.conclusion != Conclusion::Inconclusive {
        sentences.extend(better_elsewhere(report, all, first));
    }
    sentences
}

/// `2.00 times as fast`, `with 0.50 times the p99 latency`: always the ratio of the table; with `than` the control's name
/// can follow.
fn times(comparison: &Comparison, than: bool) -> String {
    let ratio = words::ratio(comparison.ratio);
    match (comparison.metric.lower_is_better(), than) {
        (false, true) => format!("{ratio} times as fast as"),
        (false, false) => format!("{ratio} times as fast"),
        (true, true) => format!("with {ratio} times the {} of", comparison.metric.in_words()),
        (true, false) => format!("with {ratio} times the {}", comparison.metric.in_words()),
    }
}

/// What goes before the control's name where there is no difference.
fn as_well(metric: Metric) -> String {
    if metric.lower_is_better() {
        format!("with the {} of", metric.in_words())
    } else {
        "as fast as".to_owned()
    }
}

/// What is decided of the other designs, where nothing is of the first.
fn decided_elsewhere(report: &Report, all: &[&Comparison], first: &Comparison) -> Option<String> {
    let decided = |c: &&Comparison| {
        c.design != first.design && matches!(c.conclusion, Conclusion::Faster | Conclusion::Slower)
    };
    let decided: Vec<&Comparison> = all.iter().copied().filter(decided).collect();
    let told = |c: &Comparison| {
        format!("{} {} {} {}", c.design, verb(report, &c.workload), times(c, true), c.control)
    };
    match decided.as_slice() {
        [] => None,
        few if few.len() <= MOST_CLAUSES => {
            let told: Vec<String> =
                few.iter().map(|c| format!("{} ({})", told(c), range(c.interval))).collect();
            Some(format!("Decided: {}.", words::list(&told)))
        }
        many => Some(format!("{} comparisons of other designs are decided (see the table).", many.len())),
    }
}

/// What is not decided of the other designs: it belongs to the first sentence, because it is why the answer is no whole
/// one.
fn open_elsewhere(report: &Report, first: &Comparison) -> String {
    let open: Vec<_> = report.undecided.iter().filter(|open| open.design != first.design).collect();
    let several = report.workloads.len() > 1;
    match open.as_slice() {
        [] => String::new(),
        few if few.len() <= MOST_CLAUSES => {
            let told: Vec<String> = few
                .iter()
                .map(|open| {
                    let under = if several { format!(" under {}", open.workload) } else { String::new() };
                    format!("{}{under} ({})", open.design, range(open.interval))
                })
                .collect();
            format!("; not decided: {}", words::list(&told))
        }
        many => {
            let mut designs: Vec<String> = many.iter().map(|open| open.design.clone()).collect();
            designs.sort();
            designs.dedup();
            format!("; {} comparisons, of {}, are undecided", many.len(), words::list(&designs))
        }
    }
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
        let told: Vec<String> = comparisons.iter().map(|c| range(c.interval)).collect();
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
            let told: Vec<String> = few.iter().map(|c| format!("{} {}", verb(c), times(c, false))).collect();
            sentences.push(format!("It {}.", words::list(&told)));
        }
        many => {
            let ratios = || many.iter().map(|c| c.ratio);
            let (least, most) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
            let (least, most) = (words::ratio(least), words::ratio(most));
            sentences.push(match many.first().map(|c| c.metric).filter(|metric| metric.lower_is_better()) {
                Some(metric) => format!(
                    "Under {} other workloads it has {least} to {most} times the {}.",
                    many.len(),
                    metric.in_words()
                ),
                None => {
                    format!("Under {} other workloads it is {least} to {most} times as fast.", many.len())
                }
            });
        }
    }
    if !same.is_empty() {
        let told: Vec<String> = same.iter().map(|c| verb(c)).collect();
        let also = if same.len() <= MOST_CLAUSES { format!(" ({})", ranges(&same)) } else { String::new() };
        let (as_well, bound) = (as_well(same[0].metric), words::bound(same.iter().copied()));
        sentences.push(format!(
            "It {} {as_well} {} to within {bound}{also}.",
            words::list(&told),
            first.control
        ));
    }
    if !open.is_empty() {
        let told: Vec<String> = open.iter().map(|c| c.workload.clone()).collect();
        let what = match open[0].metric {
            metric if metric.lower_is_better() => format!("{} ", metric.in_words()),
            _ => String::new(),
        };
        let also =
            if open.len() <= MOST_CLAUSES { format!(" ({what}{})", ranges(&open)) } else { String::new() };
        sentences.push(format!("No difference is shown yet for {}{also}.", words::list(&told)));
    }
    sentences
}

/// The interval of a ratio, as in the table: `0.98 to 1.00`.
fn range(interval: Option<(f64, f64)>) -> String {
    match interval {
        Some((low, high)) => format!("{} to {}", words::ratio(low), words::ratio(high)),
        None => "too few rounds".to_owned(),
    }
}

/// `simultaneous 95% interval 7.82 to 8.01, 8 rounds`.
fn sureness(comparison: &Comparison) -> String {
    let rounds = words::count(comparison.rounds.into(), "round");
    let level = words::level(comparison.ci_level);
    if comparison.interval.is_none() {
        let needed = least_rounds(comparison.ci_level, comparison.family);
        return match needed.filter(|_| comparison.family > 1) {
            Some(needed) => {
                format!(
                    "{rounds}, too few: {} together take {needed} at {level}",
                    words::comparisons(comparison.family)
                )
            }
            None => format!("{rounds}, too few for an interval"),
        };
    }
    let together = if comparison.family > 1 { "simultaneous " } else { "" };
    format!("{together}{level} interval {}, {rounds}", range(comparison.interval))
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
            let at = match metric {
                Metric::Iops | Metric::Throughput => "at",
                Metric::LatP50 => "with a median latency of",
                Metric::LatP99 => "with a p99 latency of",
            };
            let value = figure(&view.result, metric, estimate.median);
            Some(format!("{} {verb} {at} {value} ({interval}).", view.result.design))
        })
        .take(2)
        .collect();
    if told.is_empty() { vec!["No trial has finished, so there is no answer.".to_owned()] } else { told }
}

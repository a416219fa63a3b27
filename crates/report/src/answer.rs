//! The answer: for each workload the best design and by how much, or that it is not decided and what would decide it.

use super::model::Report;
use super::why::figure;
use super::words;
use ebbtide_analysis::compare::{Margins, Ratio, least_rounds};
use ebbtide_analysis::{Comparison, Conclusion, Standing, VerdictKind};
use ebbtide_model::metric::Metric;

/// Up to this many workloads are told one by one.
const MOST_WORKLOADS: usize = 6;
/// Beyond so many rounds it is not said how many would decide.
const MOST_ROUNDS: f64 = 1000.0;

/// What a forecast of time is multiplied by to be a budget that does not end the rounds.
const BUDGET_SLACK: f64 = 1.25;

/// The answer to `report`, most important sentence first; never empty.
pub(crate) fn sentences(report: &Report) -> Vec<String> {
    if let Some(race) = &report.race {
        return race.sentences();
    }
    if report.standings.is_empty() {
        return alone(report);
    }
    let mut sentences: Vec<String> = together(report).into_iter().collect();
    // The first interval that is told says what it is.
    let first = report.standings.iter().position(|s| s.against.iter().any(|c| c.interval.is_some()));
    for (index, standing) in report.standings.iter().take(MOST_WORKLOADS).enumerate() {
        sentences.extend(of_workload(report, standing, Some(index) == first));
    }
    let more = report.standings.len().saturating_sub(MOST_WORKLOADS);
    if more > 0 {
        sentences.push(format!("The tables have the other {}.", words::count(more as u64, "workload")));
    }
    sentences.extend(report.standings.iter().filter_map(|standing| cached(report, standing)));
    let unlike: Vec<String> = report
        .headline_aa()
        .filter(|aa| aa.same == Some(false))
        .map(|aa| format!("{}{}", under(report, &aa.workload), range(aa.interval)))
        .collect();
    if !unlike.is_empty() {
        sentences.push(format!(
            "This machine could not tell the control from itself ({}), so do not rely on small differences.",
            unlike.join(", ")
        ));
    }
    sentences
}

/// The designs than which none is known to be better, in the experiment's order.
fn first_ones<'a>(report: &'a Report, standing: &Standing) -> Vec<&'a str> {
    let beaten = |name: &str| {
        let mut others = standing.against.iter();
        name != standing.best
            && others.find(|c| c.control == name).is_none_or(|c| c.conclusion == Conclusion::Faster)
    };
    report.designs.iter().map(|design| design.name.as_str()).filter(|name| !beaten(name)).collect()
}

fn is_decided(standing: &Standing) -> bool {
    standing.open().next().is_none()
}

/// The comparison by which the design that is ahead beats the control.
fn gain_over_control<'a>(report: &Report, standing: &'a Standing) -> Option<&'a Comparison> {
    let control = report.design_name(report.control);
    standing.against.iter().find(|c| c.control == control && c.conclusion == Conclusion::Faster)
}

/// What holds under all workloads, where there are several.
fn together(report: &Report) -> Option<String> {
    let number = report.standings.len();
    if number < 2 {
        return None;
    }
    let all = if number == 2 { "both workloads".to_owned() } else { format!("all {number} workloads") };
    let decided = report.standings.iter().filter(|standing| is_decided(standing)).count();
    if decided < number {
        return Some(format!("Which design is the best is decided under {decided} of {number} workloads."));
    }
    let mut best = first_ones(report, report.standings.first()?);
    for standing in &report.standings {
        let here = first_ones(report, standing);
        best.retain(|name| here.contains(name));
    }
    if best.is_empty() {
        return Some(format!("No design is the best under {all}."));
    }
    if best.len() == report.designs.len() {
        return Some(format!("The {} designs tie under {all}.", report.designs.len()));
    }
    let ties = report.standings.iter().any(|standing| standing.tied().next().is_some());
    let how = match (best.as_slice(), ties) {
        ([one], true) => format!("{one} is the best, or ties for it, under {all}"),
        ([one], false) => format!("{one} is the best under {all}"),
        (several, _) => format!("{} tie for the best under {all}", names(several)),
    };
    let gains = report.comparisons.iter().filter(|c| {
        best.contains(&c.design.as_str()) && c.conclusion == Conclusion::Faster && !c.metric.lower_is_better()
    });
    let most = gains.max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    Some(format!("{how}{}.", most.map_or_else(String::new, |c| format!(", up to {}", times(c)))))
}

/// The sentences about a workload; with `first` they say what their first interval is.
fn of_workload(report: &Report, standing: &Standing, first: bool) -> Vec<String> {
    let under = under(report, &standing.workload);
    let told = told(standing, report, first);
    if is_decided(standing) {
        return vec![format!("{under}{told}.")];
    }
    let candidates = first_ones(report, standing);
    let beats_control = gain_over_control(report, standing).is_some();
    let mut sentences = vec![match candidates.as_slice() {
        [one, other] => {
            let told =
                |c: &Comparison| c.interval.map(|_| format!("{} {}", ratio_of(c.metric), sureness(c, first)));
            let told = standing.open().find_map(told).unwrap_or_else(|| "too few rounds".to_owned());
            format!("{under}not decided between {one} and {other} ({told}).")
        }
        several => format!("{under}not decided; the best is one of {}.", names(several)),
    }];
    if beats_control {
        sentences.push(format!("{under}{told}."));
    }
    sentences.extend(remedy(report, standing).map(|remedy| format!("{under}{remedy}.")));
    sentences
}

/// What is known of the design that is ahead: against the control, and against the one that comes next.
fn told(standing: &Standing, report: &Report, first: bool) -> String {
    let control = report.design_name(report.control);
    let best = first_ones(report, standing);
    let tied: Vec<&Comparison> = standing.tied().collect();
    let second = standing.second();
    let open = !is_decided(standing);
    // Where it is open who is best, only the distance to the control is told.
    let next = second.filter(|c| c.control != control && !open);
    let compared = |c: &Comparison, first: bool| format!("{} ({})", times(c), sureness(c, first));
    let gain = match gain_over_control(report, standing) {
        Some(c) => std::iter::once(compared(c, first)).chain(next.map(|c| compared(c, false))).collect(),
        None => second.map(|c| compared(c, first)).into_iter().collect::<Vec<_>>(),
    };
    let gain = gain.join(", ");
    let is_control = if standing.best == control { ", the control," } else { "" };
    match (tied.as_slice(), second) {
        _ if open => format!("{}, ahead so far, is {gain}", standing.best),
        ([], _) => format!("{}{is_control} is the best: {gain}", standing.best),
        ([one], None) => {
            let (bound, ratio) = (words::bound([*one]), ratio_of(one.metric));
            format!("{} tie: they differ by at most {bound} ({ratio} {})", names(&best), sureness(one, first))
        }
        (_, None) => {
            let bound = words::bound(tied.iter().copied());
            format!("the {} designs tie: they differ by at most {bound} from {}", best.len(), standing.best)
        }
        (_, Some(_)) => {
            let bound = words::bound(tied.iter().copied());
            format!("{} tie for the best within {bound}: {gain}", names(&best))
        }
    }
}

/// That a cache answered for a design that is among the best, or for the control.
fn cached(report: &Report, standing: &Standing) -> Option<String> {
    let named = first_ones(report, standing);
    let control = report.design_name(report.control);
    let cached = report.results.iter().filter(|view| {
        let design = view.result.design.as_str();
        view.result.workload == standing.workload
            && (design == control || named.contains(&design))
            && view.result.verdicts.first().is_some_and(|verdict| verdict.kind == VerdictKind::Cache)
    });
    let cached: Vec<&str> = cached.map(|view| view.result.design.as_str()).collect();
    let under = under(report, &standing.workload);
    (!cached.is_empty()).then(|| {
        format!("{under}a cache answered for {}: this is not the speed of the volumes.", names(&cached))
    })
}

/// What would decide between the designs that are open.
fn remedy(report: &Report, standing: &Standing) -> Option<String> {
    if report.session.is_once() {
        return None;
    }
    let margins = Margins::new(report.indifference, report.precision);
    let needed = standing.open().map(|c| {
        let seen = Ratio { ratio: c.ratio, interval: c.interval, rounds: c.rounds, correlation: None };
        let least = least_rounds(c.ci_level, c.family).unwrap_or_default() as f64;
        margins.rounds_to_tell(&seen).unwrap_or(0.0).max(least)
    });
    let needed = needed.fold(0.0, f64::max);
    if needed > MOST_ROUNDS {
        return Some(format!("more than {MOST_ROUNDS} rounds would be needed to tell"));
    }
    let rounds = (needed.ceil() as u64).max(u64::from(report.rounds) + 1);
    // Whichever of them ends it: all three stand there.
    let time = report.time_of_a_round().map(|each| (each * rounds as f64 * BUDGET_SLACK).ceil().max(1.0));
    let budget = time.map_or_else(String::new, |seconds| format!(", budget = \"{seconds}s\""));
    Some(format!("about {rounds} rounds would tell: trials_min = {rounds}, trials_max = {rounds}{budget}"))
}

/// The workload, where there are several.
fn under(report: &Report, workload: &str) -> String {
    if report.workloads.len() > 1 { format!("{workload}: ") } else { String::new() }
}

/// `a, b and c`, or how many they are.
fn names(names: &[&str]) -> String {
    if names.len() > words::MOST_NAMES {
        return format!("{} designs", names.len());
    }
    words::list(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
}

/// `2.00 times as fast as one`, `0.50 times the p99 latency of one`.
fn times(comparison: &Comparison) -> String {
    let (ratio, other) = (words::ratio(comparison.ratio), &comparison.control);
    if comparison.metric.lower_is_better() {
        format!("{ratio} times the {} of {other}", comparison.metric.in_words())
    } else {
        format!("{ratio} times as fast as {other}")
    }
}

/// What is compared.
fn ratio_of(metric: Metric) -> String {
    if metric.lower_is_better() { format!("ratio of {}", metric.in_words()) } else { "ratio".to_owned() }
}

/// The interval of a ratio, as in the table: `0.98 to 1.00`.
fn range(interval: Option<(f64, f64)>) -> String {
    match interval {
        Some((low, high)) => format!("{} to {}", words::ratio(low), words::ratio(high)),
        None => "too few rounds".to_owned(),
    }
}

/// The interval of a comparison, at its first place with its level: `95% interval 7.82 to 8.01`.
fn sureness(comparison: &Comparison, first: bool) -> String {
    let interval = range(comparison.interval);
    if first && comparison.interval.is_some() {
        format!("{} interval {interval}", words::level(comparison.ci_level))
    } else {
        interval
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
            let under = under(report, &report.workloads.get(view.workload)?.name);
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
                Metric::Iops | Metric::Throughput => "reaches".to_owned(),
                Metric::Own(figure) if figure.definition().name == figure.definition().unit => {
                    "reaches".to_owned()
                }
                Metric::Time => "takes".to_owned(),
                metric => format!("has a {} of", metric.in_words()),
            };
            let value = figure(&view.result, metric, estimate.median);
            Some(format!("{under}{} {at} {value} ({interval}).", view.result.design))
        })
        .take(2)
        .collect();
    if told.is_empty() { vec!["No trial has finished, so there is no answer.".to_owned()] } else { told }
}

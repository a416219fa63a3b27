//! Which designs and workloads of two sides are set against each other, and what is asked of them.

use super::measured::Measured;
use super::model::{BesideRow, ComparedSession};
use ebbtide_analysis::between::{Answered, Question, Trials};
use ebbtide_analysis::primary;
use ebbtide_model::metric::Metric;

/// A design under a workload of the first side and that of another that is set against it.
pub(super) struct Match<'a> {
    /// Index of the other side.
    pub(super) side: usize,
    /// What the first and the other measured.
    pub(super) both: [&'a Measured; 2],
}

/// Names of a side: of the design and the workload of something measured.
pub(super) fn names<'a>(side: &ComparedSession<'a>, measured: &Measured) -> (&'a str, &'a str) {
    let experiment = &side.session.experiment;
    (&experiment.designs[measured.design].name, &experiment.workloads[measured.workload].name)
}

/// What of the first side is matched with what of side `side`: designs of one name, or the only ones of both; workloads of one name, or
/// of one of `tables`, in which names are taken for the same work.
pub(super) fn matches<'a>(
    sides: &[ComparedSession<'_>],
    measured: &'a [Vec<Measured>],
    side: usize,
    tables: &[Vec<String>],
) -> Vec<Match<'a>> {
    let (first, other) = (&sides[0], &sides[side]);
    let only = |list: &[Measured]| list.iter().all(|m| m.design == list[0].design);
    let single =
        !measured[0].is_empty() && !measured[side].is_empty() && only(&measured[0]) && only(&measured[side]);
    let asked = |name: &str| tables.is_empty() || tables.iter().flatten().any(|n| n == name);
    let matched = |m: &&'a Measured| {
        let (design, workload) = names(first, m);
        let of_design = || {
            measured[side]
                .iter()
                .map(|o| (o, names(other, o)))
                .filter(move |(_, (d, _))| single || *d == design)
        };
        let same = of_design().find(|(_, (_, w))| *w == workload);
        let called_same = || {
            let group = tables.iter().find(|names| names.iter().any(|n| n == workload))?;
            of_design().find(|(_, (_, w))| group.iter().any(|n| n == w))
        };
        let found = same.or_else(called_same).map(|(o, _)| o)?;
        Some(Match { side, both: [*m, found] })
    };
    let wanted = measured[0].iter().filter(|m| asked(names(first, m).1));
    let mut all: Vec<Match<'a>> = wanted.filter_map(|m| matched(&m)).collect();
    all.sort_by_key(|m| (m.both[0].workload, m.both[0].design));
    all
}

/// The metrics that count for a workload of the first side: what was asked for, or its headline and the 99th percentile of latency.
pub(super) fn metrics(first: &ComparedSession<'_>, workload: usize, asked: &[Metric]) -> Vec<Metric> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let experiment = &first.session.experiment;
    let headline = primary(&experiment.answer, &experiment.workloads[workload]);
    let mut metrics = vec![headline];
    metrics.extend((headline != Metric::LatP99).then_some(Metric::LatP99));
    metrics
}

/// The question that a match asks by `metric`, and the row that is to hold the answer; none where neither side knows the metric.
/// Designs of the same session ran in the same rounds and are paired by them; sessions are not.
pub(super) fn ask(
    sides: &[ComparedSession<'_>],
    found: &Match<'_>,
    metric: Metric,
    level: f64,
) -> Option<(BesideRow, Question)> {
    let [a, b] = found.both;
    let values = [a.values(metric), b.values(metric)];
    if values.iter().all(Vec::is_empty) {
        return None;
    }
    let paired = sides[0].session.meta.id == sides[found.side].session.meta.id;
    let trials = if paired {
        let others = b.rounds(metric);
        let pair = |(round, one)| others.iter().find(|(r, _)| *r == round).map(|(_, other)| (one, *other));
        Trials::Paired(a.rounds(metric).into_iter().filter_map(pair).collect())
    } else {
        Trials::Apart(values[0].clone(), values[1].clone())
    };
    let (designs, workloads) = {
        let (first, other) = (names(&sides[0], a), names(&sides[found.side], b));
        ([first.0, other.0].map(str::to_owned), [first.1, other.1].map(str::to_owned))
    };
    let row = BesideRow {
        side: found.side,
        designs,
        workloads,
        metric,
        estimates: [a.estimate(metric, level), b.estimate(metric, level)],
        values,
        failed: [a.failed, b.failed],
        paired,
        // Until it is answered.
        answered: Answered::nothing(0.0),
    };
    Some((row, Question { metric, trials, source: found.side }))
}

/// Designs and workloads of one side that the other lacks, as sentences.
pub(super) fn unmatched(
    sides: &[ComparedSession<'_>],
    measured: &[Vec<Measured>],
    side: usize,
    found: &[Match<'_>],
    tables: &[Vec<String>],
) -> Vec<(usize, Vec<String>)> {
    let asked = |name: &str| tables.is_empty() || tables.iter().flatten().any(|n| n == name);
    let left = |index: usize, position: usize| {
        let taken = |m: &Measured| found.iter().any(|f| std::ptr::eq(f.both[position], m));
        let rest = measured[index].iter().filter(|m| !taken(m)).map(|m| names(&sides[index], m));
        let rest: Vec<String> = rest
            .filter(|(_, w)| asked(w))
            .map(|(design, workload)| format!("{design} under {workload}"))
            .collect();
        (index, rest)
    };
    [left(0, 0), left(side, 1)].into_iter().filter(|(_, rest)| !rest.is_empty()).collect()
}

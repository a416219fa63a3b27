//! The comparison in sentences.

use super::model::{Beside, BesideRow, NOT_PAIRED, letter};
use crate::words;
use ebbtide_analysis::Conclusion;
use ebbtide_analysis::between::Gate;

/// A share without the zero that nobody asked for: `5%`, `4.8%`.
pub(crate) fn percent(share: f64) -> String {
    words::percent(share).replace(".0%", "%")
}

/// So many rows are named one by one.
const MOST_NAMED: usize = 4;

/// Whether there is a regression, where, and what else is known.
pub(super) fn sentences(beside: &Beside) -> Vec<String> {
    let threshold = percent(beside.bounds.threshold);
    let of = |gate: Gate| beside.rows.iter().filter(|row| row.answered.gate == gate).collect::<Vec<_>>();
    let (regressions, undecided) = (of(Gate::Regression), of(Gate::Undecided));
    let all = beside.rows.len();
    if all == 0 {
        return vec![
            "Nothing was compared: no design and workload of one name is in two of these sessions. `--workload NAME,NAME` takes \
             workloads of other names for the same work, SESSION:DESIGN names a design."
                .to_owned(),
        ];
    }
    let mut sentences = Vec::new();
    if !regressions.is_empty() {
        sentences.push(format!(
            "Worse than {} by more than {threshold} in {} of {}: {}.",
            letter(0),
            regressions.len(),
            words::count(all as u64, "comparison"),
            named(&regressions)
        ));
    }
    if !undecided.is_empty() {
        let begin = if regressions.is_empty() { "Not decided: " } else { "Not decided beside that: " };
        sentences.push(format!(
            "{begin}{} of {} may hide a regression of more than {threshold}: {}.",
            undecided.len(),
            words::count(all as u64, "comparison"),
            named(&undecided)
        ));
    }
    if sentences.is_empty() {
        let which =
            if all == 1 { "the one comparison".to_owned() } else { format!("any of {all} comparisons") };
        sentences.push(format!("No regression of more than {threshold} in {which}."));
    }
    if let Some(trials) = enough(beside) {
        sentences.push(format!(
            "About {trials} rounds in each session would narrow the widest of these intervals to that; `--metric` and `--workload` ask less."
        ));
    }
    let faster: Vec<&BesideRow> =
        beside.rows.iter().filter(|row| row.answered.conclusion == Conclusion::Faster).collect();
    if !faster.is_empty() {
        sentences.push(format!("Better: {}.", named(&faster)));
    }
    sentences
}

/// `single under randread: IOPS 0.80 times (0.79–0.81)`, several with semicolons.
fn named(rows: &[&BesideRow]) -> String {
    let one = |row: &&BesideRow| format!("{}: {} {}", subject(row), row.metric.in_words(), times(row));
    let mut told: Vec<String> = rows.iter().take(MOST_NAMED).map(one).collect();
    if rows.len() > MOST_NAMED {
        told.push(format!("and {} more", rows.len() - MOST_NAMED));
    }
    told.join("; ")
}

/// The designs and workloads of a row: `B single under randread`.
fn subject(row: &BesideRow) -> String {
    format!("{} {} under {}", letter(row.side), row.designs[1], row.workloads[1])
}

/// `0.80 times (0.79–0.81)`, or why there is no interval.
fn times(row: &BesideRow) -> String {
    match (row.answered.ratio, row.answered.interval) {
        (Some(ratio), Some(interval)) => {
            format!("{} times ({})", words::ratio(ratio), words::ratio_range(interval))
        }
        (Some(ratio), None) => format!("{} times (too few trials)", words::ratio(ratio)),
        (None, _) => "not measured in both".to_owned(),
    }
}

/// What a row allows to say.
pub(crate) fn conclusion(beside: &Beside, row: &BesideRow) -> String {
    let answered = &row.answered;
    match (answered.conclusion, answered.gate) {
        (_, Gate::Regression) => "slower, a regression".to_owned(),
        (Conclusion::Faster, _) => "faster".to_owned(),
        (Conclusion::Slower, Gate::Pass) => format!("slower, within {}", percent(beside.bounds.threshold)),
        (Conclusion::Slower, _) => "slower, a regression?".to_owned(),
        (Conclusion::NoDifference, _) => answered
            .bound()
            .map_or_else(|| "as fast".to_owned(), |bound| format!("as fast, within {}", percent(bound))),
        (Conclusion::Inconclusive | Conclusion::NotJudged, Gate::Pass) => "no regression".to_owned(),
        (_, _) if answered.ratio.is_none() => "not in both".to_owned(),
        (_, _) if answered.interval.is_none() => "too few trials".to_owned(),
        (Conclusion::Inconclusive | Conclusion::NotJudged, _) => "inconclusive".to_owned(),
    }
}

/// Trials in each session with which the widest undecided interval would reach no farther than the threshold: a width shrinks with the
/// square root of their number.
fn enough(beside: &Beside) -> Option<u64> {
    let undecided = beside.rows.iter().filter(|row| row.answered.gate == Gate::Undecided);
    let needed = |row: &BesideRow| {
        let (low, high) = row.answered.interval?;
        let ratio = row.answered.ratio?;
        let reach = (ratio / low).max(high / ratio).ln() / (1.0 + beside.bounds.threshold).ln();
        let trials = row.values.iter().map(Vec::len).min()? as f64;
        let enough = (trials * reach * reach).ceil();
        (enough.is_finite() && enough > trials).then_some(enough as u64)
    };
    undecided.filter_map(needed).max()
}

/// The difference that would have shown.
pub(crate) fn detectable(row: &BesideRow) -> String {
    row.answered.detectable.map_or_else(|| "none".to_owned(), percent)
}

/// What only one of two sessions has; `side` is the other one.
pub(super) fn unmatched(side: usize, left: &[(usize, Vec<String>)]) -> Vec<String> {
    left.iter()
        .map(|(index, rest)| {
            let than = letter(if *index == 0 { side } else { 0 });
            let some: Vec<String> = rest.iter().take(MOST_NAMED).cloned().collect();
            let more = rest.len() - some.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("Not compared, in {} but not in {than}: {}{more}.", letter(*index), some.join(", "))
        })
        .collect()
}

/// Rows that are not what they seem: designs of other names, trials that failed.
pub(super) fn of_rows(beside: &Beside) -> Vec<String> {
    let rows = &beside.rows;
    let mut remarks = Vec::new();
    for row in rows.iter().filter(|row| row.designs[0] != row.designs[1]) {
        let remark = format!(
            "Designs of other names: {} of {} is set against {} of {}.",
            row.designs[1],
            letter(row.side),
            row.designs[0],
            letter(0)
        );
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    for (row, session, failed) in rows
        .iter()
        .flat_map(|row| [(row, 0, row.failed[0]), (row, 1, row.failed[1])])
        .filter(|(.., failed)| *failed > 0)
    {
        let (name, design, workload) =
            (letter(if session == 0 { 0 } else { row.side }), &row.designs[session], &row.workloads[session]);
        let trials = words::count(failed as u64, "trial");
        let remark =
            format!("{trials} of {name} failed: {design} under {workload}; the figures rest on the others.");
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    remarks
}

/// What the figures mean and how sure they are.
pub(super) fn method(beside: &Beside) -> Vec<String> {
    let (rows, bounds) = (&beside.rows, &beside.bounds);
    let mut remarks = Vec::new();
    if rows.is_empty() {
        return remarks;
    }
    let together = match rows.len() {
        1 => "A regression, faster and slower are each".to_owned(),
        many => {
            format!("Of these {many} comparisons together (Holm), a regression, faster or slower is anywhere")
        }
    };
    remarks.push(format!(
        "{together} wrong in at most {} of such reports; each interval is one of {} by itself. Within {} nothing is called faster or \
         slower. \"Would show\": the difference that these trials would have shown in 80 of 100 such reports.",
        percent(1.0 - bounds.level),
        words::level(bounds.level),
        percent(bounds.indifference)
    ));
    let correlated = rows.iter().map(|row| row.answered.correlation).fold(0.0, f64::max);
    if correlated > 0.0 {
        remarks.push(format!(
            "Neighbouring trials depend on each other (correlation up to {correlated:.2}): intervals are wider for it."
        ));
    }
    if rows.iter().any(|row| row.answered.interval.is_some() && row.answered.detectable.is_none()) {
        remarks.push(format!(
            "Where `would show` says none, there are too few trials for {}: ask about fewer (`--workload`, `--metric`), or run more rounds.",
            words::count(rows.len() as u64, "comparison")
        ));
    }
    if rows.iter().any(|row| !row.paired) {
        remarks.push(NOT_PAIRED.to_owned());
    }
    remarks
}

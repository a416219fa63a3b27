//! Sessions beside one another, as tables.

use super::table::{Cell, Table};
use super::{LEAST_WIDTH, Page, bare};
use crate::beside::{Beside, BesideRow, BesideSession, conclusion, detectable, letter};
use crate::words;
use ebbtide_analysis::between::Gate;
use ebbtide_analysis::{Conclusion, Estimate};
use ebbtide_model::civil::Civil;
use ebbtide_model::metric::Metric;
use ebbtide_model::shown::{Paint, Styled, one_line};

/// So many differences are told; all are in JSON and HTML.
const MOST_DIFFERENCES: usize = 12;

/// The comparison for a terminal of `width` columns, with colours when `color`. Lines end in `\n`.
pub fn beside(beside: &Beside, width: usize, color: bool) -> Styled {
    let mut page = Page { lines: Vec::new(), width: width.max(LEAST_WIDTH), color };
    for (index, sentence) in beside.answer.iter().enumerate() {
        page.prose(sentence, 0, if index == 0 { Paint::Strong } else { Paint::Plain });
    }
    page.blank();
    for (index, session) in beside.sessions.iter().enumerate() {
        page.prose(&format!("{}  {}", letter(index), which(session)), 3, Paint::Plain);
    }
    for rows in by_workload(beside) {
        page.beside_rows(beside, rows);
    }
    page.differs(beside);
    if !beside.remarks.is_empty() {
        page.blank();
    }
    for remark in &beside.remarks {
        page.prose(remark, 2, Paint::Plain);
    }
    Styled::lines(&page.lines)
}

impl Page {
    fn beside_rows(&mut self, beside: &Beside, rows: &[BesideRow]) {
        let Some(Work { name, more, each, differ }) = work(beside, rows) else { return };
        self.heading(&name, &more);
        each.iter().for_each(|each| self.prose(&format!("  {each}"), 5, Paint::Faint));
        if let Some(differ) = differ {
            self.prose(&format!("  {differ}"), 4, Paint::Caution);
        }
        let tables = [true, false].map(|intervals| laid_out(beside, rows, intervals));
        let Some(fitting) = tables.iter().find(|t| t.fits(self.width)).or(tables.last()) else { return };
        self.lines.extend(fitting.lines(self.width, self.color));
    }

    fn differs(&mut self, beside: &Beside) {
        if beside.differs.is_empty() {
            return;
        }
        self.heading("What differs", "");
        for differs in beside.differs.iter().take(MOST_DIFFERENCES) {
            let value = |(index, value): (usize, &Option<String>)| {
                format!("{} {}", letter(index), value.as_deref().map_or("–".into(), one_line))
            };
            let values: Vec<String> = differs.values.iter().enumerate().map(value).collect();
            self.prose(&format!("  {}: {}", differs.what, values.join("; ")), 4, Paint::Plain);
        }
        let more = beside.differs.len().saturating_sub(MOST_DIFFERENCES);
        if more > 0 {
            self.prose(&format!("  and {more} more (`--json`, `-o FILE.html`)"), 4, Paint::Faint);
        }
    }
}

/// Rows stand by session, then by workload: those of each.
pub(crate) fn by_workload(beside: &Beside) -> impl Iterator<Item = &[BesideRow]> {
    beside.rows.chunk_by(|a, b| (a.side, &a.workloads) == (b.side, &b.workloads))
}

/// A session in words.
pub(crate) fn which(session: &BesideSession) -> String {
    let on = words::backend(session.backend);
    let host = if session.hostname.is_empty() { String::new() } else { format!(", {}", session.hostname) };
    let when = Civil::from_unix(session.started_unix);
    let design = session.design.as_ref().map_or(String::new(), |design| format!(", {design} only"));
    format!("{}: {}{design}, {on}, {when}{host}", session.id, session.experiment)
}

/// What is said above the rows of a workload.
pub(crate) struct Work {
    /// Its name, and what it does, in how many trials.
    pub(crate) name: String,
    pub(crate) more: String,
    /// What it does on each side, where that differs.
    pub(crate) each: Vec<String>,
    /// That it is not the same work.
    pub(crate) differ: Option<String>,
}

/// What is said above `rows`.
pub(crate) fn work(beside: &Beside, rows: &[BesideRow]) -> Option<Work> {
    let first = rows.first()?;
    let [one, other] = &first.workloads;
    let (a, b) = (letter(0), letter(first.side));
    let name = if one == other { one.clone() } else { format!("{one} of {a}, {other} of {b}") };
    let table = beside.tables.iter().find(|t| t.workloads.iter().any(|(s, n, _)| *s == 0 && n == one));
    let summary_of = |session: usize, name: &String| {
        let workload = table?.workloads.iter().find(|(s, n, _)| *s == session && n == name);
        workload.map(|(_, _, summary)| summary.as_str())
    };
    let (summary, of_other) = (summary_of(0, one), summary_of(first.side, other));
    let versus = if beside.sessions.len() > 2 { format!("{b} against {a}; ") } else { String::new() };
    let trials = same_trials(rows).map_or(String::new(), |[one, other]| match one == other {
        true => format!("; {} each", words::count(one as u64, "trial")),
        false => format!("; {one} and {other} trials"),
    });
    // What only one of them does is said of none.
    let (more, each) = match (summary, of_other.filter(|other| Some(*other) != summary)) {
        (Some(summary), Some(of_other)) => (
            format!("{versus}{}", trials.trim_start_matches("; ")).trim_end_matches("; ").to_owned(),
            vec![format!("{a}  {summary}"), format!("{b}  {of_other}")],
        ),
        _ => (format!("{versus}{}{trials}", summary.unwrap_or_default()), Vec::new()),
    };
    let differences = table.map(|t| &t.differences).filter(|d| !d.is_empty() && one != other);
    let differ = differences.map(|d| format!("not the same work, they differ in: {}", d.join(", ")));
    Some(Work { name, more, each, differ })
}

/// The rows as cells; `intervals` says those of the medians.
pub(crate) fn laid_out(beside: &Beside, rows: &[BesideRow], intervals: bool) -> Table {
    let (a, b) = (&letter(0), &letter(rows.first().map_or(1, |first| first.side)));
    let mut header = ["design", "metric", a, b, &format!("{b} / {a}"), "p", "conclusion", "would show"]
        .map(str::to_owned)
        .to_vec();
    let each = same_trials(rows).is_none();
    header.extend(each.then(|| "trials".to_owned()));
    let row = |row: &BesideRow| {
        let design =
            if row.designs[0] == row.designs[1] { row.designs[0].clone() } else { row.designs.join(", ") };
        let median = |side: usize| figure(row.metric, row.estimates[side].as_ref(), intervals);
        let mut cells = vec![
            Cell::plain(&design),
            Cell::plain(short(row.metric)),
            Cell::plain(&median(0)),
            Cell::plain(&median(1)),
            Cell::new(&ratio(row), paint(row)),
            Cell::plain(&chance(row)),
            Cell::new(&conclusion(beside, row), paint(row)),
            Cell::plain(&detectable(row)),
        ];
        cells.extend(each.then(|| Cell::plain(&format!("{}, {}", row.values[0].len(), row.values[1].len()))));
        cells
    };
    Table { header, rows: rows.iter().map(row).collect() }
}

/// Trials of the first and of the other, where all rows have as many.
fn same_trials(rows: &[BesideRow]) -> Option<[usize; 2]> {
    let trials = |row: &BesideRow| [row.values[0].len(), row.values[1].len()];
    let first = trials(rows.first()?);
    rows.iter().all(|row| trials(row) == first).then_some(first)
}

fn short(metric: Metric) -> &'static str {
    if metric == Metric::Iops { "IOPS" } else { metric.short() }
}

/// `7.90 k (7.86–7.95 k)`.
fn figure(metric: Metric, estimate: Option<&Estimate>, interval: bool) -> String {
    let Some(estimate) = estimate else { return "–".to_owned() };
    let median = bare(metric, &words::value(metric, estimate.median));
    match estimate.interval {
        Some((low, high)) if interval => {
            format!("{median} ({})", bare(metric, &words::range(metric, low, high)))
        }
        _ => median,
    }
}

/// `0.80 (0.79–0.81)`.
fn ratio(row: &BesideRow) -> String {
    match (row.answered.ratio, row.answered.interval) {
        (Some(ratio), Some(interval)) => {
            format!("{} ({})", words::ratio(ratio), words::ratio_range(interval))
        }
        (Some(ratio), None) => words::ratio(ratio),
        (None, _) => "–".to_owned(),
    }
}

fn chance(row: &BesideRow) -> String {
    match row.answered.p {
        p if p < 0.001 => "<0.001".to_owned(),
        p => format!("{p:.3}"),
    }
}

fn paint(row: &BesideRow) -> Paint {
    match (row.answered.gate, row.answered.conclusion) {
        (Gate::Regression, _) | (_, Conclusion::Slower) => Paint::Bad,
        (Gate::Undecided, _) => Paint::Caution,
        (_, Conclusion::Faster) => Paint::Good,
        _ => Paint::Plain,
    }
}

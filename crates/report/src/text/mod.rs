//! The report as text for a terminal: the answer, a table for each workload, what limits each design, how far to
//! trust it.

mod below;
mod beside;
mod hosts;
mod latency;
pub(crate) mod race;
mod seen;
mod single;
mod steps;
mod table;
mod trials;
mod wrap;

pub use beside::beside;
pub(crate) use beside::{by_workload, laid_out, which, work};
pub use single::{Single, single, workload_words};
pub use steps::{ProfileStep, steps};

use super::brief::BEST;
use super::designs::{self, DesignTable};
use super::model::{Report, ResultView};
use super::names::Labels;
use super::why::figure;
use super::words;
use ebbtide_analysis::{Comparison, Conclusion, Estimate};
use ebbtide_model::metric::Metric;
use ebbtide_model::session::Ending;
use ebbtide_model::shown::{Paint, Styled, one_line, width};
pub(crate) use table::{Cell, Table};
use wrap::{paragraph, wrap};

/// Narrower than this nothing is laid out.
const LEAST_WIDTH: usize = 40;
/// Wider lines are harder to read than to wrap.
const WIDEST_PROSE: usize = 100;
/// Up to this many members are drawn one by one.
const MOST_BARS: usize = 16;

/// The report for a terminal of `width` columns, with colours when `color`. Lines end in `\n`.
pub fn text(report: &Report, width: usize, color: bool) -> Styled {
    let mut page = Page { lines: Vec::new(), width: width.max(LEAST_WIDTH), color };
    let brief = (report.is_large() && !report.all).then(|| report.in_brief(BEST));
    let told = brief.as_ref().unwrap_or(report);
    let labels = told.labels();
    page.head(report);
    page.race(report);
    page.designs(told, &labels);
    for workload in 0..told.workloads.len() {
        page.workload(told, &labels, workload);
    }
    if brief.is_some() {
        page.more(report, told);
    }
    page.latencies(told, &labels);
    page.hosts(told, &labels);
    if report.each_trial {
        page.trials(report);
    }
    page.limits(told, &labels);
    page.aa(report, &labels);
    page.below(told, &labels);
    page.seen(told, &labels);
    page.warnings(told);
    page.notes(told);
    page.foot(report);
    Styled::lines(&page.lines)
}

struct Page {
    lines: Vec<Styled>,
    width: usize,
    color: bool,
}

impl Page {
    fn blank(&mut self) {
        self.lines.push(Styled::default());
    }

    /// A paragraph; lines after the first begin with `indent` spaces.
    fn prose(&mut self, text: &str, indent: usize, paint: Paint) {
        let lead = text.len() - text.trim_start_matches(' ').len();
        let (blanks, columns) = (" ".repeat(lead), self.width.min(WIDEST_PROSE));
        let style = (paint, self.color);
        self.lines.extend(paragraph(text, &blanks, indent.saturating_sub(lead), columns, style));
    }

    fn heading(&mut self, name: &str, more: &str) {
        self.blank();
        let (name, more) = (one_line(name), one_line(more));
        let indent = 2;
        let text = if more.is_empty() { name.to_string() } else { format!("{name}: {more}") };
        for (index, line) in wrap(&text, self.width.min(WIDEST_PROSE), indent).iter().enumerate() {
            let line = match line.strip_prefix(&*name) {
                Some(rest) if index == 0 => {
                    Paint::Strong.apply(&name, self.color).then(&Paint::Faint.apply(rest, self.color))
                }
                _ => Paint::Faint.apply(line, self.color),
            };
            self.lines.push(line);
        }
    }

    fn head(&mut self, report: &Report) {
        for (index, sentence) in report.answer.iter().enumerate() {
            self.prose(sentence, 0, if index == 0 { Paint::Strong } else { Paint::Plain });
        }
    }

    /// The designs beside one another; with intervals, and what limits them, where those fit: the tables of the workloads have both.
    fn designs(&mut self, report: &Report, labels: &Labels) {
        let Some(designs) = report.design_table() else { return };
        let tables = [(true, 0), (false, 0), (false, 1)]
            .map(|(intervals, without)| designs_beside(report, labels, &designs, intervals, without));
        let Some(table) = tables.iter().find(|t| t.fits(self.width)).or(tables.last()) else { return };
        self.heading("Designs", "");
        self.lines.extend(table.lines(self.width, self.color));
    }

    fn workload(&mut self, report: &Report, labels: &Labels, workload: usize) {
        let views: Vec<&ResultView> = report.results_of(workload).collect();
        let Some(facts) = report.workloads.get(workload) else { return };
        if views.is_empty() {
            return;
        }
        self.heading(&facts.name, &facts.summary);
        if let Some(alike) = labels.alike() {
            self.prose(&format!("  each with {alike}:"), 4, Paint::Faint);
        }
        let variants = [(true, true), (true, false), (false, true), (false, false)];
        let tables = variants
            .map(|(latencies, long)| table_of(report, labels, &views, facts.headline, (latencies, long)));
        let Some(table) = tables.iter().find(|t| t.fits(self.width)).or(tables.last()) else { return };
        self.lines.extend(table.lines(self.width, self.color));
        if let Some(found) = report.depths_found(labels, workload) {
            self.prose(&format!("  {found}"), 4, Paint::Plain);
        }
    }

    /// That there are more designs than `told` of, and how to see them.
    fn more(&mut self, report: &Report, told: &Report) {
        let shown = |report: &Report| {
            report.results.iter().map(|view| view.design).collect::<std::collections::BTreeSet<_>>().len()
        };
        let (told, all) = (shown(told), shown(report));
        if told >= all {
            return;
        }
        let over = if report.workloads.len() > 1 { ", by the mean over the workloads," } else { "" };
        let warned = report.warnings.iter().filter(|warning| warning.subject.is_some()).count();
        let warned = match warned {
            0 => String::new(),
            n => format!(" ({} in all)", words::count(n as u64, "warning")),
        };
        self.blank();
        self.prose(
            &format!(
                "The {BEST} best of {all} designs{over} and the control, here and below; {} more{warned}:",
                all - told
            ),
            2,
            Paint::Plain,
        );
        let command = if report.stored {
            format!("  ebb show {} --all", one_line(&report.session.id))
        } else {
            "  -o FILE keeps them in a report".to_owned()
        };
        self.prose(&command, 4, Paint::Faint);
    }

    fn limits(&mut self, report: &Report, labels: &Labels) {
        if report.results.iter().all(|view| view.result.verdicts.is_empty()) {
            return;
        }
        self.heading("What limits them", "");
        for (verdict, views) in report.limits() {
            let subjects = limited(report, labels, &views);
            self.prose(
                &format!("  {}: {}: {}", subjects, verdict.limited_by(), verdict.sentence),
                4,
                Paint::Plain,
            );
        }
    }

    fn aa(&mut self, report: &Report, labels: &Labels) {
        let told: Vec<String> = report
            .headline_aa()
            .map(|aa| {
                let too_few = || "too few rounds for an interval".to_owned();
                let interval = aa.interval.map_or_else(too_few, words::ratio_range);
                let mark = match aa.same {
                    Some(false) => ", differs",
                    None if aa.interval.is_some() => ", cannot tell",
                    _ => "",
                };
                format!("{} {} ({interval}{mark})", aa.workload, words::ratio(aa.ratio))
            })
            .collect();
        if told.is_empty() {
            return;
        }
        self.blank();
        self.prose(
            &format!(
                "A/A ({} against itself, should be 1 within {}): {}",
                labels.name(report.control),
                words::percent(report.indifference),
                told.join(", ")
            ),
            2,
            Paint::Plain,
        );
    }

    fn warnings(&mut self, report: &Report) {
        if report.warnings.is_empty() {
            return;
        }
        self.heading("Warnings", "");
        for (advice, warnings) in report.warnings_once() {
            for warning in &warnings {
                self.prose(&format!("  ! {}{}", warning.of(), warning.message), 4, Paint::Caution);
            }
            if let Some(advice) = advice {
                self.prose(&format!("    {advice}"), 4, Paint::Plain);
            }
        }
    }

    /// What the backend wants to be known of the session, and of its trials.
    fn notes(&mut self, report: &Report) {
        let notes = &report.session.inventory.notes;
        let of_trials = report.trial_notes();
        if notes.is_empty() && of_trials.is_empty() {
            return;
        }
        self.heading("Notes", "");
        notes.iter().for_each(|note| self.prose(&format!("  {note}"), 4, Paint::Plain));
        for (note, subjects) in of_trials {
            self.prose(&format!("  {}: {note}", subjects.join("; ")), 4, Paint::Plain);
        }
    }

    fn foot(&mut self, report: &Report) {
        self.blank();
        let failed = matches!(report.session.ending, Ending::Failed(_));
        let good = !failed && (report.session.is_once() || report.session.ending == Ending::Reached);
        let paint = if good { Paint::Plain } else { Paint::Caution };
        self.prose(&foot(report), 0, paint);
        if !report.stored {
            self.prose("  This session was not stored; use -o FILE to keep its report.", 4, Paint::Faint);
            return;
        }
        let id = one_line(&report.session.id);
        for (command, gives) in
            [("-o report.html", "charts"), ("--json", "all figures"), ("--format csv", "every trial")]
        {
            self.prose(&format!("  ebb show {id} {command}: {gives}"), 4, Paint::Faint);
        }
    }
}

/// The designs beside one another, `without` the last columns of facts.
pub(crate) fn designs_beside(
    report: &Report,
    labels: &Labels,
    designs: &DesignTable<'_>,
    intervals: bool,
    without: usize,
) -> Table {
    let facts = designs.facts.len() - without;
    let workloads = report.workloads.iter().map(|workload| match workload.headline {
        metric @ (Metric::LatP50 | Metric::LatP99) => format!("{}, {}", workload.name, metric.short()),
        _ => workload.name.clone(),
    });
    let header = std::iter::once("design".to_owned()).chain(workloads);
    let header = header.chain(designs.facts.iter().take(facts).map(|name| (*name).to_owned())).collect();
    let rows = designs.rows.iter().map(|row| {
        let cells = row.views.iter().zip(&report.workloads).map(|(view, workload)| {
            let cell = view.map(|view| designs::cell(view, workload.headline, intervals));
            Cell::new(&cell.unwrap_or_else(|| "–".to_owned()), Paint::Strong)
        });
        let cells = std::iter::once(Cell::plain(&labels.name(row.design))).chain(cells);
        cells.chain(row.facts.iter().take(facts).map(|fact| Cell::plain(fact))).collect()
    });
    Table { header, rows: rows.collect() }
}

/// The results that `views` are, as a verdict names them.
pub(crate) fn limited(report: &Report, labels: &Labels, views: &[&ResultView]) -> String {
    let subjects: Vec<String> =
        views.iter().map(|view| format!("{}, {}", labels.name(view.design), view.result.workload)).collect();
    let everything = subjects.len() > 2 && subjects.len() == report.results.len();
    if everything { "all of them".to_owned() } else { subjects.join("; ") }
}

/// `Session ID: 8 rounds, 96 trials, seed 1, every interval is as narrow as requested.`
pub(crate) fn foot(report: &Report) -> String {
    let failed = report.trials.iter().filter(|t| t.outcome.is_err()).count();
    let imported = report.session.imported();
    let mut facts = vec![words::count(report.trials.len() as u64, "trial")];
    if failed > 0 {
        facts.push(format!("{failed} of them failed"));
    }
    if !report.session.is_once() {
        facts.insert(0, words::count(report.rounds.into(), "round"));
    }
    if !imported {
        facts.push(format!("seed {}", report.session.seed));
    }
    facts.push(report.ending());
    format!("Session {}: {}.", report.session.id, facts.join(", "))
}

/// The table of one workload; `latencies` adds columns, `long` says the members' shares in figures.
pub(crate) fn table_of(
    report: &Report,
    labels: &Labels,
    views: &[&ResultView],
    metric: Metric,
    (latencies, long): (bool, bool),
) -> Table {
    let level = words::level(report.ci_level);
    let mut header: Vec<String> =
        ["design", median_header(metric), &format!("{level} interval")].map(str::to_owned).into();
    let compared = report.designs.len() > 1;
    let beside = views.first().map_or_else(Vec::new, |view| report.beside_headline(view.workload));
    let others = || beside.iter().copied();
    if compared {
        header.push(match report.race {
            Some(_) => "vs control".to_owned(),
            None => format!("vs {}", one_line(report.design_name(report.control))),
        });
    }
    if latencies {
        header.extend(others().map(|m| m.short().to_owned()));
    }
    header.extend(["members".to_owned(), "limited by".to_owned()]);
    let rows = views
        .iter()
        .map(|view| {
            let estimate = view.result.metric(metric);
            let mut row = vec![
                Cell::plain(&labels.name(view.design)),
                Cell::new(
                    &words::or_dash(estimate, |e| bare(metric, &figure(&view.result, metric, e.median))),
                    Paint::Strong,
                ),
                interval_cell(metric, estimate),
            ];
            if compared {
                row.push(ratio_cell(report, view, metric));
            }
            if latencies {
                for metric in others() {
                    let estimate = view.result.metric(metric);
                    row.push(Cell::plain(&words::or_dash(estimate, |e| words::value(metric, e.median))));
                }
            }
            row.push(Cell::plain(&members(view, long)));
            row.push(Cell::plain(view.result.verdicts.first().map_or("–", |v| v.limited_by())));
            row
        })
        .collect();
    Table { header, rows }
}

/// The interval under a header that gives the unit of rates, or why there is none.
fn interval_cell(metric: Metric, estimate: Option<&Estimate>) -> Cell {
    match estimate.and_then(|e| e.interval) {
        Some((low, high)) => Cell::plain(&bare(metric, &words::range(metric, low, high))),
        None => Cell::new("too few trials", Paint::Caution),
    }
}

/// What the column of medians is called.
fn median_header(metric: Metric) -> &'static str {
    match metric {
        Metric::Iops => "IOPS",
        Metric::Throughput => "median",
        Metric::LatP50 => "median p50",
        Metric::LatP99 => "median p99",
        Metric::Time => "median time",
        Metric::Own(figure) => figure.definition().name.as_str(),
    }
}

/// `quantity` without the unit that the column's header gives.
fn bare(metric: Metric, quantity: &str) -> String {
    match metric {
        Metric::Iops => quantity.replace(" IOPS", ""),
        _ => quantity.to_owned(),
    }
}

fn ratio_cell(report: &Report, view: &ResultView, metric: Metric) -> Cell {
    if view.design == report.control {
        return Cell::new("control", Paint::Faint);
    }
    let Some(comparison) = report.comparison(view, metric) else { return Cell::plain("–") };
    let paint = match comparison.conclusion {
        Conclusion::Faster => Paint::Good,
        Conclusion::Slower => Paint::Bad,
        Conclusion::NoDifference | Conclusion::NotJudged => Paint::Plain,
        Conclusion::Inconclusive => Paint::Caution,
    };
    Cell::new(&ratio(comparison), paint)
}

/// `7.95 (7.82–8.01)`.
fn ratio(comparison: &Comparison) -> String {
    match comparison.interval {
        Some(interval) => format!("{} ({})", words::ratio(comparison.ratio), words::ratio_range(interval)),
        None => format!("{} (too few)", words::ratio(comparison.ratio)),
    }
}

/// The members' shares as bars in layout order, with `long` in figures too.
fn members(view: &ResultView, long: bool) -> String {
    let shares: Vec<f64> = view.result.members.iter().filter_map(|m| m.share).collect();
    if shares.is_empty() {
        return String::new();
    }
    let busy = view.busy_members();
    let figures = if busy < shares.len() || shares.len() == 1 {
        format!("{busy} of {} busy", shares.len())
    } else {
        let low = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let high = shares.iter().copied().fold(0.0, f64::max);
        format!("{} each {}", shares.len(), percent_range(low, high))
    };
    if shares.len() == 1 || shares.len() > MOST_BARS {
        return figures;
    }
    let bars = bars(&shares);
    debug_assert_eq!(width(&bars), shares.len());
    if long { format!("{bars} {figures}") } else { bars }
}

/// `12.4–12.6%`, or one figure when both ends print alike.
fn percent_range(low: f64, high: f64) -> String {
    let (low, high) = (words::percent(low), words::percent(high));
    if low == high { low } else { format!("{}–{high}", low.trim_end_matches('%')) }
}

/// One character for each share, relative to the largest; a dot for a member that moved nothing to speak of.
fn bars(shares: &[f64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = shares.iter().copied().fold(0.0, f64::max);
    shares
        .iter()
        .map(|&share| {
            let relative = if most > 0.0 { share / most } else { 0.0 };
            if relative < 0.005 {
                return '·';
            }
            let level = (relative * LEVELS.len() as f64).ceil() as usize;
            LEVELS[level.clamp(1, LEVELS.len()) - 1]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_who_was_busy() {
        assert_eq!(bars(&[1.0, 0.0, 0.0]), "█··");
        assert_eq!(bars(&[0.25, 0.125, 0.01]), "█▄▁");
        assert_eq!(bars(&[0.0, 0.0]), "··");
    }
}

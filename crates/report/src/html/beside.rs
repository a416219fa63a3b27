//! Sessions beside one another as a page of the same kind as a report's.

use super::chart::{Quantity, Scale, percent};
use super::intervals::{ROW, X_TICKS, axis, gridlines, lane, marked};
use super::navigation::PageContext;
use super::{Frame, Section, answer, bar, class, colored, page, scrolling};
use crate::beside::{Beside, BesideRow, conclusion, detectable, letter, percent as share};
use crate::words;
use ebbtide_analysis::between::Gate;
use ebbtide_analysis::{Conclusion, Estimate, Unit};
use ebbtide_model::civil::Civil;
use ebbtide_model::metric::Metric;
use maud::{Markup, html};

/// The page from top to bottom; a section without anything to show is left out.
const SECTIONS: &[Section<Beside>] = &[
    Section::new("comparisons", "Comparisons", comparisons),
    Section::new("ratios", "Ratios side by side", ratios).short("Ratios"),
    Section::new("intervals", "Trials side by side", trials).short("Trials"),
    Section::new("differs", "What differs", differs).short("Differs"),
    Section::new("trust", "How far to trust it", remarks).short("Trust"),
];

/// The comparison as an HTML document.
pub fn html(beside: &Beside) -> String {
    of_beside(beside, None)
}

/// The comparison as a file, or as a page of a site.
pub(super) fn of_beside(beside: &Beside, site: Option<PageContext>) -> String {
    let ids: Vec<String> = beside.sessions.iter().map(|s| s.id.clone()).collect();
    let header = html! { header {
        (bar(&html! { span.name { "Comparison of " (words::count(beside.sessions.len() as u64, "session")) } }))
        (answer(&beside.answer))
        ul.chips {
            li { (words::count(beside.rows.len() as u64, "comparison")) }
            li { (words::level(beside.bounds.level)) " intervals" }
            li { "regression beyond " (share(beside.bounds.threshold)) }
            li { "as good within " (share(beside.bounds.indifference)) }
        }
        dl.facts { @for (index, session) in beside.sessions.iter().enumerate() { div {
            dt { (colored(&class(index), &letter(index))) }
            dd {
                (session.experiment) @if let Some(design) = &session.design { ", " (design) " only" }
                ", " (words::backend(session.backend)) ", " (Civil::from_unix(session.started_unix))
                @if !session.hostname.is_empty() { ", " (session.hostname) }
                " " code { (session.id) }
            }
        } } }
    } };
    let footer = html! {
        "Every figure is recomputed from the samples that are stored with sessions " code { (ids.join(", ")) }
    };
    let title = format!("Comparison of {}", ids.join(" and "));
    page((beside, None, None), SECTIONS, &Frame { title: &title, header: &header, footer: &footer, site })
}

/// Rows of one session under one workload, with a title.
fn groups(beside: &Beside) -> Vec<(String, &[BesideRow])> {
    let chunks = beside.rows.chunk_by(|a, b| (a.side, &a.workloads) == (b.side, &b.workloads));
    let title = |rows: &[BesideRow]| {
        let [one, other] = &rows[0].workloads;
        let (a, b) = (letter(0), letter(rows[0].side));
        if one == other { format!("{one}, {b} against {a}") } else { format!("{one} of {a}, {other} of {b}") }
    };
    chunks.map(|rows| (title(rows), rows)).collect()
}

fn name(row: &BesideRow) -> String {
    if row.designs[0] == row.designs[1] { row.designs[0].clone() } else { row.designs.join(", ") }
}

fn tone(row: &BesideRow) -> &'static str {
    match (row.answered.gate, row.answered.conclusion) {
        (Gate::Regression, _) | (_, Conclusion::Slower) => "bad",
        (Gate::Undecided, _) => "caution",
        (_, Conclusion::Faster) => "good",
        _ => "same",
    }
}

fn figure(metric: Metric, estimate: Option<&Estimate>) -> Markup {
    html! { @match estimate {
        Some(estimate) => {
            b { (words::value(metric, estimate.median)) }
            @if let Some((low, high)) = estimate.interval { " (" (words::range(metric, low, high)) ")" }
        }
        None => "–",
    } }
}

fn comparisons(beside: &Beside) -> Option<Markup> {
    if beside.rows.is_empty() {
        return None;
    }
    Some(html! { @for (title, rows) in groups(beside) {
        @let (a, b) = (letter(0), letter(rows[0].side));
        h3 { (title) }
        (scrolling(&title, html! { table.stack {
            thead { tr {
                th { "design" } th { "metric" } th.n { (a) } th.n { (b) } th.n { (b) " / " (a) } th { "conclusion" } th.n { "p" }
                th.n { "would show" } th.n { "trials" }
            } }
            tbody { @for row in rows { tr {
                th scope="row" { (name(row)) }
                td data-l="metric" { (row.metric.in_words()) }
                td.n data-l=(a) { (figure(row.metric, row.estimates[0].as_ref())) }
                td.n data-l=(b) { (figure(row.metric, row.estimates[1].as_ref())) }
                td.n data-l={ (b) " / " (a) } {
                    span class=(tone(row)) {
                        b { (words::or_dash(row.answered.ratio, words::ratio)) }
                        @if let Some(interval) = row.answered.interval { " (" (words::ratio_range(interval)) ")" }
                    }
                }
                td data-l="conclusion" { span class=(tone(row)) { (conclusion(beside, row)) } }
                td.n data-l="p" { (format!("{:.3}", row.answered.p)) }
                td.n data-l="would show" { (detectable(row)) }
                td.n data-l="trials" { (row.values[0].len()) ", " (row.values[1].len()) }
            } } }
        } }))
    } })
}

/// Ratios of everything that has one, on one scale: what is beyond the dashed line is a regression.
fn ratios(beside: &Beside) -> Option<Markup> {
    let shown = |row: &&BesideRow| row.answered.ratio.is_some();
    let reach = |row: &BesideRow| {
        let ratio = row.answered.ratio.unwrap_or(1.0);
        row.answered.interval.map_or([ratio, ratio], |(low, high)| [low, high])
    };
    let ends = beside.rows.iter().filter(shown).flat_map(reach);
    let threshold = beside.bounds.threshold;
    let (low, high) =
        ends.fold((1.0 - threshold, 1.0 + threshold), |(low, high), v| (low.min(v), high.max(v)));
    if !beside.rows.iter().any(|row| row.answered.ratio.is_some()) {
        return None;
    }
    let scale = Scale::around(Quantity::In(Unit::Times), low, high, X_TICKS - 1);
    Some(html! {
        p.sub { "The dot is the ratio to " (letter(0)) ", the bar its " (words::level(beside.bounds.level)) " interval; the dashed line is where a regression begins." }
        @for (title, rows) in groups(beside) {
            h3 { (title) }
            figure.card.intervals {
                @for row in rows.iter().filter(shown) {
                    div.row {
                        (colored(&class(row.side), &format!("{}, {}", name(row), row.metric.in_words())))
                        (ratio_lane(row, threshold, &scale))
                        span.told { span class=(tone(row)) { (conclusion(beside, row)) } }
                    }
                }
                (axis(&scale))
            }
        }
    })
}

fn ratio_lane(row: &BesideRow, threshold: f64, scale: &Scale) -> Markup {
    let limit = if row.metric.lower_is_better() { 1.0 + threshold } else { 1.0 - threshold };
    let ratio = row.answered.ratio.unwrap_or(1.0);
    let interval = row.answered.interval;
    let told = interval.map_or("no interval".to_owned(), words::ratio_range);
    let label = format!("{}, {}: {} times, {told}", name(row), row.metric.in_words(), words::ratio(ratio));
    html! {
        svg class={ "lane " (class(row.side)) } role="img" aria-label=(label) height=(ROW) {
            (gridlines(scale))
            @for (kind, at) in [("one", 1.0), ("limit", limit)] {
                @let x = percent(scale.place(at));
                line class=(kind) x1=(x) x2=(x) y1="0" y2=(ROW) {}
            }
            (marked(ratio, interval, &label, scale))
        }
    }
}

fn trials(beside: &Beside) -> Option<Markup> {
    if beside.rows.is_empty() {
        return None;
    }
    Some(html! {
        p.sub { "A large dot is the median over trials, the bar its " (words::level(beside.bounds.level)) " interval, each small dot one trial." }
        @for (title, rows) in groups(beside) {
            h3 { (title) }
            div.panels { @for row in rows { (panel(row)) } }
        }
    })
}

fn panel(row: &BesideRow) -> Markup {
    let all = || row.values.iter().flatten().copied();
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let scale = Scale::around(Quantity::In(row.metric.into()), low, high, X_TICKS - 1);
    html! {
        figure.card.intervals {
            figcaption { (name(row)) ", " (row.metric.in_words()) @if !scale.begins_at_zero() { span.faint { " · axis does not begin at 0" } } }
            @for (side, session) in [0, row.side].into_iter().enumerate() {
                @let estimate = row.estimates[side].as_ref();
                div.row {
                    (colored(&class(session), &format!("{} {}", letter(session), row.designs[side])))
                    (lane(&class(session), &row.designs[side], &row.values[side], estimate, row.metric, &scale))
                    span.told { (figure(row.metric, estimate)) }
                }
            }
            (axis(&scale))
        }
    }
}

fn differs(beside: &Beside) -> Option<Markup> {
    if beside.differs.is_empty() {
        return None;
    }
    Some(scrolling(
        "What differs",
        html! { table.stack {
            thead { tr { th { "what" } @for index in 0..beside.sessions.len() { th { (letter(index)) } } } }
            tbody { @for differs in &beside.differs { tr {
                th scope="row" { (differs.what) }
                @for (index, value) in differs.values.iter().enumerate() {
                    td data-l=(letter(index)) { (value.as_deref().unwrap_or("–")) }
                }
            } } }
        } },
    ))
}

fn remarks(beside: &Beside) -> Option<Markup> {
    (!beside.remarks.is_empty())
        .then(|| html! { ul.warnings { @for remark in &beside.remarks { li { p { (remark) } } } } })
}

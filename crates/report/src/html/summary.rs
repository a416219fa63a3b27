//! The result: one table for each workload, as on the terminal.

use super::{key, scrolling};
use crate::model::{Report, ResultView};
use crate::why::figure;
use crate::words;
use ebbtide_analysis::{Comparison, Conclusion, Estimate};
use ebbtide_model::metric::Metric;
use maud::{Markup, html};

/// `165–169 MB/s`, or why there is no interval.
pub(super) fn interval(metric: Metric, estimate: &Estimate) -> Markup {
    match estimate.interval {
        Some((low, high)) => html! { (words::range(metric, low, high)) },
        None => html! { span.caution { "too few trials" } },
    }
}

/// Class of a conclusion.
pub(super) fn conclusion_class(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Faster => "good",
        Conclusion::Slower => "bad",
        Conclusion::NoDifference => "same",
        Conclusion::Inconclusive => "caution",
        Conclusion::NotJudged => "faint",
    }
}

/// A conclusion in words.
pub(super) fn conclusion_words(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Faster => "faster",
        Conclusion::Slower => "slower",
        Conclusion::NoDifference => "no difference",
        Conclusion::Inconclusive => "inconclusive",
        Conclusion::NotJudged => "not judged",
    }
}

/// `7.91 times (7.85–8.09)` with its conclusion.
pub(super) fn ratio(comparison: &Comparison) -> Markup {
    html! {
        span class=(conclusion_class(comparison.conclusion)) title=(conclusion_words(comparison.conclusion)) {
            b { (words::ratio(comparison.ratio)) "×" }
            @match comparison.interval {
                Some(interval) => { " (" (words::ratio_range(interval)) ")" }
                None => { " (too few rounds)" }
            }
        }
    }
}

/// One bar for each member, relative to the largest share.
pub(super) fn bars(view: &ResultView, drawn: bool) -> Markup {
    const MOST: usize = 32;
    let members = &view.result.members;
    let most = members.iter().filter_map(|m| m.share).fold(0.0, f64::max);
    let busy = view.busy_members();
    html! {
        @if drawn && members.len() <= MOST && most > 0.0 {
            svg.bars role="img" width=(members.len() * 7) height="18"
                aria-label={ (busy) " of " (members.len()) " members busy" } {
                @for (index, member) in members.iter().enumerate() {
                    @let height = member.share.map_or(0.0, |s| s / most * 17.0).max(1.0);
                    rect x=(index * 7) width="5" y=(format!("{:.1}", 18.0 - height)) height=(format!("{height:.1}")) {
                        title { (member.name) ": " (member.share.map_or("nothing".to_owned(), words::percent)) }
                    }
                }
            }
            " "
        }
        span.faint { (busy) " of " (members.len()) " busy" }
    }
}

pub(super) fn section(report: &Report) -> Option<Markup> {
    if report.results.is_empty() {
        return None;
    }
    Some(html! {
        @for (index, workload) in report.workloads.iter().enumerate() {
            @if report.results_of(index).next().is_some() {
                h3 { (workload.name) }
                p.sub { (workload.summary) }
                (scrolling(&format!("Results of {}", workload.name), table(report, index, workload.headline)))
                @if let Some(found) = report.depths_found(&report.labels(), index) { p { (found) "." } }
            }
        }
    })
}

fn table(report: &Report, workload: usize, metric: Metric) -> Markup {
    let compared = report.designs.len() > 1;
    let beside = report.beside_headline(workload);
    let large = report.is_large();
    // What a column is sorted by, where it can be.
    let by = |value: Option<f64>| value.filter(|_| large);
    html! {
        table.stack.sortable[large] {
            thead { tr {
                th { "design" }
                th.n { (metric.in_words()) }
                th.n { (words::level(report.ci_level)) " interval" }
                @if compared { th.n { "against " (report.design_name(report.control)) } }
                @for metric in &beside { th.n { (metric.short()) } }
                th { "members" }
                th { "limited by" }
            } }
            tbody {
                @for view in report.results_of(workload) {
                    tr {
                        th scope="row" {
                            (key(report, view.design))
                            @if large { " " button.series type="button" data-d=(view.design) data-w=(view.workload) { "over time" } }
                        }
                        @match view.result.metric(metric) {
                            Some(estimate) => {
                                td.n data-l=(metric.in_words()) data-v=[by(Some(estimate.median))] { b { (figure(&view.result, metric, estimate.median)) } }
                                td.n data-l="interval" { div { (interval(metric, estimate)) @if view.result.precise == Some(false) { " " span.caution { "wider than asked" } } } }
                            }
                            None => { td.n colspan="2" { span.bad { "no trial finished" } } }
                        }
                        @if compared {
                            td.n data-l={ "against " (report.design_name(report.control)) } data-v=[by(report.comparison(view, metric).map(|c| c.ratio))] {
                                @if view.design == report.control { span.faint { "control" } }
                                @else if let Some(comparison) = report.comparison(view, metric) { (ratio(comparison)) }
                                @else { "–" }
                            }
                        }
                        @for metric in beside.iter().copied() {
                            td.n data-l=(metric.in_words()) data-v=[by(view.result.metric(metric).map(|e| e.median))] { (words::or_dash(view.result.metric(metric), |e| words::value(metric, e.median))) }
                        }
                        td data-l="members" { div { (bars(view, !large)) } }
                        td data-l="limited by" {
                            @match view.result.verdicts.first() {
                                Some(verdict) => span.verdict { (verdict.limited_by()) },
                                None => "–",
                            }
                        }
                    }
                }
            }
        }
    }
}

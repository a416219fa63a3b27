//! What limits each design and with what evidence; and how far the figures can be trusted.

use super::{key, scrolling};
use crate::model::{Report, ResultView};
use crate::words;
use ebbtide_analysis::{AaPair, Evidence, VerdictKind};
use maud::{Markup, html};

/// A card for each first verdict, with everything that it was given to; figures are folded.
pub(super) fn limits(report: &Report) -> Option<Markup> {
    let groups = report.limits();
    if groups.is_empty() {
        return None;
    }
    Some(html! {
        div.cards {
            @for (first, views) in &groups {
                article.card {
                    @for view in views {
                        h3 { (key(report, view.design)) " " span.faint { (view.result.workload) } }
                    }
                    p { span.verdict { (first.limited_by()) } " " (first.sentence) }
                    @for view in views { (folded(view)) }
                }
            }
        }
    })
}

/// The figures behind the first verdict of a result, and what else may limit it.
fn folded(view: &ResultView) -> Markup {
    let verdicts = &view.result.verdicts;
    let others = verdicts.len().saturating_sub(1);
    html! {
        details {
            summary {
                "Evidence: " (view.result.design) ", " (view.result.workload)
                @if others > 0 { "; " (words::count(others as u64, "further cause")) }
            }
            @for (index, verdict) in verdicts.iter().enumerate() {
                @if index > 0 { p { span.verdict { (verdict.limited_by()) } " " (verdict.sentence) } }
                (evidence(&verdict.evidence))
                @if verdict.kind != VerdictKind::Unknown {
                    p.faint { "confidence " (words::percent(verdict.confidence)) }
                }
            }
        }
    }
}

fn evidence(figures: &[Evidence]) -> Markup {
    html! {
        @if !figures.is_empty() {
            dl.evidence {
                @for figure in figures {
                    dt { (figure.what) }
                    dd {
                        (figure.unit.shown(figure.value))
                        @if let Some(reference) = figure.reference {
                            span.faint { " against " (figure.unit.shown(reference)) }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn section(report: &Report) -> Option<Markup> {
    let pairs: Vec<&AaPair> = report.headline_aa().collect();
    Some(html! {
        @if report.warnings.is_empty() {
            p { "No warnings." }
        } @else {
            ul.warnings {
                @for (warning, subjects) in report.warnings_once() {
                    li {
                        p {
                            @if !subjects.is_empty() { b { (subjects.join("; ")) ": " } }
                            (warning.message)
                        }
                        @if let Some(advice) = &warning.advice { p.faint { (advice) } }
                    }
                }
            }
        }
        @if !pairs.is_empty() {
            h3 { "The control against itself (A/A)" }
            p.sub {
                "Each round runs the control twice. Where the interval is farther than " (words::percent(report.indifference))
                " from 1, this machine cannot tell a design from itself, and differences of that size mean nothing."
            }
            (scrolling("A/A", html! { table {
                thead { tr { th { "workload" } th.n { "second run / first run" } th.n { (words::level(report.ci_level)) " interval" } th { "the same" } } }
                tbody { @for pair in pairs { tr {
                    th scope="row" { (pair.workload) }
                    td.n { (words::ratio(pair.ratio)) }
                    td.n { @match pair.interval {
                        Some(interval) => { (words::ratio_range(interval)) }
                        None => span.caution { "too few rounds" },
                    } }
                    td { @match pair.same {
                        Some(true) => span.good { "yes" },
                        Some(false) => span.bad { "no" },
                        None => "–",
                    } }
                } } }
            } }))
        }
    })
}

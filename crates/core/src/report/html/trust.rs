//! What limits each design and with what evidence; and how far the figures can be trusted.

use super::{key, scrolling};
use crate::analysis::{AaPair, Evidence, Verdict, VerdictKind};
use crate::report::model::Report;
use crate::report::words;
use maud::{Markup, html};

/// Figures that are shown at once; there is often one for each member.
const SHOWN: usize = 2;

pub(super) fn limits(report: &Report) -> Option<Markup> {
    if report.results.iter().all(|view| view.result.verdicts.is_empty()) {
        return None;
    }
    Some(html! {
        div.cards {
            @for view in &report.results {
                @if let Some(first) = view.result.verdicts.first() {
                    article.card {
                        h3 { (key(report, view.design)) " " span.faint { (view.result.workload) } }
                        (verdict(first))
                        @if view.result.verdicts.len() > 1 {
                            details {
                                summary { (words::count(view.result.verdicts.len() as u64 - 1, "further cause")) }
                                @for other in view.result.verdicts.iter().skip(1) { (verdict(other)) }
                            }
                        }
                    }
                }
            }
        }
    })
}

fn verdict(verdict: &Verdict) -> Markup {
    html! {
        p { span.verdict { (verdict.kind.name()) } " " (verdict.sentence) }
        @let (first, more) = verdict.evidence.split_at(verdict.evidence.len().min(SHOWN));
        (evidence(first))
        @if !more.is_empty() {
            details { summary { (words::count(more.len() as u64, "further figure")) } (evidence(more)) }
        }
        @if verdict.kind != VerdictKind::Unknown { p.faint { "confidence " (words::percent(verdict.confidence)) } }
    }
}

fn evidence(figures: &[Evidence]) -> Markup {
    html! {
        @if !figures.is_empty() {
            dl.evidence {
                @for figure in figures {
                    dt { (figure.what) }
                    dd {
                        (words::evidence(figure.value, &figure.unit))
                        @if let Some(reference) = figure.reference {
                            span.faint { " against " (words::evidence(reference, &figure.unit)) }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn section(report: &Report) -> Option<Markup> {
    let pairs: Vec<&AaPair> = report
        .aa
        .iter()
        .filter(|aa| report.workloads.iter().any(|w| w.name == aa.workload && w.headline == aa.metric))
        .collect();
    Some(html! {
        @if report.warnings.is_empty() {
            p { "No warnings." }
        } @else {
            ul.warnings {
                @for warning in &report.warnings {
                    li {
                        p {
                            @if let Some(subject) = &warning.subject { b { (subject) ": " } }
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
                "Each round runs the control twice. Where the interval does not contain 1, this machine cannot tell a \
                 design from itself, and differences of that size mean nothing."
            }
            (scrolling("A/A", html! { table {
                thead { tr { th { "workload" } th.n { "second run / first run" } th.n { (words::level(report.ci_level)) " interval" } th { "contains 1" } } }
                tbody { @for pair in pairs { tr {
                    th scope="row" { (pair.workload) }
                    td.n { (words::ratio(pair.ratio)) }
                    td.n { @match pair.interval {
                        Some((low, high)) => { (words::ratio(low)) "–" (words::ratio(high)) }
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

//! What limits each design, and with what evidence.

use super::{key, scrolling};
use crate::model::{Report, ResultView};
use crate::{why, words};
use ebbtide_analysis::{Evidence, VerdictKind};
use maud::{Markup, html};

/// A card for each first verdict, with everything that it was given to; figures are folded.
pub(super) fn section(report: &Report) -> Option<Markup> {
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
            (resources(view))
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

/// The table by which it is decided.
fn resources(view: &ResultView) -> Markup {
    let rows = &view.result.resources;
    if rows.is_empty() {
        return Markup::default();
    }
    let next = ebbtide_analysis::resources::next(rows);
    let table = html! {
        table {
            thead { tr { @for name in why::HEADER { th { (name) } } } }
            tbody {
                @for row in rows {
                    tr { @for cell in why::cells(row) { td { (cell) } } }
                }
            }
        }
    };
    let table = scrolling(&format!("Resources: {}, {}", view.result.design, view.result.workload), table);
    html! { (table) @if let Some(next) = next { p { (next) } } }
}

fn evidence(figures: &[Evidence]) -> Markup {
    html! {
        @if !figures.is_empty() {
            dl.evidence {
                @for figure in figures {
                    dt { (figure.what) }
                    dd {
                        (figure.unit.shown(figure.value))
                        @if let Some(compared) = figure.compared() {
                            span.faint { " " (compared) }
                        }
                    }
                }
            }
        }
    }
}

//! The table of designs: what to choose by.

use super::{key, scrolling};
use crate::designs::cell;
use crate::model::Report;
use maud::{Markup, html};

pub(super) fn section(report: &Report) -> Option<Markup> {
    let designs = report.design_table()?;
    let table = html! {
        table.stack {
            thead { tr {
                th { "design" }
                @for workload in &report.workloads { th.n { (workload.name) ", " (workload.headline.in_words()) } }
                @for name in &designs.facts { th { (name) } }
            } }
            tbody {
                @for row in &designs.rows {
                    tr {
                        th scope="row" { (key(report, row.design)) }
                        @for (view, workload) in row.views.iter().zip(&report.workloads) {
                            td.n data-l=(workload.name) { @match view { Some(view) => b { (cell(view, workload.headline, true)) }, None => "–" } }
                        }
                        @for (name, fact) in designs.facts.iter().zip(&row.facts) { td data-l=(name) { div { (fact) } } }
                    }
                }
            }
        }
    };
    Some(scrolling("Designs beside one another", table))
}

//! How far the figures can be trusted.

use super::scrolling;
use crate::model::Report;
use crate::words;
use ebbtide_analysis::AaPair;
use maud::{Markup, html};

pub(super) fn section(report: &Report) -> Option<Markup> {
    let pairs: Vec<&AaPair> = report.headline_aa().collect();
    Some(html! {
        @if report.warnings.is_empty() {
            p { "No warnings." }
        } @else {
            ul.warnings {
                @for (advice, warnings) in report.warnings_once() {
                    li {
                        @for warning in &warnings { p { b { (warning.of()) } (warning.message) } }
                        @if let Some(advice) = advice { p.faint { (advice) } }
                    }
                }
            }
        }
        @if !pairs.is_empty() {
            h3 { "The control against itself (A/A)" }
            p.sub {
                "Each round runs the control twice. Where the interval is farther than " (words::percent(report.indifference))
                " from 1, this machine cannot tell a design from itself, and differences of that size mean nothing. An interval that is "
                "too wide to say either takes more rounds."
            }
            (scrolling("A/A", html! { table {
                thead { tr { th { "workload" } th.n { "second run / first run" } th.n { (words::level(report.ci_level)) " interval" } th { "the same?" } } }
                tbody { @for pair in pairs { tr {
                    th scope="row" { (pair.workload) }
                    td.n { (words::ratio(pair.ratio)) }
                    td.n { @match pair.interval {
                        Some(interval) => { (words::ratio_range(interval)) }
                        None => span.caution { "too few rounds" },
                    } }
                    td { @match pair.same {
                        Some(true) => span.good { "same" },
                        Some(false) => span.bad { "differs" },
                        None => span.caution { "cannot tell" },
                    } }
                } } }
            } }))
        }
    })
}

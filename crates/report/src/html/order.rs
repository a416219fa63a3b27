//! The trials in the order in which they ran: drift and disturbance show here.

use super::chart::{Quantity, Scale, percent};
use super::{design_class, key, scrolling};
use crate::model::{Report, TrialView};
use crate::words;
use ebbtide_analysis::Unit;
use ebbtide_model::metric::Metric;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Height of one lane in CSS pixels.
const LANE: f64 = 30.0;

pub(super) fn section(report: &Report) -> Option<Markup> {
    if report.trials.is_empty() {
        return None;
    }
    let last = report.trials.len().saturating_sub(1).max(1) as f64;
    let x = Scale::exact(Quantity::In(Unit::Seconds), 0.0, last);
    Some(html! {
        p.sub {
            "Left to right in time; the height is the trial's figure between the lowest and highest of its lane. \
             Every round runs every design once in a fresh random order. A hollow dot repeats the control for A/A, a \
             cross is a failed trial, a line begins a round."
        }
        div.card.order {
            @for (workload, facts) in report.workloads.iter().enumerate() {
                @for design in 0..report.designs.len() {
                    @let lane: Vec<(usize, &TrialView)> = report.trials.iter().enumerate()
                        .filter(|(_, t)| t.design == design && t.workload == workload).collect();
                    @if !lane.is_empty() {
                        div.row {
                            span.name { (key(report, design)) " " span.faint { (facts.name) } }
                            (draw(report, &lane, facts.headline, &x))
                        }
                    }
                }
            }
        }
        details {
            summary { "Every trial as a table" }
            (scrolling("Every trial", table(report)))
        }
    })
}

/// Positions at which a round begins.
fn round_starts(report: &Report) -> Vec<usize> {
    (1..report.trials.len()).filter(|&i| report.trials[i].round != report.trials[i - 1].round).collect()
}

fn draw(report: &Report, lane: &[(usize, &TrialView)], metric: Metric, x: &Scale) -> Markup {
    let values = || lane.iter().filter_map(|(_, t)| t.value(metric));
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(0.0, f64::max);
    let y =
        |v: f64| if high > low { LANE - 6.0 - (v - low) / (high - low) * (LANE - 12.0) } else { LANE / 2.0 };
    let class = lane.first().map_or_else(String::new, |(_, t)| design_class(report, t.design));
    html! {
        svg class={ "lane " (class) } role="img" height=(LANE) aria-label={ (lane.len()) " trials in order" } {
            @for position in round_starts(report) {
                @let at = percent(x.place(position as f64 - 0.5));
                line.gridline x1=(at) x2=(at) y1="0" y2=(LANE) {}
            }
            @for (position, trial) in lane {
                @let cx = percent(x.place(*position as f64));
                @match (trial.value(metric), &trial.outcome) {
                    (Some(value), _) => {
                        circle class=(if trial.control_again { "again" } else { "once" }) cx=(cx) cy=(format!("{:.1}", y(value))) r="3" {
                            title { "trial " (trial.index + 1) ", round " (trial.round + 1) ": " (words::value(metric, value)) }
                        }
                    }
                    (None, Err(why)) => text.failed x=(cx) y=(LANE / 2.0 + 5.0) text-anchor="middle" { "×" title { (why) } },
                    (None, Ok(_)) => {}
                }
            }
        }
    }
}

fn table(report: &Report) -> Markup {
    // Those of all workloads, each once.
    let metrics: BTreeSet<Metric> =
        report.workloads.iter().flat_map(|workload| workload.metrics.clone()).collect();
    html! {
        table {
            thead { tr {
                th.n { "trial" } th.n { "round" } th { "design" } th { "workload" } th { "why" }
                @for metric in &metrics { th.n { (metric.in_words()) } }
                th { "remarks" }
            } }
            tbody { @for trial in &report.trials { tr {
                td.n { (trial.index + 1) }
                td.n { (trial.round + 1) }
                td { (report.design_name(trial.design)) }
                td { (report.workload_name(trial.workload)) }
                td { (if trial.control_again { "A/A" } else { "candidate" }) }
                @match &trial.outcome {
                    Ok(figures) => {
                        @for metric in metrics.iter().copied() { td.n { (words::or_dash(figures.value(metric), |v| words::value(metric, v))) } }
                        td { (figures.notes.join("; ")) }
                    }
                    Err(why) => {
                        @for _ in &metrics { td.n { "–" } }
                        td.bad { "failed: " (why) }
                    }
                }
            } } }
        }
    }
}

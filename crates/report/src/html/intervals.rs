//! Medians with their intervals, design below design, one panel for each workload and metric; every trial is a dot.

use super::chart::{Quantity, Scale, percent};
use super::summary::ratio;
use super::{design_class, key};
use crate::model::{Report, ResultView};
use crate::words;
use ebbtide_model::metric::Metric;
use maud::{Markup, html};

/// Height of one design's row in CSS pixels.
const ROW: u32 = 30;
/// Most ticks: five labels fit beside each other on a phone.
const X_TICKS: usize = 5;

fn quantity(metric: Metric) -> Quantity {
    match metric {
        Metric::Throughput => Quantity::Throughput,
        Metric::Iops => Quantity::Iops,
        Metric::LatP50 | Metric::LatP99 => Quantity::Latency,
    }
}

pub(super) fn section(report: &Report) -> Option<Markup> {
    if report.results.iter().all(|view| view.result.metrics.is_empty()) {
        return None;
    }
    Some(html! {
        p.sub {
            "A large dot is the median over trials, the bar its " (words::level(report.ci_level))
            " interval, each small dot one trial. Right: the ratio to " b { (report.design_name(report.control)) } "."
        }
        @for (index, workload) in report.workloads.iter().enumerate() {
            @let metrics = shown(workload.headline);
            h3 { (workload.name) }
            div.panels {
                @for metric in metrics {
                    @let views: Vec<&ResultView> =
                        report.results_of(index).filter(|v| v.result.metric(metric).is_some()).collect();
                    @if !views.is_empty() { (panel(report, &views, metric)) }
                }
            }
        }
    })
}

/// The metric that the workload is judged by, then latencies.
fn shown(headline: Metric) -> Vec<Metric> {
    let mut metrics = vec![headline];
    metrics.extend([Metric::LatP50, Metric::LatP99].into_iter().filter(|m| *m != headline));
    metrics
}

/// Values of `metric` in the trials behind `view`.
fn values(report: &Report, view: &ResultView, metric: Metric) -> Vec<f64> {
    report
        .trials
        .iter()
        .filter(|t| t.design == view.design && t.workload == view.workload && !t.control_again)
        .filter_map(|t| t.outcome.as_ref().ok()?.value(metric))
        .collect()
}

fn panel(report: &Report, views: &[&ResultView], metric: Metric) -> Markup {
    let rows: Vec<(&ResultView, Vec<f64>)> =
        views.iter().map(|view| (*view, values(report, view, metric))).collect();
    let all = || rows.iter().flat_map(|(_, values)| values.iter().copied());
    let low = all().fold(f64::INFINITY, f64::min);
    let high = all().fold(0.0, f64::max);
    let scale = Scale::around(quantity(metric), low, high, X_TICKS - 1);
    html! {
        figure.card.intervals {
            figcaption { (words::metric_label(metric)) @if !scale.begins_at_zero() { span.faint { " · axis does not begin at 0" } } }
            @for (view, values) in &rows {
                div.row {
                    (key(report, view.design))
                    (row(report, view, values, metric, &scale))
                    (told(report, view, metric))
                }
            }
            div.row.axis aria-hidden="true" {
                svg.lane height="20" {
                    g.ticks { @for (value, label) in scale.ticks(X_TICKS) {
                        line x1=(percent(scale.place(value))) x2=(percent(scale.place(value))) y1="0" y2="4" {}
                        text x=(percent(scale.place(value))) y="17" text-anchor="middle" { (label) }
                    } }
                }
            }
        }
    }
}

fn row(report: &Report, view: &ResultView, values: &[f64], metric: Metric, scale: &Scale) -> Markup {
    let middle = f64::from(ROW) / 2.0;
    let estimate = view.result.metric(metric);
    let label = estimate.map_or_else(String::new, |e| {
        let interval = e.interval.map_or("no interval".to_owned(), |(l, h)| words::range(metric, l, h));
        format!("{}: median {}, {interval}", view.result.design, words::value(metric, e.median))
    });
    html! {
        svg class={ "lane " (design_class(report, view.design)) } role="img" aria-label=(label) height=(ROW) {
            @for (value, _) in scale.ticks(X_TICKS) {
                @let x = percent(scale.place(value));
                line.gridline x1=(x) x2=(x) y1="0" y2=(ROW) {}
            }
            @for (index, value) in values.iter().enumerate() {
                @let y = middle + f64::from((index as u32 * 3) % 7) * 2.4 - 7.2;
                circle.trial cx=(percent(scale.place(*value))) cy=(format!("{y:.1}")) r="2" {
                    title { (words::value(metric, *value)) }
                }
            }
            @if let Some(estimate) = estimate {
                @if let Some((low, high)) = estimate.interval {
                    line.bar x1=(percent(scale.place(low))) x2=(percent(scale.place(high))) y1=(middle) y2=(middle) {}
                }
                circle.median cx=(percent(scale.place(estimate.median))) cy=(middle) r="5" { title { (label) } }
            }
        }
    }
}

fn told(report: &Report, view: &ResultView, metric: Metric) -> Markup {
    html! {
        span.told {
            @if let Some(estimate) = view.result.metric(metric) { b { (words::value(metric, estimate.median)) } }
            @if let Some(comparison) = report.comparison(view, metric) { " " (ratio(comparison)) }
        }
    }
}

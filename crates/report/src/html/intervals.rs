//! Medians with their intervals, design below design, one panel for each workload and metric; every trial is a dot.

use super::chart::{Quantity, Scale, percent};
use super::summary::ratio;
use super::{design_class, key};
use crate::model::{Report, ResultView};
use crate::words;
use ebbtide_analysis::Estimate;
use ebbtide_model::metric::Metric;
use maud::{Markup, html};

/// Height of one design's row in CSS pixels.
pub(super) const ROW: u32 = 30;
/// Most ticks: five labels fit beside each other on a phone.
pub(super) const X_TICKS: usize = 5;

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

fn panel(report: &Report, views: &[&ResultView], metric: Metric) -> Markup {
    let values = |view| report.trials_of(view).filter_map(|(_, trial)| trial.value(metric)).collect();
    let rows: Vec<(&ResultView, Vec<f64>)> = views.iter().map(|view| (*view, values(view))).collect();
    let all = || rows.iter().flat_map(|(_, values)| values.iter().copied());
    let low = all().fold(f64::INFINITY, f64::min);
    let high = all().fold(0.0, f64::max);
    let scale = Scale::around(Quantity::In(metric.into()), low, high, X_TICKS - 1);
    html! {
        figure.card.intervals {
            figcaption { (metric.in_words()) @if !scale.begins_at_zero() { span.faint { " · axis does not begin at 0" } } }
            @for (view, values) in &rows {
                div.row {
                    (key(report, view.design))
                    (row(report, view, values, metric, &scale))
                    (told(report, view, metric))
                }
            }
            (axis(&scale))
        }
    }
}

/// The scale's ticks below the lanes.
pub(super) fn axis(scale: &Scale) -> Markup {
    html! {
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

fn row(report: &Report, view: &ResultView, values: &[f64], metric: Metric, scale: &Scale) -> Markup {
    let class = design_class(report, view.design);
    lane(&class, &view.result.design, values, view.result.metric(metric), metric, scale)
}

/// A median with its interval and every trial of a thing called `name`.
pub(super) fn lane(
    class: &str,
    name: &str,
    values: &[f64],
    estimate: Option<&Estimate>,
    metric: Metric,
    scale: &Scale,
) -> Markup {
    let middle = f64::from(ROW) / 2.0;
    let label = estimate.map_or_else(String::new, |e| {
        let interval = e.interval.map_or("no interval".to_owned(), |(l, h)| words::range(metric, l, h));
        format!("{name}: median {}, {interval}", words::value(metric, e.median))
    });
    let shown = estimate.map(|e| (e.median, e.interval));
    html! {
        svg class={ "lane " (class) } role="img" aria-label=(label) height=(ROW) {
            (gridlines(scale))
            @for (index, value) in values.iter().enumerate() {
                @let y = middle + f64::from((index as u32 * 3) % 7) * 2.4 - 7.2;
                circle.trial cx=(percent(scale.place(*value))) cy=(format!("{y:.1}")) r="2" {
                    title { (words::value(metric, *value)) }
                }
            }
            @if let Some((value, interval)) = shown { (marked(value, interval, &label, scale)) }
        }
    }
}

/// Lines through a lane at the scale's ticks.
pub(super) fn gridlines(scale: &Scale) -> Markup {
    html! {
        @for (value, _) in scale.ticks(X_TICKS) {
            @let x = percent(scale.place(value));
            line.gridline x1=(x) x2=(x) y1="0" y2=(ROW) {}
        }
    }
}

/// A value as a large dot with its interval as a bar.
pub(super) fn marked(value: f64, interval: Option<(f64, f64)>, label: &str, scale: &Scale) -> Markup {
    let middle = f64::from(ROW) / 2.0;
    html! {
        @if let Some((low, high)) = interval {
            line.bar x1=(percent(scale.place(low))) x2=(percent(scale.place(high))) y1=(middle) y2=(middle) {}
        }
        circle.median cx=(percent(scale.place(value))) cy=(middle) r="5" { title { (label) } }
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
